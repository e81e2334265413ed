r"""How fast the gradient of the logistic loss changes (SBLR-L3.1, L6.1, DR-S1, S2).

If one block is fixed, the scores are linear in the other block and the offsets. The
gradient depends on the scores only through the shares :math:`p_{ic}`:

.. math:: \nabla(z + d) - \nabla(z) = \sum_i \omega_i \sum_c
   \big(p_{ic}(z + d) - p_{ic}(z)\big)\, a_{ic}, \qquad
   a_{ic} = (\operatorname{vec}(X_i V_c), 1)

Every function computes this change without cancellation, so moves of any size can be
tried. It compares the length of the change with a constant times the length of the
move.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax.linalg.norms import norm
from lowrank_jax.models import bilinear_logit, lipschitz, logistic
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.theory.certificate import Certificate, at_most

__all__ = [
    "SOFTMAX_CONSTANT",
    "Point",
    "boehning_certificate",
    "gradient_certificate",
    "joint_certificate",
    "joint_constant",
    "lemma_excess_certificate",
    "share_certificate",
    "share_change",
]
__dir__ = __all__.copy

#: The most that one share can change with the scores: the length of its gradient,
#: :math:`p\sqrt{(1 - p)^2 + \sum_{d \ne c} p_d^2}`, at two shares of one half.
SOFTMAX_CONSTANT = 2**0.5 / 4

_RULES = {
    "lemma": lipschitz.lemma_constant,
    "tight": lipschitz.tight_constant,
    "trace": lipschitz.trace_constant,
}


class Point(NamedTuple):
    """One block and the offsets, or a move of them."""

    factors: jax.Array  # (m, size, r)
    bias: jax.Array  # (m,)


def gradient_certificate(
    features: jax.Array,
    weights: jax.Array,
    point: Point,
    move: Point,
    *,
    rule: str,
) -> Certificate:
    r"""Compare the change of a block's gradient with a Lipschitz constant.

    .. math:: \|\nabla(z + d) - \nabla(z)\| \le L\,\|d\|

    ``"lemma"`` is the printed constant (SBLR-L3.1; L6.1 with more classes): true and
    loose, by :math:`4\sqrt2` or more. ``"tight"`` is :math:`\kappa\max_c\lambda_{\max}
    (\sum_i\omega_i a_{ic}a_{ic}^\top)`, as the Hessian in the scores is at most
    :math:`\kappa I`: 1/4 with one class (DR-S1; attained at 0, along the eigenvector),
    1/2 with more (Böhning, DR-S2; attained where two classes with the same features
    share all the mass). ``"trace"`` has the trace for the eigenvalue.

    Args:
      features: (m, n, r, size) :math:`X_i V_c`, or :math:`X_i^\top U_c`.
      weights: (n,) :math:`\omega_i`.
      point: z.
      move: d.
      rule: ``"lemma"``, ``"tight"`` or ``"trace"``. Static.
    """
    scores = bilinear_logit.block_scores(features, *point)
    moves = bilinear_logit.block_scores(features, *move)
    change = weights[:, None] * share_change(scores, moves)  # (n, m)
    in_factors = jnp.einsum("mnrs,nm->msr", features, change)
    observed = norm(in_factors, change.sum(0))
    return at_most(observed, _RULES[rule](features, weights) * norm(*move))


def lemma_excess_certificate(features: jax.Array, weights: jax.Array) -> Certificate:
    r"""Show by how much the printed constant is too large at least (SBLR-L3.1).

    .. math:: 4\sqrt2 \cdot \tfrac14\sum_i \omega_i(\|X_iV\|_F^2 + 1)
       \le \sqrt2 \sum_i \omega_i (\|X_iV\|_F + 1)^2

    and the left side is :math:`4\sqrt2` times a constant that is valid (DR-S1). Equal
    at V = 0. With m classes the factor is :math:`2\sqrt2\,m`, as
    :math:`\max_c\|a_{ic}\|^2 \le \sum_c(\|X_iV_c\| + 1)(\max_j\|X_iV_j\| + 1)`.

    Args:
      features: (m, n, r, size).
      weights: (n,).
    """
    num_classes = features.shape[0]
    bend = lipschitz.curvature(num_classes)
    factor = num_classes * jnp.sqrt(jnp.asarray(2, features.dtype)) / bend
    return at_most(
        factor * lipschitz.trace_constant(features, weights),
        lipschitz.lemma_constant(features, weights),
    )


def share_certificate(
    scores: jax.Array, moves: jax.Array, constant: float | jax.Array
) -> Certificate:
    r"""Compare the change of one share with the change of the scores: (n, m).

    .. math:: |p_c(z + d) - p_c(z)| \le \text{constant}\cdot\|d\|

    SBLR-L3.1 uses 1 for the logistic function, where 1/4 holds, and SBLR-L6.1 uses
    :math:`\sqrt m` for the soft maximum, where :math:`\sqrt2/4` does.

    Args:
      scores: (n, m) z.
      moves: (n, m) d.
      constant: Constant of the inequality.
    """
    lengths = jnp.sqrt((moves * moves).sum(1, keepdims=True))
    bound = jnp.asarray(constant, scores.dtype) * lengths
    return at_most(jnp.abs(share_change(scores, moves)), bound)


def boehning_certificate(scores: jax.Array, directions: jax.Array) -> Certificate:
    r"""Compare the loss's second derivative in the scores with Böhning's (DR-S2).

    .. math:: d^\top(\operatorname{diag} p - pp^\top)d
       \le \tfrac12 d^\top\Big(I - \tfrac{11^\top}{m + 1}\Big)d

    The left side is the variance of d over the m + 1 classes, the reference having 0;
    the right side is half the squared distance of d from its mean. With the values
    sorted and centred, the variance is at most a quarter of the squared range, which
    two values attain, and the squared distance is at least half of it.

    Args:
      scores: (n, m).
      directions: (n, m) d.
    """
    p = _shares(scores)
    d = jnp.concatenate([directions, jnp.zeros_like(directions[:, :1])], axis=1)
    centred = d - (p * d).sum(1, keepdims=True)
    spread = d - d.mean(1, keepdims=True)
    return at_most((p * centred * centred).sum(1), (spread * spread).sum(1) / 2)


def joint_constant(labelled: Labelled, params: Params, other: Params) -> jax.Array:
    r"""Return a Lipschitz constant of the whole gradient on a segment: (SBLR-Eq19).

    The Hessian in (U, V, b) is :math:`\sum_i\omega_i(C_i^\top H_i C_i + \sum_c g_{ic}
    K_i)`, the rows of :math:`C_i` being :math:`(X_iV_c, X_i^\top U_c, 1)`, and
    :math:`\|K_i\| = \sigma_1(X_i)`, :math:`|g_{ic}| \le 1`. So

    .. math:: L_G = \kappa\max_c\sum_i\omega_i\big(\|X_iV_c\|_F^2 + \|X_i^\top U_c\|_F^2
       + 1\big) + \sum_i\omega_i\sigma_1(X_i)

    with the larger of the two ends for each norm, which is convex on the segment. It
    holds for every segment whose factors lie between the factors of the two ends.

    Args:
      labelled: The data.
      params: One end.
      other: The other end.
    """
    x, weights = labelled.x, labelled.weights
    sizes = jnp.maximum(_right_squares(x, params), _right_squares(x, other))
    sizes = sizes + jnp.maximum(_left_squares(x, params), _left_squares(x, other))
    bend = lipschitz.curvature(labelled.targets.shape[1])
    largest = jnp.linalg.svd(x, compute_uv=False)[:, 0]
    return bend * (weights[:, None] * (sizes + 1)).sum(0).max() + weights @ largest


def joint_certificate(labelled: Labelled, params: Params, other: Params) -> Certificate:
    r"""Compare the change of the whole gradient with `joint_constant` (SBLR-Eq19).

    .. math:: \|\nabla\ell(W) - \nabla\ell(W')\| \le L_G\,\|W - W'\|_F

    Args:
      labelled: The data.
      params: W.
      other: W'.
    """

    def loss(params: Params) -> jax.Array:
        scores = bilinear_logit.scores(params, labelled.x)
        return logistic.loss(scores, labelled.targets, labelled.weights)

    one, two = jax.grad(loss)(params), jax.grad(loss)(other)
    change = norm(*jax.tree.map(jnp.subtract, one, two))
    move = norm(*jax.tree.map(jnp.subtract, params, other))
    # The gradients are sums, which may cancel, of residuals times (X V, X^T U, 1).
    lengths = [
        jnp.sqrt(_right_squares(labelled.x, end) + _left_squares(labelled.x, end) + 1)
        for end in (params, other)
    ]
    size = labelled.weights @ jnp.maximum(*lengths).sum(1)
    bound = joint_constant(labelled, params, other) * move
    rounding = 100 * jnp.finfo(size.dtype).eps
    return at_most(change, bound + rounding * size)


def share_change(scores: jax.Array, moves: jax.Array) -> jax.Array:
    r"""Return :math:`p(z + d) - p(z)`, (n, m), with all digits for small moves.

    :math:`p_c(z + d) = p_c(z)\exp(d_c - \log(1 + \sum_j p_j(e^{d_j} - 1)))`.

    Args:
      scores: (n, m) z.
      moves: (n, m) d.
    """
    shares = _shares(scores)[:, :-1]
    small = jnp.clip(moves, -1, 1)
    growth = jnp.log1p((shares * jnp.expm1(small)).sum(1, keepdims=True))
    near = shares * jnp.expm1(small - growth)
    far = _shares(scores + moves)[:, :-1] - shares
    return jnp.where((jnp.abs(moves) <= 1).all(1, keepdims=True), near, far)


def _shares(scores: jax.Array) -> jax.Array:
    """Return the probabilities of all classes, the reference last: (n, m + 1).

    A softmax over the scores and 0: the scores are not lost beside a large partition.
    """
    reference = jnp.zeros_like(scores[:, :1])
    return jax.nn.softmax(jnp.concatenate([scores, reference], axis=1), axis=1)


def _right_squares(x: jax.Array, params: Params) -> jax.Array:
    """Return the squared norms of X V: (n, m)."""
    found = jnp.einsum("nst,ctr->ncsr", x, params.right)
    return (found * found).sum((2, 3))


def _left_squares(x: jax.Array, params: Params) -> jax.Array:
    """Return the squared norms of X^T U: (n, m)."""
    found = jnp.einsum("nst,csr->nctr", x, params.left)
    return (found * found).sum((2, 3))
