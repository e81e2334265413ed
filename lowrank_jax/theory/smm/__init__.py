"""Statements of SMM: states of automata, splitting methods."""

from typing import TYPE_CHECKING

from lowrank_jax import lazy

if TYPE_CHECKING:
    from lowrank_jax.theory.smm import splitting as splitting
    from lowrank_jax.theory.smm import states as states

__all__, __getattr__, __dir__ = lazy.attach(__name__)
