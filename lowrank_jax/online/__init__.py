"""Learners that update the model after each example."""

from typing import TYPE_CHECKING

from lowrank_jax import lazy

if TYPE_CHECKING:
    from lowrank_jax.online import bcd as bcd
    from lowrank_jax.online import bol as bol
    from lowrank_jax.online import mira as mira
    from lowrank_jax.online import mirror_descent as mirror_descent
    from lowrank_jax.online import padded as padded
    from lowrank_jax.online import perceptron as perceptron
    from lowrank_jax.online import rerank as rerank
    from lowrank_jax.online import tensor_mira as tensor_mira
    from lowrank_jax.online.bol import dense as bol_dense  # noqa: F401

__all__, __getattr__, __dir__ = lazy.attach(__name__)
