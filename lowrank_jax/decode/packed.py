r"""Best label sequences of a group of sentences side by side, packed without padding.

`viterbi` has the same recursion. Tokens lie time-major (`streams.packs`): step i of all
sentences that have one is a contiguous slice, because lengths fall. The current
label is the innermost axis, so the maximum over previous labels is a tree of maxima of
whole vectors:

.. math:: \delta_{i,s} = \max_r \{\delta_{i-1,r} + P_{i,r,s}\} + u_{i,s}

The scores u of single labels may be added into P instead. Lanes beyond the live
sentences and columns beyond the labels hold anything. Nothing reads them.
"""

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax.decode.trees import MOST, first_argmax, largest

__all__ = ["best_paths"]
__dir__ = __all__.copy


def best_paths(
    unary: jax.Array | None,
    pairs: jax.Array,
    lengths: jax.Array,
    labels: jax.Array,
    first: jax.Array,
    best: jax.Array,
    *,
    num_labels: int,
) -> tuple[jax.Array, jax.Array]:
    """Write the best labels of a group into a buffer.

    Args:
      unary: (n, W) scores of labels in packed order, or None. n is at least the number
        of tokens and one group more.
      pairs: (n, S + 1, W) scores of pairs (previous, current), row S for the start of a
        sentence, or (S + 1, W) for all positions.
      lengths: (group,) int32 lengths, falling; 0 for no sentence.
      labels: (m,) int32 buffer, which has room for one group after the last token.
      first: () int32 place of the first token of the group in `labels`.
      best: (longest, group, W) buffer of maxima.
      num_labels: S. Static.

    Returns:
      The two buffers. Labels of tokens outside the group stay as they are.
    """
    group, zero = lengths.shape[0], jnp.zeros((), jnp.int32)

    def cut(array: jax.Array, at: jax.Array) -> jax.Array:
        return lax.dynamic_slice_in_dim(array, at, group)

    def live(i: jax.Array) -> jax.Array:
        return (lengths > i).sum(dtype=jnp.int32)  # the first ones: lengths fall

    def row(best: jax.Array, i: jax.Array) -> jax.Array:
        return lax.dynamic_index_in_dim(best, i, 0, keepdims=False)

    def scored(now: jax.Array, at: jax.Array) -> jax.Array:
        return now if unary is None else now + cut(unary, at)

    def pairs_at(at: jax.Array) -> jax.Array:
        return pairs[None] if pairs.ndim == 2 else cut(pairs, at)

    def forward(i: jax.Array, carry: tuple) -> tuple:
        at, now, best = carry
        now = scored(_largest(pairs_at(at), now, num_labels), at)
        return at + live(i), now, lax.dynamic_update_index_in_dim(best, now, i, 0)

    width = (group, pairs.shape[-1])
    start = jnp.broadcast_to(pairs_at(zero)[:, num_labels], width)
    start = scored(start, zero)
    best = lax.dynamic_update_index_in_dim(best, start, 0, 0)
    one = jnp.ones((), jnp.int32)
    end, _, best = lax.fori_loop(one, lengths[0], forward, (live(zero), start, best))

    lanes = jnp.arange(group, dtype=jnp.int32)
    last = first_argmax(best[jnp.maximum(lengths - 1, 0), lanes, :num_labels], 1)

    def backward(j: jax.Array, carry: tuple) -> tuple:
        at, label, labels = carry
        i = lengths[0] - 1 - j
        at = at - live(i)
        label = jnp.where(lengths == i + 1, last, label)
        # Lanes beyond the live ones are labels of the next step, already written.
        written = jnp.where(lengths > i, label, cut(labels, first + at))
        labels = lax.dynamic_update_slice_in_dim(labels, written, first + at, 0)
        if pairs.ndim == 3:
            here = cut(pairs, at)[:, :num_labels]
            own = jnp.take_along_axis(here, label[:, None, None], 2)[:, :, 0]
        else:
            own = pairs[:num_labels].T.at[label].get(mode="promise_in_bounds")
        before = row(best, jnp.maximum(i - 1, 0))[:, :num_labels]
        found = first_argmax(before + own, 1)
        return at, jnp.where(lengths > i, found, label), labels

    # A group without sentences: `lengths[0]` is 0, and both loops are empty.
    begin = jnp.where(lengths[0] > 0, end, zero), jnp.zeros((group,), jnp.int32), labels
    return lax.fori_loop(zero, lengths[0], backward, begin)[2], best


def _largest(pairs: jax.Array, now: jax.Array, num_labels: int) -> jax.Array:
    """Return the maximum over previous labels of ``pairs[:, r] + now[:, r]``."""
    if num_labels > MOST:
        return (pairs[:, :num_labels] + now[:, :num_labels, None]).max(axis=1)
    terms = [pairs[:, r] + now[:, r : r + 1] for r in range(num_labels)]
    return largest(terms)
