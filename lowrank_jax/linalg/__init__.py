"""Kernels under the models, the learners and the theory."""

from typing import TYPE_CHECKING

from lowrank_jax import lazy

if TYPE_CHECKING:
    from lowrank_jax.linalg import (
        max_tree,
        mirror,
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

__all__, __getattr__, __dir__ = lazy.attach(
    __name__,
    {
        "Subspace": "power_iteration:Subspace",
        "leading_subspace": "power_iteration:leading_subspace",
        "max_tree": "max_tree",
        "mirror": "mirror",
        "norms": "norms",
        "orthonormalise": "power_iteration:orthonormalise",
        "overlapped": "overlapped",
        "penalties": "penalties",
        "prox": "prox",
        "svt": "svt",
        "ties": "ties",
        "total_variation": "total_variation",
    },
)
