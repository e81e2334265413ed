"""Label the tokens of encoded sentences with the parameters of a model."""

import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax import checks, decode
from lowrank_jax.data.sequences import Sequences, Space
from lowrank_jax.decode import LowRankScores, Scores, best_path
from lowrank_jax.decode.packed import best_paths
from lowrank_jax.models.blocks import MANY
from lowrank_jax.models.linear import dtype_of
from lowrank_jax.streams import packs
from lowrank_jax.streams.sentences import Stream, stream
from lowrank_jax.types import Sentence

__all__ = [
    "Barred",
    "groups",
    "k_best",
    "k_best_all",
    "marginals",
    "marginals_all",
    "predict",
    "predict_all",
    "predict_batch",
    "predict_jitted",
    "predict_padded",
]
__dir__ = __all__.copy


class Barred(NamedTuple):
    """Weights, and pairs of labels that may not follow each other.

    Attributes:
      params: Parameters of the model.
      table: (S + 1, S + 1), 0 or minus infinity, laid out as `data.legal_pairs` has it.
    """

    params: Any
    table: Any


_SHORT = 256  # sentences up to this length are decoded in one window
_MOST_SCORES = 16_000_000  # scores of a group: 64 MB in single precision


def predict(
    scores: Callable[[Any, Sentence], Scores | LowRankScores],
    params: Any,
    corpus: Stream,
) -> jax.Array:
    """Label every token of a corpus, sentence by sentence; pure, to be jitted.

    Args:
      scores: `models.linear.scores`, `models.bilinear.scores` or their like.
      params: Parameters of the model.
      corpus: Stream from `streams.sentences.stream`.

    Returns:
      (num_tokens,) int32 labels.
    """

    def one(labels: jax.Array, index: jax.Array) -> tuple[jax.Array, None]:
        example = corpus.example(index)
        path = best_path(scores(params, example), example.length)
        # The window reaches into the next sentences, which come later and overwrite.
        start = corpus.starts[index]
        return lax.dynamic_update_slice_in_dim(labels, path.labels, start, 0), None

    order = jnp.arange(corpus.starts.shape[0], dtype=jnp.int32)
    labels, _ = lax.scan(one, jnp.zeros_like(corpus.labels), order)
    return labels[: labels.shape[0] - corpus.window]


def _group_of(corpus: Stream, num_sentences: int, max_tokens: int) -> int:
    """Return how many sentences the packed form takes side by side.

    It is 0 if there are too few sentences or too many scores for it to pay.
    """
    labels, is_first = corpus.space.num_labels, bool(corpus.space.first_order)
    if is_first and labels >= MANY:  # the stream keeps the scores of pairs as factors
        return 0
    each = labels + 2 if is_first else 1
    most = min(max_tokens, _MOST_SCORES // (labels * each)) // corpus.window
    group = packs.GROUP
    while group > most or 2 * group > num_sentences:
        group //= 2
    return group if group >= 4 else 0


def _predict_packed(
    model: ModuleType, params: Any, corpus: Stream, num_sentences: int, group: int
) -> np.ndarray:
    """Label the first sentences of a corpus, groups of like length side by side."""
    lengths = np.zeros(-(-corpus.num_examples // group) * group, np.int64)
    lengths[:num_sentences] = np.asarray(corpus.lengths)[:num_sentences]
    order = np.argsort(-lengths, kind="stable")
    lanes = lengths[order].reshape(-1, group)
    lane, step, place = packs.places(lanes)
    starts = np.zeros_like(lengths)
    starts[:num_sentences] = np.asarray(corpus.starts)[:num_sentences]
    token = np.zeros(len(corpus.labels) + packs.GROUP, np.int32)
    own = starts[order][lane] + step
    token[place] = own
    given = token, lanes.astype(np.int32)
    found = np.asarray(_packed(model, params, corpus, *given))
    labels = np.zeros(len(lane), np.int32)
    labels[own] = found[place]
    return labels


@functools.partial(jax.jit, static_argnums=0)
def _packed(
    model: ModuleType, params: Any, corpus: Stream, token: jax.Array, lengths: jax.Array
) -> jax.Array:
    """Return labels in packed order.

    Args:
      model: `models.linear` or `models.bilinear`.
      params: Parameters of the model.
      corpus: Stream.
      token: (n,) tokens of the corpus in packed order.
      lengths: (num_groups, group) lengths, falling in each group.
    """
    labels, size, group = corpus.space.num_labels, packs.GROUP, lengths.shape[1]
    zero, room = jnp.zeros((), jnp.int32), group * corpus.window + 2 * size

    def score(at: jax.Array) -> tuple[jax.Array, jax.Array]:
        ids = corpus.feature_ids.at[at].get(mode="promise_in_bounds")
        values = None if corpus.values is None else corpus.values[at]
        return model.packed(params, ids, corpus.space, values)

    first = lax.dynamic_slice_in_dim(token, zero, size)
    unary, pairs = jax.eval_shape(score, first)
    is_shared = len(pairs.shape) == 2  # transitions alone: not filled by position

    def zeros(part: Any) -> jax.Array:
        return jnp.zeros((room, *part.shape[1:]), part.dtype)

    held = [zeros(unary)] if is_shared else [zeros(unary), zeros(pairs)]
    shared = score(first)[1] if is_shared else None

    def one(k: jax.Array, carry: tuple) -> tuple:
        at, held, best, found = carry
        own = lax.dynamic_index_in_dim(lengths, k, 0, keepdims=False)
        count = own.sum(dtype=jnp.int32)

        def fill(j: jax.Array, held: list[jax.Array]) -> list[jax.Array]:
            here = lax.dynamic_slice_in_dim(token, at + j * size, size)
            return [
                lax.dynamic_update_slice_in_dim(part, new, j * size, 0)
                for part, new in zip(held, score(here), strict=False)
            ]

        held = lax.fori_loop(zero, (count + size - 1) // size, fill, held)
        all_pairs = held[1] if shared is None else shared
        found, best = best_paths(
            held[0], all_pairs, own, found, at, best, num_labels=labels
        )
        return at + count, held, best, found

    best = jnp.zeros((corpus.window, group, unary.shape[1]), unary.dtype)
    start = zero, held, best, jnp.zeros((len(token) + size,), jnp.int32)
    return lax.fori_loop(zero, lengths.shape[0], one, start)[3]


@functools.partial(jax.jit, static_argnums=(0, 4))
def _predict_padded(
    model: ModuleType,
    params: Any,
    ids: jax.Array,
    lengths: jax.Array,
    space: Space,
    values: jax.Array | None,
) -> jax.Array:
    num_sentences, num_positions = ids.shape[:2]
    if values is not None:
        values = values.reshape(-1, ids.shape[2])
    found = model.positions(params, ids.reshape(-1, ids.shape[2]), space, values)
    found = jax.tree.map(
        lambda part: part.reshape(num_sentences, num_positions, *part.shape[1:]), found
    )
    scores = model.with_transitions(params, *found)
    return decode.best_path_batch(scores, lengths).labels


def predict_batch(
    model: ModuleType,
    params: Any,
    sequences: Sequences,
    *,
    max_tokens: int = 16384,
) -> np.ndarray:
    """Label every token of a corpus, many sentences at a time.

    On a CPU groups of at most 16 sentences are packed without padding. Elsewhere
    sentences of like length are padded together, so an accelerator has thousands of
    positions to work on at once. A function of the host: it compiles one program for
    each of a few lengths and keeps them.

    Args:
      model: `models.linear` or `models.bilinear`.
      params: Parameters of the model.
      sequences: Sentences from `features`.
      max_tokens: Number of positions at a time, which bounds the memory.

    Returns:
      (num_tokens,) int32 labels.
    """
    checks.whole(max_tokens=max_tokens)
    if jax.default_backend() == "cpu":
        return _predict_some(model, params, sequences, max_tokens)
    return predict_padded(model, params, sequences, max_tokens=max_tokens)


def predict_padded(
    model: ModuleType, params: Any, sequences: Sequences, *, max_tokens: int
) -> np.ndarray:
    """Do what `predict_batch` does in the form for accelerators, on any device."""
    from lowrank_jax.streams.padding import length_buckets, pad_sequences, pad_values

    offsets = np.asarray(sequences.offsets)
    lengths = np.diff(offsets)
    labels = np.zeros(sequences.num_tokens, np.int32)
    for indices, length in length_buckets(lengths):
        # One shape per length: the last group is filled up with empty sentences.
        size = min(len(indices), max(1, max_tokens // length))
        for begin in range(0, len(indices), size):
            group = indices[begin : begin + size]
            ids, _, mask = pad_sequences(sequences, group, length)
            missing = size - len(group)
            ids = np.pad(ids, ((0, missing), (0, 0), (0, 0)))
            counts = np.pad(lengths[group], (0, missing)).astype(np.int32)
            values = pad_values(sequences, group, length)
            if values is not None:
                values = np.pad(values, ((0, missing), (0, 0), (0, 0)))
            found = _predict_padded(model, params, ids, counts, sequences.space, values)
            where = (offsets[group][:, None] + np.arange(length))[mask]
            labels[where] = np.asarray(found)[: len(group)][mask]
    return labels


def groups(
    sequences: Sequences,
) -> Iterator[tuple[np.ndarray, np.ndarray, Stream]]:
    """Yield token indices, sentence indices and stream of groups of like length.

    One very long sentence must not give all others its window.
    """
    counts = np.diff(np.asarray(sequences.offsets))
    lengths = np.maximum(counts, 1)
    level = np.ceil(np.log2(np.maximum(lengths / _SHORT, 1)) / 2)
    for value in np.unique(level).tolist():
        sentences = np.flatnonzero(level == value)
        tokens = np.flatnonzero(np.repeat(level == value, counts))
        window = -(-int(lengths[sentences].max()) // 32) * 32
        part = _padded(sequences, tokens, counts[sentences])
        yield tokens, sentences, stream(part, window=window)


@functools.cache
def _scores_of(model: ModuleType) -> Callable[[Any, Sentence], Scores]:
    """Return the fast scores: row K of a trained table is 0. One object per model."""
    return functools.partial(_scores, model)


def _scores(model: ModuleType, params: Any, sentence: Sentence) -> Scores:
    """Return the scores of weights, or of weights with `Barred` pairs."""
    if not isinstance(params, Barred):
        return model.scores(params, sentence, has_zero_row=True)
    unary, pairs = model.scores(params.params, sentence, has_zero_row=True)
    table = jnp.asarray(params.table, unary.dtype)
    num_labels = unary.shape[1]
    is_last = jnp.arange(len(unary)) == sentence.length - 1
    unary += jnp.where(is_last[:, None], table[-1:, :num_labels], 0)
    wide = ((0, 0), (0, pairs.shape[-1] - num_labels - 1))
    bars = jnp.broadcast_to(jnp.pad(table[:-1], wide), pairs.shape)
    return Scores(unary, pairs + bars)


def predict_all(model: ModuleType, params: Any, sequences: Sequences) -> np.ndarray:
    """Label every token of a corpus in the way that suits the device.

    Args:
      model: `models.linear` or `models.bilinear`.
      params: Parameters of the model.
      sequences: Sentences from `features`.

    Returns:
      (num_tokens,) int32 labels.
    """
    is_plain = not isinstance(params, Barred)
    if jax.default_backend() != "cpu" and is_plain:  # wide machines want many at once
        return predict_batch(model, params, sequences)
    return _predict_some(model, params, sequences, 16384)


def _predict_some(
    model: ModuleType, params: Any, sequences: Sequences, max_tokens: int
) -> np.ndarray:
    """Label a corpus on a CPU: groups side by side, or sentence by sentence."""
    codes = np.zeros(sequences.num_tokens, np.int32)
    for tokens, sentences, part in groups(sequences):
        is_plain, group = not isinstance(params, Barred), 0
        if is_plain:
            group = _group_of(part, len(sentences), max_tokens)
        if group:
            codes[tokens] = _predict_packed(model, params, part, len(sentences), group)
        else:
            scores = getattr(model, "sought", None) if is_plain else None
            found = predict_jitted(scores or _scores_of(model), params, part)
            codes[tokens] = np.asarray(found)[: tokens.size]
    return codes


def k_best_all(
    model: ModuleType, k: int, params: Any, sequences: Sequences
) -> list[list[tuple[np.ndarray, float]]]:
    """Return labels and score of the k best paths of each sentence, best first."""
    results: list[list[tuple[np.ndarray, float]]] = [[]] * sequences.num_sentences
    lengths = np.diff(sequences.offsets).tolist()
    for _, sentences, part in groups(sequences):
        for i, sentence in enumerate(sentences.tolist()):
            paths = jax.device_get(
                k_best(_scores_of(model), k, params, part, np.int32(i))
            )
            results[sentence] = [
                (labels[: lengths[sentence]], float(score))
                for labels, score, is_valid in zip(*paths, strict=True)
                if is_valid
            ]
    return results


def marginals_all(
    model: ModuleType, params: Any, sequences: Sequences, temperature: float = 1.0
) -> np.ndarray:
    """Return the probability of each label at each token, (num_tokens, S)."""
    dtype = dtype_of(params)
    result = np.zeros((sequences.num_tokens, sequences.space.num_labels), dtype)
    starts = sequences.offsets.tolist()
    for _, sentences, part in groups(sequences):
        for i, sentence in enumerate(sentences.tolist()):
            here = slice(starts[sentence], starts[sentence + 1])
            found = marginals(_scores_of(model), params, part, np.int32(i), temperature)
            result[here] = np.asarray(found)[: here.stop - here.start]
    return result


#: `predict` as one program per model and shape.
predict_jitted = jax.jit(predict, static_argnums=0)


@functools.partial(jax.jit, static_argnums=(0, 1))
def k_best(scores: Any, k: int, params: Any, corpus: Stream, index: jax.Array) -> Any:
    """Return the k best paths of one sentence, as `decode.k_best_paths` does."""
    sentence = corpus.example(index)
    return decode.k_best_paths(scores(params, sentence), k, sentence.length)


@functools.partial(jax.jit, static_argnums=0)
def marginals(
    scores: Any,
    params: Any,
    corpus: Stream,
    index: jax.Array,
    temperature: jax.Array | float = 1.0,
) -> jax.Array:
    """Return the probability of each label at each token of one sentence."""
    sentence = corpus.example(index)
    found = scores(params, sentence)
    found = jax.tree.map(
        lambda part: part / jnp.asarray(temperature, part.dtype), found
    )
    return decode.marginals(found, sentence.length).unary


def _padded(sequences: Sequences, tokens: np.ndarray, lengths: np.ndarray) -> Sequences:
    """Take tokens and fill up to a round number, so that few shapes are compiled."""
    num_tokens, num_sentences = _round_up(tokens.size, 512), _round_up(lengths.size, 32)
    space = sequences.space
    shape = (num_tokens, len(space.orders))
    feature_ids = np.full(shape, space.num_features, np.int32)
    feature_ids[: tokens.size] = sequences.feature_ids[tokens]
    offsets = np.full(num_sentences + 1, tokens.size, np.int32)
    offsets[: lengths.size + 1] = np.concatenate([[0], np.cumsum(lengths)])
    values = None
    if sequences.values is not None:
        values = np.zeros(shape, sequences.values.dtype)
        values[: tokens.size] = sequences.values[tokens]
    labels = np.zeros(num_tokens, np.int32)
    return Sequences(feature_ids, labels, offsets, space, values)


def _round_up(number: int, least: int) -> int:
    """Round up to one of four sizes between two powers of 2."""
    number = max(number, least)
    step = 1 << max(0, number.bit_length() - 3)
    return -(-number // step) * step
