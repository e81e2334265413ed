r"""Second derivatives of the mirror map's conjugate.

:math:`F_k^*(\Theta)=\frac12\sum_{i\le k}\sigma_i^2` is a spectral function with
:math:`g_i=\sigma_i` for :math:`i\le k` and 0 beyond; its Hessian has the eigenvalues
:math:`(g_i\mp g_j)/(\sigma_i\mp\sigma_j)` (Lewis and Sendov), of which the largest is
:math:`1/(1-\sigma_{k+1}/\sigma_k)`. Closed forms stand against automatic
differentiation or differences; vec goes by rows. What they bound is in `smoothness`.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax.linalg.norms import nonzero
from lowrank_jax.theory.bol.spectral import (
    conjugate,
    eigen_conjugate,
    singular_values,
    spectral_gap,
)
from lowrank_jax.theory.certificate import Certificate, equal

__all__ = [
    "HessianCertificates",
    "ValueCertificates",
    "eigenvalue_hessian_certificate",
    "hessian",
    "hessian_certificates",
    "hessian_form_certificate",
    "hessian_spectrum",
    "singular_value_certificates",
]
__dir__ = __all__.copy


def hessian(theta: jax.Array, *, rank: int = 1) -> jax.Array:
    """Return the Hessian of the conjugate by automatic differentiation: (mn, mn).

    Args:
      theta: (m, n), with singular values distinct.
      rank: k. Static.
    """
    unit = theta / nonzero(jnp.abs(theta).max())  # the Hessian has no scale
    matrix = _second(lambda point: eigen_conjugate(point, rank=rank))(unit)
    return matrix.reshape(theta.size, theta.size)


def hessian_spectrum(theta: jax.Array, *, rank: int = 1) -> jax.Array:
    r"""Return the eigenvalues of the Hessian in closed form (DR-B1, DR-B5): (mn,).

    For :math:`i\le k<s\le l`: :math:`\sigma_i/(\sigma_i\mp\sigma_s)`; 1 for the
    :math:`k^2` directions within the leading spaces and for :math:`k|m-n|` more; else
    0.

    Args:
      theta: (m, n).
      rank: k, at most l. Static.

    Returns:
      (mn,), largest first.
    """
    values = singular_values(theta)
    size = values.shape[0]
    top, rest = values[:rank, None], values[None, rank:]
    pairs = [top / (top - rest), top / (top + rest)]
    num_ones = rank * rank + rank * abs(theta.shape[0] - theta.shape[1])
    num_zeros = theta.size - num_ones - 2 * rank * (size - rank)
    parts = [pair.ravel() for pair in pairs]
    parts += [jnp.ones((num_ones,), theta.dtype), jnp.zeros((num_zeros,), theta.dtype)]
    return -jnp.sort(-jnp.concatenate(parts))


class HessianCertificates(NamedTuple):
    """What is said of the Hessian of the conjugate at one matrix."""

    spectrum: Certificate  # all eigenvalues, compared as one vector
    largest: Certificate  # 1 / (1 - sigma_{k+1} / sigma_k)
    trace: Certificate


def hessian_certificates(theta: jax.Array, *, rank: int = 1) -> HessianCertificates:
    r"""DR-B1, DR-B5: eigenvalues, the largest of them, and trace of the Hessian.

    The trace is :math:`k^2+k|m-n|+\sum_{i\le k<s}2\sigma_i^2/(\sigma_i^2-\sigma_s^2)`.

    Args:
      theta: (m, n), with singular values distinct.
      rank: k, at most l. Static.
    """
    matrix = hessian(theta, rank=rank)
    found = jnp.linalg.eigvalsh(matrix)[::-1]
    values = singular_values(theta)
    is_met, condition = _separation(values)
    size = condition**2
    squares = (values / nonzero(values[0])) ** 2
    top, rest = squares[:rank, None], squares[None, rank:]
    num_ones = rank * rank + rank * abs(theta.shape[0] - theta.shape[1])
    trace = num_ones + (2 * top / nonzero(top - rest)).sum()
    largest = 1 / nonzero(1 - _ratio(values, rank))
    spectrum = hessian_spectrum(theta, rank=rank)
    return HessianCertificates(
        equal(found, spectrum, num_axes=1, assumptions_met=is_met, scale=size),
        equal(found[0], largest, assumptions_met=is_met, scale=size),
        equal(jnp.trace(matrix), trace, assumptions_met=is_met, scale=size),
    )


def hessian_form_certificate(
    theta: jax.Array, step: jax.Array, *, rank: int = 1
) -> Certificate:
    r"""DR-B1: the quadratic form of the Hessian in the basis of the SVD.

    With :math:`E_{ij}=u_i^\top Ev_j` and :math:`\sigma_s=0` beyond l,
    :math:`\sum_{i,j\le k}E_{ij}^2+\sum_{i\le k<s}\frac{\sigma_i}{\sigma_i^2-\sigma_s^2}
    (\sigma_iE_{is}^2+\sigma_iE_{si}^2+2\sigma_sE_{is}E_{si})`. Against a difference of
    five values of :math:`F_k^*`, so that the other values may be tied or 0.

    Args:
      theta: (m, n) Matrix with :math:`\sigma_k>\sigma_{k+1}`.
      step: (m, n), E, not 0.
      rank: k. Static.
    """
    gap, values = spectral_gap(theta, rank)
    length = jnp.sqrt(jnp.vdot(step, step))
    unit = step / nonzero(length)
    width = gap / 100
    points = (
        theta[None]
        + width * jnp.arange(-2.0, 3.0, dtype=theta.dtype)[:, None, None] * unit[None]
    )
    heights = jax.vmap(lambda point: conjugate(point, rank=rank))(points)
    stencil = jnp.asarray([-1, 16, -30, 16, -1], theta.dtype) / 12
    found = stencil @ heights / nonzero(width * width)
    left, _, right = jnp.linalg.svd(theta)
    core = left.T @ unit @ right.T
    size = max(theta.shape)
    core = jnp.pad(core, [(0, size - side) for side in theta.shape])
    padded = jnp.pad(values, (0, size - values.shape[0]))
    top, rest = padded[:rank, None], padded[None, rank:]
    across, along = core[:rank, rank:], core[rank:, :rank].T
    scaled = top * (across * across + along * along) + 2 * rest * across * along
    weight = top / nonzero((top - rest) * (top + rest))
    expected = (core[:rank, :rank] ** 2).sum() + (weight * scaled).sum()
    condition = values[0] / nonzero(gap)
    # Truncation: (1/100)^4 of the curvature; rounding: eps 100^2 (sigma_1 / gap)^2.
    return equal(
        found,
        expected,
        assumptions_met=(gap > 0) & (length > 0),
        scale=condition + 1e-4 * condition**2,
        tolerance=1e-6,
    )


def eigenvalue_hessian_certificate(
    matrix_of: Callable[[jax.Array], jax.Array], point: jax.Array, *, place: int = 0
) -> Certificate:
    r"""BOL-P7: the Hessian of an eigenvalue (Overton and Womersley).

    :math:`\partial_x\partial_u\lambda_d=q_d^\top\partial_x\partial_uA\,q_d+
    2\sum_{s\ne d}\frac{(q_d^\top\partial_xA\,q_s)(q_d^\top\partial_uA\,q_s)}
    {\lambda_d-\lambda_s}`, against automatic differentiation.

    Args:
      matrix_of: Twice differentiable map from (num,) to a symmetric matrix. Static.
      point: (num,), where the eigenvalues are distinct.
      place: d, counted from 0 at the largest. Static.
    """
    # The derivative of `eigh` takes (1 + w) - w for 1, which large w may miss: scale.
    matrix = matrix_of(point)
    unit = nonzero(jnp.abs(matrix).max())
    found = unit * _second(
        lambda at: jnp.linalg.eigvalsh(matrix_of(at) / unit, symmetrize_input=False)[
            -1 - place
        ]
    )(point)
    values, vectors = jnp.linalg.eigh(matrix, symmetrize_input=False)
    values, vectors = values[::-1], vectors[:, ::-1]
    mine = vectors[:, place]
    first = jax.jacfwd(matrix_of)(point)  # (n, n, num)
    second = _second(matrix_of)(point)
    direct = jnp.einsum("i,ijxu,j->xu", mine, second, mine)
    cross = jnp.einsum("i,ijx,js->xs", mine, first, vectors)
    gaps = values[place] - values
    weights = jnp.where(gaps == 0, 0, 2 / nonzero(gaps))
    expected = direct + jnp.einsum("xs,us,s->xu", cross, cross, weights)
    least = jnp.where(gaps == 0, jnp.inf, jnp.abs(gaps)).min()
    smallest = jnp.abs(jnp.diff(values)).min(initial=jnp.inf)
    size = jnp.abs(values).max()
    condition = 1 + size / nonzero(least)
    return equal(
        found,
        expected,
        num_axes=2,
        assumptions_met=smallest > 1e-6 * size,
        scale=condition * (jnp.abs(direct).max() + 2 * (cross**2).max() / least),
    )


class ValueCertificates(NamedTuple):
    """What is said of the Hessian of one singular value."""

    hessian: Certificate  # all entries
    trace: Certificate  # trace of D
    printed_hessian: Certificate  # as the paper prints D
    printed_trace: Certificate  # as the paper prints the trace


def singular_value_certificates(
    matrix: jax.Array, *, place: int = 0
) -> ValueCertificates:
    r"""BOL-C8: the Hessian of :math:`\sigma_d` is :math:`C+D/\sigma_d`.

    :math:`C=-\frac1{\sigma_d}p_dq_d^\top\otimes p_dq_d^\top` (which is
    :math:`-\frac1{4\sigma_d^3}\nabla\lambda_d\otimes\nabla\lambda_d`) and
    :math:`D_{xy,uv}=q_d^yq_d^v\mathbb I(x=u)+\sum_{s\ne d}\frac{a_{xy}a_{uv}}
    {\sigma_d^2-\sigma_s^2}`, :math:`a_{xy}=q_d^yp_s^x\sigma_s+q_s^yp_d^x\sigma_d`, by
    BOL-P7 for :math:`B^\top B`: s runs to n, with :math:`\sigma_s=0` beyond l. The
    paper prints the second factor with :math:`\sigma_d,\sigma_s` interchanged, which
    is not even symmetric.

    :math:`\operatorname{Tr}D=\max(m,n)+\sum_{s\ne d}\frac{\sigma_d^2+\sigma_s^2}
    {\sigma_d^2-\sigma_s^2}`, s to l. The paper prints l for :math:`\max(m,n)`: too
    little by :math:`|m-n|`. All against automatic differentiation.

    Args:
      matrix: (m, n), B, with singular values distinct and above 0.
      place: d, counted from 0. Static.
    """
    # At eigenvalues beyond 2^53 the derivative of `eigh` is not a number: scale first.
    size = nonzero(jnp.abs(matrix).max())
    found = _second(lambda point: _one_value(point, place))(matrix / size)
    found = found.reshape(matrix.size, matrix.size) / size
    printed, curvature, values, pair = _value_curvature(matrix, place)
    direction = jnp.outer(*pair).ravel()
    sigma = nonzero(values[place])
    is_distinct, condition = _separation(values)
    is_met = is_distinct & (values[-1] > 1e-6 * values[0])

    def entries(part: jax.Array) -> Certificate:
        expected = (part - jnp.outer(direction, direction)) / sigma  # C + D / sigma_d
        return equal(
            found,
            expected,
            num_axes=2,
            assumptions_met=is_met,
            scale=condition**2 / sigma,
        )

    trace = jnp.trace(found) * values[place] + 1
    shares = (values / sigma) ** 2
    others = jnp.arange(values.shape[0]) != place
    terms = jnp.where(others, (1 + shares) / nonzero(1 - shares), 0).sum()

    def total(count: int) -> Certificate:
        known = condition**2
        return equal(trace, count + terms, assumptions_met=is_met, scale=known)

    return ValueCertificates(
        entries(curvature),
        total(max(matrix.shape)),
        entries(printed),
        total(min(matrix.shape)),
    )


def _ratio(values: jax.Array, rank: int) -> jax.Array:
    padded = jnp.pad(values, (0, 1))
    place = min(rank, values.shape[0])
    return padded[place] / nonzero(padded[place - 1])


def _separation(values: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return whether the singular values are distinct, and sigma_1 over their gaps."""
    gap = (-jnp.diff(values)).min(initial=jnp.inf)
    gap = jnp.minimum(gap, values[0])
    floor = 1e-6 if values.dtype == jnp.float64 else 1e-2
    return gap > floor * values[0], values[0] / nonzero(gap)


def _one_value(point: jax.Array, place: int) -> jax.Array:
    is_wide = point.shape[0] < point.shape[1]
    gram = point @ point.T if is_wide else point.T @ point
    return jnp.sqrt(jnp.linalg.eigvalsh(gram)[-1 - place])


def _value_curvature(
    matrix: jax.Array, place: int
) -> tuple[jax.Array, jax.Array, jax.Array, tuple[jax.Array, jax.Array]]:
    """Return D of BOL-C8 as printed and as it is, the singular values, the pair d."""
    num_rows, num_columns = matrix.shape
    left, values, right = jnp.linalg.svd(matrix)
    size = values.shape[0]
    sigma = jnp.pad(values, (0, num_columns - size))  # 0 beyond l, where p_s is idle
    lefts = jnp.pad(left[:, :size], [(0, 0), (0, num_columns - size)])
    mine = left[:, place], right[place]
    own = sigma[place]

    def factor(on_other: jax.Array, on_own: jax.Array) -> jax.Array:
        first = jnp.einsum("xs,y->sxy", lefts * on_other[None], mine[1])
        second = jnp.einsum("x,sy->sxy", mine[0], right * on_own[:, None])
        return (first + second).reshape(num_columns, -1)

    mine_only = jnp.full_like(sigma, own)
    one = factor(sigma, mine_only)
    swapped = factor(mine_only, sigma)
    gaps = (own - sigma) * (own + sigma)
    weights = jnp.where(jnp.arange(num_columns) == place, 0, 1 / nonzero(gaps))
    eye = jnp.eye(num_rows, dtype=matrix.dtype)
    direct = jnp.kron(eye, jnp.outer(mine[1], mine[1]))
    printed, true = (
        direct + jnp.einsum("s,sa,sb->ab", weights, one, other)
        for other in (swapped, one)
    )
    return printed, true, values, mine


def _second(function: Callable[[jax.Array], jax.Array]) -> Callable[..., jax.Array]:
    """Return the Hessian; forwards twice compiles in half the time of `jax.hessian`."""
    return jax.jacfwd(jax.jacfwd(function))
