"""Kernels under the models, the learners and the theory."""

from typing import TYPE_CHECKING

from lowrank_jax import lazy

if TYPE_CHECKING:
    from lowrank_jax.linalg import max_tree as max_tree
    from lowrank_jax.linalg import mirror as mirror
    from lowrank_jax.linalg import norms as norms
    from lowrank_jax.linalg import overlapped as overlapped
    from lowrank_jax.linalg import penalties as penalties
    from lowrank_jax.linalg import prox as prox
    from lowrank_jax.linalg import svt as svt
    from lowrank_jax.linalg import ties as ties
    from lowrank_jax.linalg import total_variation as total_variation
    from lowrank_jax.linalg.power_iteration import Subspace as Subspace
    from lowrank_jax.linalg.power_iteration import leading_subspace as leading_subspace
    from lowrank_jax.linalg.power_iteration import orthonormalise as orthonormalise
    from lowrank_jax.linalg.power_iteration import repeated as repeated

__all__, __getattr__, __dir__ = lazy.attach(__name__)
