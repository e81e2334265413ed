"""From ragged sentences to arrays of fixed shape."""

from collections.abc import Sequence

import numpy as np

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Sequences

__all__ = ["length_buckets", "pad_sequences", "pad_values"]
__dir__ = __all__.copy

_MOST_CANDIDATES = 512  # padded lengths that `length_buckets` weighs


def pad_sequences(
    sequences: Sequences, indices: Sequence[int] | np.ndarray, length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lay sentences side by side, each filled up to one length.

    Args:
      sequences: Corpus to take from.
      indices: (n,) integers, the sentences wanted.
      length: Common length, at least the length of the longest of them.

    Returns:
      ``(feature_ids, labels, mask)``: (n, length, num_templates) int32 filled up with
      K, which scores 0; (n, length) int32 filled up with 0; (n, length) bool.

    Raises:
      InputError: If a sentence is longer than `length`.
    """
    checks.whole(length=length)
    chosen = np.asarray(indices, np.int64)
    offsets = np.asarray(sequences.offsets, np.int64)
    starts, lengths = offsets[:-1][chosen], np.diff(offsets)[chosen]
    if chosen.size and lengths.max() > length:
        raise InputError(
            f"`length` must be at least {lengths.max()}, the longest sentence, got "
            f"{length}."
        )
    position = np.arange(length)
    mask = position < lengths[:, None]
    tokens = np.where(mask, starts[:, None] + position, 0)
    feature_ids, labels = (
        np.asarray(sequences.feature_ids),
        np.asarray(sequences.labels),
    )
    if feature_ids.shape[0] == 0:  # no token to point at where there is only padding
        feature_ids = np.zeros((1, feature_ids.shape[1]), feature_ids.dtype)
        labels = np.zeros(1, labels.dtype)
    nothing = np.asarray(sequences.space.num_features, feature_ids.dtype)
    padded_ids = np.where(mask[:, :, None], feature_ids[tokens], nothing)
    padded_labels = np.where(mask, labels[tokens], np.zeros((), labels.dtype))
    return padded_ids, padded_labels, mask


def pad_values(
    sequences: Sequences, indices: Sequence[int] | np.ndarray, length: int
) -> np.ndarray | None:
    """Return the values (n, length, num_templates) beside `pad_sequences`, or None."""
    if sequences.values is None:
        return None
    chosen = np.asarray(indices, np.int64)
    offsets = np.asarray(sequences.offsets, np.int64)
    mask = np.arange(length) < np.diff(offsets)[chosen][:, None]
    padded = np.zeros((*mask.shape, sequences.values.shape[1]), sequences.values.dtype)
    tokens = (offsets[:-1][chosen][:, None] + np.arange(length))[mask]
    padded[mask] = sequences.values[tokens]
    return padded


def length_buckets(
    lengths: Sequence[int] | np.ndarray, max_padding: float = 0.25
) -> list[tuple[np.ndarray, int]]:
    """Group sentences into as few buckets as keep the padding small.

    Every bucket is one shape, hence one compilation. Among all ways to cut the sorted
    lengths into b buckets the least padding is found by dynamic programming, and b is
    the least for which it suffices. (Beyond 512 distinct lengths only 512 of them,
    evenly spread, are tried as padded lengths.)

    Args:
      lengths: (num_sentences,) integers.
      max_padding: Padded positions for each true one over all sentences, at most.

    Returns:
      ``(indices, padded_length)`` for each bucket, short ones first; together the
      indices hold every sentence once, ascending within a bucket.
    """
    checks.non_negative(max_padding=max_padding)
    sizes = np.asarray(lengths, np.int64)
    if sizes.size == 0:
        return []
    distinct = np.unique(np.maximum(sizes, 1))
    if distinct.size > _MOST_CANDIDATES:
        spread = np.linspace(0, distinct.size - 1, _MOST_CANDIDATES).astype(int)
        distinct = distinct[spread]
    ends = _cut(sizes, distinct, max_padding * int(sizes.sum()))
    bucket = np.searchsorted(ends, sizes)
    groups = ((np.flatnonzero(bucket == i), int(end)) for i, end in enumerate(ends))
    return [(indices, end) for indices, end in groups if indices.size]


def _cut(sizes: np.ndarray, ends: np.ndarray, most_padding: float) -> np.ndarray:
    """Choose the fewest of the candidate `ends` with padding in bounds.

    Args:
      sizes: (num_sentences,) lengths.
      ends: (m,) candidates for padded lengths, ascending; the last is the longest.
      most_padding: Padded positions allowed in all.

    Returns:
      The chosen ends, ascending.
    """
    order = np.sort(sizes)
    count = np.concatenate([[0], np.searchsorted(order, ends, side="right")])
    total = np.concatenate([[0], np.cumsum(order)])[count]
    # padding[i, j]: sentences of lengths in (ends[i-1], ends[j]] padded to ends[j].
    padding = ends * (count[None, 1:] - count[:-1, None]) - (
        total[None, 1:] - total[:-1, None]
    )
    far = np.iinfo(np.int64).max // 2
    padding = np.where(np.tri(ends.size, k=-1, dtype=bool), far, padding)
    least = padding[0]  # one bucket from the shortest up to each end
    back: list[np.ndarray] = []
    while least[-1] > most_padding and len(back) + 1 < ends.size:
        # One more bucket: the last one covers candidates i..j, i at least 1.
        tried = np.minimum(least[:-1, None] + padding[1:], far)
        best = tried.argmin(axis=0)
        back.append(best)
        least = tried[best, np.arange(ends.size)]
    chosen = [ends.size - 1]
    for best in reversed(back):
        chosen.append(int(best[chosen[-1]]))
    return ends[chosen[::-1]]
