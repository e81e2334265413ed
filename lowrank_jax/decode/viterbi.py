r"""The best label sequence of one sentence: Viterbi's recursion.

.. math:: \delta_{0,s} = U_{0,s} + P_{0,s,S}, \qquad
          \delta_{i,s} = U_{i,s} + \max_r \{P_{i,s,r} + \delta_{i-1,r}\}

The forward loop keeps the maxima alone. Going back, the best previous label is sought
only for the label on the traced path: S candidates a position, no back-pointers.
Cost O(n S^2) for the true length n, not the padded one.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax.decode.scores import (
    Length,
    Path,
    Scores,
    as_length,
    as_scores,
    pairwise_at,
)

__all__ = ["best_path"]
__dir__ = __all__.copy


def best_path(
    scores: Scores, length: Length = None, *, allowed: jax.Array | None = None
) -> Path:
    """Find the label sequence with the greatest score.

    Under `vmap` with one length per sentence, the loops run to the greatest length,
    with a mask. Each step then copies the forward maxima. The result is correct, but
    `best_path_batch` is faster.

    Args:
      scores: `Scores` of one sentence.
      length: Length of the sentence, an integer or traced int32 (); None means all L
        positions.
      allowed: Permitted labels, (L, S) booleans. False forbids a label at a position
        (see `allow_labels`).

    Returns:
      `Path` with the labels and their score. If no path is permitted, the score is
      minus infinity.
    """
    unary, pairwise = as_scores(scores, allowed)
    num_positions, num_labels = unary.shape
    length = as_length(length, num_positions)

    def forward(i: jax.Array, best: jax.Array) -> jax.Array:
        previous = lax.dynamic_index_in_dim(best, i - 1, 0)
        candidates = pairwise_at(pairwise, i)[:, :num_labels] + previous
        current = jnp.max(candidates, axis=1) + _row(unary, i)
        return lax.dynamic_update_index_in_dim(best, current, i, 0)

    def backward(step: jax.Array, labels: jax.Array) -> jax.Array:
        i = length - step  # n-1, ..., 1
        pairs = _row(pairwise_at(pairwise, i), _row(labels, i))[:num_labels]
        previous = _first_argmax(_row(best, i - 1) + pairs)
        return lax.dynamic_update_index_in_dim(labels, previous, i - 1, 0)

    start = unary[0] + pairwise_at(pairwise, 0)[:, num_labels]
    best = jnp.zeros_like(unary).at[0].set(start)
    best = lax.fori_loop(np.int32(1), length, forward, best)

    has_labels, last = length > 0, jnp.maximum(length - 1, 0)
    final = _row(best, last)
    label = jnp.where(has_labels, _first_argmax(final), 0)
    labels = jnp.zeros((num_positions,), jnp.int32)
    labels = lax.dynamic_update_index_in_dim(labels, label, last, 0)
    labels = lax.fori_loop(np.int32(1), length, backward, labels)
    return Path(labels, jnp.where(has_labels, jnp.max(final), 0))


def _row(array: jax.Array, index: jax.Array) -> jax.Array:
    """Return one row by a traced index that is known to be in range."""
    return lax.dynamic_index_in_dim(array, index, 0, keepdims=False)


def _first_argmax(values: jax.Array) -> jax.Array:
    """Return the smallest index of the maximum as int32, whether x64 is on or off."""
    return lax.argmax(values, 0, jnp.int32)
