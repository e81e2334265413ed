"""Learners that move by one example at a time."""

from lowrank_jax.online import (
    bol,
    bol_dense,
    mira,
    perceptron,
    rerank,
    tensor_mira,
    trigram_perceptron,
)

__all__ = [
    "bol",
    "bol_dense",
    "mira",
    "perceptron",
    "rerank",
    "tensor_mira",
    "trigram_perceptron",
]
