"""Learners that move by a whole data set at a time, and blockwise descent."""

from lowrank_jax.batch import (
    bcd,
    bcpd,
    crf,
    fista,
    fobos,
    latent_svm,
    smoothed,
    sparse_newton,
    spectral_moments,
    stochastic_fobos,
    streamed,
    tied_fobos,
    trigram_crf,
)

__all__ = [
    "bcd",
    "bcpd",
    "crf",
    "fista",
    "fobos",
    "latent_svm",
    "smoothed",
    "sparse_newton",
    "spectral_moments",
    "stochastic_fobos",
    "streamed",
    "tied_fobos",
    "trigram_crf",
]
