"""Statements of BOL: spectral norms, curvature, regret, duality, margins."""

from typing import TYPE_CHECKING

from lowrank_jax import lazy

if TYPE_CHECKING:
    from lowrank_jax.theory.bol import blocks as blocks
    from lowrank_jax.theory.bol import curvature as curvature
    from lowrank_jax.theory.bol import duality as duality
    from lowrank_jax.theory.bol import margin as margin
    from lowrank_jax.theory.bol import prior as prior
    from lowrank_jax.theory.bol import regret as regret
    from lowrank_jax.theory.bol import singular_pairs as singular_pairs
    from lowrank_jax.theory.bol import smoothness as smoothness
    from lowrank_jax.theory.bol import spectral as spectral
    from lowrank_jax.theory.bol import wide as wide

__all__, __getattr__, __dir__ = lazy.attach(__name__)
