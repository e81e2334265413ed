"""Learners that move by a whole data set at a time, and blockwise descent."""

from lowrank_jax.batch import bcd, crf

__all__ = ["bcd", "crf"]
