r"""Parts of forward-backward splitting that all learners of Hankel matrices share.

A step goes down the loss and applies the proximal map of the penalty. The learners
`fobos` and `smoothed`, and two learners of the experiments, differ in the point, the
step size and the data of the step.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax import checks
from lowrank_jax.batch.smm.hinge import Hinge, hinge
from lowrank_jax.batch.smm.penalties import (
    Proximal,
    check_regulariser,
    proximal_step,
    warm_start,
)
from lowrank_jax.models import hankel
from lowrank_jax.streams.words import Lattice

__all__ = [
    "Backward",
    "common_info",
    "final_params",
    "inverse_root",
    "keep_best",
    "loss_scale",
    "relative_gap",
    "running_mean",
    "scaled_hinge",
]
__dir__ = __all__.copy


class Backward(NamedTuple):
    """The backward half of a step: a penalty and the way its prox is computed.

    Attributes:
      blocks: Blocks of the basis.
      regulariser: Name of the penalty, one of `penalties.REGULARISERS`.
      svt: ``"full"``, ``"svd"`` or ``"truncated"``.
      max_rank: Largest rank of a truncated step.
      num_subspace_steps: Subspace iterations of a truncated step.
    """

    blocks: tuple[hankel.Block, ...]
    regulariser: str
    svt: str
    max_rank: int
    num_subspace_steps: int

    def check(self) -> None:
        """Raise `InputError` unless the settings fit each other."""
        check_regulariser(self.regulariser, self.blocks, self.svt)
        checks.choice(("full", "svd", "truncated"), svt=self.svt)
        checks.whole(max_rank=self.max_rank, num_subspace_steps=self.num_subspace_steps)

    def start(self, key: jax.Array, params: hankel.Params) -> hankel.Params:
        """Return `Proximal.right` before the first step."""
        max_rank = self.max_rank if self.svt == "truncated" else None
        return warm_start(key, params, max_rank, self.regulariser)

    def step(
        self,
        params: hankel.Params,
        strengths: tuple[jax.Array, ...],
        step_size: jax.Array,
        right: hankel.Params,
    ) -> Proximal:
        """Apply the proximal map of the penalty, scaled by the step size."""
        return proximal_step(
            self.regulariser,
            params,
            strengths,
            step_size,
            right,
            num_steps=self.num_subspace_steps,
            method="svd" if self.svt == "svd" else "gram",
        )


def inverse_root(step_size: float | jax.Array | Callable) -> Callable:
    r"""Return the schedule :math:`c / \sqrt{t}`, t = 1 at the first step.

    Args:
      step_size: The number c. A schedule is returned as it is.
    """
    if callable(step_size):
        return step_size

    def schedule(step: jax.Array) -> jax.Array:
        root = jnp.sqrt(step.astype(jnp.result_type(float)) + 1)
        return jnp.asarray(step_size, root.dtype) / root

    return schedule


def loss_scale(lattice: Lattice, reduction: str, num_batches: int = 1) -> float:
    """Return the factor of the sum of hinges: over all words or their mean."""
    return 1.0 / lattice.num_words if reduction == "mean" else float(num_batches)


def scaled_hinge(
    blocks: tuple[hankel.Block, ...],
    params: hankel.Params,
    lattice: Lattice,
    scale: float,
    *,
    has_boundary: bool,
) -> Hinge:
    """Return the hinges with loss and subgradient times `scale`."""
    found = hinge(blocks, params, lattice, has_boundary=has_boundary)
    gradient = jax.tree.map(lambda part: scale * part, found.gradient)
    return found._replace(loss=scale * found.loss, gradient=gradient)


def keep_best(state: Any, params: Any, objective: jax.Array) -> dict[str, Any]:
    """Return `best_params` and `best_objective` of a state after one more point."""
    is_best = objective < state.best_objective
    return {
        "best_params": jax.tree.map(
            lambda new, old: jnp.where(is_best, new, old), params, state.best_params
        ),
        "best_objective": jnp.minimum(objective, state.best_objective),
    }


def running_mean(mean: Any, new: Any, weight: jax.Array, total: jax.Array) -> Any:
    """Return the weighted mean after one more point; `total` includes its weight."""
    share = weight / total
    return jax.tree.map(lambda mean, new: mean + share * (new - mean), mean, new)


def relative_gap(objective: jax.Array, bound: jax.Array) -> jax.Array:
    """Return the gap between objective and lower bound, divided by the objective."""
    return (objective - bound) / jnp.where(objective > 0, objective, 1)


def common_info(
    state: Any,
    loss: jax.Array,
    num_wrong: jax.Array,
    lattice: Lattice,
    step_size: jax.Array,
) -> dict[str, jax.Array]:
    """Return the fields of `Info` that describe the point where a step begins."""
    num_letters = jnp.asarray(lattice.num_letters).sum().astype(loss.dtype)
    return {
        "objective": loss + state.penalty,
        "loss": loss,
        "penalty": state.penalty,
        "rank": state.rank,
        "step_size": step_size,
        "accuracy": 1 - num_wrong.astype(loss.dtype) / num_letters,
    }


def final_params(state: Any, iterate: str) -> Any:
    """Return the last point, or the best or averaged one where the state has it."""
    fields = {"last": "params", "best": "best_params", "average": "average"}
    kept = {name: field for name, field in fields.items() if hasattr(state, field)}
    checks.choice(tuple(kept), iterate=iterate)
    return getattr(state, kept[iterate])
