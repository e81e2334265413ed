r"""The dual of BOL along a run: increments, the best C, averaging (BOL-N5, DR-B8, B9).

A run with M mistakes stands at :math:`\mathcal D = CM - F^*(\Theta_N)`. Its predictions
do not depend on C, and :math:`F^*(\Theta_N) = C^2 f`: with hindsight
:math:`C^* = M/2f` makes the dual largest, and weak duality bounds the mistakes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax.theory import certificate
from lowrank_jax.theory.bol.regret import curvature
from lowrank_jax.theory.certificate import Certificate

__all__ = [
    "BestStep",
    "best_step_size",
    "dual_increment",
    "dual_is_largest_at_best_step",
    "dual_mean",
    "dual_of_step",
    "growth_bound",
    "increment_identity",
    "increments_rise",
    "same_run",
    "separable_mistakes",
    "weak_duality",
    "weak_duality_at_best_step",
]
__dir__ = __all__.copy


def dual_increment(
    theta: jax.Array, push: jax.Array, *, step_size: float | jax.Array
) -> jax.Array:
    r"""Return :math:`\Delta_t` of a mistake from :math:`\Theta_{t-1}` (BOL-N5).

    .. math:: \Delta_t = C - \tfrac12\|\Theta_{t-1} + C\Delta\Phi^t\|_2^2
       + \tfrac12\|\Theta_{t-1}\|_2^2

    Args:
      theta: (..., m, n) Theta before the round.
      push: (..., m, n) :math:`C\Delta\Phi^t`.
      step_size: :math:`C`.
    """
    before, after = _spectral(theta), _spectral(theta + push)
    return jnp.asarray(step_size, theta.dtype) - (after**2 - before**2) / 2


def _spectral(matrices: jax.Array) -> jax.Array:
    return jnp.linalg.svd(matrices, compute_uv=False)[..., 0]


def increment_identity(
    increments: jax.Array,
    thetas: jax.Array,
    pushes: jax.Array,
    is_mistake: jax.Array,
    *,
    step_size: float | jax.Array,
) -> Certificate:
    """Compare the increments a run reports with BOL-N5, round by round.

    Args:
      increments: (num_rounds,) Increments as reported.
      thetas: (num_rounds, m, n) Theta before each round.
      pushes: (num_rounds, m, n) C dPhi.
      is_mistake: (num_rounds,).
      step_size: C.
    """
    step = jnp.where(is_mistake, jnp.asarray(step_size, increments.dtype), 0)
    before, after = _spectral(thetas) ** 2 / 2, _spectral(thetas + pushes) ** 2 / 2
    # As an identity for the conjugate after the round, where less cancels.
    scale = jnp.abs(increments) + step + before
    return certificate.equal(before + step - increments, after, scale=scale)


def increments_rise(increments: jax.Array, is_mistake: jax.Array) -> Certificate:
    """Compare 0 with each increment: "increases the dual incrementally" (BOL-N5).

    False at a fixed C: see `growth_bound` for the C at which it is true.
    """
    return certificate.at_most(
        jnp.zeros_like(increments), increments, assumptions_met=is_mistake
    )


def growth_bound(
    increments: jax.Array,
    is_mistake: jax.Array,
    *,
    step_size: float | jax.Array,
    conjugate: jax.Array,
    squared_norm: jax.Array,
    ratio: jax.Array,
) -> Certificate:
    r"""Bound what an increment of the dual lacks of C (BOL-N5 corrected).

    :math:`C - \Delta_t = B_t + C\langle W_{t-1},\Delta\Phi^t\rangle \le \frac12
    C^2\|\Delta\Phi^t\|_F^2/(1-\hat\sigma_2/\hat\sigma_1)`; the ratio does not
    depend on C, so the dual rises in every round if
    :math:`C \le 2(1-\hat\sigma_2/\hat\sigma_1)/\|\Delta\Phi^t\|_F^2` for all t.

    Args:
      increments: (num_rounds,) :math:`\Delta_t`.
      is_mistake: (num_rounds,).
      step_size: :math:`C`.
      conjugate: (num_rounds,) :math:`F^*(\Theta_t)`, for the size of rounding.
      squared_norm: (num_rounds,) :math:`\|\Delta\Phi^t\|_F^2`.
      ratio: (num_rounds,) Result of `segment_ratio`.
    """
    step = jnp.asarray(step_size, increments.dtype)
    bound = step * step * curvature(squared_norm, ratio) / 2
    return certificate.at_most(
        step - increments,
        bound,
        assumptions_met=is_mistake & jnp.isfinite(bound),
        scale=conjugate + step,
    )


def weak_duality(
    num_mistakes: jax.Array,
    conjugate: jax.Array,
    *,
    step_size: float | jax.Array,
    comparator_penalty: float | jax.Array,
    comparator_loss: jax.Array,
) -> Certificate:
    r"""Compare the dual with the primal at U (BOL-N5, weak duality).

    .. math:: \mathcal D = \sum_t\Delta_t = CM - F^*(\Theta_N)
       \le F^{**}(U) + C\sum_t L_t(U)

    Args:
      num_mistakes: M.
      conjugate: :math:`F^*(\Theta_N)`.
      step_size: :math:`C`.
      comparator_penalty: :math:`F^{**}(U)`. With :math:`\frac12\|U\|_F^2`, as the
        proof of BOL-P4 has it, the inequality holds for U of rank 1 alone.
      comparator_loss: :math:`\sum_t L_t(U)`, over the mistakes.
    """
    conjugate = jnp.asarray(conjugate)
    step = jnp.asarray(step_size, conjugate.dtype)
    gain = step * jnp.asarray(num_mistakes).astype(conjugate.dtype)
    bound = comparator_penalty + step * comparator_loss
    return certificate.at_most(gain - conjugate, bound, scale=gain + conjugate)


def dual_mean(thetas: jax.Array, pushes: jax.Array) -> Certificate:
    r"""Compare the mean of Theta over rounds with its lazy form (DR-B9).

    .. math:: \bar\Theta_N = \tfrac1N\sum_{t\le N}\Theta_t
       = \Theta_N - \tfrac1N\sum_{t\le N} (t-1)\,\eta_t\Delta\Phi^t

    Args:
      thetas: (num_rounds, m, n) Theta after each round.
      pushes: (num_rounds, m, n) :math:`\eta_t\Delta\Phi^t`.

    Returns:
      After each round N: (num_rounds,).
    """
    num_rounds, dtype = thetas.shape[0], thetas.dtype
    seen = jnp.arange(num_rounds).astype(dtype)[:, None, None]
    means = jnp.cumsum(thetas, 0) / (seen + 1)
    lazy = thetas - jnp.cumsum(seen * pushes, 0) / (seen + 1)
    scale = jnp.cumsum(jnp.abs(pushes).max((1, 2)))
    return certificate.equal(means, lazy, num_axes=2, scale=scale)


def same_run(
    params: jax.Array, reference: jax.Array, *, step_size: float | jax.Array
) -> Certificate:
    r"""Compare :math:`W_t` at C with C times :math:`W_t` at 1 (BOL-Alg2).

    From :math:`\Theta_0 = 0` the exact map is homogeneous, and Eq. (9)-(12) see
    :math:`C\Delta\Phi/\sigma_1` and :math:`\Theta/\sigma_1` alone: all scores are
    scaled by C, so no prediction depends on it.

    Args:
      params: (num_rounds, m, n) Weights at C.
      reference: (num_rounds, m, n) Weights at 1.
      step_size: C.
    """
    step = jnp.asarray(step_size, params.dtype)
    expected = step * reference
    # The vectors of a nearly tied matrix are known to fewer digits, and a matrix that
    # has come back near 0 to no more than those it came from.
    scale = jax.lax.cummax(jnp.abs(expected).max((1, 2)))
    return certificate.equal(params, expected, num_axes=2, scale=scale, tolerance=1e-6)


class BestStep(NamedTuple):
    """The step size that would have made the dual objective largest, and its value."""

    step_size: jax.Array  # C* = M / (2 f)
    dual_objective: jax.Array  # M^2 / (4 f)


def best_step_size(num_mistakes: jax.Array, conjugate: jax.Array) -> BestStep:
    r"""Return :math:`C^* = M/2f` and :math:`\mathcal D(C^*) = M^2/4f` (DR-B8).

    Args:
      num_mistakes: M.
      conjugate: :math:`f = F^*(\Theta_M)` of a run with C = 1.
    """
    conjugate = jnp.asarray(conjugate)
    num_mistakes = jnp.asarray(num_mistakes).astype(conjugate.dtype)
    has_moved = conjugate > 0
    f = jnp.where(has_moved, conjugate, 1)
    return BestStep(
        step_size=jnp.where(has_moved, num_mistakes / (2 * f), 0),
        dual_objective=jnp.where(has_moved, num_mistakes**2 / (4 * f), 0),
    )


def dual_of_step(
    increments: jax.Array,
    num_mistakes: jax.Array,
    conjugate: jax.Array,
    *,
    step_size: float | jax.Array,
) -> Certificate:
    r"""Compare the dual of a run at C with :math:`CM - C^2 f` of a run at 1 (DR-B8).

    Args:
      increments: (num_rounds,) :math:`\Delta_t` of the run at C.
      num_mistakes: M of the run with C = 1.
      conjugate: f of the run with C = 1.
      step_size: C.
    """
    step = jnp.asarray(step_size, conjugate.dtype)
    gain, cost = step * num_mistakes.astype(conjugate.dtype), step * step * conjugate
    scale = gain + cost + jnp.abs(increments).sum()
    return certificate.equal(increments.sum(), gain - cost, scale=scale)


def dual_is_largest_at_best_step(
    num_mistakes: jax.Array, conjugate: jax.Array, *, step_size: float | jax.Array
) -> Certificate:
    r"""Compare :math:`CM - C^2 f` with its largest value :math:`M^2/4f` (DR-B8).

    Args:
      num_mistakes: M.
      conjugate: f of a run with C = 1.
      step_size: Any C.
    """
    step = jnp.asarray(step_size, conjugate.dtype)
    gain, cost = step * num_mistakes.astype(conjugate.dtype), step * step * conjugate
    best = best_step_size(num_mistakes, conjugate).dual_objective
    return certificate.at_most(
        gain - cost, best, assumptions_met=conjugate > 0, scale=gain + cost
    )


def weak_duality_at_best_step(
    num_mistakes: jax.Array,
    conjugate: jax.Array,
    *,
    comparator_penalty: float | jax.Array,
    comparator_loss: jax.Array,
) -> Certificate:
    r"""Compare :math:`M^2/4f` with :math:`F^{**}(U) + C^*\sum_t L_t(U)` (DR-B8).

    Args:
      num_mistakes: M.
      conjugate: f of a run with C = 1.
      comparator_penalty: :math:`F^{**}(U)`.
      comparator_loss: :math:`\sum_t L_t(U)`, over the mistakes.
    """
    best = best_step_size(num_mistakes, conjugate)
    bound = comparator_penalty + best.step_size * comparator_loss
    return certificate.at_most(best.dual_objective, bound)


def separable_mistakes(
    num_mistakes: jax.Array,
    conjugate: jax.Array,
    *,
    comparator_penalty: float | jax.Array,
    comparator_loss: jax.Array,
) -> Certificate:
    r"""Compare :math:`M^2` with :math:`4 f F^{**}(U)`, U without loss (DR-B8).

    Args:
      num_mistakes: M.
      conjugate: f of a run with C = 1.
      comparator_penalty: :math:`F^{**}(U)`.
      comparator_loss: :math:`\sum_t L_t(U)`, over the mistakes; 0 if
        :math:`\langle U,\Delta\Phi^t\rangle \ge 1`.
    """
    squared = jnp.asarray(num_mistakes).astype(conjugate.dtype) ** 2
    bound = 4 * conjugate * comparator_penalty
    return certificate.at_most(squared, bound, assumptions_met=comparator_loss == 0)
