r"""What the objective of sparse bilinear logistic regression looks like.

.. math:: F(U, V, b) = \ell(U, V, b) + \mu_1\|U\|_1 + \tfrac{\mu_2}2\|U\|_F^2
   + \nu_1\|V\|_1 + \tfrac{\nu_2}2\|V\|_F^2   \qquad\text{(SBLR-Eq4, Eq5)}

The functions show where F has a solution (SBLR-A4.1, R4.1), why 0 is stationary (Eq3),
which start goes downhill (I1), how factors are balanced (DR-S4), how steep F is near a
minimum (DR-S5) and when a minimum is global (DR-S7). Unless a shape says otherwise,
there are two classes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax.linalg import penalties
from lowrank_jax.linalg.norms import norm, row_squares
from lowrank_jax.linalg.penalties import Penalty
from lowrank_jax.models import bilinear_logit, logistic
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.theory.certificate import Certificate, at_most, equal
from lowrank_jax.theory.sblr import limits
from lowrank_jax.theory.sblr.lipschitz import joint_constant

__all__ = [
    "Strengths",
    "balance_bound_certificate",
    "balance_certificate",
    "factored_certificate",
    "gap_certificate",
    "global_minimum_certificate",
    "level_set_certificate",
    "loss_norm_certificate",
    "minimum_certificate",
    "objective",
    "start_certificate",
    "stationarity",
    "steepness_certificate",
    "zero_certificate",
]
__dir__ = __all__.copy

Number = float | jax.Array


class Strengths(NamedTuple):
    """Strengths of the elastic nets (SBLR-Eq5)."""

    mu1: Number
    mu2: Number
    nu1: Number
    nu2: Number

    def left(self) -> Penalty:
        """Return r_1."""
        return penalties.elastic_net(l1=self.mu1, l2=self.mu2)

    def right(self) -> Penalty:
        """Return r_2."""
        return penalties.elastic_net(l1=self.nu1, l2=self.nu2)


def objective(params: Params, labelled: Labelled, strengths: Strengths) -> jax.Array:
    """Return F."""
    penalty = strengths.left().value(params.left)
    penalty = penalty + strengths.right().value(params.right)
    return _loss(params, labelled) + penalty


def stationarity(params: Params, labelled: Labelled, strengths: Strengths) -> jax.Array:
    r"""Return :math:`\operatorname{dist}(0, \partial F)`."""
    slope = jax.grad(_loss)(params, labelled)
    left = strengths.left().distance(params.left, slope.left)
    right = strengths.right().distance(params.right, slope.right)
    return jnp.sqrt(left * left + right * right + (slope.bias * slope.bias).sum())


def start_certificate(params: Params, labelled: Labelled) -> Certificate:
    r"""Decide whether a start minimises the first-order expansion (SBLR-I1).

    In the scores the loss expands at 0 to :math:`\log2 - \frac12\langle UV^\top,
    M\rangle`, :math:`M = \sum_i\omega_iy_iX_i`. Over U and V with orthonormal columns
    it is least where :math:`\langle UV^\top, M\rangle` is the sum of the r largest
    singular values of M, which +u and +v of M attain. The printed start has the mean
    matrix without labels instead of -M: right only if all labels are -1.

    Args:
      params: U and V with orthonormal columns.
      labelled: Data of two classes.

    Returns:
      The largest decrease there is against the decrease of this start.
    """
    signs = labelled.weights * (2 * labelled.targets[:, 0] - 1)
    slope = jnp.einsum("n,nst->st", signs, labelled.x)  # M
    rank = params.left.shape[2]
    largest = jnp.linalg.svd(slope, compute_uv=False)[:rank].sum()
    reached = jnp.einsum("sr,st,tr->", params.left[0], slope, params.right[0])
    return at_most(largest, reached, scale=largest)


def zero_certificate(params: Params, labelled: Labelled) -> Certificate:
    r"""Bound the gradient in one block by the size of the other (SBLR-Eq3).

    .. math:: \|\nabla_U\ell\|_F \le \sum_i\omega_i|g_i|\sigma_1(X_i)\,\|V\|_F

    The same holds for V. If U = V = 0, both gradients are 0, whatever the data, and
    with an elastic net 0 is stationary. Never start there. The statement is silent
    where all :math:`g_i` are rounding errors.

    Args:
      params: Any point.
      labelled: The data, m classes.

    Returns:
      Certificates of the gradients in U and in V, (2, m).
    """
    scores = bilinear_logit.scores(params, labelled.x)
    rest = jnp.abs(logistic.residuals(scores, labelled.targets, labelled.weights))
    largest = jnp.linalg.svd(labelled.x, compute_uv=False)[:, 0]
    pull = jnp.einsum("nc,n->c", rest, largest)
    slope = jax.grad(_loss)(params, labelled)
    observed = jnp.sqrt(jnp.stack([row_squares(slope.left), row_squares(slope.right)]))
    sizes = jnp.sqrt(jnp.stack([row_squares(params.right), row_squares(params.left)]))
    most = labelled.weights @ largest  # 1 - p has the rounding errors of 1
    rounding = 100 * float(jnp.finfo(pull.dtype).eps)
    return at_most(
        observed,
        pull[None] * sizes,
        assumptions_met=(pull >= 1e6 * rounding * most)[None] | (sizes == 0),
        scale=most * sizes,
        tolerance=rounding,
    )


def level_set_certificate(
    params: Params,
    labelled: Labelled,
    strengths: Strengths,
    *,
    level: Number | None = None,
) -> Certificate:
    r"""Bound all points of a level set (SBLR-A4.1, R4.1 with their conditions).

    With :math:`F \le f` each part of F is at most f, so that

    .. math:: \|U\|_F \le R_u = \min\{f/\mu_1, \sqrt{2f/\mu_2}\}, \quad
       \|V\|_F \le R_v, \quad |b| \le \max_i\sigma_1(X_i)R_uR_v + f/\omega_\pm

    as a class of weight :math:`\omega` and scores beyond T costs at least
    :math:`\omega(|b| - T)`. If both blocks are penalised and both labels are there, a
    solution exists, and a run that descends is bounded. Otherwise this is silent.

    Args:
      params: A point of two classes.
      labelled: The data.
      strengths: Strengths of the penalties.
      level: f, at least F(params). None takes F(params).

    Returns:
      Certificates of the sizes of U, V and b, (3,).
    """
    dtype = params.left.dtype
    mu1, mu2, nu1, nu2 = (jnp.asarray(part, dtype) for part in strengths)
    value = objective(params, labelled, strengths)
    level = value if level is None else jnp.asarray(level, dtype)
    left, right = _radius(level, mu1, mu2), _radius(level, nu1, nu2)
    largest = jnp.linalg.svd(labelled.x, compute_uv=False)[:, 0]
    positive = labelled.weights @ labelled.targets[:, 0]
    rarer = jnp.minimum(positive, labelled.weights.sum() - positive)
    far = largest.max() * left * right + level / rarer
    observed = norm(params.left), norm(params.right), norm(params.bias)
    is_met = (mu1 + mu2 > 0) & (nu1 + nu2 > 0) & (rarer > 0)
    is_met &= value <= level * (1 + 1e-9)
    bound = jnp.stack([left, right, far])
    return at_most(jnp.stack(observed), bound, assumptions_met=is_met)


def loss_norm_certificate(params: Params, labelled: Labelled) -> Certificate:
    r"""Bound the size of a point from below by its loss (SBLR-A4.1).

    .. math:: -\log(e^\ell - 1) \le \max_i\sigma_1(X_i)\,\|U\|_F\|V\|_F + |b|

    as the best margin is at least the margin that has the mean loss. A run without
    penalty whose loss falls to 0 therefore runs away, and Theorems 4.1 to 4.3 are
    silent. This statement is silent where the loss is a rounding error.

    Args:
      params: A point of two classes.
      labelled: The data, all weights positive.
    """
    largest = jnp.linalg.svd(labelled.x, compute_uv=False)[:, 0].max()
    size = largest * norm(params.left) * norm(params.right)
    size = size + norm(params.bias)
    value = _loss(params, labelled)
    is_seen = value > 1e6 * jnp.finfo(size.dtype).eps * (1 + size)
    least = -jnp.log(jnp.expm1(jnp.where(is_seen, value, 1)))
    return at_most(least, size, assumptions_met=is_seen, scale=1.0, tolerance=1e-5)


def minimum_certificate(
    params: Params, other: Params, labelled: Labelled, strengths: Strengths
) -> Certificate:
    r"""Decide whether F is at another point no less than here (SBLR-R4.1).

    If (4) had a solution where a run has ended, no other point would have less. There
    are three cases without a solution. If one block has no penalty and the weights
    separate the labels, :math:`F(U, cV, cb) < F` for c > 1. If one block alone is
    penalised, :math:`F(U/c, cV, b) < F`. If a label is missing, the offset grows.

    Args:
      params: The solution that is claimed.
      other: The other point.
      labelled: The data.
      strengths: Strengths of the penalties.
    """
    value = objective(params, labelled, strengths)
    return at_most(value, objective(other, labelled, strengths))


def balance_certificate(
    params: Params,
    labelled: Labelled,
    strengths: Strengths,
    *,
    tolerance: float = 1e-6,
) -> Certificate:
    r"""Compare the two sides of the balance identity (DR-S4): (m, r).

    .. math:: \mu_1\|u_j\|_1 + \mu_2\|u_j\|^2 = \nu_1\|v_j\|_1 + \nu_2\|v_j\|^2

    at a stationary point. Elsewhere the statement is silent.

    Args:
      params: A point.
      labelled: The data.
      strengths: Strengths of the penalties.
      tolerance: Tolerance on the distance from stationary and on the identity. Static.
    """
    left, right = _gains(params, strengths)
    is_met = stationarity(params, labelled, strengths) <= tolerance / 10
    return equal(left, right, assumptions_met=is_met, scale=1.0, tolerance=tolerance)


def balance_bound_certificate(
    params: Params, labelled: Labelled, strengths: Strengths
) -> Certificate:
    r"""Bound the residual of the balance identity at any point (DR-S4): (m, r).

    .. math:: \big|\mu_1\|u_j\|_1 + \mu_2\|u_j\|^2 - \nu_1\|v_j\|_1
       - \nu_2\|v_j\|^2\big|
       \le \operatorname{dist}(0, \partial F)\sqrt{\|u_j\|^2 + \|v_j\|^2}

    since :math:`\langle u_j, \nabla_{u_j}\ell\rangle = \langle v_j,
    \nabla_{v_j}\ell\rangle`: the residual is :math:`\langle u_j, g_u\rangle - \langle
    v_j, g_v\rangle` for every subgradient g. At a stationary point it is the identity.

    Args:
      params: A point.
      labelled: The data.
      strengths: Strengths of the penalties.
    """
    left, right = _gains(params, strengths)
    squares = (params.left**2).sum(1) + (params.right**2).sum(1)
    bound = stationarity(params, labelled, strengths) * jnp.sqrt(squares)
    return at_most(jnp.abs(left - right), bound, scale=jnp.maximum(left, right))


def steepness_certificate(
    params: Params, labelled: Labelled, strengths: Strengths, least: Number
) -> Certificate:
    r"""Bound the gradient by the gap to a minimum (DR-S5).

    .. math:: \|\nabla F(W)\|^2 \le 2L\,(F(W) - F(\bar W))

    as a step of 1/L, along which L is a Lipschitz constant of the gradient, falls by
    :math:`\|\nabla F\|^2/2L` and not below the minimum. Hence
    :math:`(F - \bar F)^\theta / \|\nabla F\| \ge (F - \bar F)^{\theta - 1/2}/\sqrt{2L}`
    grows without bound for :math:`\theta < \frac12`: no such exponent is possible where
    F is smooth.

    Args:
      params: W, near the minimiser.
      labelled: The data.
      strengths: Strengths without absolute values; others are not judged.
      least: :math:`F(\bar W)`; silent where the step would go below.
    """
    dtype = params.left.dtype
    mu1, mu2, nu1, nu2 = (jnp.asarray(part, dtype) for part in strengths)
    ridge = jnp.maximum(mu2, nu2)
    slope = jax.grad(objective)(params, labelled, strengths)

    def moved(constant: jax.Array) -> Params:
        return jax.tree.map(lambda a, g: a - g / constant, params, slope)

    first = joint_constant(labelled, params, params) + ridge
    constant = joint_constant(labelled, params, moved(first)) + ridge
    value, least = objective(params, labelled, strengths), jnp.asarray(least, dtype)
    is_met = (mu1 == 0) & (nu1 == 0)
    is_met &= objective(moved(constant), labelled, strengths) >= least
    steep = sum((part * part).sum() for part in slope)
    is_met &= value - least > 1e6 * jnp.finfo(dtype).eps * value
    return at_most(steep, 2 * constant * (value - least), assumptions_met=is_met)


def factored_certificate(
    params: Params, labelled: Labelled, strengths: Strengths
) -> Certificate:
    r"""Compare factors with ridges with the convex problem (DR-S7).

    .. math:: \ell(UV^\top, b) + \sqrt{\mu_2\nu_2}\,\|UV^\top\|_* \le F(U, V, b)

    as :math:`\|UV^\top\|_* \le \|U\|_F\|V\|_F`; equal for balanced factors with
    orthogonal columns. So F never goes below the minimum with the nuclear norm.

    Args:
      params: Any factors.
      labelled: The data.
      strengths: Strengths with or without absolute values.
    """
    matrices = bilinear_logit.weight_matrices(params)
    bound = objective(params, labelled, strengths)
    return at_most(_convex(matrices, params.bias, labelled, strengths), bound)


def global_minimum_certificate(
    params: Params,
    labelled: Labelled,
    strengths: Strengths,
    weights: jax.Array,
    bias: jax.Array,
    *,
    tolerance: float = 1e-7,
) -> Certificate:
    r"""Compare a certified point with any point of the convex problem (DR-S7).

    .. math:: F(U, V, b) \le \ell(W', b') + \sqrt{\mu_2\nu_2}\,\|W'\|_*

    if (U, V, b) is stationary and :math:`\sigma_1(\nabla_W\ell) \le \sqrt{\mu_2\nu_2}`:
    then minus the gradient is a subgradient of the convex penalty at
    :math:`UV^\top`. Silent where `bilinear.global_certificate` does not certify.

    Args:
      params: Point where a run has ended.
      labelled: The data.
      strengths: Strengths without absolute values.
      weights: (m, s, t) :math:`W'`.
      bias: (m,) :math:`b'`.
      tolerance: Tolerance on stationarity and on the two sides. Static.
    """
    mu1, mu2, nu1, nu2 = strengths
    found = limits.global_certificate(params, labelled, mu2, nu2, tolerance=tolerance)
    has_none = (jnp.asarray(mu1) == 0) & (jnp.asarray(nu1) == 0)
    return at_most(
        objective(params, labelled, strengths),
        _convex(weights, bias, labelled, strengths),
        assumptions_met=found.is_global & has_none,
        tolerance=tolerance,
    )


def gap_certificate(
    params: Params,
    labelled: Labelled,
    strengths: Strengths,
    weights: jax.Array,
    bias: jax.Array,
) -> Certificate:
    r"""Compare the lower bound of one point with the objective of another (DR-S7).

    .. math:: F(U, V, b) - \text{gap} \le \ell(W', b') + \sqrt{\mu_2\nu_2}\,\|W'\|_*

    for every (U, V, b), stationary or not, with the gap of `limits.global_certificate`.
    So F is at most the gap above its infimum. At a global minimum the two are equal.

    Args:
      params: Any factors.
      labelled: The data.
      strengths: Strengths without absolute values.
      weights: (m, s, t) :math:`W'`.
      bias: (m,) :math:`b'`.
    """
    mu1, mu2, nu1, nu2 = strengths
    found = limits.global_certificate(params, labelled, mu2, nu2)
    return at_most(
        found.objective - found.gap,
        _convex(weights, bias, labelled, strengths),
        assumptions_met=(jnp.asarray(mu1) == 0) & (jnp.asarray(nu1) == 0),
        scale=jnp.abs(found.objective),
    )


def _loss(params: Params, labelled: Labelled) -> jax.Array:
    scores = bilinear_logit.scores(params, labelled.x)
    return logistic.loss(scores, labelled.targets, labelled.weights)


def _convex(
    weights: jax.Array, bias: jax.Array, labelled: Labelled, strengths: Strengths
) -> jax.Array:
    """Return the loss of whole matrices plus their nuclear norm."""
    scores = jnp.einsum("nst,cst->nc", labelled.x, weights) + bias[None]
    strength = jnp.asarray(strengths.mu2 * strengths.nu2, weights.dtype)
    values = jnp.linalg.svd(weights, compute_uv=False)
    loss = logistic.loss(scores, labelled.targets, labelled.weights)
    return loss + jnp.sqrt(strength) * values.sum()


def _gains(params: Params, strengths: Strengths) -> tuple[jax.Array, jax.Array]:
    """Return both sides of the balance identity: (m, r)."""

    def gain(factors: jax.Array, l1: Number, l2: Number) -> jax.Array:
        l1, l2 = jnp.asarray(l1, factors.dtype), jnp.asarray(l2, factors.dtype)
        return l1 * jnp.abs(factors).sum(1) + l2 * (factors * factors).sum(1)

    mu1, mu2, nu1, nu2 = strengths
    return gain(params.left, mu1, mu2), gain(params.right, nu1, nu2)


def _radius(level: jax.Array, l1: jax.Array, l2: jax.Array) -> jax.Array:
    """Return the most that a factor can measure: infinity without a penalty."""
    by_l1 = jnp.where(l1 > 0, level / jnp.where(l1 > 0, l1, 1), jnp.inf)
    by_l2 = jnp.sqrt(2 * level / jnp.where(l2 > 0, l2, 1))
    return jnp.minimum(by_l1, jnp.where(l2 > 0, by_l2, jnp.inf))
