"""A corpus as read from a file: columns of strings over all tokens."""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lowrank_jax import checks
from lowrank_jax.checks import InputError

__all__ = [
    "Bags",
    "Corpus",
    "corpus_of",
    "encode",
    "labels_like",
    "sentences_of",
    "split",
    "split_fraction",
    "with_unknown",
]
__dir__ = __all__.copy


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
      separator: Text between two columns of the file.
      unknown_label: Entry of `labels` where the label is not known. None if all are.
    """

    columns: tuple[np.ndarray, ...]
    labels: np.ndarray | None
    offsets: np.ndarray
    source: str
    num_skipped: int = 0
    separator: str = " "
    unknown_label: str | None = None

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

    def __getitem__(self, which: slice | Sequence[int] | np.ndarray) -> "Corpus":
        """Return the sentences of a slice, an array of indices or a boolean mask."""
        if not isinstance(which, slice):
            which = np.asarray(which)
            is_mask = which.dtype == bool
            if which.ndim != 1 or (is_mask and len(which) != self.num_sentences):
                raise InputError(
                    "A corpus is indexed by a slice, an array of indices or a mask of "
                    f"{self.num_sentences} truths, got an array of shape {which.shape}."
                )
        if isinstance(which, slice) or which.dtype == bool:
            which = np.arange(self.num_sentences)[which]
        return self.take(which)

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


class Bags(Corpus):
    """A corpus whose one column holds the features of each token.

    An entry of the column is a list or a set of feature strings, or a dict from name to
    value. `features.attributes` says what a dict means.
    """


def with_unknown(corpus: Corpus, unknown_label: str | None) -> Corpus:
    """Return the corpus with the label of unknown labels, if it occurs at all."""
    if unknown_label is None or corpus.labels is None:
        return corpus
    if not (corpus.labels == unknown_label).any():
        return corpus
    return dataclasses.replace(corpus, unknown_label=unknown_label)


def sentences_of(X: Any, y: Any = None, unknown_label: str | None = None) -> Corpus:
    """Return sentences as a corpus, where a string is no sentence.

    Args:
      X: Corpus, or sentences as `corpus_of` takes them.
      y: Labels as `corpus_of` takes them. With `unknown_label`, None and -1 stand for
        an unknown label too.
      unknown_label: Text of an unknown label, or None if there is no such text.
    """
    if not isinstance(X, Corpus):
        X = list(X)
        for number, sentence in enumerate(X):
            if isinstance(sentence, str):
                raise InputError(
                    f"`X` must be a list of sentences, each a list of tokens, got the "
                    f"string {sentence!r:.40} as sentence {number}; put the tokens of "
                    "a sentence into a list."
                )
    return with_unknown(corpus_of(X, y, unknown_label), unknown_label)


def corpus_of(
    sentences: Any, labels: Any = None, unknown_label: str | None = None
) -> Corpus:
    """Return sentences of tokens as a corpus.

    Args:
      sentences: Corpus, or one sequence of tokens per sentence. A token is a string, a
        tuple of strings (one per column), a list or set of feature strings, or a dict
        of features. Lists, sets and dicts make `Bags`.
      labels: One sequence of labels per sentence, a flat array of all labels, a pair
        ``(array, offsets)``, or None.
      unknown_label: Text that stands for None and -1 among the labels. None refuses
        them.

    Raises:
      InputError: If tokens are of different kinds, or the labels do not fit the
        sentences.
    """
    if not isinstance(sentences, Corpus):
        sentences = _corpus(list(sentences))
    if labels is None:
        return sentences
    flat = isinstance(labels, np.ndarray) and labels.dtype.kind in "US"
    if isinstance(labels, np.ndarray) and labels.dtype == object:
        flat = all(label is None or isinstance(label, str) for label in labels[:1])
    if isinstance(labels, tuple) and len(labels) == 2 and _is_offsets(labels[1]):
        labels, offsets = labels
        is_right = np.array_equal(offsets, sentences.offsets)
        is_right &= len(labels) == sentences.num_tokens
        flat = True
    elif flat:
        is_right = len(labels) == sentences.num_tokens
    else:
        is_right = [len(part) for part in labels] == sentences.lengths.tolist()
    if not is_right:
        raise InputError(
            f"`y` must have one label per token of the {sentences.num_sentences} "
            f"sentences of {sentences.source}."
        )
    names = _objects(labels if flat else itertools.chain.from_iterable(labels))
    if unknown_label is not None:
        is_open = np.array([name is None or name == -1 for name in names.tolist()])
        names[is_open.astype(bool)] = unknown_label
    for kind in set(map(type, names.tolist())):
        if not issubclass(kind, str):
            wrong = next(name for name in names.tolist() if type(name) is kind)
            raise InputError(f"`y` must hold strings, got {wrong!r}.")
    return dataclasses.replace(sentences, labels=names)


def labels_like(X: Any, corpus: Corpus, labels: np.ndarray) -> Any:
    """Return labels in the form of the sentences: flat for a corpus, else lists."""
    if isinstance(X, Corpus):
        return labels
    return [part.tolist() for part in np.split(labels, corpus.offsets[1:-1])]


def _corpus(sentences: list[Any]) -> Corpus:
    """Lay the tokens of sentences end to end."""
    for number, sentence in enumerate(sentences):
        if isinstance(sentence, Mapping):
            raise InputError(
                f"`X` must be a list of sentences, each a list of tokens, got "
                f"{sentence!r:.40} as sentence {number}; put it into a list."
            )
    offsets = np.cumsum([0, *map(len, sentences)])
    tokens = list(itertools.chain.from_iterable(sentences))
    kinds = {_kind(kind) for kind in set(map(type, tokens))} or {"columns"}
    if len(kinds) > 1 or None in kinds:
        first = _kind(type(tokens[0])) or "no kind"
        wrong = next(t for t in tokens if _kind(type(t)) != first)
        raise InputError(
            "`X` must have tokens of one kind: strings or tuples of columns, lists of "
            f"feature strings, or dicts; got {wrong!r:.60}."
        )
    if kinds == {"bag"}:
        return Bags((_objects(tokens),), None, offsets, "`X`")
    rows = [(t,) if isinstance(t, str) else t for t in tokens]
    if len(set(map(len, rows))) > 1:
        raise InputError("`X` must have equally many columns for all tokens.")
    columns = zip(*rows, strict=True) if rows else [()]
    return Corpus(tuple(map(_objects, columns)), None, offsets, "`X`")


def _kind(kind: type) -> str | None:
    """Return which of two kinds of tokens a type is, None if neither."""
    if issubclass(kind, str | tuple):
        return "columns"
    return "bag" if issubclass(kind, list | set | frozenset | Mapping) else None


def _is_offsets(values: Any) -> bool:
    return np.ndim(values) == 1 and np.asarray(values).dtype.kind in "iu"


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
    return split(corpus, fraction, seed)[0]


def split(corpus: Corpus, fraction: float, seed: int) -> tuple[Corpus, Corpus]:
    """Return both parts of a random split: the share of `split_fraction`, the rest.

    Args:
      corpus: Corpus to split.
      fraction: Share of the sentences in the first part, above 0 and up to 1.
      seed: Seed of NumPy's default generator.

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
    return tuple(  # type: ignore[return-value]
        corpus.take(np.sort(part)) for part in (order[:num_taken], order[num_taken:])
    )


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


def _objects(values: Iterable[Any]) -> np.ndarray:
    found = values.tolist() if isinstance(values, np.ndarray) else list(values)
    return np.fromiter(found, object, len(found))
