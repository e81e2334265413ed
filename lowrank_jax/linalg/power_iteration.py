r"""Leading singular subspaces of many small matrices by warm-started iteration.

For a block :math:`\Theta_k` and an orthonormal start :math:`V` one step is

.. math:: V \leftarrow \operatorname{orth}(\Theta_k^\top \Theta_k V)
   \qquad\text{(BOL-N2, transposes as in the errata)}

and the best approximation of rank :math:`r` is :math:`(\Theta_k V) V^\top` for any
orthonormal basis :math:`V` of the leading right subspace: no further rotation is
needed for the mirror map (BOL-P2, DR-B5). After :math:`\tau` steps the error falls as
:math:`(\sigma_{r+1}/\sigma_r)^{2\tau}`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

__all__ = ["Subspace", "leading_subspace", "orthonormalise"]


class Subspace(NamedTuple):
    """What the iteration has found; `left` carries the singular values."""

    left: jax.Array  # (num_blocks, rank, m)   Theta_k v_j
    right: jax.Array  # (num_blocks, rank, n)  v_j, orthonormal
    residual: jax.Array  # (num_blocks,)  largest move of a v_j in the last step


def leading_subspace(
    blocks: jax.Array, start: jax.Array, *, num_steps: int
) -> Subspace:
    """Iterate `num_steps` times from `start`; a zero block gives zero vectors.

    Args:
      blocks: (num_blocks, m, n).
      start: (num_blocks, rank, n), need not be orthonormal.
      num_steps: Number of steps, at least 1. Static.
    """
    right = start
    for _ in range(num_steps):
        previous = right
        left = _times("kuv,kv->ku", blocks, right)
        right = orthonormalise(_times("kuv,ku->kv", blocks, left))
    left = _times("kuv,kv->ku", blocks, right)
    # The start of the last step is normalised only where there was one before it.
    length = jnp.sqrt((previous * previous).sum(axis=2, keepdims=True))
    move = right - previous / jnp.where(length > 0, length, 1)
    residual = jnp.sqrt((move * move).sum(axis=2)).max(axis=1)
    return Subspace(left, right, residual)


def _times(subscripts: str, blocks: jax.Array, vectors: jax.Array) -> jax.Array:
    """Multiply each block with its vectors, one after the other.

    As one product of matrices with few columns it takes ten times as long on a CPU.
    """
    images = [
        jnp.einsum(subscripts, blocks, vectors[:, j]) for j in range(vectors.shape[1])
    ]
    return jnp.stack(images, axis=1)


def orthonormalise(vectors: jax.Array) -> jax.Array:
    """Gram-Schmidt over axis 1 of (num_blocks, rank, n); dependent vectors give 0."""
    basis: list[jax.Array] = []
    for j in range(vectors.shape[1]):
        vector = vectors[:, j]
        before = jnp.sqrt((vector * vector).sum(axis=1, keepdims=True))
        for _ in range(2 if basis else 0):  # twice is enough (Kahan)
            for other in basis:
                inner = (vector * other).sum(axis=1, keepdims=True)
                vector = vector - inner * other
        length = jnp.sqrt((vector * vector).sum(axis=1, keepdims=True))
        # What cancellation left of a dependent vector is noise, not a direction.
        floor = before * (32 * jnp.finfo(vectors.dtype).eps)
        is_new = length > floor
        basis.append(jnp.where(is_new, vector / jnp.where(is_new, length, 1), 0))
    return jnp.stack(basis, axis=1)
