r"""Leading singular subspaces of many small matrices by warm-started iteration.

For a block :math:`\Theta_k` and an orthonormal start :math:`V` one step is

.. math:: V \leftarrow \operatorname{orth}(\Theta_k^\top \Theta_k V)
   \qquad\text{(BOL-N2, transposes as in the errata)}

and the best approximation of rank :math:`r` is :math:`(\Theta_k V) V^\top` for any
orthonormal basis :math:`V` of the leading right subspace: no further rotation is
needed for the mirror map (BOL-P2, DR-B5). After :math:`\tau` steps the error falls as
:math:`(\sigma_{r+1}/\sigma_r)^{2\tau}`.

For few labels, squaring the Gram matrix twelve times does the work of 4,096 steps from
any start (`exact_subspace`): then the map is a function of :math:`\Theta_k` alone.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

__all__ = [
    "Operator",
    "Subspace",
    "exact_subspace",
    "leading_subspace",
    "orthonormalise",
    "repeated",
]
__dir__ = __all__.copy

_NUM_SQUARINGS = 12
_NUM_WRITTEN = 8  # steps that a program writes out: more take long to compile


class Operator(NamedTuple):
    """Blocks by their products with one vector each, for blocks not written out."""

    times: Callable[[jax.Array], jax.Array]  # (num_blocks, n) -> (num_blocks, m)
    back: Callable[[jax.Array], jax.Array]  # (num_blocks, m) -> (num_blocks, n)


class Subspace(NamedTuple):
    """What the iteration has found; `left` carries the singular values."""

    left: jax.Array  # (num_blocks, rank, m)   Theta_k v_j
    right: jax.Array  # (num_blocks, rank, n)  v_j, orthonormal
    residual: jax.Array  # (num_blocks,)  largest move of a v_j in the last step


def leading_subspace(
    blocks: jax.Array | Operator, start: jax.Array, *, num_steps: int
) -> Subspace:
    """Iterate `num_steps` times from `start`; a zero block gives zero vectors.

    Args:
      blocks: (num_blocks, m, n), or their products.
      start: (num_blocks, rank, n), need not be orthonormal.
      num_steps: Number of steps. 0 takes the exact subspace and ignores all of `start`
        but its rank. Static.
    """
    if num_steps == 0:
        assert not isinstance(blocks, Operator)
        exact = exact_subspace(blocks, start.shape[1])
        # Depends on what was read: a caller that reads `start` from a table and writes
        # the result there makes no copy of the whole table.
        start, num_steps = jnp.where(jnp.isnan(start), start, exact), 1

    def step(right: jax.Array) -> jax.Array:
        left = _times("kuv,kv->ku", blocks, right)
        return orthonormalise(_times("kuv,ku->kv", blocks, left))

    previous = repeated(step, start, num_steps - 1)
    right = step(previous)
    left = _times("kuv,kv->ku", blocks, right)
    # The start of the last step is normalised only where there was one before it.
    length = jnp.sqrt((previous * previous).sum(axis=2, keepdims=True))
    move = right - previous / jnp.where(length > 0, length, 1)
    residual = jnp.sqrt((move * move).sum(axis=2)).max(axis=1)
    return Subspace(left, right, residual)


def repeated(step: Callable[[Any], Any], value: Any, num_steps: int) -> Any:
    """Return the value after some steps, few of which are written out in the program.

    Args:
      step: Function of the value.
      value: A pytree.
      num_steps: Number of steps. More than a few run in a loop. Static.
    """
    if num_steps > _NUM_WRITTEN:
        return lax.fori_loop(0, num_steps, lambda _, now: step(now), value)
    for _ in range(num_steps):
        value = step(value)
    return value


def exact_subspace(blocks: jax.Array, rank: int) -> jax.Array:
    """Return the leading right singular vectors, (num_blocks, rank, n), one by one.

    Powers of the Gram matrix tend to the projector on its leading eigenvector. A column
    of the projector is the left vector. Where the leading values tie, it is one vector
    of their subspace.

    Args:
      blocks: (num_blocks, m, n), with m small.
      rank: Number of vectors. Static.
    """
    found = []
    for _ in range(rank):
        power = _gram(blocks)
        power = lax.fori_loop(
            0, _NUM_SQUARINGS, lambda _, it: _gram(_scaled(it)), power
        )
        diagonal = jnp.diagonal(power, axis1=1, axis2=2)
        is_best = jax.nn.one_hot(diagonal.argmax(axis=1), power.shape[1], dtype=bool)
        left = jnp.where(is_best[:, None, :], power, 0).sum(axis=2)
        right = orthonormalise(_times("kuv,ku->kv", blocks, left[:, None]))[:, 0]
        found.append(right)
        if len(found) < rank:
            image = jnp.einsum("kuv,kv->ku", blocks, right)
            blocks = blocks - image[:, :, None] * right[:, None, :]
    return jnp.stack(found, axis=1)


def _gram(blocks: jax.Array) -> jax.Array:
    """Return each block times its transpose.

    As a sum it takes a tenth of the time of small matrix products on a CPU.
    """
    return (blocks[:, :, None, :] * blocks[:, None, :, :]).sum(axis=3)


def _scaled(power: jax.Array) -> jax.Array:
    """Return each matrix with trace 1; a zero matrix stays zero."""
    trace = jnp.trace(power, axis1=1, axis2=2)[:, None, None]
    return power / jnp.where(trace > 0, trace, 1)


def _times(
    subscripts: str, blocks: jax.Array | Operator, vectors: jax.Array
) -> jax.Array:
    """Multiply each block with its vectors, one after the other.

    As one product of matrices with few columns it takes ten times as long on a CPU.
    """
    each = [vectors[:, j] for j in range(vectors.shape[1])]
    if isinstance(blocks, Operator):
        is_times = subscripts == "kuv,kv->ku"
        images = [(blocks.times if is_times else blocks.back)(own) for own in each]
    else:
        images = [jnp.einsum(subscripts, blocks, own) for own in each]
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
