r"""The best label sequences of many sentences at once, for bulk decoding.

The recursion of `viterbi`, written on the batch: one `lax.scan` over positions forward,
one back. What makes it fast on a CPU, and keeps accelerators busy:

* With shared pairwise scores, the batch is the innermost axis, in groups of at most
  128. Then :math:`\max_r \{P_{s,r} + \delta_{r,b}\}` is S vector additions and maxima
  with scalars :math:`P_{s,r}`, and the maxima of a group stay in the nearest cache.
* That maximum is written as a tree of elementwise maxima, which fuse into one loop. A
  reduction would not be vectorised.
* Only maxima are kept going forward. Going back, the first best label is sought on the
  traced path alone: S comparisons per token instead of S^2.

Scores of each position (B, L, S, S+1) are read once, in the order they lie in memory.

A scan is two or three launches per position on a GPU. There, up to 64 labels, all
prefixes come from :math:`\log L` max-plus products of matrices with their neighbours
1, 2, 4, ... to the left, and the labels from a composition of the maps label ->
previous label. The work is :math:`S \log L` times as much. On a TPU work decides, so
it scans, and picks the row of a label by a masked sum, not by a gather of single rows.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax.decode.scores import Path, Scores, as_batch, forbid
from lowrank_jax.decode.trees import MOST, first_argmax, largest
from lowrank_jax.linalg.forms import by_platform

__all__ = ["best_path_batch"]
__dir__ = __all__.copy

_GROUP = 128  # sentences side by side: 4 KB aligned rows of a longer axis would collide
_MOST_ASSOCIATED = 64  # labels; beyond that S times the work costs more than launches


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
    own = _shared if is_shared else _per_position
    gpu = _associative if unary.shape[2] <= _MOST_ASSOCIATED else own
    return by_platform(unary, pairwise, lengths, cpu=own, gpu=gpu, tpu=_masked)


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


def _masked(unary: jax.Array, pairwise: jax.Array, lengths: jax.Array) -> Path:
    """Decode by scans without a gather; of either kind of pairwise scores."""
    num_labels = unary.shape[2]
    # What made the scores must not move into the scan and be made anew at each step.
    unary, pairwise = lax.optimization_barrier((unary, pairwise))
    each = jnp.arange(num_labels, dtype=jnp.int32)
    inside = jnp.arange(unary.shape[1], dtype=jnp.int32)[None] < lengths[:, None]
    shared = pairwise[None, :, :num_labels] if pairwise.ndim == 2 else None
    pairs = None
    if shared is None:
        pairs = jnp.moveaxis(pairwise[:, 1:, :, :num_labels], 1, 0)
    steps = pairs, jnp.moveaxis(unary, 1, 0)[1:], inside[:, 1:].T

    def forward(best: jax.Array, step: tuple) -> tuple[jax.Array, jax.Array]:
        pairs_i, unary_i, is_inside = step
        pairs_i = pairs_i if shared is None else shared
        new = jnp.max(pairs_i + best[:, None, :], axis=2) + unary_i
        return jnp.where(is_inside[:, None], new, best), best

    def backward(label: jax.Array, step: tuple) -> tuple[jax.Array, jax.Array]:
        pairs_i, is_inside, before = step
        pairs_i = pairs_i if shared is None else shared
        is_label = each[None, :] == label[:, None]
        row = jnp.where(is_label[:, :, None], pairs_i, 0).sum(axis=1)
        previous = lax.argmax(before + row, 1, jnp.int32)
        return jnp.where(is_inside, previous, label), jnp.where(is_inside, label, 0)

    first = pairwise[None] if pairwise.ndim == 2 else pairwise[:, 0]
    start = unary[:, 0] + first[:, :, num_labels]
    final, best = lax.scan(forward, start, steps)
    label = jnp.where(lengths > 0, lax.argmax(final, 1, jnp.int32), 0)
    back = pairs, inside[:, 1:].T, best
    first, rest = lax.scan(backward, label, back, reverse=True)
    score = jnp.where(lengths > 0, jnp.max(final, axis=1), 0)
    return Path(jnp.concatenate([first[None], rest]).T, score)


def _associative(unary: jax.Array, pairwise: jax.Array, lengths: jax.Array) -> Path:
    """Decode by products of max-plus matrices; of either kind of pairwise scores."""
    num_positions, num_labels = unary.shape[1:]
    each = jnp.arange(num_labels, dtype=jnp.int32)
    inside = jnp.arange(num_positions, dtype=jnp.int32)[None] < lengths[:, None]
    whole = jnp.broadcast_to(pairwise, (*unary.shape, pairwise.shape[-1]))
    start = unary[:, 0] + whole[:, 0, :, num_labels]
    # (B, L - 1, previous, current): row is the previous label.
    steps = whole[:, 1:, :, :num_labels].swapaxes(2, 3) + unary[:, 1:, None, :]
    # Constants of the host: else each of them is a launch.
    unit = np.where(np.eye(num_labels, dtype=bool), 0, -np.inf).astype(unary.dtype)
    is_step = inside[:, 1:, None, None]
    first = jnp.broadcast_to(start[:, None, None], (*start.shape[:1], 1, *unit.shape))
    unit = unit[None, None]
    matrices = jnp.concatenate([first, jnp.where(is_step, steps, unit)], axis=1)

    def product(one: jax.Array, two: jax.Array) -> jax.Array:
        return jnp.max(one[..., :, :, None] + two[..., None, :, :], axis=-2)

    far, place = 1, np.arange(num_positions)[None, :, None, None]
    zero = jnp.zeros((), unary.dtype)
    while far < num_positions:  # each becomes the product of up to 2 far of them
        # Padding fuses with the product, where a slice of its own is one more launch.
        before = lax.pad(matrices, zero, [(0, 0, 0), (far, -far, 0), *[(0, 0, 0)] * 2])
        matrices = product(jnp.where(place < far, unit, before), matrices)
        far *= 2
    best = matrices[:, :, 0]  # the start has equal rows, so a prefix has
    previous = lax.argmax(best[:, :-1, :, None] + steps, 2, jnp.int32)
    maps = jnp.where(inside[:, 1:, None], previous, each)

    def compose(later: jax.Array, earlier: jax.Array) -> jax.Array:
        return jnp.take_along_axis(earlier, later, axis=2, mode="promise_in_bounds")

    last = jnp.where(lengths > 0, lax.argmax(best[:, -1], 1, jnp.int32), 0)
    maps = lax.associative_scan(compose, maps, axis=1, reverse=True)
    picks = jnp.broadcast_to(last[:, None, None], (*maps.shape[:2], 1))
    labels = jnp.take_along_axis(maps, picks, axis=2, mode="promise_in_bounds")
    labels = jnp.concatenate([labels[:, :, 0], last[:, None]], axis=1)
    score = jnp.where(lengths > 0, jnp.max(best[:, -1], axis=1), 0)
    return Path(jnp.where(inside, labels, 0), score)


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
        previous = first_argmax(previous_best + pairs_of(i, label), 1)
        is_inside = i < lengths
        return jnp.where(is_inside, previous, label), jnp.where(is_inside, label, 0)

    final, best = lax.scan(step_forward, start, (positions, unary[1:]))
    label = jnp.where(lengths > 0, first_argmax(final, 1), 0)
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
    if num_labels > MOST:
        return jnp.max(pairs + jnp.expand_dims(best, 1), axis=2)
    terms = [pairs[:, :, j] + best[:, j : j + 1] for j in range(num_labels)]
    return largest(terms)
