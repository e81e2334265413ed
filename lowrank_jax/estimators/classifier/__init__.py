"""Classifiers of matrices: `fit` and `select` as functions."""

from lowrank_jax.estimators.classifier.fitting import (
    STRENGTH,
    Classifier,
    Fit,
    Path,
    Scaling,
    fit,
    prepare,
    regularisation_path,
    scaling_of,
)

__all__ = [
    "STRENGTH",
    "Classifier",
    "Fit",
    "Path",
    "Scaling",
    "fit",
    "prepare",
    "regularisation_path",
    "scaling_of",
]
