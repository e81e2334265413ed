"""Learners that move by one example at a time."""

from lowrank_jax.online import bol, mira, perceptron

__all__ = ["bol", "mira", "perceptron"]
