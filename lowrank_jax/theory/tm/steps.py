r"""The sub-steps of Tensor-MIRA: what they solve, and what they do to TM-Eq3.

One sub-step moves one vector against

.. math:: J(w) = \tfrac B2\|w - c\|^2 + C\,[r - w\cdot\phi]_+

with :math:`\phi = \Delta\phi^d_h`, :math:`r = \rho - s` and B the product of the
squared norms of the other vectors. The centre c is the vector as it is (TM-N4), or g/B
for the objective TM-Eq3 itself (DR-T2). All functions take vectors with any batch in
front of the last axis.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax.linalg.norms import dot
from lowrank_jax.theory.certificate import Certificate, at_most, equal

__all__ = [
    "Subproblem",
    "comparison_certificate",
    "all_move_certificate",
    "components_certificate",
    "descent_certificate",
    "objective_certificate",
    "only_first_certificate",
    "rise_certificate",
    "rise_value_certificate",
    "solution_certificate",
    "step_value",
]
__dir__ = __all__.copy


class Subproblem(NamedTuple):
    """The problem of one sub-step.

    Attributes:
      centre: (..., n) c.
      direction: (..., n) phi.
      residual: (...) r, what the score of the vector must reach.
      weight: (...) B, positive.
      limit: (...) C, positive.
    """

    centre: jax.Array
    direction: jax.Array
    residual: jax.Array
    weight: jax.Array
    limit: jax.Array


def step_value(problem: Subproblem, vector: jax.Array) -> jax.Array:
    """Return J of a vector."""
    moved = vector - problem.centre
    hinge = jax.nn.relu(problem.residual - dot(vector, problem.direction))
    return problem.weight / 2 * dot(moved, moved) + problem.limit * hinge


def descent_certificate(
    problem: Subproblem, before: jax.Array, after: jax.Array
) -> Certificate:
    """Decide whether a step does not raise the objective of its sub-problem (TM-Eq6).

    As printed, with the limit C for the step, it does where the step is clipped and B
    exceeds 2 (DR-T3); with C/B it never does (DR-T1).

    Args:
      problem: The sub-problem.
      before: (..., n).
      after: (..., n).
    """
    scale = _scale(problem)
    values = [_seen(step_value(problem, w), scale) for w in (after, before)]
    return at_most(values[0], values[1], scale=scale)


def comparison_certificate(
    problem: Subproblem, vector: jax.Array, other: jax.Array
) -> Certificate:
    r"""Compare the solution of a sub-problem with any other vector (DR-T1, DR-T2).

    J is strongly convex: :math:`J(w) + \frac B2\|v - w\|^2 \le J(v)` for its solution
    w and all v, with equality along w - c where the step is clipped.

    Args:
      problem: The sub-problem.
      vector: (..., n) w.
      other: (..., n) v.
    """
    apart = other - vector
    least = step_value(problem, vector) + problem.weight / 2 * dot(apart, apart)
    size = dot(jnp.abs(other), jnp.abs(problem.direction)) * problem.limit
    # The vector is known to its rounding only, on which the growth has a slope.
    slope = problem.weight * dot(jnp.abs(vector), jnp.abs(apart))
    scale = _scale(problem) + size + slope
    value = _seen(step_value(problem, other), scale)
    return at_most(_seen(least, scale), value, scale=scale)


def solution_certificate(problem: Subproblem, vector: jax.Array) -> Certificate:
    r"""Decide whether a vector solves its sub-problem (DR-T1; DR-T2 with its centre).

    For every :math:`\mu` in 0..C, J is at least its minimum over w with the hinge
    replaced by :math:`\mu(r - w\cdot\phi)`, which is :math:`\mu(r - c\cdot\phi) -
    \mu^2\|\phi\|^2/2B`, attained at :math:`w = c + \mu\phi/B`. The step that was made
    names its own multiplier, B times the step; 0 and C are tried beside it, as the
    step may be lost in the rounding of c. The vector is optimal if and only if J there
    is the largest of such bounds.

    Args:
      problem: The sub-problem.
      vector: (..., n) Vector after the step.
    """
    square = dot(problem.direction, problem.direction)
    step = dot(vector - problem.centre, problem.direction)
    step = step / jnp.where(square > 0, square, 1)
    multiplier = jnp.clip(problem.weight * step, 0, problem.limit)
    short = problem.residual - dot(problem.centre, problem.direction)
    is_met = problem.weight > 0
    weight = jnp.where(is_met, problem.weight, 1)
    bound = jnp.zeros_like(short)  # the multiplier 0 gives 0
    for mu in (multiplier, problem.limit):
        bound = jnp.maximum(bound, mu * short - mu * mu * square / (2 * weight))
    scale = _scale(problem)
    value, bound = _seen(step_value(problem, vector), scale), _seen(bound, scale)
    return at_most(value, bound, assumptions_met=is_met, scale=scale)


def objective_certificate(
    objectives: jax.Array, scale: jax.Array | float = 0.0
) -> Certificate:
    r"""Decide whether TM-Eq3 never rises from one sub-step to the next (TM-N5, DR-T2).

    The sub-problems of TM-N4 measure the distance to the tensor as it is, not to
    :math:`T_t`, where the round began: TM-Eq3 may rise under TM-Eq6 and under DR-T1. In
    one vector it is J with the centre g/B and a constant, which DR-T2 minimises.

    Args:
      objectives: (..., S) Objective before the first sub-step and after each.
      scale: (..., S - 1) Size of the terms they are made from.
    """
    return at_most(objectives[..., 1:], objectives[..., :-1], scale=scale)


def rise_certificate(problem: Subproblem, step_size: jax.Array) -> Certificate:
    r"""Decide whether a step raises J just where it is longer than 2C/B (DR-T3).

    Along :math:`w = c + a\phi`, as long as the hinge is not passed,
    :math:`J(a) - J(0) = a\|\phi\|^2(Ba/2 - C)`: positive if and only if
    :math:`a > 2C/B`. For the clipped step a = C this is B > 2.

    Args:
      problem: The sub-problem.
      step_size: (...) a, positive and no longer than what makes the hinge 0. Steps
        that change J by less than its rounding are not decided.

    Returns:
      1 where J rises against 1 where the step is too long.
    """
    after = problem.centre + step_size[..., None] * problem.direction
    value, start = (step_value(problem, vector) for vector in (after, problem.centre))
    square = dot(problem.direction, problem.direction)
    change = step_size * square * (problem.weight * step_size / 2 - problem.limit)
    is_seen = _seen(change, _scale(problem) + start + value, 1e6) != 0
    is_long = step_size > 2 * problem.limit / problem.weight
    dtype = problem.centre.dtype
    return equal(
        (value > start).astype(dtype),
        is_long.astype(dtype),
        assumptions_met=is_seen & _is_before_kink(problem, step_size),
    )


def rise_value_certificate(problem: Subproblem, step_size: jax.Array) -> Certificate:
    r"""Compare :math:`J(a) - J(0)` with :math:`a\|\phi\|^2(Ba/2 - C)` (DR-T3).

    Args:
      problem: The sub-problem.
      step_size: (...) a, as of `rise_certificate`.
    """
    after = problem.centre + step_size[..., None] * problem.direction
    value, start = (step_value(problem, vector) for vector in (after, problem.centre))
    square = dot(problem.direction, problem.direction)
    change = step_size * square * (problem.weight * step_size / 2 - problem.limit)
    scale = _scale(problem) + start + value
    is_seen = _seen(change, scale, 1e6) != 0
    return equal(
        value - start,
        change,
        assumptions_met=is_seen & _is_before_kink(problem, step_size),
        scale=scale,
    )


def only_first_certificate(
    before: jax.Array, after: jax.Array, is_clipped: jax.Array
) -> Certificate:
    r"""Decide whether a round has moved no vector but the first (TM-Eq6 b, DR-T3).

    An unclipped step makes the hinge exactly 0; every later step of the round finds it
    so and has length 0. As the first step comes first, only :math:`w_1^1` moves.

    Args:
      before: (D, H, n) Vectors before the round, :math:`w_h^d` at [d, h].
      after: (D, H, n) Vectors after the round.
      is_clipped: () bool, True if the first step was clipped. Then nothing is said.
    """
    is_other = jnp.ones(before.shape[:2], bool).at[0, 0].set(False)[..., None]
    old, new = (jnp.where(is_other, part, 0) for part in (before, after))
    return equal(new, old, num_axes=3, assumptions_met=~is_clipped)


def all_move_certificate(
    before: jax.Array, after: jax.Array, is_met: jax.Array
) -> Certificate:
    """Decide whether a round has moved every vector, as TM-Eq6(b) prints.

    A move counts from 1e-9 of the largest entry of all vectors.

    Args:
      before: (D, H, n) Vectors before the round.
      after: (D, H, n) Vectors after the round.
      is_met: () bool, False for a round without a mistake.
    """
    moved = jnp.abs(after - before).max(2).min()
    return at_most(1e-9 * jnp.abs(before).max(), moved, assumptions_met=is_met)


def components_certificate(vectors: jax.Array, is_clipped: jax.Array) -> Certificate:
    """Decide whether equal components are still equal (TM-I1, DR-T3).

    A clipped step depends on the vectors of its own component alone: its length is C
    (or C/B) and its direction is contracted with them. Components that were equal go
    the same way as long as every step of a round is clipped.

    Args:
      vectors: (D, H, n) Vectors after rounds which began with equal components.
      is_clipped: () bool, True if each step of these rounds was clipped.
    """
    first = jnp.broadcast_to(vectors[:, :1], vectors.shape)
    return equal(vectors, first, num_axes=3, assumptions_met=is_clipped)


def _scale(problem: Subproblem) -> jax.Array:
    """Return the size of the terms from which the hinge is made."""
    terms = dot(jnp.abs(problem.centre), jnp.abs(problem.direction))
    return problem.limit * (jnp.abs(problem.residual) + terms)


def _seen(value: jax.Array, scale: jax.Array, units: float = 100) -> jax.Array:
    """Return the value, or 0 where it is lost in the rounding of its terms."""
    unit = units * jnp.finfo(value.dtype).eps
    return jnp.where(jnp.abs(value) > unit * scale, value, 0)


def _is_before_kink(problem: Subproblem, step_size: jax.Array) -> jax.Array:
    """Return True where the hinge is positive and the step does not pass its kink."""
    square = dot(problem.direction, problem.direction)
    short = problem.residual - dot(problem.centre, problem.direction)
    is_inside = step_size * square <= short * (1 + 1e-12)
    return (short > 0) & (square > 0) & (step_size > 0) & is_inside
