"""Padding against plain loops, buckets against enumeration."""

import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Sequences, Space
from lowrank_jax.streams.padding import length_buckets, pad_sequences
from lowrank_jax.streams.sentences import add_window

SPACE = Space(num_features=50, num_labels=3, orders=("1", "01"))


def make_sequences(lengths, seed=0):
    rng = np.random.default_rng(seed)
    size = sum(lengths)
    return Sequences(
        feature_ids=rng.integers(0, 51, (size, 2)).astype(np.int32),
        labels=rng.integers(0, 3, size).astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        space=SPACE,
    )


def slow_padding(sequences, indices, length):
    ids = np.full((len(indices), length, 2), 50, np.int32)
    labels = np.zeros((len(indices), length), np.int32)
    mask = np.zeros((len(indices), length), bool)
    for row, index in enumerate(indices):
        start, end = sequences.offsets[index : index + 2]
        ids[row, : end - start] = sequences.feature_ids[start:end]
        labels[row, : end - start] = sequences.labels[start:end]
        mask[row, : end - start] = True
    return ids, labels, mask


@hypothesis.given(st.lists(st.integers(0, 6), min_size=1, max_size=6), st.data())
@hypothesis.settings(max_examples=100, deadline=None)
def test_padding_equals_a_loop_over_sentences(lengths, data):
    sequences = make_sequences(lengths)
    index = st.integers(0, len(lengths) - 1)
    indices = data.draw(st.lists(index, max_size=6))
    length = data.draw(st.integers(max([1, *lengths]), 9))
    padded = pad_sequences(sequences, indices, length)
    for got, expected in zip(
        padded, slow_padding(sequences, indices, length), strict=True
    ):
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == expected.dtype


def test_too_short_a_length_is_named():
    with pytest.raises(InputError, match="`length` must be at least 4"):
        pad_sequences(make_sequences([2, 4]), [0, 1], 3)
    with pytest.raises(InputError, match="`window` must be at least 4"):
        add_window(make_sequences([2, 4]), 3)


def test_a_window_keeps_every_slice_inside():
    sequences = make_sequences([2, 4, 1])
    windowed = add_window(sequences, 5)
    assert windowed.num_tokens == 12
    assert windowed.feature_ids.dtype == windowed.labels.dtype == np.int32
    np.testing.assert_array_equal(windowed.offsets, sequences.offsets)
    np.testing.assert_array_equal(windowed.feature_ids[:7], sequences.feature_ids)
    assert (windowed.feature_ids[7:] == 50).all()
    assert (windowed.labels[7:] == 0).all()
    for start in windowed.offsets[:-1]:
        assert windowed.feature_ids[start : start + 5].shape == (5, 2)


def padding_of(lengths, ends):
    ends = np.sort(np.asarray(ends))
    padded = ends[np.searchsorted(ends, lengths)]
    return int((padded - lengths).sum())


@hypothesis.given(
    st.lists(st.integers(0, 12), min_size=1, max_size=15), st.floats(0, 1.5)
)
@hypothesis.settings(max_examples=150, deadline=None)
def test_buckets_are_the_fewest_that_enumeration_finds(lengths, max_padding):
    lengths = np.array(lengths)
    buckets = length_buckets(lengths, max_padding)
    together = np.concatenate([indices for indices, _ in buckets])
    assert sorted(together.tolist()) == list(range(lengths.size))
    ends = [end for _, end in buckets]
    for indices, end in buckets:
        assert (lengths[indices] <= end).all()
        assert (np.diff(indices) > 0).all()
    # Zero-length sentences have to be padded to something: they need one position.
    candidates = np.unique(np.maximum(lengths, 1)).tolist()
    limit = max_padding * lengths.sum()
    best = {
        size: min(
            padding_of(lengths, [*chosen, candidates[-1]])
            for chosen in itertools.combinations(candidates[:-1], size - 1)
        )
        for size in range(1, len(candidates) + 1)
    }
    enough = [size for size, padding in best.items() if padding <= limit]
    fewest = min(enough) if enough else len(candidates)
    assert len(ends) <= fewest
    assert padding_of(lengths, ends) == best[fewest]


def test_buckets_of_many_lengths_waste_little():
    lengths = np.random.default_rng(0).geometric(0.02, 20000)
    buckets = length_buckets(lengths, 0.2)
    padded = sum(indices.size * end for indices, end in buckets)
    assert padded <= 1.2 * lengths.sum()
    assert len(buckets) < np.log(lengths.max()) / np.log(1.2) / 2  # geometric lengths


def test_more_lengths_than_candidates_stay_in_bounds():
    lengths = np.arange(1, 3000)
    buckets = length_buckets(lengths, 0.1)
    assert sum(i.size * end for i, end in buckets) <= 1.1 * lengths.sum()
    assert length_buckets([], 0.1) == []
