r"""The best label sequences of many sentences at once, for bulk decoding.

The recursion of `viterbi`, written on the batch: one `lax.scan` over positions forward,
one back. What makes it fast on a CPU, and keeps accelerators busy:

* shared pairwise scores: the batch is the innermost axis, in groups of at most 128, so
  that :math:`\max_r \{P_{s,r} + \delta_{r,b}\}` is S vector additions and maxima with
  scalars :math:`P_{s,r}`, and the maxima of a group stay in the nearest cache;
* that maximum is spelt out as a tree of elementwise maxima, which fuse into one loop;
  a reduction would not be vectorised;
* only maxima are kept going forward; going back, the first best label is sought on the
  traced path alone, S comparisons a token instead of S^2.

Scores of each position (B, L, S, S+1) are read once, in the order they lie in memory.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax.decode.scores import Path, Scores, as_batch, forbid

__all__ = ["best_path_batch"]

_GROUP = 128  # sentences side by side: 4 KB aligned rows of a longer axis would collide
_MOST_UNROLLED = 128  # labels; beyond that a reduction, as compilation would take long


def best_path_batch(
    scores: Scores,
    lengths: jax.Array | None = None,
    *,
    allowed: jax.Array | None = None,
) -> Path:
    """Find the best label sequence of each sentence; equals ``vmap(best_path)``.

    Args:
      scores: `Scores` of all sentences: unary (B, L, S); pairwise (S, S+1), shared by
        all, or (B, L, S, S+1).
      lengths: (B,) true lengths; None means all L positions.
      allowed: (B, L, S) booleans, False forbids a label.

    Returns:
      `Path` with labels (B, L) int32 and scores (B,).
    """
    (unary, pairwise), lengths, is_shared = as_batch(scores, lengths)
    unary = forbid(unary, allowed)
    decode = _shared if is_shared else _per_position
    return decode(unary, pairwise, lengths)


def _shared(unary: jax.Array, pairwise: jax.Array, lengths: jax.Array) -> Path:
    """Decode with one (S, S+1) table: states are (groups, S, sentences of a group)."""
    num_sentences, num_positions, num_labels = unary.shape
    num_groups = -(-num_sentences // _GROUP)
    size = -(-num_sentences // num_groups)  # all groups nearly full
    size += -size % 8 if num_groups > 1 else 0  # whole vectors
    padding = num_groups * size - num_sentences
    unary = jnp.pad(unary, ((0, padding), (0, 0), (0, 0)))
    unary = unary.reshape(num_groups, size, num_positions, num_labels)
    unary = unary.transpose(2, 0, 3, 1)
    lengths = jnp.pad(lengths, (0, padding)).reshape(num_groups, size)
    pairs = pairwise[:, :num_labels]

    def forward(i: jax.Array, best: jax.Array) -> jax.Array:
        return _max_plus(pairs[None, :, :, None], best)

    def pairs_of(i: jax.Array, labels: jax.Array) -> jax.Array:
        return jnp.moveaxis(pairs[labels], -1, 1)

    start = unary[0] + pairwise[None, :, num_labels, None]
    labels, score = _decode(unary, start, lengths, forward, pairs_of)
    labels = labels.reshape(num_positions, num_groups * size)[:, :num_sentences].T
    return Path(labels, score.reshape(-1)[:num_sentences])


def _per_position(unary: jax.Array, pairwise: jax.Array, lengths: jax.Array) -> Path:
    """Decode with tables (B, L, S, S+1): states are (B, S)."""
    num_sentences, _, num_labels = unary.shape
    unary = jnp.moveaxis(unary, 1, 0)
    sentence = jnp.arange(num_sentences, dtype=jnp.int32)

    def forward(i: jax.Array, best: jax.Array) -> jax.Array:
        pairs = lax.dynamic_index_in_dim(pairwise, i, 1, keepdims=False)
        return _max_plus(pairs[:, :, :num_labels], best)

    def pairs_of(i: jax.Array, labels: jax.Array) -> jax.Array:
        return pairwise[sentence, i, labels, :num_labels]

    start = unary[0] + pairwise[:, 0, :, num_labels]
    labels, score = _decode(unary, start, lengths, forward, pairs_of)
    return Path(labels.T, score)


def _decode(
    unary: jax.Array,
    start: jax.Array,
    lengths: jax.Array,
    forward: Callable[[jax.Array, jax.Array], jax.Array],
    pairs_of: Callable[[jax.Array, jax.Array], jax.Array],
) -> tuple[jax.Array, jax.Array]:
    """Scan forward and back over states whose axis 1 is the label.

    Args:
      unary: (L, *state).
      start: State at position 0.
      lengths: State shape without the label axis.
      forward: Position and state -> greatest score by way of any previous label.
      pairs_of: Position and labels -> pairwise scores of the previous labels, a state.

    Returns:
      Labels (L, *lengths.shape) and scores (*lengths.shape).
    """
    num_positions = unary.shape[0]
    positions = jnp.arange(1, num_positions, dtype=jnp.int32)

    def step_forward(
        best: jax.Array, inputs: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        i, unary_i = inputs
        is_inside = jnp.expand_dims(i < lengths, 1)
        return jnp.where(is_inside, forward(i, best) + unary_i, best), best

    def step_back(
        label: jax.Array, inputs: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        i, previous_best = inputs
        previous = _first_argmax(previous_best + pairs_of(i, label))
        is_inside = i < lengths
        return jnp.where(is_inside, previous, label), jnp.where(is_inside, label, 0)

    final, best = lax.scan(step_forward, start, (positions, unary[1:]))
    label = jnp.where(lengths > 0, _first_argmax(final), 0)
    first, rest = lax.scan(step_back, label, (positions, best), reverse=True)
    score = jnp.where(lengths > 0, jnp.max(final, axis=1), 0)
    return jnp.concatenate([first[None], rest]), score


def _max_plus(pairs: jax.Array, best: jax.Array) -> jax.Array:
    """Return max over previous labels of pairs + best.

    Args:
      pairs: Axis 1 current label, axis 2 previous label, other axes as `best` or 1.
      best: State, axis 1 previous label.
    """
    num_labels = best.shape[1]
    if num_labels > _MOST_UNROLLED:
        return jnp.max(pairs + jnp.expand_dims(best, 1), axis=2)
    terms = [pairs[:, :, j] + best[:, j : j + 1] for j in range(num_labels)]
    while len(terms) > 1:
        pairs_of_terms = zip(terms[::2], terms[1::2], strict=False)
        paired = [jnp.maximum(a, b) for a, b in pairs_of_terms]
        terms = paired + terms[2 * len(paired) :]
    return terms[0]


def _first_argmax(values: jax.Array) -> jax.Array:
    """Return the smallest index of the maximum along axis 1, as int32."""
    num_labels = values.shape[1]
    if num_labels > _MOST_UNROLLED:
        return lax.argmax(values, 1, jnp.int32)
    best = values[:, 0]
    index = jnp.zeros(best.shape, jnp.int32)
    for j in range(1, num_labels):
        is_better = values[:, j] > best
        best = jnp.where(is_better, values[:, j], best)
        index = jnp.where(is_better, j, index)
    return index
