r"""The spectral gap along a segment, and what a step along it costs (DR-B2).

With :math:`F_1^*(\Theta) = \frac12\sigma_1(\Theta)^2`, the remainder of a step is
:math:`F_1^*(\Theta + E) - F_1^*(\Theta) - \langle G, E\rangle` for a subgradient G.
"""

import jax
import jax.numpy as jnp

from lowrank_jax.linalg import spectra

__all__ = ["curvature", "remainder_bound", "segment_ratio"]
__dir__ = __all__.copy


def curvature(squared_norm: jax.Array, ratio: jax.Array) -> jax.Array:
    r"""Return twice the bound on :math:`B_t` at C = 1 (DR-B2): infinite at a tie.

    Args:
      squared_norm: :math:`\|\Delta\Phi^t\|_F^2`.
      ratio: Largest :math:`\sigma_2/\sigma_1` on the segment.
    """
    gap = 1 - ratio
    is_tied = gap <= 32 * jnp.finfo(gap.dtype).eps
    value = squared_norm / jnp.where(is_tied, jnp.ones_like(gap), gap)
    return jnp.where(is_tied & (squared_norm > 0), jnp.inf, value)


def segment_ratio(
    theta: jax.Array, push: jax.Array, *, num_cells: int = 6
) -> jax.Array:
    r"""Bound :math:`\sigma_2/\sigma_1` on the segment from Theta to Theta + push.

    The result is an upper bound, exact up to the square of the length of a cell. The
    ratio plus 1 is :math:`\|\cdot\|_{k(2)}/\sigma_1`, and both norms are convex along
    the segment. In a cell, the chord lies above the numerator and two tangents lie
    below the denominator. A quotient of linear functions is largest at an end of a
    piece.

    From :math:`\Theta = 0` the conjugate is quadratic along the segment. Its remainder
    is :math:`\frac12\sigma_1(E)^2 \le \frac12\|E\|_F^2`, which counts as ratio 0.

    Args:
      theta: (m, n).
      push: (m, n).
      num_cells: Pieces of the segment. Static.

    Returns:
      Number in [0, 1]. It is 1 if a tie or the zero matrix cannot be ruled out.
    """
    if min(theta.shape) == 1:
        return jnp.zeros((), theta.dtype)
    dtype = theta.dtype
    at = jnp.linspace(0, 1, num_cells + 1).astype(dtype)
    points = theta[None] + at[:, None, None] * push[None]
    u, sigma, vt = spectra.svd(points)
    top, pair = sigma[:, 0], sigma[:, 0] + sigma[:, 1]
    slope = jnp.einsum("im,mn,in->i", u[:, :, 0], push, vt[:, 0])
    width = jnp.asarray(1 / num_cells, dtype)
    left, right = slope[:-1], slope[1:]
    # The two tangents to sigma_1 meet at this share of the cell.
    fall = top[1:] - top[:-1] - right * width
    bend = (left - right) * width
    share = jnp.clip(fall / jnp.where(bend < 0, bend, -1), 0, 1)
    lowest = jnp.maximum(
        top[:-1] + share * width * left, top[1:] - (1 - share) * width * right
    )
    chord = (1 - share) * pair[:-1] + share * pair[1:]
    over = jnp.concatenate([pair, chord])
    under = jnp.concatenate([top, lowest])
    # Below rounding nothing is known.
    tiny = 16 * jnp.finfo(dtype).eps * top.max()
    quotients = over / jnp.where(under > tiny, under, 1)
    ratios = jnp.where(under > tiny, quotients - 1, 1)
    is_start = (theta == 0).all()
    largest = jnp.clip(ratios.max(), 0, 1)
    return jnp.where(is_start | (push == 0).all(), jnp.zeros((), dtype), largest)


def remainder_bound(theta: jax.Array, push: jax.Array) -> jax.Array:
    r"""Bound the remainder of a step of :math:`\frac12\sigma_1^2`, at ties too.

    The bound is the smaller of DR-B2 and a form that needs no gap,

    .. math:: 2\sigma_1(\Theta)\|E\|_2 + \tfrac12\|E\|_2^2,

    since :math:`\sigma_1(\Theta + E) \le \sigma_1(\Theta) + \|E\|_2` and
    :math:`|\langle G, E\rangle| \le \sigma_1(\Theta)\|E\|_2`.

    Args:
      theta: (m, n) Theta.
      push: (m, n) E.
    """
    sigma, length = (spectra.singular_values(x)[0] for x in (theta, push))
    quadratic = curvature((push * push).sum(), segment_ratio(theta, push)) / 2
    return jnp.minimum(quadratic, 2 * sigma * length + length * length / 2)
