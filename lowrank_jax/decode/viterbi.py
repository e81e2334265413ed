r"""The best label sequence of one sentence: Viterbi's recursion.

.. math:: \delta_{0,s} = U_{0,s} + P_{0,s,S}, \qquad
          \delta_{i,s} = U_{i,s} + \max_r \{P_{i,s,r} + \delta_{i-1,r}\}

The forward loop keeps the maxima alone. Going back, the best previous label is sought
only for the label on the traced path: S candidates a position, no back-pointers.
Cost O(n S^2) for the true length n, not the padded one.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax.checks import InputError
from lowrank_jax.decode.scores import (
    Length,
    LowRankScores,
    Path,
    Scores,
    as_length,
    as_scores,
    forbid,
    pairwise_at,
)

__all__ = ["best_path"]
__dir__ = __all__.copy

_MANY, _LANES = 64, 16  # labels; previous labels side by side
_AT_ONCE = 8  # previous labels of factors; 4 and 16 are no faster


def best_path(
    scores: Scores | LowRankScores,
    length: Length = None,
    *,
    allowed: jax.Array | None = None,
) -> Path:
    """Find the label sequence with the greatest score.

    Under `vmap` with one length per sentence, the loops run to the greatest length,
    with a mask. Each step then copies the forward maxima. The result is correct, but
    `best_path_batch` is faster.

    Args:
      scores: `Scores` or `LowRankScores` of one sentence.
      length: Length of the sentence, an integer or traced int32 (); None means all L
        positions.
      allowed: Permitted labels, (L, S) booleans. False forbids a label at a position
        (see `allow_labels`).

    Returns:
      `Path` with the labels and their score. If no path is permitted, the score is
      minus infinity.
    """
    if isinstance(scores, LowRankScores):
        return _best_of_low_rank(scores, length, allowed)
    unary, pairwise = as_scores(scores, allowed)
    num_positions, num_labels = unary.shape
    length = as_length(length, num_positions)

    shared = None
    if pairwise.ndim == 2 and num_labels < _MANY:
        shared = pairwise[:, :num_labels].T

    def forward(i: jax.Array, best: jax.Array) -> jax.Array:
        if shared is not None:
            current = _max_plus_shared(shared, _row(best, i - 1)) + _row(unary, i)
            return lax.dynamic_update_index_in_dim(best, current, i, 0)
        previous = lax.dynamic_index_in_dim(best, i - 1, 0)
        current = _max_plus(pairwise_at(pairwise, i), previous) + _row(unary, i)
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


def _best_of_low_rank(
    scores: LowRankScores, length: Length, allowed: jax.Array | None
) -> Path:
    """Do what `best_path` does, without scores of pairs that are written out.

    At hundreds of labels, writing them takes longer than the products. A step takes
    eight previous labels at a time, and keeps one vector over the current label.
    """
    left, right = scores.left, scores.right
    num_positions, num_labels = scores.unary.shape
    width = left.shape[2]
    if width % _AT_ONCE or width <= num_labels or left.shape != right.shape:
        raise InputError(
            f"`left` and `right` must have one shape (L, F, W) with W a multiple of "
            f"{_AT_ONCE} above {num_labels}, got {left.shape} and {right.shape}."
        )
    length = as_length(length, num_positions)
    gap = ((0, 0), (0, width - num_labels))
    unary = jnp.pad(forbid(scores.unary, allowed), gap, constant_values=-jnp.inf)
    nothing = jnp.full((width,), -jnp.inf, unary.dtype)

    def forward(i: jax.Array, best: jax.Array) -> jax.Array:
        previous, ours, theirs = _row(best, i - 1), _row(left, i), _row(right, i)

        def some(j: jax.Array, found: jax.Array) -> jax.Array:
            before = lax.dynamic_slice_in_dim(previous, j * _AT_ONCE, _AT_ONCE)
            few = lax.dynamic_slice_in_dim(theirs, j * _AT_ONCE, _AT_ONCE, 1)
            terms = [found]
            for r in range(_AT_ONCE):
                pairs = [ours[f] * few[f, r] for f in range(len(ours))]
                terms.append(sum(pairs[1:], start=pairs[0]) + before[r])
            return _tree(terms, jnp.maximum)

        found = lax.fori_loop(np.int32(0), width // _AT_ONCE, some, nothing)
        return lax.dynamic_update_index_in_dim(best, found + _row(unary, i), i, 0)

    def backward(step: jax.Array, labels: jax.Array) -> jax.Array:
        i = length - step  # n-1, ..., 1
        here = lax.dynamic_index_in_dim(_row(left, i), _row(labels, i), 1)
        pairs = (here * _row(right, i)).sum(axis=0)
        previous = lax.argmax(_row(best, i - 1) + pairs, 0, jnp.int32)
        return lax.dynamic_update_index_in_dim(labels, previous, i - 1, 0)

    start = unary[0] + (left[0] * right[0, :, num_labels, None]).sum(axis=0)
    best = jnp.zeros_like(unary).at[0].set(start)
    best = lax.fori_loop(np.int32(1), length, forward, best)
    has_labels, last = length > 0, jnp.maximum(length - 1, 0)
    final = _row(best, last)
    label = jnp.where(has_labels, lax.argmax(final, 0, jnp.int32), 0)
    labels = jnp.zeros((num_positions,), jnp.int32)
    labels = lax.dynamic_update_index_in_dim(labels, label, last, 0)
    labels = lax.fori_loop(np.int32(1), length, backward, labels)
    return Path(labels, jnp.where(has_labels, jnp.max(final), 0))


def _max_plus(pairs: jax.Array, best: jax.Array) -> jax.Array:
    """Return (S,) max over previous labels of pairs (S, S + 1 or more) + best (1, S).

    With many labels, maxima of whole vectors come first: a reduction along a row alone
    takes half as long again.
    """
    num_labels = best.shape[1]
    candidates = pairs[:, :num_labels] + best
    if num_labels < _MANY:
        return jnp.max(candidates, axis=1)
    whole = num_labels // _LANES * _LANES
    lanes = candidates[:, :whole].reshape(num_labels, -1, _LANES).max(axis=1)
    return jnp.concatenate([lanes, candidates[:, whole:]], axis=1).max(axis=1)


def _max_plus_shared(pairs: jax.Array, best: jax.Array) -> jax.Array:
    """Return (S,) max over previous labels of pairs (previous, current) + best (S,)."""
    return _tree([pairs[r] + best[r] for r in range(len(best))], jnp.maximum)


def _tree(terms: list[Any], join: Callable[[Any, Any], Any]) -> Any:
    """Join neighbours until one is left: short chains, which fuse into one loop."""
    while len(terms) > 1:
        paired = list(map(join, terms[::2], terms[1::2]))
        terms = paired + terms[2 * len(paired) :]
    return terms[0]


def _earlier_or_larger(one: tuple, other: tuple) -> tuple:
    """Return the pair (value, index) of the larger value, or the first of equals."""
    is_one = (one[0] >= other[0]) | jnp.isnan(one[0])
    value, index = (jnp.where(is_one, a, b) for a, b in zip(one, other, strict=True))
    return value, index


def _row(array: jax.Array, index: jax.Array) -> jax.Array:
    """Return one row by a traced index that is known to be in range."""
    return lax.dynamic_index_in_dim(array, index, 0, keepdims=False)


def _first_argmax(values: jax.Array) -> jax.Array:
    """Return the smallest index of the maximum as int32, whether x64 is on or off."""
    if len(values) >= _MANY:
        return lax.argmax(values, 0, jnp.int32)
    terms = [(values[r], jnp.int32(r)) for r in range(len(values))]
    return _tree(terms, _earlier_or_larger)[1]
