"""Statements of TM: the construction of tensors, steps of Tensor-MIRA."""

from typing import TYPE_CHECKING

from lowrank_jax import lazy

if TYPE_CHECKING:
    from lowrank_jax.theory.tm import construction as construction
    from lowrank_jax.theory.tm import steps as steps

__all__, __getattr__, __dir__ = lazy.attach(__name__)
