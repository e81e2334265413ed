"""Sentences on the device: flat arrays, and a window of fixed size on each sentence.

A corpus lies on the device as flat arrays over all tokens. One example is a window of
fixed size that begins at the start of its sentence, and its true length. So one
compiled program serves sentences of all lengths, and nothing is padded. `fill` works on
a few positions of a window at a time, up to the true length. With one position at a
time, the overhead of many small operations would dominate. With the whole window at
once, much of the work would go into padding.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax import checks
from lowrank_jax.data.sequences import Sequences, Space, check_sequences
from lowrank_jax.types import Sentence

__all__ = ["POSITIONS", "Stream", "add_window", "fill", "refill", "stream", "window_of"]
__dir__ = __all__.copy

POSITIONS = 8  # 16 costs 30 % more on ragged sentences of 24 tokens, 4 no less

Buffers = TypeVar("Buffers")
Params = TypeVar("Params")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Stream:
    """A corpus on the device, ready to be sliced sentence by sentence.

    Attributes:
      feature_ids: (num_tokens + window, num_templates) int32.
      labels: (num_tokens + window,) int32.
      starts: (num_sentences,) int32, first token of each sentence.
      lengths: (num_sentences,) int32.
      window: Length of the longest sentence, rounded up. Static.
      space: Sizes. Static.
      values: (num_tokens + window, num_templates) values, or None for 1 each.
      weights: (num_sentences,) weights of sentences, or None for 1 each.
      is_partial: True if some labels are unknown (-1). Static.
    """

    feature_ids: jax.Array
    labels: jax.Array
    starts: jax.Array
    lengths: jax.Array
    window: int = dataclasses.field(metadata={"static": True})
    space: Space = dataclasses.field(metadata={"static": True})
    values: jax.Array | None = None
    weights: jax.Array | None = None
    is_partial: bool = dataclasses.field(default=False, metadata={"static": True})

    @property
    def num_examples(self) -> int:
        """Number of sentences."""
        return self.starts.shape[0]

    def example(self, index: jax.Array | int) -> Sentence:
        """Return one sentence. The index may be traced."""
        start = self.starts[index]

        def window(part: jax.Array) -> jax.Array:
            return lax.dynamic_slice_in_dim(part, start, self.window)

        return Sentence(
            feature_ids=window(self.feature_ids),
            labels=window(self.labels),
            length=self.lengths[index],
            space=self.space,
            values=None if self.values is None else window(self.values),
            weight=None if self.weights is None else self.weights[index],
            is_partial=self.is_partial,
        )

    def check(self) -> None:
        """Raise `InputError` unless there are sentences and some labels are known."""
        if self.num_examples == 0:
            raise checks.InputError("There is no sentence to train on.")
        num_tokens = self.labels.shape[0] - self.window
        labels = np.asarray(self.labels)[:num_tokens]
        if num_tokens and (labels < 0).all():
            raise checks.InputError(
                f"All {num_tokens} tokens have an unknown label (-1): encode the "
                "training corpus with its labels."
            )


def stream(sequences: Sequences, *, window: int | None = None) -> Stream:
    """Put a corpus on the device.

    Args:
      sequences: Corpus from `features`.
      window: Length of a window, at least the length of the longest sentence, which
        None takes.
    """
    check_sequences(sequences)
    offsets = np.asarray(sequences.offsets)
    lengths = np.diff(offsets)
    longest = int(lengths.max(initial=1))
    if window is None:
        window = longest
    checks.whole(window=window)
    if window < longest:
        raise checks.InputError(
            f"`window` must be at least {longest}, the longest sentence, got {window}."
        )
    window = window_of(window)
    padded = add_window(sequences, window)
    return Stream(
        feature_ids=jnp.asarray(padded.feature_ids, jnp.int32),
        labels=jnp.asarray(padded.labels, jnp.int32),
        starts=jnp.asarray(offsets[:-1], jnp.int32),
        lengths=jnp.asarray(lengths, jnp.int32),
        window=window,
        space=sequences.space,
        values=None if padded.values is None else jnp.asarray(padded.values),
        weights=None if padded.weights is None else jnp.asarray(padded.weights, float),
        is_partial=bool((np.asarray(sequences.labels) < 0).any()),
    )


def add_window(sequences: Sequences, window: int) -> Sequences:
    """Append rows that are no token, for slices of fixed size.

    A slice of `window` rows from the start of any sentence then stays inside the
    arrays; a dynamic slice in JAX would otherwise be moved back.

    Args:
      sequences: Corpus; its `num_tokens` grows by `window`, its offsets stay.
      window: Number of rows to append, at least the length of the longest sentence.

    Returns:
      The same sentences, with `window` rows of feature id K and label 0 behind them.

    Raises:
      InputError: If a sentence is longer than the window.
    """
    checks.whole(window=window)
    feature_ids, labels = (
        np.asarray(sequences.feature_ids),
        np.asarray(sequences.labels),
    )
    longest = int(np.diff(np.asarray(sequences.offsets)).max(initial=0))
    if longest > window:
        raise checks.InputError(
            f"`window` must be at least {longest}, the longest sentence, got {window}."
        )
    rows = np.full(
        (window, feature_ids.shape[1]), sequences.space.num_features, feature_ids.dtype
    )
    values = sequences.values
    if values is not None:
        values = np.concatenate([values, np.zeros(rows.shape, values.dtype)])
    return dataclasses.replace(
        sequences,
        feature_ids=np.concatenate([feature_ids, rows]),
        labels=np.concatenate([labels, np.zeros(window, labels.dtype)]),
        values=values,
    )


def window_of(max_length: int) -> int:
    """Return the smallest window that holds `max_length` tokens in whole steps."""
    return max(1, -(-max_length // POSITIONS)) * POSITIONS


def fill(
    score: Callable[[Params, jax.Array], Buffers],
    params: Params,
    ids: jax.Array,
    length: jax.Array,
    values: jax.Array | None = None,
) -> Buffers:
    """Return `score(params, ids)` of a sentence, a group of positions at a time.

    Differentiable with respect to `params` and `values`, forward and backward. The
    derivative works on the whole window at once: a loop up to a traced length has no
    transpose.

    Args:
      score: Function from params and ids (POSITIONS, num_templates) to arrays of
        leading axis POSITIONS. It must not hold traced values. With `values` it takes
        the values of the positions as third argument.
      params: Parameters of the model, a pytree of real arrays.
      ids: (window, num_templates) int32; the window is a multiple of `POSITIONS` (see
        `window_of`).
      length: () int32, number of tokens.
      values: (window, num_templates) values of the features, or None.

    Returns:
      Arrays of leading axis `window`. Rows beyond the length are 0 or hold the scores
      of padding.
    """
    _check_window(ids)
    return _fill(score, params, ids, length, values)


def _check_window(ids: jax.Array) -> None:
    """Raise unless groups of positions fill the window: the last slice would move."""
    if ids.shape[0] % POSITIONS or not ids.shape[0]:
        raise checks.InputError(
            f"The window of a sentence must be a positive multiple of {POSITIONS}, got "
            f"{ids.shape[0]}: pad `feature_ids` with the id K (see `window_of`)."
        )


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _fill(
    score: Callable[[Params, jax.Array], Buffers],
    params: Params,
    ids: jax.Array,
    length: jax.Array,
    values: jax.Array | None,
) -> Buffers:
    group = [
        jax.ShapeDtypeStruct((POSITIONS, *part.shape[1:]), part.dtype)
        for part in _given(ids, values)
    ]
    buffers = jax.tree.map(
        lambda part: jnp.zeros((ids.shape[0], *part.shape[1:]), part.dtype),
        jax.eval_shape(score, params, *group),
    )
    return refill(score, params, ids, length, buffers, values)


def _given(ids: jax.Array, values: jax.Array | None) -> tuple[jax.Array, ...]:
    """Return what `score` takes beside the parameters."""
    return (ids,) if values is None else (ids, values)


def refill(
    score: Callable[[Params, jax.Array], Buffers],
    params: Params,
    ids: jax.Array,
    length: jax.Array,
    buffers: Buffers,
    values: jax.Array | None = None,
) -> Buffers:
    """Return what `fill` returns, written over `buffers` of an earlier sentence.

    New buffers of zeros in each round cost a quarter of the time of scoring. Rows
    beyond the length hold anything. Not differentiable.
    """
    _check_window(ids)
    num_steps = (length + POSITIONS - 1) // POSITIONS

    def step(j: jax.Array, filled: Buffers) -> Buffers:
        first = j * POSITIONS
        here = [
            lax.dynamic_slice_in_dim(part, first, POSITIONS)
            for part in _given(ids, values)
        ]
        return jax.tree.map(
            lambda whole, part: lax.dynamic_update_slice_in_dim(whole, part, first, 0),
            filled,
            score(params, *here),
        )

    return lax.fori_loop(jnp.zeros_like(num_steps), num_steps, step, buffers)


@_fill.defjvp
def _fill_jvp(
    score: Callable[[Params, jax.Array], Buffers], primals: Any, tangents: Any
) -> tuple[Buffers, Buffers]:
    params, ids, length, values = primals
    end = (length + POSITIONS - 1) // POSITIONS * POSITIONS
    is_filled = jnp.arange(ids.shape[0], dtype=jnp.int32) < end

    def whole(params: Params, values: jax.Array | None) -> Buffers:
        def keep(part: jax.Array) -> jax.Array:
            return jnp.where(is_filled.reshape(-1, *(1,) * (part.ndim - 1)), part, 0)

        return jax.tree.map(keep, score(params, *_given(ids, values)))

    _, moved = jax.jvp(whole, (params, values), (tangents[0], tangents[3]))
    return _fill(score, params, ids, length, values), moved
