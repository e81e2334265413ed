"""Bi-symbols: an input symbol and its output symbol taken as one (SMM, section 3).

The alphabet holds the pairs (letter, output) seen in training. Ids are in the order of
the letters, so the candidates of a letter are a range of consecutive ids. The first
and the last id are not pairs:

* ``BOUNDARY`` (0) stands before a word, and after it if the caller asks for that. So
  words shorter than the order of the factors have a score too.
* The last id, ``alphabet.unknown``, is the only candidate of a letter never seen in
  training. Its weights never move, so it scores 0. Its output is the most frequent
  output in training.

A true pair that never occurs in training has no id (-1). Every prediction there counts
as wrong.
"""

import dataclasses

import numpy as np

from lowrank_jax.checks import InputError
from lowrank_jax.data.corpus import Corpus

__all__ = [
    "BOUNDARY",
    "Alphabet",
    "Words",
    "alphabet_of",
    "encode_words",
    "hamming_accuracy",
]
__dir__ = __all__.copy

#: Id of the boundary, as a bi-symbol and as a letter.
BOUNDARY = 0


@dataclasses.dataclass(frozen=True)
class Alphabet:
    """The bi-symbols of a training corpus.

    Letters are numbered from 1. Letter 0 is the boundary, and ``len(letters) + 1`` is
    any letter that is not in `letters`. The candidates of letter x are the ids
    ``first[x] .. first[x] + num_candidates[x] - 1``.

    Attributes:
      letters: (num_letters,) strings, sorted.
      outputs: Output of each id, (num_symbols,) strings. It is empty for the boundary,
        and the most frequent output for `unknown`.
      letter_of: (num_symbols,) int32, letter of each id.
      first: (num_letters + 2,) int32, first candidate of each letter.
      num_candidates: Number of candidates of each letter, (num_letters + 2,) int32, at
        least 1.
    """

    letters: np.ndarray
    outputs: np.ndarray
    letter_of: np.ndarray
    first: np.ndarray
    num_candidates: np.ndarray

    @property
    def num_symbols(self) -> int:
        """Number of ids, including the boundary and `unknown`."""
        return self.outputs.size

    @property
    def unknown(self) -> int:
        """Id of the only candidate of a letter never seen in training."""
        return self.num_symbols - 1

    @property
    def max_candidates(self) -> int:
        """Largest number of candidates of a letter."""
        return int(self.num_candidates.max())


@dataclasses.dataclass(frozen=True)
class Words:
    """Words as ids, padded to one length.

    Attributes:
      letters: (num_words, max_length) int32, numbered as in `Alphabet`; 0 beyond the
        end of a word.
      candidates: (num_words, max_length, max_candidates) int32 ids, padded with 0.
      mask: (num_words, max_length, max_candidates) bool, True for a candidate.
      gold: (num_words, max_length) int32 ids of the true pairs. The id is -1 if the
        pair never occurs in training, if the label is unknown, and beyond the end.
      lengths: Number of letters of each word, (num_words,) int32.
    """

    letters: np.ndarray
    candidates: np.ndarray
    mask: np.ndarray
    gold: np.ndarray
    lengths: np.ndarray

    @property
    def num_words(self) -> int:
        """Number of words."""
        return self.lengths.size

    @property
    def num_letters(self) -> int:
        """Number of letters in all words."""
        return int(self.lengths.sum())

    @property
    def inside(self) -> np.ndarray:
        """(num_words, max_length) bool, True before the end of the word."""
        return np.arange(self.letters.shape[1])[None, :] < self.lengths[:, None]


def alphabet_of(corpus: Corpus) -> Alphabet:
    """Collect the bi-symbols of a training corpus.

    Args:
      corpus: Corpus with labels; its first column holds the letters.

    Raises:
      InputError: If there are no labels or no letters.
    """
    if corpus.labels is None:
        raise InputError(
            f"{corpus.source} has no labels: bi-symbols need letters and outputs."
        )
    if corpus.num_tokens == 0:
        raise InputError(f"{corpus.source} holds no letter to learn bi-symbols from.")
    letters, letter_codes = np.unique(_strings(corpus.columns[0]), return_inverse=True)
    outputs, output_codes = np.unique(_strings(corpus.labels), return_inverse=True)
    pairs = np.unique(letter_codes * outputs.size + output_codes)
    letter_of = np.concatenate([[0], pairs // outputs.size + 1, [letters.size + 1]])
    fallback = outputs[np.bincount(output_codes).argmax()]
    counts = np.bincount(letter_of, minlength=letters.size + 2)
    return Alphabet(
        letters=letters,
        outputs=np.concatenate([[""], outputs[pairs % outputs.size], [fallback]]),
        letter_of=letter_of.astype(np.int32),
        first=(np.cumsum(counts) - counts).astype(np.int32),
        num_candidates=counts.astype(np.int32),
    )


def encode_words(alphabet: Alphabet, corpus: Corpus) -> Words:
    """Turn a corpus into ids of an alphabet. Labels may be missing.

    Args:
      alphabet: Alphabet of the training corpus, from `alphabet_of`.
      corpus: Words for training, development or test.
    """
    lengths = corpus.lengths.astype(np.int32)
    inside = np.arange(lengths.max(initial=1))[None, :] < lengths[:, None]
    strings = _strings(corpus.columns[0])
    codes = np.searchsorted(alphabet.letters, strings)
    codes = np.minimum(codes, alphabet.letters.size - 1)
    is_known = alphabet.letters[codes] == strings
    codes = np.where(is_known, codes + 1, alphabet.letters.size + 1).astype(np.int32)
    letters = np.zeros(inside.shape, np.int32)
    letters[inside] = codes

    each = np.arange(alphabet.max_candidates, dtype=np.int32)
    mask = each < alphabet.num_candidates[letters][..., None]
    mask &= inside[..., None]
    candidates = np.where(mask, alphabet.first[letters][..., None] + each, 0)
    gold = np.full(inside.shape, -1, np.int32)
    if corpus.labels is not None:
        gold[inside] = _ids(alphabet, codes, _strings(corpus.labels))
    return Words(letters, candidates.astype(np.int32), mask, gold, lengths)


def hamming_accuracy(words: Words, predicted: np.ndarray) -> float:
    """Return the share of letters whose predicted pair is right, in percent.

    A letter whose true pair has no id counts as wrong.

    Args:
      words: Words with their true pairs.
      predicted: Predicted ids, (num_words, max_length).
    """
    is_right = (np.asarray(predicted) == words.gold) & (words.gold >= 0)
    return 100.0 * float(is_right.sum()) / max(words.num_letters, 1)


def _ids(alphabet: Alphabet, codes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the id of each pair (letter code, label), -1 if the alphabet has none."""
    known = slice(1, alphabet.unknown)
    outputs, of_symbol = np.unique(alphabet.outputs[known], return_inverse=True)
    keys = alphabet.letter_of[known].astype(np.int64) * outputs.size + of_symbol
    of_label = np.minimum(np.searchsorted(outputs, labels), outputs.size - 1)
    wanted = codes.astype(np.int64) * outputs.size + of_label
    places = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    is_seen = (keys[places] == wanted) & (outputs[of_label] == labels)
    return np.where(is_seen, places + 1, -1)


def _strings(column: np.ndarray) -> np.ndarray:
    return column if column.dtype.kind == "U" else column.astype(np.str_)
