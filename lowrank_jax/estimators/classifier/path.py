"""Models along a range of strengths, in one compiled program."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import checks
from lowrank_jax.batch.sblr import bcpd
from lowrank_jax.checks import InputError
from lowrank_jax.estimators.classifier.fitting import (
    complete,
    fit,
    prepare,
    problem_of,
)
from lowrank_jax.estimators.classifier.model import check_matrices, precision_of
from lowrank_jax.estimators.classifier.solving import solve
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled

__all__ = ["StrengthPath", "regularisation_path"]
__dir__ = __all__.copy


class StrengthPath(NamedTuple):
    """Models along a range of strengths.

    Attributes:
      mu1: (k,) strengths on U, rising.
      nu1: (k,) strengths on V, in proportion.
      left: (k, m, s, r).
      right: (k, m, t, r).
    """

    mu1: np.ndarray
    nu1: np.ndarray
    left: np.ndarray
    right: np.ndarray


def regularisation_path(
    x: np.ndarray,
    y: np.ndarray | Sequence[Any],
    *,
    num_points: int = 25,
    span: float = 30.0,
    **settings: Any,
) -> StrengthPath:
    r"""Fit along a range of :math:`\ell_1` strengths, in one compiled program.

    Both strengths move together, from a `span`-th of the given ones to `span` times;
    where one of them is 0 both start from 1e-3.

    Args:
      x: (n, s, t).
      y: (n,) labels.
      num_points: Number of strengths, at least 2.
      span: Largest factor up and down, above 1.
      **settings: Settings of `fit`, penalties excepted.
    """
    checks.whole(least=2, num_points=num_points)
    beside = ("row_names", "sample_weight")
    every = (fit.__kwdefaults__ or {}).items()
    defaults = {name: value for name, value in every if name not in beside}
    unknown = sorted(set(settings) - set(defaults))
    if unknown:
        raise InputError(f"`{unknown[0]}` is not an argument of fit.")
    settings = defaults | settings
    for name in ("left_penalty", "right_penalty"):
        if settings[name] is not None:
            raise InputError(
                f"The path moves `mu1` and `nu1`: leave `{name}` out, which would "
                f"take their place."
            )
    settings = complete(settings)
    x = check_matrices(x)
    with precision_of(x):
        return _path(x, y, settings, np.geomspace(1 / span, span, num_points))


def _path(
    x: np.ndarray,
    y: np.ndarray | Sequence[Any],
    settings: dict[str, Any],
    factors: np.ndarray,
) -> StrengthPath:
    data = prepare(x, y, scale=settings["scale"], multi_class=settings["multi_class"])
    labelled, numbers, start, *fixed = problem_of(data, settings)
    middle = np.array([settings["mu1"], settings["nu1"]], np.float64)
    if (middle <= 0).any():
        middle = np.full(2, 1e-3)
    mu1, nu1 = factors * middle[0], factors * middle[1]
    dtype = labelled.x.dtype
    strengths = jnp.asarray(np.stack([mu1, nu1], 1), dtype)
    left, right = _solve_path(labelled, numbers, start, strengths, *fixed)
    if data.is_one_vs_all:
        left, right = left[:, :, 0], right[:, :, 0]
    return StrengthPath(mu1, nu1, np.asarray(left), np.asarray(right))


@functools.partial(jax.jit, static_argnums=(4, 5))
def _solve_path(
    labelled: Labelled,
    numbers: dict[str, Any],
    start: Params | None,
    strengths: jax.Array,
    fixed: bcpd.Settings,
    max_iterations: int,
) -> tuple[jax.Array, jax.Array]:
    def one(strength: jax.Array) -> tuple[jax.Array, jax.Array]:
        here = numbers | {"mu1": strength[0], "nu1": strength[1]}
        params, _, _ = solve(labelled, here, start, fixed, max_iterations)
        return params.left, params.right

    return jax.lax.map(one, strengths)  # one by one: each ends by itself
