"""Taggers of sentences: an object with `fit`, and the functions beneath it."""

from lowrank_jax.estimators.tagger.estimator import Labelling, Tagger

__all__ = ["Labelling", "Tagger"]
__dir__ = __all__.copy
