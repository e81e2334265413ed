"""Bi-symbols: ids, candidates, unseen letters and unseen pairs."""

import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.data import Corpus, read_nettalk
from lowrank_jax.data.bisymbols import (
    BOUNDARY,
    alphabet_of,
    encode_words,
    hamming_accuracy,
)


def corpus(*words, has_labels=True, dtype="U1"):
    letters = np.array(list("".join(word for word, _ in words)), dtype)
    labels = np.array(list("".join(label for _, label in words)), dtype)
    offsets = np.cumsum([0, *(len(word) for word, _ in words)])
    return Corpus((letters,), labels if has_labels else None, offsets, "words")


TRAIN = corpus(("ba", "xy"), ("aba", "yxz"), ("c", "y"))  # a: y z, b: x, c: y


@pytest.mark.parametrize("dtype", ["U1", object])
def test_ids_are_consecutive_within_a_letter(dtype):
    train = corpus(("ba", "xy"), ("aba", "yxz"), ("c", "y"), dtype=dtype)
    alphabet = alphabet_of(train)
    assert alphabet.letters.tolist() == ["a", "b", "c"]
    assert alphabet.num_symbols == 6  # boundary, ay, az, bx, cy, unknown
    assert alphabet.outputs.tolist() == ["", "y", "z", "x", "y", "y"]
    assert alphabet.letter_of.tolist() == [0, 1, 1, 2, 3, 4]
    assert alphabet.first.tolist() == [0, 1, 3, 4, 5]
    assert alphabet.num_candidates.tolist() == [1, 2, 1, 1, 1]
    assert (alphabet.max_candidates, alphabet.unknown, BOUNDARY) == (2, 5, 0)


def test_words_hold_candidates_and_true_ids_up_to_their_length():
    words = encode_words(alphabet_of(TRAIN), TRAIN)
    assert words.letters.tolist() == [[2, 1, 0], [1, 2, 1], [3, 0, 0]]
    assert words.gold.tolist() == [[3, 1, -1], [1, 3, 2], [4, -1, -1]]
    assert words.candidates[0].tolist() == [[3, 0], [1, 2], [0, 0]]
    assert words.mask[0].tolist() == [[True, False], [True, True], [False, False]]
    assert (words.num_words, words.num_letters) == (3, 6)
    assert all(
        part.dtype == np.int32
        for part in (words.letters, words.candidates, words.gold, words.lengths)
    )


def test_unseen_letters_have_one_candidate_and_unseen_pairs_no_id():
    alphabet = alphabet_of(TRAIN)
    # a letter below, between and above all others; a known letter with a new output,
    # a known output that this letter never had, an output between known ones
    words = encode_words(alphabet, corpus(("Aaz", "xyy"), ("bbb", "yw~")))
    assert words.letters[0].tolist() == [4, 1, 4]
    assert words.candidates[0, 0, 0] == alphabet.unknown
    assert words.mask[0].sum(axis=1).tolist() == [1, 2, 1]
    assert alphabet.outputs[alphabet.unknown] == "y"  # the most frequent one
    assert words.gold.tolist() == [[-1, 1, -1], [-1, -1, -1]]


def test_accuracy_counts_unseen_pairs_as_wrong_and_no_padding():
    alphabet = alphabet_of(TRAIN)
    words = encode_words(alphabet, corpus(("ab", "yx"), ("c", "z")))
    assert hamming_accuracy(words, words.gold) == pytest.approx(200 / 3)
    assert hamming_accuracy(words, np.array([[1, 3], [4, -1]])) == pytest.approx(
        200 / 3
    )
    assert hamming_accuracy(words, np.array([[2, 3], [4, 4]])) == pytest.approx(100 / 3)


def test_labels_may_be_missing_but_not_in_training():
    alphabet = alphabet_of(TRAIN)
    words = encode_words(alphabet, corpus(("ab", "yx"), has_labels=False))
    assert words.gold.tolist() == [[-1, -1]]
    with pytest.raises(InputError, match="words has no labels"):
        alphabet_of(corpus(("ab", "yx"), has_labels=False))
    with pytest.raises(InputError, match="no letter"):
        alphabet_of(TRAIN.take([]))


def test_nettalk_has_the_candidates_of_the_paper(corpus_path):
    nettalk = read_nettalk(corpus_path("nettalk/nettalk.data.xz"))
    alphabet = alphabet_of(nettalk)
    words = encode_words(alphabet, nettalk)
    inner = alphabet.num_candidates[1:-1]
    assert len(inner) == 26
    assert (inner.min(), inner.max() >= 18) == (2, True)  # SMM-E1 at 15,000 words: 2-18
    assert hamming_accuracy(words, words.gold) == 100.0
    back = alphabet.outputs[words.gold[words.inside]]
    np.testing.assert_array_equal(back, nettalk.labels)
