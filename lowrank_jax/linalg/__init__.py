"""Kernels under the models, the learners and the theory."""

from lowrank_jax.linalg import (
    max_tree,
    norms,
    overlapped,
    penalties,
    prox,
    svt,
    ties,
    total_variation,
)
from lowrank_jax.linalg.power_iteration import (
    Subspace,
    leading_subspace,
    orthonormalise,
)

__all__ = [
    "Subspace",
    "leading_subspace",
    "max_tree",
    "norms",
    "orthonormalise",
    "overlapped",
    "penalties",
    "prox",
    "svt",
    "ties",
    "total_variation",
]
