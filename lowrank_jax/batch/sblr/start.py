"""Factors to start the descent from, and their size."""

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.linalg import spectra
from lowrank_jax.linalg.penalties import Penalty
from lowrank_jax.models import bilinear_logit, logistic
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled

__all__ = [
    "best_size",
    "check_start",
    "revive",
    "start_params",
    "start_shares",
    "start_vectors",
]
__dir__ = __all__.copy

_STARTS = ("paper", "label")


def check_start(start: str | Params, rank: int) -> None:
    """Raise `InputError` unless `start` is a known name or a model of this rank."""
    if isinstance(start, str):
        checks.choice(_STARTS, start=start)
        return
    for part in (start.left, start.right):
        if np.shape(part)[-1] != rank:
            raise InputError(
                f"`rank` must be {np.shape(part)[-1]}, the rank of `start`, got {rank}."
            )


def start_params(labelled: Labelled, *, rank: int, start: str = "paper") -> Params:
    r"""Return the factors to start from, singular vectors of one matrix per class.

    ``"paper"`` takes :math:`U^0 = -u_{1..r}`, :math:`V^0 = v_{1..r}` of the mean matrix
    (SBLR-I1). They are the same for all classes. ``"label"`` takes :math:`+u`,
    :math:`+v` of :math:`\sum_i\omega_i(y_{ic} - \frac1{m+1})X_i`, the downhill
    direction at the score 0. SBLR-I1 leaves the labels out; this sum has them.

    Args:
      labelled: Matrices with their classes.
      rank: Rank r.
      start: ``"paper"`` or ``"label"``.
    """
    x = labelled.x
    shares = start_shares(labelled.targets, labelled.weights, start)
    flat = jnp.einsum("nc,nk->ck", shares, x.reshape(x.shape[0], -1))
    means = flat.reshape(-1, *x.shape[1:])
    return start_vectors(means, rank=rank, num_classes=labelled.targets.shape[1])


def start_shares(targets: jax.Array, weights: jax.Array, start: str) -> jax.Array:
    """Return the share (n, 1 or m) of each matrix in the means of `start_vectors`."""
    checks.choice(_STARTS, start=start)
    if start == "paper":
        return -weights[:, None]  # -u and v of a matrix are u and v of its negative
    return weights[:, None] * (targets - 1 / (targets.shape[1] + 1))


def start_vectors(means: jax.Array, *, rank: int, num_classes: int) -> Params:
    """Return the leading singular vectors of the means as factors of m classes."""
    most = min(means.shape[1:])
    if rank > most:
        raise InputError(
            f"`rank` must lie in 1..{most} for {means.shape[1]}x{means.shape[2]} "
            f"matrices, got {rank}."
        )
    u, _, vt = spectra.svd(means)
    left, right = u[:, :, :rank], vt[:, :rank].transpose(0, 2, 1)
    return Params(
        left=jnp.broadcast_to(left, (num_classes, *left.shape[1:])),
        right=jnp.broadcast_to(right, (num_classes, *right.shape[1:])),
        bias=jnp.zeros(num_classes, means.dtype),
    )


def best_size(
    params: Params,
    linear: jax.Array,
    targets: jax.Array,
    weights: jax.Array,
    left: Penalty,
    right: Penalty,
) -> jax.Array:
    """Return the power of two by which to scale both factors, so that F is least.

    `linear` holds the scores without the bias. The bias is not scaled.

    With unit vectors, the scores of a large matrix are so high that the loss is flat.
    The first step under a sparse penalty then falls to the stationary point 0.
    """

    def objective(size: jax.Array) -> jax.Array:
        scores = size * size * linear + params.bias[None]
        loss = logistic.loss(scores, targets, weights)
        return loss + left.value(size * params.left) + right.value(size * params.right)

    sizes = _sizes(linear.dtype)
    return sizes[jnp.argmin(jax.vmap(objective)(sizes))]


def _sizes(dtype: jnp.dtype) -> jax.Array:
    return 2.0 ** jnp.arange(-12, 5).astype(dtype)


def revive(params: Params, labelled: Labelled, left: Penalty, right: Penalty) -> Params:
    r"""Return given factors, restarted where they are zero and F falls elsewhere.

    Zero is stationary, so a solution path that comes from strong penalties would stay
    there. A class with U = 0 or V = 0 gets the singular vectors of
    :math:`-\nabla_{W_c}\ell`, the label start at this bias, in the size at which F is
    least. If no size makes F smaller, the factors stay as they are.

    Args:
      params: Factors to start from.
      labelled: Matrices with their classes.
      left: Penalty of U.
      right: Penalty of V.
    """
    rank = params.left.shape[2]
    is_dead = [(part == 0).all(axis=(1, 2)) for part in (params.left, params.right)]
    dead = (is_dead[0] | is_dead[1])[:, None, None]
    scores = bilinear_logit.scores(params, labelled.x)
    rest = logistic.residuals(scores, labelled.targets, labelled.weights)
    slope = jnp.einsum("nc,nst->cst", rest, labelled.x)
    fresh = start_vectors(-slope, rank=rank, num_classes=slope.shape[0])

    def sized(size: jax.Array) -> Params:
        is_fresh, none = dead & (size != 0), jnp.zeros_like(size)
        return Params(  # a prox of step 0 brings factors to where the penalty is finite
            jnp.where(is_fresh, left.prox(size * fresh.left, none), params.left),
            jnp.where(is_fresh, right.prox(size * fresh.right, none), params.right),
            params.bias,
        )

    def objective(size: jax.Array) -> jax.Array:
        given = sized(size)
        scores = bilinear_logit.scores(given, labelled.x)
        loss = logistic.loss(scores, labelled.targets, labelled.weights)
        return loss + left.value(given.left) + right.value(given.right)

    each = _sizes(slope.dtype)  # (u, v) and (-u, -v) are one W, not one penalty
    sizes = jnp.concatenate([jnp.zeros(1, slope.dtype), each, -each])
    return sized(sizes[jnp.argmin(jax.lax.map(objective, sizes))])
