r"""Guarantees of descent methods as functions of a run's trace.

Algorithm 2 of SBLR moves by :math:`\Delta U, \Delta V`, and the offset by
:math:`p = \hat b^k - b^{k-1}` and :math:`q = b^k - \hat b^k` in one sweep. Its proofs
rest on three facts, each a function here: a sweep decreases F by a multiple of the
squared steps (SBLR-Eq17, DR-S3); the subgradient is at most a multiple of the steps
(SBLR-Eq22, Eq23); hence the squared steps are summable (SBLR-T4.1). The rates that
follow are in `theory.sblr.rates`.

FISTA from :math:`w^0` with constants that never go down (Beck and Teboulle, 2009,
Theorem 4.4; the recipe of SBLR-B2):

.. math:: F(w^k) - F^* \le \frac{2L_k\|w^0 - w^*\|^2}{(k + 1)^2}, \qquad k = 1, 2, \dots
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax.linalg.norms import norm, row_squares
from lowrank_jax.models import bilinear_logit, logistic
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.theory import certificate
from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.theory.sblr.lipschitz import joint_constant

__all__ = [
    "SPLIT_CONSTANT",
    "Steps",
    "Sweeps",
    "decrease_certificate",
    "fista_certificate",
    "move_decrease_certificate",
    "optimality_certificate",
    "split_certificate",
    "square_sum_certificate",
    "squared_steps",
    "subgradient_certificate",
    "tight_decrease_certificate",
]
__dir__ = __all__.copy

#: The largest eigenvalue of [[1, 1], [1, 2]]: (p + q)^2 + q^2 is at most so many times
#: p^2 + q^2, and is just that where q / p is the golden ratio.
SPLIT_CONSTANT = (3 + 5**0.5) / 2


class Sweeps(NamedTuple):
    """A run of Algorithm 2 or 3, with what a sweep passes through."""

    params: Params  # each (num_sweeps + 1, ...): W^0, W^1, ...
    half_bias: jax.Array  # (num_sweeps, m)  after the left block has moved
    left_constant: jax.Array  # (num_sweeps,)  L_u^k
    right_constant: jax.Array  # (num_sweeps,)  L_v^k
    objectives: jax.Array  # (num_sweeps + 1,)  F(W^0), F(W^1), ...


class Steps(NamedTuple):
    """Squared lengths of the steps of each sweep: (num_sweeps,)."""

    left: jax.Array  # the left factor U
    right: jax.Array  # the right factor V
    first: jax.Array  # p^2, the offset with the left block
    second: jax.Array  # q^2, with the right block
    whole: jax.Array  # |W^k - W^{k-1}|_F^2, in which p and q have met


def squared_steps(sweeps: Sweeps) -> Steps:
    """Return the squared lengths of the steps of each sweep."""
    bias = sweeps.params.bias
    left = row_squares(jnp.diff(sweeps.params.left, axis=0))
    right = row_squares(jnp.diff(sweeps.params.right, axis=0))
    return Steps(
        left=left,
        right=right,
        first=row_squares(sweeps.half_bias - bias[:-1]),
        second=row_squares(bias[1:] - sweeps.half_bias),
        whole=left + right + row_squares(jnp.diff(bias, axis=0)),
    )


def decrease_certificate(
    sweeps: Sweeps, least_constant: float | jax.Array
) -> Certificate:
    r"""Compare the decrease of each sweep with the squared steps (SBLR-Eq17).

    .. math:: \tfrac{L_{\min}}2\big(\|\Delta U\|^2 + \|\Delta V\|^2 + p^2 + q^2\big)
       \le F(W^{k-1}) - F(W^k)

    A proximal step with a constant that passes (14) or (16) decreases F by L/2 times
    its square. Sweeps whose steps have sunk into the rounding errors of F are silent.

    Args:
      sweeps: The run.
      least_constant: :math:`L_{\min}`, not above any constant of the run.
    """
    steps = squared_steps(sweeps)
    least = jnp.asarray(least_constant, sweeps.objectives.dtype)
    promised = least / 2 * (steps.left + steps.right + steps.first + steps.second)
    return _fall_at_least(promised, sweeps.objectives)


def tight_decrease_certificate(
    sweeps: Sweeps,
    left_modulus: float | jax.Array,
    right_modulus: float | jax.Array,
) -> Certificate:
    r"""Compare the decrease of each sweep with its own constants (DR-S3).

    .. math:: \tfrac{L_u + \mu_2}2\|\Delta U\|^2 + \tfrac{L_v + \nu_2}2\|\Delta V\|^2
       + \tfrac{L_u}2 p^2 + \tfrac{L_v}2 q^2 \le F(W^{k-1}) - F(W^k)

    The model that a step minimises is strongly convex with modulus
    :math:`L + \mu_2`, so that its value falls by half of that times the square.
    Attained where the loss bends by L along the step.

    Args:
      sweeps: The run.
      left_modulus: :math:`\mu_2`.
      right_modulus: :math:`\nu_2`.
    """
    steps, dtype = squared_steps(sweeps), sweeps.objectives.dtype
    in_u, in_v = sweeps.left_constant, sweeps.right_constant
    promised = (
        (in_u + jnp.asarray(left_modulus, dtype)) * steps.left
        + (in_v + jnp.asarray(right_modulus, dtype)) * steps.right
        + in_u * steps.first
        + in_v * steps.second
    ) / 2
    return _fall_at_least(promised, sweeps.objectives)


def move_decrease_certificate(
    sweeps: Sweeps, least_constant: float | jax.Array
) -> Certificate:
    r"""Compare the decrease of each sweep with the whole move (SBLR-T4.2, DR-S3).

    .. math:: \tfrac{L_{\min}}{3 + \sqrt5}\big(\|W^k - W^{k-1}\|_F^2 + q^2\big)
       \le F(W^{k-1}) - F(W^k)

    by Eq17 and `split_certificate`.

    Args:
      sweeps: The run.
      least_constant: :math:`L_{\min}`.
    """
    steps = squared_steps(sweeps)
    least = jnp.asarray(least_constant, sweeps.objectives.dtype)
    promised = least / (2 * SPLIT_CONSTANT) * (steps.whole + steps.second)
    return _fall_at_least(promised, sweeps.objectives)


def split_certificate(
    first: jax.Array, second: jax.Array, constant: float | jax.Array
) -> Certificate:
    r"""Compare the offset's whole move with its two parts (SBLR-T4.2).

    .. math:: (p + q)^2 + q^2 \le c\,(p^2 + q^2)

    This is what the proof of Theorem 4.2 needs to get from Eq17 to the whole move. Its
    :math:`L_{\min}/4` asks for c = 2, which p = q refutes: 5 against 4. The least c is
    `SPLIT_CONSTANT`, which makes it :math:`L_{\min}/(3 + \sqrt5)`.

    Args:
      first: p.
      second: q.
      constant: c.
    """
    whole = first + second
    return certificate.at_most(
        whole * whole + second * second,
        jnp.asarray(constant, first.dtype) * (first * first + second * second),
    )


def square_sum_certificate(sweeps: Sweeps, factor: float | jax.Array) -> Certificate:
    r"""Compare the sum of all squared steps with the whole decrease (SBLR-T4.1).

    .. math:: c\sum_{j \le k}\big(\|\Delta U\|^2 + \|\Delta V\|^2 + p^2 + q^2\big)
       \le F(W^0) - F(W^k)

    The proof of Theorem 4.1 prints c = 1; what Eq17 gives is :math:`L_{\min}/2`.

    Args:
      sweeps: The run.
      factor: c.

    Returns:
      One for each k.
    """
    steps, objectives = squared_steps(sweeps), sweeps.objectives
    sums = jnp.cumsum(steps.left + steps.right + steps.first + steps.second)
    return _at_most_fall(
        jnp.asarray(factor, objectives.dtype) * sums,
        objectives[0] - objectives[1:],
        objectives[:1],
    )


def optimality_certificate(
    sweeps: Sweeps, labelled: Labelled, stationarity: jax.Array
) -> Certificate:
    r"""Compare the subgradient at each iterate with the one a sweep leaves (SBLR-Eq22).

    .. math:: \nabla_U\ell(W^k) - \nabla_U\ell(W^{k-1}) - L_u\Delta U
       \in \partial_U F(W^k)

    and so, from :math:`(U^k, V^{k-1}, \hat b^k)`, in V and in b with :math:`L_v`
    (the paper's :math:`L_b^k`). The distance of 0 from the subdifferential is at most
    the length of this subgradient, and equal to it where the penalties are smooth.
    Sweeps whose subgradient has sunk into rounding errors are silent.

    Args:
      sweeps: The run.
      labelled: The data.
      stationarity: (num_sweeps,) :math:`\operatorname{dist}(0, \partial F(W^k))`.
    """

    def length(
        old: Params, new: Params, half: jax.Array, *constants: jax.Array
    ) -> jax.Array:
        before, after = _slopes(labelled, old), _slopes(labelled, new)
        between = _slopes(labelled, Params(new.left, old.right, half))
        in_u, in_v = constants
        parts = (
            after.left - before.left - in_u * (new.left - old.left),
            after.right - between.right - in_v * (new.right - old.right),
            after.bias - between.bias - in_v * (new.bias - half),
        )
        return norm(*parts)

    found = jax.vmap(length)(
        *_ends(sweeps), sweeps.half_bias, sweeps.left_constant, sweeps.right_constant
    )
    return _at_most_slope(stationarity, found, sweeps, labelled)


def subgradient_certificate(
    sweeps: Sweeps, labelled: Labelled, stationarity: jax.Array
) -> Certificate:
    r"""Compare the subgradient at each iterate with the steps (SBLR-Eq23).

    .. math:: \operatorname{dist}(0, \partial F(W^k)) \le (3L_G + 2L_{\max})
       \big(\|W^k - W^{k-1}\|_F + |q|\big)

    The three parts of Eq22 have at most the lengths :math:`L_G\|\Delta W\| +
    L_u\|\Delta U\|` and, twice, :math:`L_G(\|\Delta V\| + |q|)` with
    :math:`L_v\|\Delta V\|` or :math:`L_v|q|`. :math:`L_G` is the constant of
    `joint_constant` between the two iterates, :math:`L_{\max}` the larger constant of
    the sweep.

    Args:
      sweeps: The run.
      labelled: The data.
      stationarity: (num_sweeps,).
    """
    old, new = _ends(sweeps)
    whole = jax.vmap(lambda a, b: joint_constant(labelled, a, b))(old, new)
    largest = jnp.maximum(sweeps.left_constant, sweeps.right_constant)
    steps = squared_steps(sweeps)
    lengths = jnp.sqrt(steps.whole) + jnp.sqrt(steps.second)
    bound = (3 * whole + 2 * largest) * lengths
    return _at_most_slope(stationarity, bound, sweeps, labelled)


def fista_certificate(
    objectives: jax.Array,
    lipschitz: jax.Array,
    distance_squared: float | jax.Array,
    optimum: float | jax.Array,
) -> Certificate:
    r"""Compare each iterate of FISTA with its guarantee.

    Any w will do instead of the minimiser, with the distance and the objective
    taken there: the proof holds for every point.

    Args:
      objectives: (num_iterations,) :math:`F(w^k)`, from k = 1, without restart.
      lipschitz: Constant, or constants of each iteration (num_iterations,).
      distance_squared: :math:`\|w^0 - w^*\|^2`, offsets included.
      optimum: :math:`F(w^*)`.

    Returns:
      Arrays over the iterations.
    """
    objectives = jnp.asarray(objectives)
    dtype = objectives.dtype
    k = jnp.arange(1, objectives.shape[0] + 1).astype(dtype)
    optimum = jnp.asarray(optimum, dtype)
    observed = objectives - optimum
    bound = 2 * jnp.asarray(lipschitz, dtype) * jnp.asarray(distance_squared, dtype)
    bound = jnp.broadcast_to(bound, k.shape) / ((k + 1) * (k + 1))
    return certificate.at_most(observed, bound, scale=jnp.abs(optimum))


def _fall_at_least(promised: jax.Array, objectives: jax.Array) -> Certificate:
    """Decide whether each sweep falls by what was promised."""
    return _at_most_fall(promised, -jnp.diff(objectives), objectives[:-1])


def _at_most_fall(
    promised: jax.Array, fall: jax.Array, objectives: jax.Array
) -> Certificate:
    """Decide `promised <= fall`, the fall having the rounding errors of F."""
    rounding = 100 * float(jnp.finfo(fall.dtype).eps)
    scale = jnp.broadcast_to(jnp.abs(objectives), fall.shape)
    is_seen = jnp.maximum(promised, fall) > 1e3 * rounding * scale
    return certificate.at_most(
        promised, fall, assumptions_met=is_seen, scale=scale, tolerance=rounding
    )


def _at_most_slope(
    stationarity: jax.Array, bound: jax.Array, sweeps: Sweeps, labelled: Labelled
) -> Certificate:
    """Decide `stationarity <= bound`, both with the rounding errors of gradients."""
    old, new = _ends(sweeps)
    sizes = 1 + jax.vmap(norm)(*old) + jax.vmap(norm)(*new)
    sizes = sizes * (1 + sweeps.left_constant + sweeps.right_constant)
    x = labelled.x
    sizes = sizes * (1 + labelled.weights @ jnp.sqrt((x * x).sum((1, 2))))
    rounding = 10 * float(jnp.finfo(bound.dtype).eps)
    is_seen = jnp.maximum(stationarity, bound) > 1e5 * rounding * sizes
    return certificate.at_most(
        stationarity, bound, assumptions_met=is_seen, scale=sizes, tolerance=rounding
    )


def _slopes(labelled: Labelled, params: Params) -> Params:
    def loss(params: Params) -> jax.Array:
        scores = bilinear_logit.scores(params, labelled.x)
        return logistic.loss(scores, labelled.targets, labelled.weights)

    return jax.grad(loss)(params)


def _ends(sweeps: Sweeps) -> tuple[Params, Params]:
    """Return W^{k-1} and W^k of all sweeps."""
    return (
        jax.tree.map(lambda part: part[:-1], sweeps.params),
        jax.tree.map(lambda part: part[1:], sweeps.params),
    )
