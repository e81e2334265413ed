"""The steps between strings and feature ids, each on whole arrays.

Columns of equal literals share features, so they are grouped. A group becomes an array
of tuples of codes, whose distinct tuples are kept in a `codes.KeyTable`. Tuples of
equal text are joined. The features left are numbered by falling count.

A feature is its expanded text, as in CRF++. Almost always, two texts are equal only if
their literals and their tuples of values are equal. Tuples hold integers and are fast
to compare. But under ``%x[0,0]/%x[1,0]`` the values ``1/2`` and ``b`` give the same
text as ``1`` and ``2/b``. The rules here say which features can share a text with
another tuple. All other features need no text.

Same literals. Let F be the first characters of the literals between two macros, none of
them empty. Two tuples of equal text have equally many characters of F in their values.
If one tuple has none, neither has the other. Then the text can be cut in only one way,
because each value ends at the next character of F. So only tuples with a character of F
in a value are in doubt.

Different literals. Equal texts agree at both ends. So one of the two first literals is
a prefix of the other, and one of the two last literals is a suffix of the other.
"""

import bisect
import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lowrank_jax.checks import InputError
from lowrank_jax.features.codes import KeyTable, Vocabulary, Windows
from lowrank_jax.features.templates import Template, fill, make_column

if TYPE_CHECKING:
    from lowrank_jax.data.corpus import Corpus

__all__ = [
    "Doubts",
    "check_corpus",
    "count_keys",
    "doubtful_features",
    "expand_texts",
    "first_of_text",
    "group_columns",
    "number_features",
    "open_windows",
    "tuples_of_codes",
]
__dir__ = __all__.copy


def group_columns(template: Template) -> dict[tuple[str, ...], list[int]]:
    """Return the columns grouped by their literals; a group shares its features."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, column in enumerate(template.columns):
        groups.setdefault(column.literals, []).append(number)
    return groups


def check_corpus(corpus: object) -> None:
    """Raise `InputError` unless a corpus holds columns of strings."""
    if not hasattr(corpus, "columns"):
        raise InputError(
            f"`corpus` must be a Corpus of strings, got a {type(corpus).__name__}: see "
            "data.read_conll; Sequences and streams are encoded already."
        )


def open_windows(
    corpus: "Corpus", template: Template, vocabulary: Vocabulary
) -> Windows:
    """Lay out a corpus for all macros of a template."""
    check_corpus(corpus)
    template.check_columns(len(corpus.columns), corpus.source)
    macros = [macro for column in template.columns for macro in column.macros]
    columns: dict[int | str, np.ndarray] = {}
    for name in {name for _, name in macros}:
        number, _, function = str(name).partition(",")
        column = corpus.columns[int(number)]
        columns[name] = make_column(column, function) if function else column
    return Windows(columns, corpus.offsets, macros, vocabulary)


def tuples_of_codes(
    windows: Windows, template: Template, columns: list[int]
) -> np.ndarray:
    """Return the tuples of codes of some columns: (num_digits, columns x tokens)."""
    size = windows.num_tokens
    num_digits = len(template.columns[columns[0]].macros)
    codes = np.empty((num_digits, len(columns) * size), np.int64)
    for i, column in enumerate(columns):
        for digit, macro in enumerate(template.columns[column].macros):
            codes[digit, i * size : (i + 1) * size] = windows.at(*macro)
    return codes


def expand_texts(
    literals: tuple[str, ...], codes: np.ndarray, values: Sequence[str]
) -> list[str]:
    """Expand tuples of codes (num_digits, num_tuples) to texts, without the letter."""
    return [fill(literals, [values[c] for c in codes]) for codes in codes.T.tolist()]


def doubtful_features(
    skeletons: tuple[tuple[str, ...], ...],
    tables: Sequence[KeyTable],
    values: Sequence[str],
) -> Iterable[tuple[int, np.ndarray, list[str]]]:
    """Yield table number, places and texts of the features whose tuple is in doubt."""
    doubts = Doubts(skeletons, values)
    for number, (literals, table) in enumerate(zip(skeletons, tables, strict=True)):
        if doubts.exist(number):
            codes = table.digits(np.arange(len(table.keys)))
            place = np.flatnonzero(doubts.of(number, codes))
            yield number, place, expand_texts(literals, codes[:, place], values)


def first_of_text(
    skeletons: tuple[tuple[str, ...], ...],
    tables: Sequence[KeyTable],
    vocabulary: Vocabulary,
) -> np.ndarray:
    """Return for each key, tables end to end, the first key with the same text."""
    starts = np.cumsum([0, *(len(table.keys) for table in tables)])
    same = np.arange(starts[-1])
    first: dict[str, int] = {}
    for number, place, texts in doubtful_features(skeletons, tables, vocabulary.values):
        keys = (place + starts[number]).tolist()
        same[keys] = [first.setdefault(t, k) for t, k in zip(texts, keys, strict=True)]
    return same


def count_keys(
    places: np.ndarray, num_keys: int, bits: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Count how often each key of a table occurs, and collect its orders.

    Args:
      places: (num_columns, num_tokens) places in the table.
      num_keys: Length of the table.
      bits: Bits of `Encoder.feature_orders`, one number per column.

    Returns:
      ``(counts, orders)``: (num_keys,) int64 and uint8.
    """
    by_column = [np.bincount(place, minlength=num_keys) for place in places]
    pairs = zip(by_column, bits, strict=True)
    orders = [(count > 0) * np.uint8(bit) for count, bit in pairs]
    return np.sum(by_column, axis=0), np.bitwise_or.reduce(orders)


def number_features(
    same: np.ndarray,
    counts: Sequence[np.ndarray],
    orders: Sequence[np.ndarray],
    min_count: int,
) -> tuple[list[np.ndarray], np.ndarray]:
    """Number the features by falling count.

    Args:
      same: First key of the same text, for each key, tables end to end.
      counts: Number of occurrences of each key, one array per table.
      orders: Bits of `Encoder.feature_orders` of each key, one array per table.
      min_count: Least count; features that occur less often are dropped.

    Returns:
      For each table the id of each key (K if dropped), and the orders of the features.
    """
    ends = np.cumsum([len(count) for count in counts])
    total = np.zeros(len(same), np.int64)
    bits = np.zeros(len(same), np.uint8)
    if len(same):
        np.add.at(total, same, np.concatenate(counts))
        np.bitwise_or.at(bits, same, np.concatenate(orders))
    kept = np.flatnonzero(total >= min_count)  # keys joined to another one have 0
    kept = kept[np.argsort(-total[kept], kind="stable")]
    ids = np.full(len(same), len(kept), np.int32)
    ids[kept] = np.arange(len(kept), dtype=np.int32)
    return np.split(ids[same], ends[:-1])[: len(counts)], bits[kept]


class Doubts:
    """Tells which tuples of values can share their text with another tuple."""

    def __init__(
        self, skeletons: Sequence[tuple[str, ...]], values: Sequence[str]
    ) -> None:
        """Compare all literals.

        Args:
          skeletons: Distinct tuples of literals.
          values: String of each code.
        """
        self._is_total, self._marks = [], []
        by_first: dict[str, list[tuple[str, ...]]] = {}
        for literals in skeletons:
            by_first.setdefault(literals[0], []).append(literals)
        firsts = sorted(by_first)
        lengths = sorted({len(first) for first in firsts})
        for literals in skeletons:
            heads = _same_beginning(literals[0], firsts, lengths)
            near = (other for head in heads for other in by_first.get(head, ()))
            others = (other for other in near if other != literals)
            between = literals[1:-1]
            is_total = "" in between or any(_may_meet(literals, o) for o in others)
            self._is_total.append(is_total)
            self._marks.append(frozenset(literal[0] for literal in between if literal))
        self._is_marked = {
            marks: _has_mark(values, marks) for marks in set(self._marks)
        }

    def extend(self, new_values: Sequence[str]) -> "Doubts":
        """Return the doubts for a vocabulary with more values at its end."""
        longer = copy.copy(self)
        longer._is_marked = {
            marks: np.append(flags, _has_mark(new_values, marks))
            for marks, flags in self._is_marked.items()
        }
        return longer

    def exist(self, skeleton: int) -> bool:
        """Return True if any tuple under these literals is in doubt."""
        is_marked = self._is_marked[self._marks[skeleton]]
        return self._is_total[skeleton] or bool(is_marked.any())

    def of(self, skeleton: int, codes: np.ndarray) -> np.ndarray:
        """Return for each tuple True if it is in doubt: (num_tuples,) bool.

        Args:
          skeleton: Index of the literals in `skeletons`.
          codes: (num_digits, num_tuples) codes of the values.
        """
        if self._is_total[skeleton]:
            return np.ones(codes.shape[1], bool)
        return self._is_marked[self._marks[skeleton]][codes].any(axis=0)


def _same_beginning(
    text: str, ordered: Sequence[str], lengths: Sequence[int]
) -> Iterator[str]:
    """Yield what a text may begin with, and the ordered texts that begin with it."""
    for length in lengths:
        if length < len(text):
            yield text[:length]
    place = bisect.bisect_left(ordered, text)
    while place < len(ordered) and ordered[place].startswith(text):
        yield ordered[place]
        place += 1


def _has_mark(values: Sequence[str], marks: frozenset[str]) -> np.ndarray:
    """Return for each value True if it has one of the marks: (num_values,) bool."""
    flags = (not marks.isdisjoint(value) for value in values)
    return np.fromiter(flags, bool, len(values))


def _may_meet(one: tuple[str, ...], two: tuple[str, ...]) -> bool:
    """Return True if two different tuples of literals can give the same text."""
    if len(one) == 1 and len(two) == 1:
        return False
    if len(one) == 1 or len(two) == 1:
        constant, open_ended = (one, two) if len(one) == 1 else (two, one)
        text = constant[0]
        return text.startswith(open_ended[0]) and text.endswith(open_ended[-1])
    heads, tails = (one[0], two[0]), (one[-1], two[-1])
    is_head = heads[0].startswith(heads[1]) or heads[1].startswith(heads[0])
    is_tail = tails[0].endswith(tails[1]) or tails[1].endswith(tails[0])
    return is_head and is_tail
