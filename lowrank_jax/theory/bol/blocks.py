r"""Block-diagonal features: what BOL's penalty becomes, and the family around it.

Blocks :math:`W_b` of rank one, :math:`n_b=\|W_b\|_F`, and the penalty
:math:`\frac12(\sum_bn_b^q)^{2/q}` with the conjugate
:math:`\frac12(\sum_b\sigma_1(\Theta_b)^p)^{2/p}`, 1/p + 1/q = 1 (DR-B6). q = 1 is BOL's
penalty, q = 2 the separable one.
"""

import jax
import jax.numpy as jnp

from lowrank_jax.theory.bol import spectral
from lowrank_jax.theory.bol.smoothness import second_order_certificate
from lowrank_jax.theory.certificate import Certificate, at_most, equal

__all__ = [
    "block_attained_certificate",
    "block_biconjugate_certificate",
    "block_conjugate",
    "block_conjugate_certificate",
    "block_gradient_certificate",
    "block_map",
    "block_maximiser",
    "block_second_order_certificate",
    "block_subgradient_certificate",
    "rescaling_certificate",
]
__dir__ = __all__.copy


def rescaling_certificate(
    left: jax.Array, right: jax.Array, scales: jax.Array
) -> Certificate:
    r"""DR-B6 (i): BOL's penalty is at best a squared group lasso over the blocks.

    :math:`\frac12\|c\alpha\|^2\|\beta/c\|^2\ge\frac12(\sum_b\|\alpha_b\|\|\beta_b\|)^2`
    by Cauchy-Schwarz over the blocks, attained where
    :math:`c_b^2=\|\beta_b\|/\|\alpha_b\|`. The scales do not change the products
    :math:`\alpha_b\beta_b^\top`, and only these act on block-diagonal features.

    Args:
      left: (blocks, m).
      right: (blocks, n).
      scales: (blocks,), c, not 0.
    """
    lengths = [jnp.sqrt((part * part).sum(1)) for part in (left, right)]
    scaled = (lengths[0] * scales) ** 2, (lengths[1] / scales) ** 2
    lasso = (lengths[0] * lengths[1]).sum()
    return at_most(lasso * lasso / 2, scaled[0].sum() * scaled[1].sum() / 2)


def block_conjugate(theta: jax.Array, *, power: float | jax.Array = 2.0) -> jax.Array:
    r"""Return :math:`\frac12(\sum_b\sigma_1(\Theta_b)^p)^{2/p}`.

    Args:
      theta: (blocks, m, n).
      power: q in 1..2 of the penalty, not p; 1 makes p infinite. May be traced.
    """
    size = _norm(_leading(theta), _dual(power))
    return size * size / 2


def block_map(theta: jax.Array, *, power: float | jax.Array = 2.0) -> jax.Array:
    r"""Return a subgradient of `block_conjugate`: :math:`t_bu_bv_b^\top`.

    t is the gradient of the half squared p-norm at the leading singular values: for
    q = 2 these values themselves, for q = 1 the largest alone.

    Args:
      theta: (blocks, m, n).
      power: q. May be traced.
    """
    left, values, right = jnp.linalg.svd(theta, full_matrices=False)
    sizes = _norm_slope(values[:, 0], _dual(power))
    return jnp.einsum("b,bm,bn->bmn", sizes, left[:, :, 0], right[:, 0])


def block_conjugate_certificate(
    left: jax.Array,
    right: jax.Array,
    theta: jax.Array,
    *,
    power: float | jax.Array = 2.0,
) -> Certificate:
    r"""DR-B6: no rank-one blocks gain more than the conjugate.

    :math:`\sum_b\langle W_b,\Theta_b\rangle\le\sum_bn_b\sigma_1(\Theta_b)`, then
    Hoelder and :math:`ab\le\frac12a^2+\frac12b^2`.

    Args:
      left: (blocks, m), block b is left_b right_b^T.
      right: (blocks, n).
      theta: (blocks, m, n).
      power: q. May be traced.
    """
    product = jnp.einsum("bm,bmn,bn->", left, theta, right)
    lengths = jnp.sqrt((left * left).sum(1)) * jnp.sqrt((right * right).sum(1))
    cost = _norm(lengths, power) ** 2 / 2
    bound = block_conjugate(theta, power=power)
    return at_most(product - cost, bound, scale=jnp.abs(product) + cost)


def block_attained_certificate(
    theta: jax.Array, *, power: float | jax.Array = 2.0
) -> Certificate:
    """DR-B6: the blocks of `block_map` gain exactly the conjugate.

    Args:
      theta: (blocks, m, n).
      power: q. May be traced.
    """
    weights = block_map(theta, power=power)
    lengths = jnp.sqrt((weights * weights).sum((1, 2)))
    gain = jnp.vdot(weights, theta) - _norm(lengths, power) ** 2 / 2
    return equal(gain, block_conjugate(theta, power=power))


def block_maximiser(weights: jax.Array, *, power: float | jax.Array = 2.0) -> jax.Array:
    r"""Return the blocks :math:`t_bU_bV_b^\top` at which the biconjugate is attained.

    Args:
      weights: (blocks, m, n).
      power: q. May be traced.
    """
    left, values, right = jnp.linalg.svd(weights, full_matrices=False)
    sizes = _norm_slope(values.sum(1), power)
    return jnp.einsum("b,bml,bln->bmn", sizes, left, right)


def block_biconjugate_certificate(
    weights: jax.Array, theta: jax.Array, *, power: float | jax.Array = 2.0
) -> Certificate:
    r"""DR-B6: :math:`F^{**}(W)=\frac12(\sum_b\|W_b\|_{s(1)}^q)^{2/q}`, from above.

    :math:`\langle W_b,\Theta_b\rangle\le\|W_b\|_{s(1)}\sigma_1(\Theta_b)`, then as in
    `block_conjugate_certificate`; attained at `block_maximiser`.

    Args:
      weights: (blocks, m, n), of any rank.
      theta: (blocks, m, n).
      power: q. May be traced.
    """
    product = jnp.vdot(weights, theta)
    cost = block_conjugate(theta, power=power)
    traces = jnp.linalg.svd(weights, compute_uv=False).sum(1)
    bound = _norm(traces, power) ** 2 / 2
    return at_most(product - cost, bound, scale=jnp.abs(product) + cost)


def block_subgradient_certificate(
    theta: jax.Array, other: jax.Array, *, power: float | jax.Array = 2.0
) -> Certificate:
    """DR-B6: `block_map` is a subgradient of `block_conjugate`, at ties too.

    Args:
      theta: (blocks, m, n).
      other: (blocks, m, n), any.
      power: q. May be traced.
    """
    at_theta = block_conjugate(theta, power=power)
    product = jnp.vdot(block_map(theta, power=power), other - theta)
    bound = block_conjugate(other, power=power)
    return at_most(at_theta + product, bound, scale=at_theta + jnp.abs(product))


def block_gradient_certificate(theta: jax.Array) -> Certificate:
    """DR-B6 (ii): the gradient of the separable conjugate, block by block.

    Args:
      theta: (blocks, m, n); speaks of blocks as BOL-P2 does of matrices.
    """
    gaps, values = jax.vmap(lambda block: spectral.spectral_gap(block, 1))(theta)
    largest = values[:, 0]
    slopes = jax.grad(lambda point: jax.vmap(spectral.eigen_conjugate)(point).sum())(
        theta
    )
    # A leading pair is known to some units in the last place over its relative gap.
    shares = gaps / jnp.where(largest == 0, 1, largest)
    known = largest / jnp.where(shares == 0, 1, shares)
    return equal(
        slopes,
        block_map(theta),
        num_axes=3,
        assumptions_met=(
            (shares >= spectral.least_gap(theta.dtype)) | (largest == 0)
        ).all(),
        scale=known.max(),
        tolerance=512 * float(jnp.finfo(theta.dtype).eps),
    )


def block_second_order_certificate(
    theta: jax.Array, step: jax.Array, *, num_points: int = 33
) -> Certificate:
    r"""DR-B6 (ii): the remainder is at most the sum of the blocks' bounds (DR-B2).

    Args:
      theta: (blocks, m, n).
      step: (blocks, m, n).
      num_points: Number of points on each segment. Static.
    """

    def one(block: jax.Array, move: jax.Array) -> Certificate:
        return second_order_certificate(block, move, num_points=num_points)

    parts = jax.vmap(one)(theta, step)
    is_still = (step == 0).all((1, 2))
    bounds = jnp.where(is_still, 0, parts.bound)
    change = block_conjugate(theta + step) - block_conjugate(theta)
    remainder = change - jnp.vdot(block_map(theta), step)
    return at_most(
        remainder,
        bounds.sum(),
        assumptions_met=(parts.assumptions_met | is_still).all(),
        scale=1e-4 * (block_conjugate(theta) + block_conjugate(theta + step)),
    )


def _leading(theta: jax.Array) -> jax.Array:
    return jnp.linalg.svd(theta, compute_uv=False)[:, 0]


def _dual(power: float | jax.Array) -> jax.Array:
    """Return p of 1/p + 1/q = 1, infinite for q = 1."""
    power = jnp.asarray(power)
    return power / (power - 1)


def _norm(values: jax.Array, power: float | jax.Array) -> jax.Array:
    """Return the norm of values that are not negative; any power, infinity too.

    Shares of the largest neither over- nor underflow. To the power of infinity all but
    the largest vanish, and the root of their number is 1.
    """
    power = jnp.asarray(power, values.dtype)
    largest = values.max()
    shares = values / jnp.where(largest == 0, 1, largest)
    return largest * (shares**power).sum() ** (1 / power)


def _norm_slope(values: jax.Array, power: float | jax.Array) -> jax.Array:
    """Return a subgradient of half the squared norm at values not negative.

    For infinity the mean over those that are largest.
    """
    power = jnp.asarray(power, values.dtype)
    size = _norm(values, power)
    shares = values / jnp.where(size == 0, 1, size)
    is_largest = (values == values.max()).astype(values.dtype)
    weights = jnp.where(jnp.isinf(power), is_largest, shares ** (power - 1))
    total = jnp.vdot(weights, shares)
    return size * weights / jnp.where(total == 0, 1, total)
