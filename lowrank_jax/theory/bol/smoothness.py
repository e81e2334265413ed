r"""How far :math:`F_k^*` rises above its tangent: bounds of second order.

The remainder of the first order is half the form of the Hessian (`curvature`) at some
point of the segment, hence at most half its largest eigenvalue times the squared
length.
"""

import jax
import jax.numpy as jnp

from lowrank_jax.linalg.norms import nonzero
from lowrank_jax.theory.bol.spectral import (
    conjugate,
    mirror_map,
    singular_values,
    spectral_gap,
)
from lowrank_jax.theory.certificate import Certificate, at_most

__all__ = [
    "neighbourhood_certificate",
    "origin_certificate",
    "schatten_certificate",
    "second_order_certificate",
]
__dir__ = __all__.copy


def second_order_certificate(
    theta: jax.Array,
    step: jax.Array,
    *,
    rank: int = 1,
    num_points: int = 33,
    is_printed: bool | jax.Array = False,
) -> Certificate:
    r"""BOL-P3, DR-B2, DR-B5: the remainder of first order along a segment.

    By Taylor :math:`F_k^*(\Theta+E)-F_k^*(\Theta)-\langle\nabla F_k^*,E\rangle` is half
    the Hessian's form at some point :math:`\hat\Theta=\Theta+\theta E`, at most
    :math:`\frac{\|E\|_F^2}{2(1-\hat\sigma_{k+1}/\hat\sigma_k)}` (DR-B1). The paper's
    constant for k = 1 is 2l in place of 1/2.

    The ratio is the largest on a grid with both ends. This is at most the largest on
    the segment, so the bound checked is at most the one claimed: where it holds, the
    grid point is the :math:`\theta` the statement asks for. The statement speaks if
    :math:`\sigma_k>\sigma_{k+1}` on the whole segment, which the grid decides too: the
    gap changes by at most :math:`2\|E\|_2` times the distance (Weyl).

    Args:
      theta: (m, n).
      step: (m, n), E.
      rank: k. Static.
      num_points: Number of points on the segment. Static.
      is_printed: Take the paper's constant; asks for :math:`\sigma_2>0` too.
    """
    shares = jnp.linspace(0, 1, num_points, dtype=theta.dtype)
    points = theta[None] + shares[:, None, None] * step[None]
    values = jnp.linalg.svd(points, compute_uv=False)
    size = values.shape[1]
    padded = jnp.pad(values, [(0, 0), (0, 1)])
    place = min(rank, size)
    gaps = padded[:, place - 1] - padded[:, place]
    spread = singular_values(step)[0] / (num_points - 1)
    floor = 64 * jnp.finfo(theta.dtype).eps * values[:, 0].max()
    is_met = gaps.min() > spread + floor
    worst = (padded[:, place] / nonzero(padded[:, place - 1])).max()
    constant = jnp.where(is_printed, 2 * size, jnp.asarray(0.5, theta.dtype))
    is_met = is_met & (jnp.logical_not(is_printed) | (padded[0, 1] > 0))
    bound = constant * jnp.vdot(step, step) / nonzero(1 - worst)
    heights = (values[:, :place] ** 2).sum(1) / 2
    slope = jnp.vdot(mirror_map(theta, rank=rank), step)
    remainder = heights[-1] - heights[0] - slope
    return at_most(
        remainder,
        bound,
        assumptions_met=is_met,
        scale=_cancelled(heights[0], heights[-1], slope, values[0, 0], gaps[0]),
    )


def neighbourhood_certificate(theta: jax.Array, step: jax.Array) -> Certificate:
    r"""DR-B2: the remainder if :math:`\|E\|_2<\frac12(\sigma_1-\sigma_2)`.

    At most :math:`\|E\|_F^2\frac{\sigma_1+\|E\|_2}{2(\sigma_1-\sigma_2-2\|E\|_2)}`:
    on the way the curvature :math:`\hat\sigma_1/(\hat\sigma_1-\hat\sigma_2)` has a
    numerator of at most :math:`\sigma_1+\|E\|_2` and a denominator of at least
    :math:`\sigma_1-\sigma_2-2\|E\|_2` (Weyl).

    Args:
      theta: (m, n).
      step: (m, n), E.
    """
    gap, values = spectral_gap(theta, 1)
    length = singular_values(step)[0]
    room = gap - 2 * length
    bound = jnp.vdot(step, step) * (values[0] + length) / (2 * nonzero(room))
    start, end = conjugate(theta), conjugate(theta + step)
    slope = jnp.vdot(mirror_map(theta), step)
    return at_most(
        end - start - slope,
        bound,
        assumptions_met=room > 0,
        scale=_cancelled(start, end, slope, values[0], gap),
    )


def origin_certificate(step: jax.Array, *, rank: int = 1) -> Certificate:
    r"""DR-B2: from :math:`\Theta=0`, :math:`F_k^*(E)\le\frac12\|E\|_F^2`.

    Attained by E of rank k.

    Args:
      step: (m, n), E.
      rank: k. Static.
    """
    return at_most(conjugate(step, rank=rank), jnp.vdot(step, step) / 2)


def schatten_certificate(
    theta: jax.Array,
    step: jax.Array,
    *,
    power: float | jax.Array,
    step_power: float | jax.Array | None = None,
    is_printed: bool | jax.Array = False,
) -> Certificate:
    r"""BOL-N6: half the squared Schatten norm is (p - 1)-smooth (Ball et al.).

    :math:`\frac12\|\Theta+E\|_{s(p)}^2\le\frac12\|\Theta\|_{s(p)}^2+
    \langle\nabla\frac12\|\Theta\|_{s(p)}^2,E\rangle+\frac1{2(q-1)}\|E\|_{s(p)}^2`,
    :math:`p\ge2`, 1/p + 1/q = 1, so 1/(q - 1) = p - 1. Attained in the limit of small
    E at :math:`\Theta=I`, E a multiple of diag(1, -1). With :math:`\|E\|_{s(q)}`, as
    printed, it is weaker, for :math:`q\le2\le p`; with the printed
    :math:`\nabla\|\Theta\|_{s(p)}`, without the square, it is false, as scaling
    :math:`\Theta` shows.

    Args:
      theta: (m, n), not 0.
      step: (m, n), E.
      power: p, at least 2. May be traced.
      step_power: Power of the norm of E. None takes p. May be traced.
      is_printed: Take the gradient of the norm in place of its half square.
    """
    left, values, right = jnp.linalg.svd(theta, full_matrices=False)
    size = _vector_norm(values, power)
    shares = (values / nonzero(size)) ** (power - 1)
    slopes = shares * jnp.where(is_printed & (size > 0), 1, size)
    slope = jnp.vdot((left * slopes[None]) @ right, step)
    end = _vector_norm(singular_values(theta + step), power)
    step_power = power if step_power is None else step_power
    moved = _vector_norm(singular_values(step), step_power)
    remainder = end * end / 2 - size * size / 2 - slope
    return at_most(
        remainder,
        (power - 1) * moved * moved / 2,
        assumptions_met=size > 0,
        scale=1e-4 * (size * size + end * end),
    )


def _cancelled(
    start: jax.Array,
    end: jax.Array,
    slope: jax.Array,
    sigma: jax.Array,
    gap: jax.Array,
) -> jax.Array:
    """Return a size whose tolerance is the rounding of a remainder.

    1e-9 of it are some hundred units in the last place of the numbers that cancel; the
    slope is known to one such unit over the relative gap.
    """
    condition = sigma / nonzero(gap)
    return 1e-4 * (start + end + jnp.abs(slope) * condition)


def _vector_norm(values: jax.Array, power: float | jax.Array) -> jax.Array:
    largest = values.max()
    shares = values / nonzero(largest)
    return largest * (shares**power).sum() ** (1 / power)
