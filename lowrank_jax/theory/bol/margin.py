r"""Margins and what they say of the spectrum and of mistakes (BOL-D1, P5, C6, DR-B7).

With :math:`\|\Delta\Phi^j\|_2 \le M_1`, :math:`\|\Delta\Phi^j\|_{k(2)} \le M_2` and a
margin :math:`\gamma > M_2/2` in the trace norm, a sum of n of them has
:math:`\sigma_1 \ge n\gamma` and :math:`\sigma_1 + \sigma_2 \le nM_2`, so that
:math:`\sigma_2/\sigma_1 \le (M_2-\gamma)/\gamma < 1` wherever BOL goes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax.theory import certificate
from lowrank_jax.theory.certificate import Certificate

__all__ = [
    "Separation",
    "conjugate_above",
    "conjugate_below",
    "corollary",
    "gap_is_enough",
    "margin",
    "margin_of_scaled",
    "margin_within_least_norm",
    "mistake_bound",
    "ratio_bound",
    "separation",
    "threshold",
    "tied_features",
]
__dir__ = __all__.copy


def margin(weights: jax.Array, deltas: jax.Array) -> jax.Array:
    r"""Return :math:`\min_j \langle W/\|W\|_{s(1)}, \Delta\Phi^j\rangle` (BOL-D1).

    Args:
      weights: (m, n) The margin of the zero matrix is 0.
      deltas: (num_deltas, m, n).
    """
    norm = _values(weights).sum()
    unit = weights / jnp.where(norm > 0, norm, 1)
    return jnp.einsum("mn,jmn->j", unit, deltas).min()


class Separation(NamedTuple):
    """What BOL-P5 asks of a set of feature differences and of one W."""

    margin: jax.Array  # ()  gamma
    largest: jax.Array  # ()  M_1, the largest ||dPhi||_2
    pair: jax.Array  # ()  M_2, the largest ||dPhi||_k(2)
    energy: jax.Array  # ()  the largest ||dPhi||_F^2
    least: jax.Array  # ()  the smallest ||dPhi||_2
    is_met: jax.Array  # () bool: gamma > M_2 / 2


def separation(weights: jax.Array, deltas: jax.Array) -> Separation:
    r"""Measure the assumption of BOL-P5.

    The paper asks for :math:`\gamma \in (M_2/2, M_1)`. Only the lower end is needed,
    and :math:`\gamma \le \inf_j\|\Delta\Phi^j\|_2` says more than the upper.

    Args:
      weights: (m, n) :math:`\tilde W`.
      deltas: (num_deltas, m, n) All differences that may occur.
    """
    sigma = _values(deltas)
    gamma = margin(weights, deltas)
    pair = sigma[:, :2].sum(1).max()
    return Separation(
        margin=gamma,
        largest=sigma[:, 0].max(),
        pair=pair,
        energy=(sigma * sigma).sum(1).max(),
        least=sigma[:, 0].min(),
        is_met=gamma > pair / 2,
    )


def ratio_bound(points: jax.Array, separated: Separation) -> Certificate:
    r"""Compare :math:`\sigma_2/\sigma_1` with :math:`(M_2-\gamma)/\gamma` (BOL-P5).

    Holds for every sum of the differences with weights that are not negative, so at
    every point of every segment of a run. The zero matrix has no ratio.

    Args:
      points: (num_points, m, n) Points, as :math:`\Theta_{t-1} + \theta C\Delta\Phi^t`.
      separated: Result of `separation`.
    """
    sigma = _values(points)
    top = sigma[:, 0]
    second = sigma[:, 1] if sigma.shape[1] > 1 else jnp.zeros_like(top)
    gamma = jnp.where(separated.is_met, separated.margin, 1)
    return certificate.at_most(
        second / jnp.where(top > 0, top, 1),
        jnp.broadcast_to((separated.pair - gamma) / gamma, top.shape),
        assumptions_met=separated.is_met & (top > 0),
        scale=1.0,
    )


def margin_within_least_norm(separated: Separation) -> Certificate:
    r"""Compare the margin with :math:`\inf_j \|\Delta\Phi^j\|_2`: dual norms."""
    return certificate.at_most(separated.margin, separated.least)


def tied_features(weights: jax.Array, deltas: jax.Array) -> Certificate:
    r"""Compare the margin with :math:`M_2/2` where some difference is tied (BOL-P5).

    If :math:`\sigma_1 = \sigma_2` for one :math:`\Delta\Phi`, then :math:`\gamma \le
    \sigma_1 = \frac12\|\Delta\Phi\|_{k(2)} \le M_2/2`: no W meets the assumption. Block
    features are tied wherever two templates fire at the wrong position alone.

    Args:
      weights: (m, n) Any W.
      deltas: (num_deltas, m, n).
    """
    sigma = _values(deltas)
    separated = separation(weights, deltas)
    second = sigma[:, 1] if sigma.shape[1] > 1 else jnp.zeros_like(sigma[:, 0])
    tiny = 64 * jnp.finfo(sigma.dtype).eps
    is_tied = sigma[:, 0] - second <= tiny * sigma[:, 0]
    return certificate.at_most(
        separated.margin, separated.pair / 2, assumptions_met=is_tied.any()
    )


def gap_is_enough(deltas: jax.Array) -> Certificate:
    r"""Compare half the least gap with :math:`M_1 - M_2/2` (remark after BOL-C6).

    If :math:`\sigma_1 - \sigma_2 \ge \delta` for all differences, then :math:`M_2/2 \le
    \sup(\sigma_1 - \delta/2) = M_1 - \delta/2`.

    Args:
      deltas: (num_deltas, m, n).
    """
    sigma = _values(deltas)
    pair = sigma[:, :2].sum(1)
    gap = 2 * sigma[:, 0] - pair
    largest = sigma[:, 0].max()
    return certificate.at_most(gap.min() / 2, largest - pair.max() / 2, scale=largest)


def margin_of_scaled(weights: jax.Array, deltas: jax.Array) -> Certificate:
    r"""Compare the margin with 1 over the norm of W scaled to margins of at least 1.

    Args:
      weights: (m, n).
      deltas: (num_deltas, m, n).
    """
    least = jnp.einsum("mn,jmn->j", weights, deltas).min()
    is_separated = least > 0
    scaled = weights / jnp.where(is_separated, least, 1)
    norm = _values(scaled).sum()
    expected = 1 / jnp.where(norm > 0, norm, 1)
    return certificate.equal(
        margin(weights, deltas), expected, assumptions_met=is_separated
    )


def threshold(
    weights: jax.Array, deltas: jax.Array, *, is_printed: bool = False
) -> Certificate:
    r"""Compare the two sides of the remark after BOL-C6, each 1 if true and 0 if not.

    :math:`\gamma > M_2/2` if and only if W, scaled so that :math:`\langle W,
    \Delta\Phi^j\rangle \ge 1`, has :math:`\|W\|_{s(1)} < 2/M_2`; the paper prints
    :math:`M_2/2`.

    Args:
      weights: (m, n).
      deltas: (num_deltas, m, n).
      is_printed: Compare with the paper's threshold. Static.
    """
    least = jnp.einsum("mn,jmn->j", weights, deltas).min()
    separated = separation(weights, deltas)
    is_separated = least > 0
    norm = _values(weights).sum() / jnp.where(is_separated, least, 1)
    half = separated.pair / 2
    is_small = norm < (half if is_printed else 1 / jnp.where(half > 0, half, 1))
    # At equality rounding decides.
    is_clear = jnp.abs(separated.margin - half) > 1e-9 * half
    return certificate.equal(
        is_small.astype(norm.dtype),
        separated.is_met.astype(norm.dtype),
        assumptions_met=is_separated & is_clear,
    )


def corollary(
    regret: jax.Array,
    separated: Separation,
    *,
    step_size: float | jax.Array,
    num_rounds: jax.Array,
    num_values: int,
    comparator_energy: float | jax.Array,
) -> Certificate:
    r"""Compare the mean regret with BOL-C6.

    .. math:: R_N(U) \le \frac{\|U\|_F^2}{2CN}
       + 2Cl^2M_1^2\,\frac{\gamma}{2\gamma - M_2}

    Args:
      regret: Sum of the regret over the rounds.
      separated: Result of `separation`.
      step_size: :math:`C`.
      num_rounds: N, rounds or mistakes, at least 1.
      num_values: :math:`l`.
      comparator_energy: :math:`\frac12\|U\|_F^2`.
    """
    dtype = regret.dtype
    step = jnp.asarray(step_size, dtype)
    count = jnp.asarray(num_rounds).astype(dtype)
    constant = 2 * step * num_values**2 * separated.largest**2
    bound = comparator_energy / (step * count) + constant * _room(separated)
    return certificate.at_most(
        regret / count, bound, assumptions_met=separated.is_met, scale=1.0
    )


def mistake_bound(num_mistakes: jax.Array, separated: Separation) -> Certificate:
    r"""Compare the mistakes with :math:`\max\|\Delta\Phi\|_F^2/(\gamma(2\gamma-M_2))`.

    From `conjugate_below` and `conjugate_above` (DR-B7). So the mean regret falls like
    1/N, where BOL-C6 leaves a constant.

    Args:
      num_mistakes: M.
      separated: Result of `separation`.
    """
    gamma = jnp.where(separated.is_met, separated.margin, 1)
    bound = separated.energy * _room(separated) / (gamma * gamma)
    observed = jnp.asarray(num_mistakes).astype(gamma.dtype)
    return certificate.at_most(observed, bound, assumptions_met=separated.is_met)


def conjugate_below(
    num_mistakes: jax.Array, conjugate: jax.Array, separated: Separation
) -> Certificate:
    r"""Compare :math:`\frac12 M^2\gamma^2` with :math:`F_1^*(\Theta_M)`, C = 1 (DR-B7).

    Holds for every margin that is not negative.

    Args:
      num_mistakes: M.
      conjugate: :math:`F_1^*(\Theta_M)` of a run with C = 1.
      separated: Result of `separation`.
    """
    observed = (jnp.asarray(num_mistakes).astype(conjugate.dtype)) ** 2 / 2
    return certificate.at_most(
        observed * separated.margin**2, conjugate, assumptions_met=separated.margin >= 0
    )


def conjugate_above(
    num_mistakes: jax.Array, conjugate: jax.Array, separated: Separation
) -> Certificate:
    r"""Compare :math:`F_1^*(\Theta_M)` with its upper bound, C = 1 (DR-B7).

    .. math:: F_1^*(\Theta_M) \le \tfrac M2 \max_j\|\Delta\Phi^j\|_F^2\,
       \frac{\gamma}{2\gamma - M_2}

    by DR-B2 with the ratio of `ratio_bound`, the margins of mistakes being at most 0.

    Args:
      num_mistakes: M.
      conjugate: :math:`F_1^*(\Theta_M)` of a run with C = 1.
      separated: Result of `separation`.
    """
    half = jnp.asarray(num_mistakes).astype(conjugate.dtype) / 2
    bound = half * separated.energy * _room(separated)
    return certificate.at_most(conjugate, bound, assumptions_met=separated.is_met)


def _room(separated: Separation) -> jax.Array:
    """1 / (1 - ratio) = gamma / (2 gamma - M_2)."""
    excess = 2 * separated.margin - separated.pair
    return separated.margin / jnp.where(separated.is_met, excess, 1)


def _values(matrices: jax.Array) -> jax.Array:
    return jnp.linalg.svd(matrices, compute_uv=False)
