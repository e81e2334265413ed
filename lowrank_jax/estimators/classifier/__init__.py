"""Classifiers of matrices: `fit` and `select` as functions."""

from lowrank_jax.estimators.classifier.fitting import (
    PICTURES,
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
    "PICTURES",
    "STRENGTH",
    "Classifier",
    "Fit",
    "Scaling",
    "StrengthPath",
    "fit",
    "prepare",
    "regularisation_path",
    "scaling_of",
]
