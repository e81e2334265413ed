r"""The k best label sequences of one sentence, exactly.

Viterbi's recursion on sorted lists: for each position and label the k best ways to get
there, merged from the k best ways to each previous label. A merge takes the greatest
head of the S lists k times, and the first of equal heads. So equal scores come in the
order of the tie rule (smallest reversed labels first) at every position. The cost is
O(n k S^2).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.decode.scores import (
    Length,
    Scores,
    as_length,
    as_scores,
    is_inside,
    pairwise_at,
)

__all__ = ["Paths", "k_best_paths"]
__dir__ = __all__.copy


class Paths(NamedTuple):
    """Label sequences of one sentence, best first.

    Attributes:
      labels: (k, L) int32; 0 at `length` and beyond, and in rows that are not valid.
      scores: (k,); minus infinity in rows that are not valid.
      is_valid: (k,) True if there is such a path. Fewer than k may exist. A path of
        score minus infinity is forbidden.
    """

    labels: jax.Array
    scores: jax.Array
    is_valid: jax.Array


def k_best_paths(
    scores: Scores,
    k: int,
    length: Length = None,
    *,
    allowed: jax.Array | None = None,
) -> Paths:
    """Find the k label sequences with the greatest scores, in order.

    Args:
      scores: `Scores` of one sentence.
      k: Number of paths, at least 1. Static.
      length: Length of the sentence, an integer or traced int32 (); None means all L
        positions.
      allowed: (L, S) booleans, False forbids a label.

    Returns:
      `Paths`. The empty sentence has one path, of score 0.
    """
    checks.whole(k=k)
    unary, pairwise = as_scores(scores, allowed)
    num_positions, num_labels = unary.shape
    length = as_length(length, num_positions)
    nothing = jnp.array(-jnp.inf, unary.dtype)
    positions = jnp.arange(1, num_positions, dtype=jnp.int32)

    def forward(best: jax.Array, i: jax.Array) -> tuple[jax.Array, jax.Array]:
        pairs = pairwise_at(pairwise, i)[:, :num_labels]
        top, origin = _merge(best, pairs)
        current = top + lax.dynamic_index_in_dim(unary, i, 0, keepdims=False)[:, None]
        return jnp.where(i < length, current, best), origin

    def backward(
        place: jax.Array, inputs: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        i, origin = inputs  # a place is label * k + rank
        earlier = origin.reshape(-1)[place]
        return jnp.where(i < length, earlier, place), place // k

    start = unary[0] + pairwise_at(pairwise, 0)[:, num_labels]
    best = jnp.full((num_labels, k), nothing).at[:, 0].set(start)
    best, origins = lax.scan(forward, best, positions)
    (top,), (place,) = _merge(best, jnp.zeros((1, num_labels), unary.dtype))
    first, rest = lax.scan(backward, place, (positions, origins), reverse=True)
    labels = jnp.concatenate([first[None] // k, rest]).T

    only_empty = jnp.where(jnp.arange(k) == 0, jnp.zeros((), unary.dtype), nothing)
    top = jnp.where(length > 0, top, only_empty)
    is_valid = top > nothing
    is_shown = is_valid[:, None] & is_inside(length, num_positions)[None, :]
    return Paths(jnp.where(is_shown, labels, 0), top, is_valid)


def _merge(best: jax.Array, pairs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Merge the sorted lists of the previous labels, once for each current label.

    Args:
      best: (S, k) scores, each row sorted.
      pairs: (num_current, S) score added to a list, by current label.

    Returns:
      The k greatest sums (num_current, k), and where each came from: label * k + rank.
    """
    (num_current, num_labels), k = pairs.shape, best.shape[1]
    each_label = jnp.arange(num_labels, dtype=jnp.int32)
    current = jnp.arange(num_current, dtype=jnp.int32)

    def take(
        heads_and_ranks: tuple[jax.Array, jax.Array], _: None
    ) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
        heads, ranks = heads_and_ranks  # (num_current, S)
        top = jnp.max(heads, axis=1)
        label = lax.argmax(heads == top[:, None], 1, jnp.int32)  # the first of equals
        rank = ranks[current, label]
        following = best[label, jnp.minimum(rank + 1, k - 1)] + pairs[current, label]
        is_taken = each_label[None, :] == label[:, None]
        heads = jnp.where(is_taken, following[:, None], heads)
        return (heads, jnp.where(is_taken, ranks + 1, ranks)), (top, label * k + rank)

    start = (pairs + best[None, :, 0], jnp.zeros(pairs.shape, jnp.int32))
    _, (top, origin) = lax.scan(take, start, None, length=k, unroll=min(k, 4))
    return top.T, origin.T
