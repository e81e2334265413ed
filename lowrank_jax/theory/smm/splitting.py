r"""Guarantees of spectral max-margin tagging (SMM, section 3.4).

The objective is :math:`F(H) = f(H) + \tau R(H)`, with f the sum of structured hinges.
The duality gap tells whether a point solves a proximal problem. Divide
:math:`\min_X q\|X - Z\|^2 + s R(X)` by 2q and set :math:`t = s/2q`. Then

.. math:: \tfrac12\|X - Z\|^2 + tR(X) \;\ge\;
          \langle\Lambda, Z\rangle - \tfrac12\|\Lambda\|^2 - (tR)^*(\Lambda)

for every X and :math:`\Lambda`. The functions here take :math:`\Lambda = Z - X`, made
feasible. With it, both sides are equal if and only if X is the solution.
"""

import jax
import jax.numpy as jnp

from lowrank_jax.linalg.norms import square
from lowrank_jax.linalg.ties import tied_objective
from lowrank_jax.theory.certificate import Certificate, at_most

__all__ = [
    "duality_certificate",
    "monotone_certificate",
    "non_expansive_certificate",
    "prox_certificate",
    "prox_growth_certificate",
    "rate_certificate",
    "smoothing_certificate",
    "smoothness_certificate",
    "splitting_certificate",
    "tied_certificate",
]
__dir__ = __all__.copy

PENALTIES = ("nuclear", "frobenius", "squared_frobenius")


def prox_certificate(
    matrix: jax.Array,
    found: jax.Array,
    strength: float | jax.Array,
    *,
    penalty: str = "nuclear",
    quadratic: float = 0.5,
    tolerance: float | None = None,
) -> Certificate:
    r"""Decide whether a matrix solves :math:`\min_X q\|X - Z\|^2 + s R(X)`.

    SMM-N6 prints q = 1 for the threshold s; it needs q = 1/2. SMM-B2: the Frobenius
    norm and half its square. Twice the quadratic is half the threshold.

    Args:
      matrix: (m, n) Z.
      found: (m, n) X.
      strength: s.
      penalty: ``"nuclear"``, ``"frobenius"`` or ``"squared_frobenius"``. Static.
      quadratic: q, positive. Static.
      tolerance: See `at_most`.

    Returns:
      The objective of X, over 2q, against a lower bound on its minimum.
    """
    threshold = jnp.asarray(strength, matrix.dtype) / (2 * quadratic)
    multiplier = matrix - found
    objective = square(multiplier) / 2 + threshold * _penalty(penalty, found)
    if penalty == "squared_frobenius":
        conjugate = square(multiplier) / (2 * jnp.where(threshold > 0, threshold, 1))
        multiplier = jnp.where(threshold > 0, multiplier, 0)
        conjugate = jnp.where(threshold > 0, conjugate, 0)
    else:
        size = _dual_norm(penalty, multiplier)
        share = jnp.minimum(1, threshold / jnp.where(size > 0, size, 1))
        multiplier = jnp.where(size > threshold, share, 1) * multiplier
        conjugate = jnp.zeros_like(threshold)
    bound = jnp.vdot(multiplier, matrix) - square(multiplier) / 2 - conjugate
    scale = square(matrix)
    unit = 100 * jnp.finfo(matrix.dtype).eps
    objective, bound = (  # what is lost in the rounding of Z is 0
        jnp.where(jnp.abs(part) > unit * scale, part, 0) for part in (objective, bound)
    )
    return at_most(objective, bound, scale=scale, tolerance=tolerance)


def prox_growth_certificate(
    matrix: jax.Array, found: jax.Array, other: jax.Array, strength: float | jax.Array
) -> Certificate:
    r"""Compare the solution of the proximal problem with any other matrix (SMM-N6).

    The problem is strongly convex: :math:`p(X) + \frac12\|Y - X\|^2 \le p(Y)` for its
    solution X and all Y, with equality for Y = cX, c at least 0.

    Args:
      matrix: (m, n) Z.
      found: (m, n) X.
      other: (m, n) Y.
      strength: The threshold.
    """
    least = tied_objective(found, matrix, strength) + square(other - found) / 2
    scale = square(matrix) + square(other)
    return at_most(least, tied_objective(other, matrix, strength), scale=scale)


def non_expansive_certificate(
    one: jax.Array, other: jax.Array, found_one: jax.Array, found_other: jax.Array
) -> Certificate:
    r"""Decide whether a proximal map brings two points together (SMM-N6).

    A proximal map is firmly non-expansive, :math:`\|p(A) - p(B)\|^2 \le \langle A - B,
    p(A) - p(B)\rangle`, and so non-expansive; equal where nothing is cut off.

    Args:
      one: (m, n) A.
      other: (m, n) B.
      found_one: (m, n) Image of A.
      found_other: (m, n) Image of B.
    """
    moved, apart = found_one - found_other, one - other
    size = jnp.sqrt(jnp.maximum(square(one), square(other)) * square(apart))
    return at_most(square(moved), jnp.vdot(apart, moved), scale=size)


def splitting_certificate(
    gaps: jax.Array,
    step_sizes: jax.Array,
    gradient_squares: jax.Array,
    distance_squared: float | jax.Array,
    *,
    scale: float | jax.Array = 0.0,
) -> Certificate:
    r"""Compare the weighted mean of the gaps of FOBOS with its guarantee (SMM-Alg1).

    The optimality of the proximal step and the inequality of the subgradient give, for
    every matrix :math:`H'`,

    .. math:: \eta_t[f(H_t) - f(H') + \tau R(H_{t+1}) - \tau R(H')] \le
       \tfrac12\|H_t - H'\|^2 - \tfrac12\|H_{t+1} - H'\|^2
       + \tfrac12\eta_t^2\|G_t\|^2.

    Summed from :math:`H_1 = 0`, with steps that never grow, the penalties move up by
    one, and

    .. math:: \frac{\sum_{t\le T}\eta_t\,[F(H_t) - F(H')]}{\sum_{t\le T}\eta_t} \le
       \frac{\|H'\|^2 + \sum_{t\le T}\eta_t^2\|G_t\|^2}{2\sum_{t\le T}\eta_t}.

    The best iterate, and by convexity the average of :math:`H_1..H_T`, are no worse
    than this mean. With :math:`\eta_t = c/\sqrt t` the right side is
    :math:`O(\log T/\sqrt T)`.

    For the average of :math:`H_2..H_{T+1}`, which `batch.fobos` keeps, put
    :math:`F(H_{t+1})` for the gaps and :math:`\|G_{t+1} - G_t\|^2` for the squares: in
    the same sum :math:`f(H_{t+1}) \le f(H_t) + \langle G_{t+1}, H_{t+1} - H_t\rangle`,
    and :math:`\eta_t\langle G_{t+1} - G_t, \Delta\rangle - \frac12\|\Delta\|^2 \le
    \frac12\eta_t^2\|G_{t+1} - G_t\|^2`; steps may grow.

    Args:
      gaps: (T,) :math:`F(H_t) - F(H')`, or a smaller number; (T,) of the best so far or
        of the running average are such for the mean, with `step_sizes` as they are.
      step_sizes: (T,).
      gradient_squares: (T,) Squared Frobenius norms.
      distance_squared: :math:`\|H_1 - H'\|^2`.
      scale: Size of the objectives, whose rounding the gaps carry.

    Returns:
      (T,): for each T the gap given against the bound on the mean.
    """
    dtype = gaps.dtype
    total = jnp.cumsum(step_sizes)
    spread = jnp.cumsum(step_sizes * step_sizes * gradient_squares)
    bound = (jnp.asarray(distance_squared, dtype) + spread) / (2 * total)
    return at_most(gaps, bound, scale=jnp.asarray(scale, dtype))


def rate_certificate(
    gaps: jax.Array,
    step_size: float | jax.Array,
    gradient_square: float | jax.Array,
    distance_squared: float | jax.Array,
    *,
    scale: float | jax.Array = 0.0,
) -> Certificate:
    r"""Compare the gaps of FOBOS with the rate of :math:`c/\sqrt t` (SMM-Alg1).

    With :math:`\sum_{t\le T} 1/t \le 1 + \ln T` and :math:`\sum_{t\le T} 1/\sqrt t
    \ge 2\sqrt{T + 1} - 2` in `splitting_certificate`, the best and the averaged
    iterate are within

    .. math:: \frac{\|H'\|^2/c + c\,G^2(1 + \ln T)}{4(\sqrt{T + 1} - 1)}.

    Args:
      gaps: (T,) See `splitting_certificate`.
      step_size: c.
      gradient_square: :math:`G^2`, at least every squared norm.
      distance_squared: See `splitting_certificate`.
      scale: See `splitting_certificate`.
    """
    dtype = gaps.dtype
    t = jnp.arange(1, gaps.shape[0] + 1).astype(dtype)
    c = jnp.asarray(step_size, dtype)
    spread = c * jnp.asarray(gradient_square, dtype) * (1 + jnp.log(t))
    bound = (jnp.asarray(distance_squared, dtype) / c + spread) / (
        4 * (jnp.sqrt(t + 1) - 1)
    )
    return at_most(gaps, bound, scale=jnp.asarray(scale, dtype))


def monotone_certificate(objectives: jax.Array) -> Certificate:
    """Decide whether an objective falls in each iteration (SMM-Alg1).

    Args:
      objectives: (..., T).
    """
    return at_most(objectives[..., 1:], objectives[..., :-1])


def duality_certificate(
    gradient: jax.Array,
    cost: jax.Array,
    strength: float | jax.Array,
    objective: jax.Array,
) -> Certificate:
    r"""Compare a dual point with the objective of any matrix (DR-M2).

    A mean of subgradients is :math:`\sum_i \mathbb E_{\mu_i}[\mathrm{counts}(z)] -
    \mathrm{counts}(y)` for distributions :math:`\mu_i`, and so the loss of H is at
    least :math:`s(\bar\ell + \langle\bar G, H\rangle)` for all s in 0..1. With
    :math:`s = \min(1, \tau/\sigma_1(\bar G))` the second term is at least
    :math:`-\tau\|H\|_*`.

    Args:
      gradient: (m, n) A mean of subgradients of the sum of hinges.
      cost: () Mean of their Hamming costs, with the same weights.
      strength: tau.
      objective: () Objective at any matrix.
    """
    sigma_1 = jnp.linalg.svd(gradient, compute_uv=False)[0]
    tau = jnp.asarray(strength, gradient.dtype)
    share = jnp.minimum(1, tau / jnp.where(sigma_1 > 0, sigma_1, 1))
    share = jnp.where(sigma_1 > 0, share, 1)
    return at_most(share * cost, objective)


def tied_certificate(
    objective: jax.Array, least: jax.Array, *, tolerance: float | None = None
) -> Certificate:
    r"""Decide whether a tied matrix is optimal in the tied problem (SMM-X2).

    Args:
      objective: Objective of the tied matrix, :math:`\frac12\|X - Z\|^2 + \tau\|X\|_*`.
      least: A lower bound on the minimum, or the objective of a better matrix.
      tolerance: Tolerance of the method that found the matrix.
    """
    return at_most(objective, least, tolerance=tolerance)


def smoothing_certificate(
    loss: jax.Array,
    smoothed: jax.Array,
    smoothing: float | jax.Array,
    num_letters: int | jax.Array,
    num_outputs: int | jax.Array,
) -> Certificate:
    r"""Compare the smoothed loss with the hinge (SMM-X1).

    :math:`\max_z a_z \le \mu\log\sum_z e^{a_z/\mu} \le \max_z a_z + \mu\log N`, with
    N at most :math:`|Y|^T` paths; equal on the right where all paths score the same.

    Args:
      loss: () Sum of hinges.
      smoothed: () Sum of smoothed hinges.
      smoothing: mu.
      num_letters: T, of all words.
      num_outputs: :math:`|Y|`, candidates of a letter at most.

    Returns:
      (2,): hinge against smoothed loss, and the excess of the smoothed loss.
    """
    dtype = loss.dtype
    outputs = jnp.log(jnp.asarray(num_outputs, dtype))
    most = jnp.asarray(smoothing, dtype) * jnp.asarray(num_letters, dtype) * outputs
    observed = jnp.stack([loss, smoothed - loss])
    bound = jnp.stack([smoothed, most])
    return at_most(observed, bound, scale=jnp.abs(loss))


def smoothness_certificate(
    one: jax.Array,
    other: jax.Array,
    gradient_one: jax.Array,
    gradient_other: jax.Array,
    smoothing: float | jax.Array,
    path_squares: jax.Array,
) -> Certificate:
    r"""Compare the change of the smoothed loss's gradient with its constant (SMM-X1).

    The Hessian is :math:`\frac1\mu\sum_i \mathrm{Cov}(\mathrm{counts}(x^i, z))`. A
    variance is at most a quarter of the squared range, so the constant
    :math:`\frac1{4\mu}\sum_i\max_{z,z'}\|\mathrm{counts}(z) - \mathrm{counts}(z')\|^2`
    suffices, and two equally likely paths attain it. It is at most the recipe's
    :math:`\frac1\mu\sum_i\max_z\|\mathrm{counts}(z) - \mathrm{counts}(y)\|^2`.

    Args:
      one: (m, n).
      other: (m, n).
      gradient_one: (m, n) Gradient of the smoothed loss at `one`.
      gradient_other: (m, n) Gradient at `other`.
      smoothing: mu.
      path_squares: (num_words,) Squares of either constant, with their factor.
    """
    constant = path_squares.sum() / jnp.asarray(smoothing, one.dtype)
    observed = jnp.sqrt(square(gradient_one - gradient_other))
    bound = constant * jnp.sqrt(square(one - other))
    scale = jnp.sqrt(square(gradient_one))
    return at_most(observed, bound, scale=scale)


def _penalty(penalty: str, matrix: jax.Array) -> jax.Array:
    if penalty == "nuclear":
        return jnp.linalg.svd(matrix, compute_uv=False).sum()
    total = square(matrix)
    return jnp.sqrt(total) if penalty == "frobenius" else total / 2


def _dual_norm(penalty: str, matrix: jax.Array) -> jax.Array:
    if penalty == "nuclear":
        return jnp.linalg.svd(matrix, compute_uv=False)[0]
    return jnp.sqrt(square(matrix))
