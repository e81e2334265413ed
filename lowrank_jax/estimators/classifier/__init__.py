"""Classifiers of matrices: an object with `fit`, and the functions beneath it."""

from lowrank_jax.estimators.classifier.cross_validated import BilinearClassifierCV
from lowrank_jax.estimators.classifier.estimator import BilinearClassifier
from lowrank_jax.estimators.classifier.fitting import (
    STRENGTHS,
    Classifier,
    Fit,
    Scaling,
    ZeroModel,
    fit,
    prepare,
    scaling_of,
)
from lowrank_jax.estimators.classifier.path import StrengthPath, regularisation_path

__all__ = [
    "STRENGTHS",
    "BilinearClassifier",
    "BilinearClassifierCV",
    "Classifier",
    "Fit",
    "Scaling",
    "StrengthPath",
    "ZeroModel",
    "fit",
    "prepare",
    "regularisation_path",
    "scaling_of",
]
__dir__ = __all__.copy
