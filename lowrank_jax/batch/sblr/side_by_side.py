r"""A step of one block for many fits at once, on the same matrices.

The fits differ in the weights of the matrices (a fold is a weight of zero), in their
strengths and in their rank. The arrays hold the largest rank: a column that is zero in
both factors has no gradient and stays zero.

With one block fixed, the other block and the bias are a logistic regression of few
variables under an elastic net (SBLR-Eq6). One proximal Newton step minimises a model of
it. The score of class c has the derivative :math:`a_{ic} = (X_i V_c, 1)`, and the loss
is replaced by its tangent and the curvature

.. math:: H_c = \sum_i \omega_i d_{ic} a_{ic} a_{ic}^\top, \qquad
   d_{ic} = p_{ic} (2 (1 - p_{ic}) - p_{i0})

Two classes give :math:`d = p (1 - p)`, so H is the Hessian. For more classes, the row
sums of :math:`\operatorname{diag}(p) - p p^\top` show that H bounds the Hessian
(Gershgorin). A score z that is far off has next to no curvature. So d is at least
:math:`|p - y| / (4 + 4 |z|)`, which is seldom the larger near a solution. The move to
the minimum of the model is one of descent. Of a few lengths of this move, the one with
the least F is taken. FISTA minimises the model. Its steps read H, not the matrices,
and each variable has a step of its own size, by the diagonal of H.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax.linalg import prox

__all__ = ["Stepped", "newton_step"]
__dir__ = __all__.copy

_STEPS = 1000  # steps of FISTA
_LENGTHS = np.array([1, 0.5, 0.25, 0.1, 0.01, 0])  # lengths of a step, 0 last


class Stepped(NamedTuple):
    """Where a step has come to, for L fits.

    Attributes:
      factors: (L, m, size, r).
      bias: (L, m).
      loss: (L,).
      penalty: Penalty of these factors, (L,).
      constant: Bound of the largest eigenvalue of H, (L,).
      scores: Scores of all matrices, (L, m, n).
    """

    factors: jax.Array
    bias: jax.Array
    loss: jax.Array
    penalty: jax.Array
    constant: jax.Array
    scores: jax.Array


def newton_step(
    x: jax.Array,
    targets: jax.Array,
    weights: jax.Array,
    fixed: jax.Array,
    factors: jax.Array,
    bias: jax.Array,
    strengths: jax.Array,
    tolerance: jax.Array,
) -> Stepped:
    """Move one block of every fit by a proximal Newton step. Pure; jit it.

    Args:
      x: (n, size, width) matrices of all fits; transposed for the right block.
      targets: (m, n), one where a matrix is of class c.
      weights: (L, n), each row summing to 1.
      fixed: (L, m, width, r) factors of the other block.
      factors: (L, m, size, r) factors of this block.
      bias: (L, m).
      strengths: (L, 2) of the l1 norm and of half the squared norm.
      tolerance: Norm of the gradient mapping at which the model is minimised, (L,).
    """
    num_fits, num_classes, size, rank = factors.shape
    columns = fixed.transpose(2, 0, 1, 3).reshape(x.shape[2], -1)
    rows = x.reshape(-1, x.shape[2]) @ columns  # one product for all fits
    rows = rows.reshape(x.shape[0], size, num_fits, num_classes, rank)
    rows = rows.transpose(2, 3, 0, 4, 1).reshape(num_fits, num_classes, len(x), -1)
    rows = jnp.pad(rows, ((0, 0), (0, 0), (0, 0), (0, 1)), constant_values=1)
    flat = factors.transpose(0, 1, 3, 2).reshape(num_fits, num_classes, -1)
    point = jnp.concatenate([flat, bias[..., None]], axis=-1)
    is_factor = (jnp.arange(point.shape[-1]) < point.shape[-1] - 1).astype(x.dtype)
    l1, l2 = (strengths[:, i, None, None] * is_factor[None, None] for i in (0, 1))

    scores = jnp.einsum("lmnk,lmk->lmn", rows, point)
    shares, rest, _ = _chances(scores, 1)
    share = weights[:, None]
    gradient = jnp.einsum(
        "lmn,lmnk->lmk", share * (shares - targets[None]), rows
    )  # Eq. (12)
    least = jnp.abs(shares - targets[None]) / (4 + 4 * jnp.abs(scores))
    bends = share * jnp.maximum(shares * (2 * (1 - shares) - rest), least)
    model = jnp.einsum("lmnk,lmnj->lmkj", rows * bends[..., None], rows)
    scale = jnp.einsum("lmkk->lmk", model)
    least = jnp.finfo(x.dtype).eps * scale.max((1, 2), keepdims=True)
    scale = jnp.maximum(scale, least + jnp.finfo(x.dtype).tiny)
    even = model / jnp.sqrt(scale[..., None] * scale[..., None, :])
    power = even @ even  # its length bounds the square of the largest eigenvalue
    constant = jnp.sqrt(jnp.sqrt((power * power).sum((2, 3)))).max(1)
    sizes = 1 / (constant[:, None, None] * scale)
    target = _minimise(model, point, gradient, sizes, l1, l2, tolerance)

    move = target - point
    in_scores = jnp.einsum("lmnk,lmk->lmn", rows, move)
    lengths = jnp.asarray(_LENGTHS, x.dtype)[:, None, None, None]
    ahead = scores[None] + lengths * in_scores[None]  # (num_lengths, L, m, n)
    _, _, log_total = _chances(ahead, 2)
    right = (targets[None, None] * ahead).sum(2)
    loss = (weights[None] * (log_total - right)).sum(2)  # Eq. (30)
    points = point[None] + lengths * move[None]
    each = l1[None] * jnp.abs(points) + l2[None] / 2 * points * points
    penalty = each.sum((2, 3))  # Eq. (5)
    best, fits = jnp.argmin(loss + penalty, axis=0), jnp.arange(num_fits)
    point = points[best, fits]
    flat = point[..., :-1].reshape(num_fits, num_classes, rank, size)
    return Stepped(
        factors=flat.transpose(0, 1, 3, 2),
        bias=point[..., -1],
        loss=loss[best, fits],
        penalty=penalty[best, fits],
        constant=constant * scale.max((1, 2)),
        scores=ahead[best, fits],
    )


def _chances(scores: jax.Array, axis: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the shares of the classes, the share of the reference, and log Z."""
    top = jnp.maximum(scores.max(axis, keepdims=True), 0)
    heights, rest = jnp.exp(scores - top), jnp.exp(-top)
    total = heights.sum(axis, keepdims=True) + rest
    return heights / total, rest / total, (top + jnp.log(total)).squeeze(axis)


class _Descent(NamedTuple):
    point: jax.Array  # (L, m, k)
    ahead: jax.Array  # (L, m, k)
    momentum: jax.Array  # (L,)
    distance: jax.Array  # (L,)  norm of the gradient mapping
    num_steps: jax.Array  # () int32


def _minimise(
    model: jax.Array,
    start: jax.Array,
    slope: jax.Array,
    sizes: jax.Array,
    l1: jax.Array,
    l2: jax.Array,
    tolerance: jax.Array,
) -> jax.Array:
    """Minimise tangent, curvature and penalty by FISTA with restarts."""
    thresholds, shrinkage = sizes * l1, 1 / (1 + sizes * l2)

    def advance(last: _Descent) -> _Descent:
        gradient = slope + jnp.einsum("lmkj,lmj->lmk", model, last.ahead - start)
        point = shrinkage * prox.soft_threshold(
            last.ahead - sizes * gradient, thresholds
        )
        move, change = last.ahead - point, point - last.point
        turns = (move * change / sizes).sum((1, 2)) > 0
        momentum = jnp.where(turns, 1, last.momentum)
        further = (1 + jnp.sqrt(1 + 4 * momentum * momentum)) / 2
        pull = jnp.where(turns, 0, (momentum - 1) / further)[:, None, None]
        distance = jnp.sqrt(((move / sizes) ** 2).sum((1, 2)))
        return _Descent(
            point, point + pull * change, further, distance, last.num_steps + 1
        )

    one, none = jnp.ones_like(tolerance), jnp.zeros((), jnp.int32)
    return lax.while_loop(
        lambda last: (last.distance > tolerance).any() & (last.num_steps < _STEPS),
        advance,
        _Descent(start, start, one, one * jnp.inf, none),
    ).point
