r"""The geometry of BOL's mirror map: conjugates, subgradients and singular pairs.

:math:`F_k(W) = \frac12\|W\|_F^2` on the matrices of rank at most k. Everything below
follows from its conjugate :math:`F_k^*(\Theta) = \frac12\sum_{i\le k}\sigma_i^2`. Each
statement is a function of one problem; `vmap` takes many. Blocks are in
`block_spectral`, the leading pair in `singular_pairs`, second derivatives in
`curvature`.
"""

import jax
import jax.numpy as jnp

from lowrank_jax.linalg.mirror import (
    conjugate,
    singular_values,
    support_norm_squared,
    support_spectrum,
)
from lowrank_jax.linalg.mirror import (
    top_of as mirror_map,
)
from lowrank_jax.linalg.norms import nonzero, norm
from lowrank_jax.theory.certificate import Certificate, at_most, equal

__all__ = [
    "attained_certificate",
    "biconjugate_certificate",
    "conjugate",
    "conjugate_certificate",
    "eigen_conjugate",
    "gradient_certificate",
    "hull_certificate",
    "least_gap",
    "map_scale_certificate",
    "mirror_map",
    "singular_values",
    "slides_certificate",
    "spectral_gap",
    "subgradient_certificate",
    "support_maximiser",
    "support_norm_squared",
    "unit_loss_certificate",
]
__dir__ = __all__.copy


def conjugate_certificate(
    left: jax.Array, right: jax.Array, theta: jax.Array
) -> Certificate:
    r"""BOL-P1, DR-B5: no W of rank k gains more than :math:`F_k^*(\Theta)`.

    :math:`\langle W, \Theta\rangle - \frac12\|W\|_F^2 = \frac12\|\Theta\|_F^2 -
    \frac12\|\Theta - W\|_F^2`, and no matrix of rank k is nearer to :math:`\Theta` than
    its truncated SVD (Eckart-Young-Mirsky), at distance
    :math:`\sum_{i>k}\sigma_i^2`.

    Args:
      left: (m, k), W = left right^T.
      right: (n, k).
      theta: (m, n).
    """
    product = jnp.vdot(left, theta @ right)
    weights = left @ right.T
    cost = jnp.vdot(weights, weights) / 2
    bound = conjugate(theta, rank=left.shape[1])
    return at_most(product - cost, bound, scale=jnp.abs(product) + cost)


def attained_certificate(theta: jax.Array, *, rank: int = 1) -> Certificate:
    r"""BOL-P1, DR-B5: the truncated SVD gains exactly :math:`F_k^*(\Theta)`.

    Args:
      theta: (m, n).
      rank: k. Static.
    """
    weights = mirror_map(theta, rank=rank)
    gain = jnp.vdot(weights, theta) - jnp.vdot(weights, weights) / 2
    return equal(gain, conjugate(theta, rank=rank))


def gradient_certificate(theta: jax.Array, *, rank: int = 1) -> Certificate:
    r"""BOL-P2, DR-B5: the gradient of :math:`F_k^*` is the truncated SVD.

    Against automatic differentiation of half the sum of the k largest eigenvalues of
    the smaller Gram matrix, which no singular vector enters. Speaks where
    :math:`\sigma_k` is so far above :math:`\sigma_{k+1}` that rounding leaves the
    vectors known (`least_gap`), and at :math:`\Theta = 0`, where
    :math:`0\le F_k^*(E)\le\frac12\|E\|_F^2` makes the gradient 0.

    Args:
      theta: (m, n).
      rank: k. Static.
    """
    gap, values = spectral_gap(theta, rank)
    is_zero = values[0] == 0
    weights = mirror_map(theta, rank=rank)
    slope = jax.grad(lambda point: eigen_conjugate(point, rank=rank))(theta)
    # A leading vector is known to some units in the last place over the relative gap.
    share = jnp.where(is_zero, 1, gap / nonzero(values[0]))
    return equal(
        slope,
        weights,
        num_axes=2,
        assumptions_met=share >= least_gap(theta.dtype),
        scale=values[0] / nonzero(share),
        tolerance=_UNITS * float(jnp.finfo(theta.dtype).eps),
    )


_UNITS = 512  # in the last place, over the relative gap: how well vectors are known


def least_gap(dtype: jnp.dtype) -> float:
    """Return the relative gap at which vectors are known as well as other numbers.

    Below it the rounding of singular vectors would exceed the share that
    `certificate.equal` allows, and a comparison of them would say little.
    """
    share = 1e-9 if dtype == jnp.float64 else 1e-4
    return _UNITS * float(jnp.finfo(dtype).eps) / share


def eigen_conjugate(theta: jax.Array, *, rank: int = 1) -> jax.Array:
    """Return the conjugate from the eigenvalues of the smaller Gram matrix.

    Args:
      theta: (m, n).
      rank: k. Static.
    """
    is_wide = theta.shape[0] < theta.shape[1]
    gram = theta @ theta.T if is_wide else theta.T @ theta
    return jnp.linalg.eigvalsh(gram)[::-1][:rank].sum() / 2


def subgradient_certificate(
    theta: jax.Array, other: jax.Array, subgradient: jax.Array, *, rank: int = 1
) -> Certificate:
    r"""BOL-P2: :math:`F_k^*(\Theta')\ge F_k^*(\Theta)+\langle G,\Theta'-\Theta\rangle`.

    At ties the subdifferential of :math:`F_1^*` is :math:`\sigma_1` times the convex
    hull of the :math:`uv^\top` of all leading pairs, :math:`\{\sigma_1U_rSV_r^\top:
    S\succeq0,\operatorname{Tr}S=1\}`.

    Args:
      theta: (m, n).
      other: (m, n), any matrix.
      subgradient: (m, n), G.
      rank: k. Static.
    """
    at_theta = conjugate(theta, rank=rank)
    product = jnp.vdot(subgradient, other - theta)
    bound = conjugate(other, rank=rank)
    return at_most(at_theta + product, bound, scale=at_theta + jnp.abs(product))


def support_maximiser(weights: jax.Array, *, rank: int = 1) -> jax.Array:
    r"""Return the :math:`\Theta` at which W's biconjugate is attained (DR-B5).

    Its singular vectors are W's, its values are W's with the tail from some
    place :math:`k - r` on replaced by :math:`\frac1{r+1}` of its sum; the best r is
    taken.

    Args:
      weights: (m, n).
      rank: k. Static.
    """
    left, values, right = jnp.linalg.svd(weights, full_matrices=False)
    spectrum, _ = support_spectrum(values, rank)
    return (left * spectrum[None]) @ right


def biconjugate_certificate(
    weights: jax.Array,
    theta: jax.Array,
    *,
    rank: int = 1,
    is_printed: bool | jax.Array = False,
) -> Certificate:
    r"""BOL-N4, DR-B5: :math:`\langle W,\Theta\rangle-F_k^*(\Theta)\le F_k^{**}(W)`.

    :math:`F_1^{**} = \frac12\|W\|_{s(1)}^2`, since the trace norm is dual to the
    spectral one and conjugates of half squared norms are half squared dual norms; for
    rank k the dual is the spectral k-support norm. The paper prints
    :math:`\frac12\|W\|_2^2`. Attained at `support_maximiser`.

    Args:
      weights: (m, n), any rank.
      theta: (m, n).
      rank: k. Static.
      is_printed: Take the paper's form, with the spectral norm.
    """
    product = jnp.vdot(weights, theta)
    cost = conjugate(theta, rank=rank)
    values = singular_values(weights)
    true = support_spectrum(values, rank)[1]
    bound = jnp.where(is_printed, values[0] ** 2 / 2, true)
    return at_most(product - cost, bound, scale=jnp.abs(product) + cost)


def hull_certificate(
    left: jax.Array, right: jax.Array, shares: jax.Array
) -> Certificate:
    r"""BOL-N4, DR-B5: :math:`F_k^{**}` lies below :math:`F_k` on convex combinations.

    :math:`F_k^{**}` is the largest convex function below :math:`F_k`, so
    :math:`F_k^{**}(\sum_i\lambda_iW_i)\le\sum_i\lambda_i\frac12\|W_i\|_F^2` for all
    :math:`W_i` of rank k. Attained for k = 1 by :math:`W_i=\|W\|_{s(1)}u_iv_i^\top`,
    :math:`\lambda_i=\sigma_i/\|W\|_{s(1)}`: so nothing below the trace norm would do.

    Args:
      left: (parts, m, k).
      right: (parts, n, k).
      shares: (parts,), not negative, sum 1.
    """
    parts = jnp.einsum("imk,ink->imn", left, right)
    costs = (parts * parts).sum((1, 2)) / 2
    mean = jnp.einsum("i,imn->mn", shares, parts)
    observed = support_norm_squared(mean, rank=left.shape[2]) / 2
    return at_most(observed, shares @ costs)


def map_scale_certificate(
    theta: jax.Array, *, is_printed: bool | jax.Array = False
) -> Certificate:
    r"""BOL-Eq8: the map's pair gains :math:`F_1^*(\Theta)`, at which scale?

    The maximiser is :math:`\sigma_1u_1v_1^\top`; the paper writes it
    :math:`\alpha\beta^\top` with unit vectors, which gains
    :math:`\sigma_1-\frac12 < \frac12\sigma_1^2` unless :math:`\sigma_1 = 1`.

    Args:
      theta: (m, n), not 0.
      is_printed: Take unit vectors.
    """
    left, values, right = jnp.linalg.svd(theta, full_matrices=False)
    scale = jnp.where(is_printed, 1, values[0])
    weights = scale * jnp.outer(left[:, 0], right[0])
    gain = jnp.vdot(weights, theta) - jnp.vdot(weights, weights) / 2
    return equal(
        gain, eigen_conjugate(theta), assumptions_met=values[0] > 0, scale=gain
    )


def unit_loss_certificate(theta: jax.Array, difference: jax.Array) -> Certificate:
    r"""BOL-Eq8: on mistakes the loss of the unit pair is at most the map's.

    :math:`[1-s\langle u_1v_1^\top,\Delta\Phi\rangle]_+` grows with s if the product is
    not positive, which it is not on a mistake. So bounds on the loss of
    :math:`\sigma_1u_1v_1^\top` hold for :math:`u_1v_1^\top` once
    :math:`\sigma_1\ge1`.

    Args:
      theta: (m, n), the sum before the round.
      difference: (m, n), the true features minus those predicted.
    """
    left, values, right = jnp.linalg.svd(theta, full_matrices=False)
    product = left[:, 0] @ difference @ right[0]
    is_met = (product <= 0) & (values[0] >= 1)
    unit, true = jax.nn.relu(1 - product), jax.nn.relu(1 - values[0] * product)
    return at_most(unit, true, assumptions_met=is_met)


def slides_certificate(
    left: jax.Array,
    right: jax.Array,
    scale: jax.Array,
    *,
    is_printed: bool | jax.Array = False,
) -> Certificate:
    r"""BOL-Eq7s: what the penalty of the slides costs at best over rescalings.

    :math:`\frac12\|c\alpha\|^2+\frac12\|\beta/c\|^2\ge\|\alpha\|\|\beta\|=\|W\|_F`,
    attained at :math:`c^2=\|\beta\|/\|\alpha\|`: the trace norm of W, not the
    :math:`\frac12\|W\|_F^2` of Eq. 7, which the printed form puts in its place.

    Args:
      left: (m,).
      right: (n,).
      scale: (), c, not 0.
      is_printed: Claim :math:`\frac12\|W\|_F^2` as the least cost.
    """
    lengths = norm(left), norm(right)
    cost = ((scale * lengths[0]) ** 2 + (lengths[1] / scale) ** 2) / 2
    product = lengths[0] * lengths[1]
    return at_most(jnp.where(is_printed, product * product / 2, product), cost)


def spectral_gap(theta: jax.Array, rank: int) -> tuple[jax.Array, jax.Array]:
    """Return sigma_k - sigma_{k+1}, 0 if it is rounding, and all singular values.

    Args:
      theta: (m, n).
      rank: k. Static.
    """
    values = singular_values(theta)
    padded = jnp.concatenate([values, jnp.zeros((1,), values.dtype)])
    place = min(rank, values.shape[0])
    gap = padded[place - 1] - padded[place]
    floor = 64 * jnp.finfo(values.dtype).eps * values[0]
    return jnp.where(gap > floor, gap, jnp.zeros_like(gap)), values
