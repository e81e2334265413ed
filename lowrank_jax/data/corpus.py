"""A corpus as read from a file: columns of strings over all tokens."""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from lowrank_jax import checks
from lowrank_jax.checks import InputError

__all__ = ["Corpus", "corpus_of", "encode", "split_fraction"]


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Columns of strings over all tokens, and the offsets of the sentences.

    A column of words has dtype ``object``; each word is a `str`, as splitting the text
    gave it. `encode` turns it into integers through a dictionary, some three times as
    fast as a sort by `numpy.unique`. A column of single characters has dtype ``U1``,
    whose view as ``uint32`` already is an integer code.

    Attributes:
      columns: One (num_tokens,) array of strings per column, ``object`` or ``U``.
      labels: (num_tokens,) array of strings, or None if they are unknown.
      offsets: (num_sentences + 1,) int64; sentence i is ``offsets[i]:offsets[i+1]``.
      source: Name of the file, for messages.
      num_skipped: Number of entries of the file that the reader left out.
    """

    columns: tuple[np.ndarray, ...]
    labels: np.ndarray | None
    offsets: np.ndarray
    source: str
    num_skipped: int = 0

    def __post_init__(self) -> None:
        """Check that all columns and the offsets agree in length."""
        if self.offsets.ndim != 1 or self.offsets.size == 0:
            raise InputError(
                f"`offsets` of {self.source} must hold at least one number in one "
                f"dimension, got shape {self.offsets.shape}."
            )
        arrays = self.columns if self.labels is None else (*self.columns, self.labels)
        for array in arrays:
            if array.shape != (self.num_tokens,):
                raise InputError(
                    f"each column of {self.source} must have shape "
                    f"({self.num_tokens},) as the offsets say, got {array.shape}."
                )

    @property
    def num_tokens(self) -> int:
        """Number of tokens in all sentences."""
        return int(self.offsets[-1])

    @property
    def num_sentences(self) -> int:
        """Number of sentences."""
        return self.offsets.size - 1

    @property
    def lengths(self) -> np.ndarray:
        """(num_sentences,) int64, number of tokens of each sentence."""
        return np.diff(self.offsets)

    def take(self, indices: Sequence[int] | np.ndarray) -> "Corpus":
        """Return the sentences with these indices, in this order.

        Args:
          indices: (n,) integers in ``0..num_sentences-1``; may repeat.

        Returns:
          A corpus of n sentences. Its `num_skipped` is copied from this corpus.

        Raises:
          InputError: If an index lies outside the corpus.
        """
        chosen = np.asarray(indices, np.int64)
        if chosen.size and not (
            0 <= chosen.min() and chosen.max() < self.num_sentences
        ):
            raise InputError(
                f"`indices` must lie in 0..{self.num_sentences - 1} for "
                f"{self.source}, got {chosen.min()}..{chosen.max()}."
            )
        lengths = self.lengths[chosen]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        shifts = np.repeat(self.offsets[chosen] - offsets[:-1], lengths)
        tokens = np.arange(offsets[-1]) + shifts
        return dataclasses.replace(
            self,
            columns=tuple(column[tokens] for column in self.columns),
            labels=None if self.labels is None else self.labels[tokens],
            offsets=offsets,
        )


def corpus_of(
    sentences: Corpus | Sequence[Sequence[str | tuple[str, ...]]],
    labels: Sequence[Sequence[str]] | None = None,
) -> Corpus:
    """Return sentences of tokens as a corpus.

    Args:
      sentences: Corpus, or one sequence of tokens per sentence. A token is a string or
        a tuple of strings, one per column.
      labels: One sequence of labels per sentence, or None.

    Raises:
      InputError: If tokens have different numbers of columns, or the labels do not fit
        the sentences.
    """
    if not isinstance(sentences, Corpus):
        tokens = [
            (t,) if isinstance(t, str) else tuple(t) for s in sentences for t in s
        ]
        num_columns = len(tokens[0]) if tokens else 1
        if any(len(token) != num_columns for token in tokens):
            raise InputError("`X` must have equally many columns for all tokens.")
        columns = zip(*tokens, strict=True) if tokens else [()]
        offsets = np.cumsum([0, *map(len, sentences)])
        sentences = Corpus(tuple(map(_strings, columns)), None, offsets, "`X`")
    if labels is None:
        return sentences
    if [len(part) for part in labels] != sentences.lengths.tolist():
        raise InputError(
            f"`y` must have one label per token of the {sentences.num_sentences} "
            f"sentences of {sentences.source}."
        )
    flat = _strings(itertools.chain.from_iterable(labels))
    return dataclasses.replace(sentences, labels=flat)


def split_fraction(corpus: Corpus, fraction: float, seed: int) -> Corpus:
    """Take a random share of the sentences, in the order of the corpus.

    With the same seed, a smaller share is part of a larger share. A learning curve
    needs this.

    Args:
      corpus: Corpus to take sentences from.
      fraction: Share of the sentences, above 0 and up to 1. At least one sentence
        is taken.
      seed: Seed of NumPy's default generator.

    Returns:
      A corpus of ``round(fraction * num_sentences)`` sentences.

    Raises:
      InputError: If the fraction is not in range.
    """
    if not 0 < fraction <= 1:
        raise InputError(
            f"`fraction` must be above 0 and at most 1, got {fraction}; it is a share "
            f"of the sentences."
        )
    checks.whole(least=0, seed=seed)
    order = np.random.default_rng(seed).permutation(corpus.num_sentences)
    num_taken = max(1, round(fraction * corpus.num_sentences))
    return corpus.take(np.sort(order[:num_taken]))


def encode(strings: Iterable[str] | np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Number strings in the order of their first occurrence.

    Args:
      strings: (n,) array, list or any other iterable of strings.

    Returns:
      ``(codes, values)``: the codes, (n,) int64, and the list of distinct strings.
      ``values[codes[i]]`` is ``strings[i]``.
    """
    items = strings.tolist() if isinstance(strings, np.ndarray) else list(strings)
    table: dict[str, int] = collections.defaultdict(itertools.count().__next__)
    codes = np.fromiter(map(table.__getitem__, items), np.int64, len(items))
    return codes, list(table)


def _strings(values: Iterable[str]) -> np.ndarray:
    found = list(values)
    array = np.empty(len(found), dtype=object)
    array[:] = found
    return array
