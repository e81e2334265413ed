"""Classifiers of matrices: an object with `fit`, and the functions beneath it."""

from lowrank_jax.estimators.classifier.estimator import BilinearClassifier
from lowrank_jax.estimators.classifier.fitting import (
    STRENGTH,
    Classifier,
    Fit,
    Scaling,
    StrengthPath,
    fit,
    prepare,
    regularisation_path,
    scaling_of,
)

__all__ = [
    "STRENGTH",
    "BilinearClassifier",
    "Classifier",
    "Fit",
    "Scaling",
    "StrengthPath",
    "fit",
    "prepare",
    "regularisation_path",
    "scaling_of",
]
