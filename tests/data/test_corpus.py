"""The container of columns: subsets and codes."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from lowrank_jax.checks import InputError
from lowrank_jax.data import Corpus, encode, split_fraction


def make_corpus(lengths):
    size = sum(lengths)
    words = np.array([f"w{i}" for i in range(size)], dtype=object)
    labels = np.array([f"l{i}" for i in range(size)], dtype=object)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Corpus((words,), labels, offsets, "made up")


def sentences(corpus):
    bounds = corpus.offsets
    return [
        list(zip(corpus.columns[0][a:b], corpus.labels[a:b], strict=True))
        for a, b in zip(bounds[:-1], bounds[1:], strict=True)
    ]


@hypothesis.given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.data())
@hypothesis.settings(max_examples=100, deadline=None)
def test_take_equals_indexing_a_list_of_sentences(lengths, data):
    corpus = make_corpus(lengths)
    index = st.integers(0, len(lengths) - 1)
    indices = data.draw(st.lists(index, max_size=10))
    taken = corpus.take(indices)
    expected = sentences(corpus)
    assert sentences(taken) == [expected[i] for i in indices]
    assert taken.num_sentences == len(indices)
    assert taken.offsets.dtype == np.int64


def test_take_keeps_a_corpus_without_labels():
    corpus = make_corpus([2, 3])
    bare = Corpus(corpus.columns, None, corpus.offsets, "made up")
    assert bare.take([1]).labels is None


def test_take_refuses_an_index_outside():
    with pytest.raises(InputError, match=r"0\.\.1 for made up, got -1\.\.0"):
        make_corpus([2, 3]).take([0, -1])
    with pytest.raises(InputError, match=r"got 2\.\.2"):
        make_corpus([2, 3]).take([2])


def test_columns_must_agree_with_the_offsets():
    with pytest.raises(InputError, match=r"\(3,\) as the offsets say, got \(2,\)"):
        Corpus((np.array(["a", "b"]),), None, np.array([0, 3]), "made up")


def test_fractions_are_nested_and_come_from_the_seed():
    corpus = make_corpus([1] * 100)
    tenth, half = split_fraction(corpus, 0.1, 7), split_fraction(corpus, 0.5, 7)
    assert (tenth.num_sentences, half.num_sentences) == (10, 50)
    assert set(tenth.columns[0]) < set(half.columns[0])
    assert sentences(tenth) == sentences(split_fraction(corpus, 0.1, 7))
    assert sentences(tenth) != sentences(split_fraction(corpus, 0.1, 8))
    assert sentences(split_fraction(corpus, 1.0, 7)) == sentences(corpus)
    assert split_fraction(corpus, 1e-6, 7).num_sentences == 1


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.5, float("nan")])
def test_a_fraction_out_of_range_is_named(fraction):
    with pytest.raises(InputError, match="`fraction` must be above 0"):
        split_fraction(make_corpus([1, 1]), fraction, 0)


@pytest.mark.parametrize("dtype", [object, str, None])
def test_codes_lead_back_to_the_strings(dtype):
    strings = ["b", "a", "b", "", "世纪"]
    given = strings if dtype is None else np.array(strings, dtype)
    codes, values = encode(given)
    assert values == ["b", "a", "", "世纪"]
    assert [values[code] for code in codes] == strings
