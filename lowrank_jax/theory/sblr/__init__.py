"""Statements of SBLR: Lipschitz constants, descent, rates, landscape, limits."""

from typing import TYPE_CHECKING

from lowrank_jax import lazy

if TYPE_CHECKING:
    from lowrank_jax.theory.sblr import descent as descent
    from lowrank_jax.theory.sblr import landscape as landscape
    from lowrank_jax.theory.sblr import limits as limits
    from lowrank_jax.theory.sblr import lipschitz as lipschitz
    from lowrank_jax.theory.sblr import rates as rates

__all__, __getattr__, __dir__ = lazy.attach(__name__)
