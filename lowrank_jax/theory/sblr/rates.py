r"""From descent to rates of convergence: the last steps of SBLR's Theorems 4.2 and 4.3.

Near a limit with the Kurdyka-Lojasiewicz inequality of exponent :math:`\theta`,
:math:`(F_k - \bar F)^\theta \le C\operatorname{dist}(0, \partial F(W^k))`, and with

.. math:: d_k = \|W^k - W^{k-1}\|_F + |b^k - \hat b^k|, \quad
   \tfrac a2 d_{k+1}^2 \le F_k - F_{k+1}, \quad
   \operatorname{dist}(0, \partial F(W^k)) \le M d_k,

the concave :math:`\phi_k = (F_k - \bar F)^{1-\theta}` gives :math:`d_{k+1}^2 \le
K d_k(\phi_k - \phi_{k+1})`, :math:`K = 2CM/((1 - \theta)a)`, which is the paper's
:math:`1/\tilde C^2`. All that follows is on such sequences of numbers, with
:math:`S_N = \sum_{k \ge N} d_{k+1}`.
"""

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.theory.certificate import Certificate, at_most, equal
from lowrank_jax.theory.sblr import limits

__all__ = [
    "kurdyka_certificate",
    "length_certificate",
    "linear_rate_certificate",
    "linear_recursion_certificate",
    "power_recursion_certificate",
    "rate_certificate",
    "steady_rate_certificate",
    "superlinear_certificate",
]
__dir__ = __all__.copy


def length_certificate(
    steps: jax.Array,
    potentials: jax.Array,
    constant: float | jax.Array,
    share: float | jax.Array = 1.0,
) -> Certificate:
    r"""Compare the length of the rest of a run with one step and a potential.

    .. math:: S_N \le S_{N-1} - S_N + c K \phi_N

    for sequences with :math:`d_{k+1}^2 \le K d_k(\phi_k - \phi_{k+1})`: by the means of
    two numbers :math:`d_{k+1} \le \frac12 d_k + \frac12 K(\phi_k - \phi_{k+1})`, and
    the sum over :math:`k \ge N` is c = 1. The proof of SBLR-T4.3 prints c = 1/2, which
    steps of one length refute.

    Args:
      steps: (num_steps + 1,) :math:`d_0, d_1, \dots`, zero or more; none follows.
      potentials: (num_steps + 1,) :math:`\phi_0, \phi_1, \dots`, zero or more.
      constant: K.
      share: c.

    Returns:
      One for each N from 0; silent where the sequences are not as assumed.
    """
    constant = jnp.asarray(constant, steps.dtype)
    falls = potentials[:-1] - potentials[1:]
    means = constant * steps[:-1] * falls
    is_met = (steps[1:] * steps[1:] <= means * (1 + 1e-9)).all() & (falls >= 0).all()
    sums = jnp.cumsum(steps[:0:-1])[::-1]  # S_N
    share = jnp.asarray(share, steps.dtype)
    bound = steps[:-1] + share * constant * potentials[:-1]
    return at_most(sums, bound, assumptions_met=is_met)


def linear_rate_certificate(
    steps: jax.Array, moves: jax.Array, gaps: jax.Array, stationarity: jax.Array
) -> Certificate:
    r"""Compare a run's contraction with the proof's (SBLR-T4.3, exponent 1/2).

    .. math:: S_N \le \frac{1 + \hat C}{2 + \hat C} S_{N-1}, \qquad
       \hat C = \frac{4 C^2 M^2}{a}

    with the least constants C, M and a of this run: the inequalities they stand in are
    what the theorem assumes. From `length_certificate` and
    :math:`\phi_N \le C M d_N = CM(S_{N-1} - S_N)`.

    Args:
      steps: (num_iterations,) :math:`d_k` of consecutive iterates.
      moves: (num_iterations,) :math:`\|W^k - W^{k-1}\|_F^2 + |b^k - \hat b^k|^2`.
      gaps: (num_iterations,) :math:`F(W^k) - \bar F`, positive.
      stationarity: (num_iterations,) :math:`\operatorname{dist}(0, \partial F(W^k))`.

    Returns:
      One for each N from the second iterate on.
    """
    curve = (jnp.sqrt(gaps) / stationarity).max()  # C
    slope = (stationarity / steps).max()  # M
    fall = ((gaps[:-1] - gaps[1:]) / moves[1:]).min()  # a, as d^2 <= 2 moves
    constant = 4 * curve * curve * slope * slope / fall
    sums = jnp.cumsum(steps[::-1])[::-1]  # S_{N-1} at N - 1
    bound = (1 + constant) / (2 + constant) * sums[:-1]
    is_met = (gaps > 0).all() & (fall > 0)
    return at_most(sums[1:], bound, assumptions_met=is_met)


def linear_recursion_certificate(
    lengths: jax.Array, constant: float | jax.Array, exponent: float | jax.Array
) -> Certificate:
    r"""Compare lengths with a geometric sequence (SBLR-T4.3, exponents up to 1/2).

    .. math:: S_N \le \Big(\frac{1 + \hat C}{2 + \hat C}\Big)^N S_0

    for sequences with :math:`S_N \le S_{N-1} - S_N + \hat C(S_{N-1} - S_N)
    ^{(1-\theta)/\theta}` (SBLR-Eq27) and differences of at most 1. Equality of Eq27 at
    :math:`\theta = \frac12` attains it.

    Args:
      lengths: (number,) :math:`S_0, S_1, \dots`, falling.
      constant: :math:`\hat C`.
      exponent: :math:`\theta`.
    """
    constant = jnp.asarray(constant, lengths.dtype)
    is_met = _has_recursion(lengths, constant, exponent)
    is_met &= jnp.asarray(exponent, lengths.dtype) <= 0.5
    powers = jnp.arange(lengths.shape[0]).astype(lengths.dtype)
    bound = ((1 + constant) / (2 + constant)) ** powers * lengths[0]
    return at_most(lengths, bound, assumptions_met=is_met)


def power_recursion_certificate(
    lengths: jax.Array, constant: float | jax.Array, exponent: float | jax.Array
) -> Certificate:
    r"""Compare lengths with a power of their place (SBLR-T4.3, exponents above 1/2).

    With :math:`\nu = \theta/(1 - \theta) > 1` Eq27 gives :math:`S_N^\nu \le
    (1 + \hat C)^\nu(S_{N-1} - S_N)`. Either :math:`S_N^{-\nu} \le 2S_{N-1}^{-\nu}`, and
    the integral of :math:`s^{-\nu}` over the step is at least half of
    :math:`(1 + \hat C)^{-\nu}`, or :math:`S_N^{1-\nu}` has grown by a fixed factor. So

    .. math:: S_N \le \big(S_0^{1-\nu} + N m\big)^{-(1-\theta)/(2\theta-1)}, \quad
       m = \min\Big\{\frac{\nu - 1}{2(1 + \hat C)^\nu},
       \big(2^{(\nu-1)/\nu} - 1\big)S_0^{1-\nu}\Big\}

    Args:
      lengths: (number,) :math:`S_0, S_1, \dots`, falling and positive.
      constant: :math:`\hat C`.
      exponent: :math:`\theta`, above 1/2 and below 1.
    """
    dtype = lengths.dtype
    theta, constant = jnp.asarray(exponent, dtype), jnp.asarray(constant, dtype)
    is_met = _has_recursion(lengths, constant, theta) & (theta > 0.5)
    nu = theta / (1 - theta)
    # Over S_0^(1 - nu), which overflows for small S_0 and large nu.
    share = (lengths[0] / (1 + constant)) ** (nu - 1) / (1 + constant)
    grown = jnp.minimum((nu - 1) / 2 * share, 2 ** ((nu - 1) / nu) - 1)
    places = jnp.arange(lengths.shape[0]).astype(dtype)
    bound = lengths[0] * (1 + places * grown) ** (-1 / (nu - 1))
    return at_most(lengths, bound, assumptions_met=is_met)


def _has_recursion(
    lengths: jax.Array, constant: jax.Array, exponent: float | jax.Array
) -> jax.Array:
    """Tell whether a sequence is as SBLR-Eq27 asks, with differences of 0 to 1."""
    theta = jnp.asarray(exponent, lengths.dtype)
    falls = lengths[:-1] - lengths[1:]
    bound = falls + constant * jnp.maximum(falls, 0) ** ((1 - theta) / theta)
    rounding = 1e-9 / lengths.shape[0]  # it adds up over the steps
    is_met = (lengths[1:] <= bound * (1 + rounding)).all()
    return is_met & (falls >= 0).all() & (falls <= 1).all()


def kurdyka_certificate(
    gaps: jax.Array,
    stationarity: jax.Array,
    exponent: float | jax.Array,
    constant: float | jax.Array,
) -> Certificate:
    r"""Compare gaps and subgradients with an exponent (SBLR-D4.1).

    .. math:: (F(W^k) - \bar F)^\theta \le C\operatorname{dist}(0, \partial F(W^k))

    Args:
      gaps: (num_points,) Positive gaps.
      stationarity: (num_points,).
      exponent: :math:`\theta`.
      constant: C.
    """
    power = gaps ** jnp.asarray(exponent, gaps.dtype)
    return at_most(power, jnp.asarray(constant, gaps.dtype) * stationarity)


def superlinear_certificate(points: np.ndarray, limit: np.ndarray) -> Certificate:
    r"""Compare the true contraction with that seen from the last iterate (SBLR-R4.3).

    The paper takes the last iterate for the limit, sees the distances to it fall ever
    faster, and infers superlinear convergence: that the true contraction, over the last
    tenth of the run, is at most the one which it sees there. But the distance to the
    last iterate must come to 0 whatever the run does.

    Args:
      points: (num_iterations, size) Run that has not yet come down to rounding.
      limit: (size,) True limit of the run.
    """
    to_limit = np.linalg.norm(points - limit, axis=1)
    to_last = np.linalg.norm(points[:-1] - points[-1], axis=1)
    first = 9 * len(to_last) // 10
    return at_most(_slope(to_limit[first:-1]), _slope(to_last[first:]))


def steady_rate_certificate(
    points: np.ndarray, limit: np.ndarray, *, tolerance: float = 0.01
) -> Certificate:
    """Compare the contraction of the last tenth with the tenth before it.

    Against the true limit the two are equal: the rate is linear (SBLR-R4.3).

    Args:
      points: (num_iterations, size) Run that has not yet come down to rounding.
      limit: (size,) True limit of the run.
      tolerance: Relative tolerance.
    """
    to_limit = np.linalg.norm(points - limit, axis=1)
    tenth = len(to_limit) // 10
    late, before = _slope(to_limit[-tenth:]), _slope(to_limit[-2 * tenth : -tenth])
    return equal(late, before, tolerance=tolerance)


def rate_certificate(
    points: np.ndarray,
    limit: np.ndarray,
    jacobian: np.ndarray,
    *,
    num_symmetries: int = 0,
    tolerance: float = 0.01,
) -> Certificate:
    """Compare the observed contraction with the predicted one (DR-S6).

    The spectral radius of the Jacobian of one sweep at the limit, on the entries of it
    that are not 0. It speaks of the end of a run: silent where the second eigenvalue
    has not died away against the first, to 1 %, when the observed window opens.

    Args:
      points: (num_iterations, size) Run with fixed constants.
      limit: (size,) Limit of the run. The last entry, the offset, counts as not 0.
      jacobian: (size, size) Jacobian of one sweep with these constants, at the limit.
      num_symmetries: Eigenvalues to leave out from the top.
      tolerance: Relative tolerance.
    """
    is_free = limit != 0
    is_free[-1] = True
    moduli = np.abs(np.linalg.eigvals(jacobian[np.ix_(is_free, is_free)]))
    predicted, second = np.append(np.sort(moduli)[::-1], 0)[num_symmetries:][:2]
    distances = np.linalg.norm(points - limit, axis=1)
    num_seen = int((distances > 1e-10 * distances.max()).sum())
    is_met = (second / max(predicted, 1e-300)) ** (2 * num_seen // 3) < 0.01
    observed = limits.observed_rate(distances)
    return equal(
        observed, float(predicted), tolerance=tolerance, assumptions_met=bool(is_met)
    )


def _slope(distances: np.ndarray) -> float:
    """Return the contraction per iteration that fits the distances best."""
    places = np.arange(len(distances))
    return float(np.exp(np.polyfit(places, np.log(distances), 1)[0]))
