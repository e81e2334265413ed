r"""Singular value thresholding, the proximal map of the nuclear norm.

.. math:: \mathrm{SVT}_\tau(Z) = U \operatorname{diag}([\sigma_i - \tau]_+) V^\top
   = \arg\min_X \tau\|X\|_* + \tfrac12\|X - Z\|_F^2, \qquad Z = U \Sigma V^\top

Three ways to one result, for a tall matrix (rows a thousand times as many as columns):

* `svt` with ``method="gram"``: eigenvalues of :math:`Z^\top Z`, then
  :math:`Z\,(V \operatorname{diag}([1 - \tau/\sigma_i]_+) V^\top)`. In float32 a
  singular value is known to :math:`10^{-7} \sigma_1^2 / \sigma_i`.
* ``method="svd"``: the singular value decomposition, slower and exact to the end.
* `truncated_svt`: subspace iteration from the right vectors of the step before, for
  results of low rank. It is the same as long as the basis has room for every singular
  value above the threshold (`is_complete`).

Z is a matrix of low rank plus a subgradient with few rows. That the rows are few is not
made use of: with a hundred columns or two a product with all of them takes no longer
than gathering them.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.linalg import spectra
from lowrank_jax.linalg.forms import by_platform

__all__ = ["Thresholded", "singular_values", "svt", "truncated_svt"]
__dir__ = __all__.copy


class Thresholded(NamedTuple):
    """The thresholded matrix and its spectrum.

    Attributes:
      matrix: (m, n).
      rank: () int32, the number of singular values above the threshold.
      nuclear_norm: () nuclear norm of the result.
      sigma_1: () the largest singular value of the result.
      right: (n, r) orthonormal; the basis to start the next iteration from.
      is_complete: () bool, True if no singular value above the threshold was missed for
        want of room in the basis.
    """

    matrix: jax.Array
    rank: jax.Array
    nuclear_norm: jax.Array
    sigma_1: jax.Array
    right: jax.Array
    is_complete: jax.Array


def svt(
    matrix: jax.Array, threshold: float | jax.Array, *, method: str = "gram"
) -> Thresholded:
    """Threshold all singular values.

    Args:
      matrix: (m, n).
      threshold: Threshold, zero or more. May be traced.
      method: ``"gram"`` or ``"svd"``.

    Returns:
      `Thresholded`, with all ``min(m, n)`` right vectors, leading ones first.
    """
    checks.choice(("gram", "svd"), method=method)
    threshold = jnp.asarray(threshold, matrix.dtype)
    if method == "svd":
        left, values, right = spectra.svd(matrix)
        kept = jax.nn.relu(values - threshold)
        found = (left * kept[None, :]) @ right
        return _thresholded(found, kept, right.T, jnp.array(True))
    if matrix.shape[0] < matrix.shape[1]:
        values, left = _eigen(matrix @ matrix.T)
        shrink = _shrink(values, threshold)
        found = (left * shrink[None, :]) @ (left.T @ matrix)
        right = matrix.T @ left
        right = right / jnp.where(values > 0, values, 1)[None, :]
    else:
        values, right = _eigen(matrix.T @ matrix)
        shrink = _shrink(values, threshold)
        found = matrix @ ((right * shrink[None, :]) @ right.T)
    return _thresholded(found, shrink * values, right, jnp.array(True))


def truncated_svt(
    matrix: jax.Array,
    threshold: float | jax.Array,
    start: jax.Array,
    *,
    num_steps: int = 1,
) -> Thresholded:
    r"""Threshold the leading singular values, found by subspace iteration.

    A step reads Z twice, for :math:`Y = Z V` and :math:`Z^\top Y`; what follows is
    small. With :math:`Y S` orthonormal, the singular values of :math:`Z^\top Y S`
    (n, r) stand for the singular values of Z, and the result is Y times a matrix
    (r, n). Near the solution the columns of Y are nearly orthogonal, so S comes
    from the Gram matrix of columns *of length 1*: small singular values keep their
    digits beside large ones, which the Gram matrix of Z takes from them.

    Args:
      matrix: Z (m, n).
      threshold: Threshold, zero or more. May be traced.
      start: V (n, r), right vectors of an earlier, similar matrix, or random ones;
        r is the largest rank the result can have, `is_complete` asks for one more.
      num_steps: Number of iterations, at least 1. Static.
    """
    checks.whole(num_steps=num_steps)
    threshold = jnp.asarray(threshold, matrix.dtype)
    left = matrix @ start  # Y
    columns = matrix.T @ left  # (n, r)
    for _ in range(num_steps - 1):
        right, _ = jnp.linalg.qr(columns)
        left = matrix @ right
        columns = matrix.T @ left
    scale = _orthonormal(left.T @ left)  # S
    right, values, turn = spectra.svd(columns @ scale)
    kept = jax.nn.relu(values - threshold)
    found = left @ ((scale @ (turn.T * kept[None, :])) @ right.T)
    has_room = (values[-1] <= threshold) | (start.shape[1] >= min(matrix.shape))
    return _thresholded(found, kept, right, has_room)


def _orthonormal(gram: jax.Array) -> jax.Array:
    r"""Return S with :math:`S^\top G S = I`, columns of 0 where G is deficient."""
    lengths = jnp.sqrt(jnp.diagonal(gram))
    inverse = jnp.where(lengths > 0, 1 / jnp.where(lengths > 0, lengths, 1), 0)
    values, vectors = jnp.linalg.eigh(gram * inverse[:, None] * inverse[None, :])
    is_kept = values > gram.shape[0] * jnp.finfo(gram.dtype).eps
    roots = jnp.where(is_kept, lax.rsqrt(jnp.where(is_kept, values, 1)), 0)
    return inverse[:, None] * vectors * roots[None, :]


def singular_values(matrix: jax.Array) -> jax.Array:
    """Return the (min(m, n),) singular values, right to rounding even near 0.

    A matrix much longer one way than the other is cut to a square by its QR factors.
    """
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    return by_platform(tall, cpu=_values_of_factor, tpu=spectra.singular_values)


def _values_of_factor(tall: jax.Array) -> jax.Array:
    return jnp.linalg.svd(jnp.linalg.qr(tall, mode="r"), compute_uv=False)


def _eigen(gram: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Singular values (leading first) and vectors from a Gram matrix."""
    values, vectors = jnp.linalg.eigh(gram)
    return jnp.sqrt(jax.nn.relu(values[::-1])), vectors[:, ::-1]


def _shrink(values: jax.Array, threshold: jax.Array) -> jax.Array:
    """Return [1 - threshold / value]_+, 0 for a value of 0."""
    is_kept = values > threshold
    return jnp.where(is_kept, 1 - threshold / jnp.where(is_kept, values, 1), 0)


def _thresholded(
    matrix: jax.Array, kept: jax.Array, right: jax.Array, is_complete: jax.Array
) -> Thresholded:
    return Thresholded(
        matrix=matrix,
        rank=(kept > 0).sum(dtype=jnp.int32),
        nuclear_norm=kept.sum(),
        sigma_1=kept[0],
        right=right,
        is_complete=is_complete,
    )
