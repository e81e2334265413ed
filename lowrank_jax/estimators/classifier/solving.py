r"""Solve a problem of the classifier, and again where a class has fallen to zero.

U = V = 0 is a stationary point, and with :math:`\ell_1` on both factors a local
minimum, however low F is elsewhere. A start that is small beside the penalty falls
there. Strengths that leave every class alive on one sample may then lose classes on
another: of 20 one-against-all models of COIL-20, 12 were lost on one sample and none
on the next. `alive` therefore goes there by a path: it solves at weak strengths
and raises them step by step, each solve started from the last. Where the path ends
lower than zero, its end is the solution.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import loops
from lowrank_jax.batch.sblr import bcpd
from lowrank_jax.batch.sblr.bcpd import Info
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled

__all__ = ["SHARES", "alive", "is_zero", "solve"]
__dir__ = __all__.copy

_NAMES = ("mu1", "mu2", "nu1", "nu2")
#: Shares of the strengths on the way from a weak penalty to the given one.
SHARES = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 1.0)

Solved = tuple[Params, Info, jax.Array]


@functools.partial(jax.jit, static_argnums=(3, 4))
def solve(
    labelled: Labelled,
    numbers: dict[str, Any],
    start: Params | None,
    fixed: bcpd.Settings,
    max_iterations: int,
) -> Solved:
    """Run one problem, or one per class, to its end.

    Args:
      labelled: Matrices. Targets of (num_classes, n, 1) make one problem per class.
      numbers: Real settings of the descent, as `bcpd.Settings.split` gives them.
      start: Factors to start from. None starts as `fixed` says.
      fixed: Static settings of the descent.
      max_iterations: Largest number of sweeps. Static.

    Returns:
      Factors, trace and number of sweeps.
    """

    def run(labelled: Labelled, start: Params | None) -> tuple:
        settings = fixed._asdict() | numbers
        if start is not None:
            settings["start"] = start
        learner = bcpd.learner(**settings)
        state = learner.init(jax.random.key(0), labelled)
        state, trace, num_iterations = loops.converge(
            learner, state, labelled, max_iterations=max_iterations
        )
        return bcpd.final_params(state), trace, num_iterations

    if labelled.targets.ndim == 2:
        return run(labelled, start)
    data = Labelled(x=None, targets=0, weights=None)  # type: ignore[arg-type]
    axes = (data, None if start is None else 0)
    return jax.vmap(run, in_axes=axes)(labelled, start)


def is_zero(params: Params) -> np.ndarray:
    """Tell of each set of factors if it gives every matrix the same score."""
    left, right = (np.asarray(part) for part in (params.left, params.right))
    has_both = left.any(axis=(-2, -1)) & right.any(axis=(-2, -1))
    return np.asarray(~has_both)


def alive(problem: tuple, found: Solved) -> Solved:
    """Return a solution, or where a class is zero the end of a path if it is lower.

    A solution without a zero class, or of a problem without strengths, is returned as
    it is. This is a function of the host.

    Args:
      problem: Arguments of `solve`.
      found: Result of `solve` for the problems.
    """
    labelled, numbers, start, fixed, max_iterations = problem
    strengths = {name: numbers[name] for name in _NAMES if name in numbers}
    if not is_zero(found[0]).any() or not any(map(np.any, strengths.values())):
        return found
    latest = start
    for share in SHARES:
        here = numbers | {name: share * value for name, value in strengths.items()}
        given = fixed if latest is start else fixed._replace(start="given")
        other = solve(labelled, here, latest, given, max_iterations)
        latest = other[0]
    is_lower = _last_objective(other) < _last_objective(found)  # () or (num_classes,)
    if is_lower.ndim:  # one problem per class: only a zero class is taken anew
        is_lower &= is_zero(found[0])[:, 0]
    elif is_zero(latest).all():
        return found

    def choose(new: jax.Array, old: jax.Array) -> jax.Array:
        shape = is_lower.shape + (1,) * (new.ndim - is_lower.ndim)
        return jnp.where(jnp.asarray(is_lower).reshape(shape), new, old)

    return jax.tree.map(choose, other, found)


def _last_objective(found: Solved) -> np.ndarray:
    """Return F at the end of each problem."""
    last = jnp.take_along_axis(found[1].objective, found[2][..., None] - 1, -1)
    return np.asarray(last[..., 0])
