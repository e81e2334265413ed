r"""What a statement says of given numbers: observed, bound, and whether it holds.

A statement is an inequality :math:`a \le b` or an identity :math:`a = b`. Its function
in `theory` computes both sides from arrays or a trace and hands them to `at_most` or
`equal`. Sides with many entries (one per round or per trial) are compared entry by
entry. If the assumptions are not met, the statement says nothing, so `holds` is True.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax.linalg.norms import nonzero, scaled_norm

__all__ = ["Certificate", "at_most", "equal", "ratio"]
__dir__ = __all__.copy


class Certificate(NamedTuple):
    """One statement on given numbers."""

    observed: jax.Array  # the left side
    bound: jax.Array  # the right side
    slack: jax.Array  # bound - observed; for an identity minus the distance
    assumptions_met: jax.Array  # bool
    holds: jax.Array  # bool: the slack is not negative beyond rounding, or silent
    scale: jax.Array  # the rounding allowed is a share of this


def at_most(
    observed: jax.Array | float,
    bound: jax.Array | float,
    *,
    assumptions_met: jax.Array | bool = True,
    scale: jax.Array | float = 0.0,
    tolerance: float | None = None,
) -> Certificate:
    """Decide whether `observed` is at most `bound`, up to rounding.

    Args:
      observed: Left side, any shape.
      bound: Right side. An infinite bound says nothing.
      assumptions_met: Truth of the assumptions. Where it is False, the statement says
        nothing.
      scale: Size of the terms that both sides are sums of. Give it if terms cancel.
      tolerance: Rounding allowed, as a share of the largest of the two sides and the
        scale. None means 1e-9 in double precision and 1e-4 in single. Static.
    """
    observed, bound, scale = _alike(observed, bound, scale)
    return _decide(observed, bound, bound - observed, assumptions_met, scale, tolerance)


def equal(
    observed: jax.Array | float,
    expected: jax.Array | float,
    *,
    num_axes: int = 0,
    assumptions_met: jax.Array | bool = True,
    scale: jax.Array | float = 0.0,
    tolerance: float | None = None,
) -> Certificate:
    """Decide whether two sides are equal up to rounding.

    Args:
      observed: The left side.
      expected: The right side, returned as `bound`.
      num_axes: Number of trailing axes of one object, compared by the Frobenius
        norm: 2 compares matrices. Static.
      assumptions_met: False where the statement says nothing.
      scale: See `at_most`.
      tolerance: See `at_most`.
    """
    observed, expected = jnp.broadcast_arrays(*_alike(observed, expected))
    distance = jnp.abs(observed - expected)
    if num_axes:
        axes = tuple(range(-num_axes, 0))
        parts = (distance, observed, expected)
        distance, observed, expected = (scaled_norm(part, axes) for part in parts)
    observed, expected, distance, scale = _alike(observed, expected, distance, scale)
    return _decide(observed, expected, -distance, assumptions_met, scale, tolerance)


def ratio(certificate: Certificate) -> jax.Array:
    """Return observed over bound: 1 where the bound is attained, 0 where it is 0/0.

    A bound with its constant made 5 % too strict fails where this exceeds 0.95.
    """
    observed, bound = certificate.observed, certificate.bound
    return jnp.where(bound == 0, jnp.sign(observed), observed / nonzero(bound))


def _decide(
    observed: jax.Array,
    bound: jax.Array,
    slack: jax.Array,
    assumptions_met: jax.Array | bool,
    scale: jax.Array,
    tolerance: float | None,
) -> Certificate:
    if tolerance is None:
        tolerance = 1e-9 if slack.dtype == jnp.float64 else 1e-4
    for side in (observed, bound):
        scale = jnp.maximum(scale, jnp.where(jnp.isfinite(side), jnp.abs(side), 0))
    met = jnp.broadcast_to(jnp.asarray(assumptions_met, bool), slack.shape)
    within = slack >= -jnp.asarray(tolerance, slack.dtype) * scale
    observed, bound, scale = (
        jnp.broadcast_to(side, slack.shape) for side in (observed, bound, scale)
    )
    return Certificate(observed, bound, slack, met, within | ~met, scale)


def _alike(*values: jax.Array | float) -> list[jax.Array]:
    """Return the values as arrays of the widest floating type among them.

    Ranks are made equal by leading axes, so that nothing depends on promotion rules.
    """
    typed = [value.dtype for value in values if hasattr(value, "dtype")]
    floating = [kind for kind in typed if jnp.issubdtype(kind, jnp.floating)]
    dtype = max(floating, key=lambda kind: kind.itemsize) if floating else float
    arrays = [jnp.asarray(value).astype(dtype) for value in values]
    rank = max(array.ndim for array in arrays)
    return [array.reshape((1,) * (rank - array.ndim) + array.shape) for array in arrays]
