"""Label the tokens of encoded sentences with the parameters of a model."""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax import checks
from lowrank_jax.data.sequences import Sequences, Space
from lowrank_jax.decode import Scores, best_path, best_path_batch
from lowrank_jax.streams.padding import length_buckets, pad_sequences
from lowrank_jax.streams.sentences import Stream
from lowrank_jax.types import Sentence

__all__ = ["predict", "predict_batch"]


def predict(
    scores: Callable[[Any, Sentence], Scores], params: Any, corpus: Stream
) -> jax.Array:
    """Label every token of a corpus, sentence by sentence; pure, to be jitted.

    Args:
      scores: of the model: `models.linear.scores` or `models.bilinear.scores`.
      params: of the model.
      corpus: from `streams.sentences.stream`.

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


@functools.partial(jax.jit, static_argnums=(0, 4))
def _predict_padded(
    model: ModuleType, params: Any, ids: jax.Array, lengths: jax.Array, space: Space
) -> jax.Array:
    num_sentences, num_positions = ids.shape[:2]
    found = model.positions(params, ids.reshape(-1, ids.shape[2]), space)
    found = jax.tree.map(
        lambda part: part.reshape(num_sentences, num_positions, *part.shape[1:]), found
    )
    scores = model.with_transitions(params, *found)
    return best_path_batch(scores.unary, scores.pairwise, lengths).labels


def predict_batch(
    model: ModuleType,
    params: Any,
    sequences: Sequences,
    *,
    max_tokens: int = 16384,
) -> np.ndarray:
    """Label every token of a corpus, many sentences at a time.

    Sentences of like length are padded together, so an accelerator has thousands of
    positions to work on at once. A function of the host: it compiles one program for
    each of a few lengths and keeps them.

    Args:
      model: `models.linear` or `models.bilinear`.
      params: of the model.
      sequences: from `features`.
      max_tokens: padded positions at a time; bounds the memory.

    Returns:
      (num_tokens,) int32 labels.
    """
    checks.whole(max_tokens=max_tokens)
    offsets = np.asarray(sequences.offsets)
    lengths = np.diff(offsets)
    labels = np.zeros(sequences.num_tokens, np.int32)
    for indices, length in length_buckets(lengths):
        # One shape a length: the last group is filled up with empty sentences.
        size = min(len(indices), max(1, max_tokens // length))
        for begin in range(0, len(indices), size):
            group = indices[begin : begin + size]
            ids, _, mask = pad_sequences(sequences, group, length)
            missing = size - len(group)
            ids = np.pad(ids, ((0, missing), (0, 0), (0, 0)))
            counts = np.pad(lengths[group], (0, missing)).astype(np.int32)
            found = _predict_padded(model, params, ids, counts, sequences.space)
            where = (offsets[group][:, None] + np.arange(length))[mask]
            labels[where] = np.asarray(found)[: len(group)][mask]
    return labels
