"""Integer codes of strings, and one exact 64-bit key per tuple of codes.

All data columns share one vocabulary, because features are equal when their expanded
texts are equal, in whatever columns their values are. Places outside a sentence have
the values of CRF++: ``_B-1`` just before the first token, ``_B-2`` before that,
``_B+1`` just after the last token, and so on.

A tuple of codes below `base` is a number written in that base. If the number would not
fit, its digits so far are replaced by their rank among all such prefixes of the
training data (a prefix table). Packing then continues from the rank. There is no
hashing, hence no collision, for any number of digits.
"""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

__all__ = ["KeyTable", "Vocabulary", "Windows", "codes_of", "fit_keys"]
__dir__ = __all__.copy

_LARGEST_KEY = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Distinct strings and their codes.

    Attributes:
      index: Map from each string to its code, 0, 1, 2 and so on.
    """

    index: dict[str, int] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def values(self) -> tuple[str, ...]:
        """Strings in the order of their codes."""
        return tuple(self.index)

    def extend(self, columns: Iterable[np.ndarray | Sequence[str]]) -> "Vocabulary":
        """Append the strings that are not known yet, in order of appearance."""
        index = dict(self.index)
        for column in columns:
            for value in dict.fromkeys(_as_list(column)):
                index.setdefault(value, len(index))
        return Vocabulary(index)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the strings as UTF-8 bytes, end to end, and their offsets."""
        encoded = [value.encode("utf-8", "surrogatepass") for value in self.values]
        lengths = np.array([0, *map(len, encoded)], np.int64)
        text = np.frombuffer(b"".join(encoded), np.uint8)
        return {"values_text": text, "values_offsets": np.cumsum(lengths)}

    @staticmethod
    def from_arrays(arrays: dict[str, np.ndarray]) -> "Vocabulary":
        """Return the vocabulary that `to_arrays` wrote."""
        text = arrays["values_text"].tobytes()
        ends = arrays["values_offsets"].tolist()
        pairs = zip(ends[:-1], ends[1:], strict=True)
        values = [text[a:b].decode("utf-8", "surrogatepass") for a, b in pairs]
        found = Vocabulary().extend([values])
        is_whole = (ends[0], ends[-1]) == (0, len(text)) and ends == sorted(ends)
        if not is_whole or len(found.index) < len(values):
            raise ValueError("the vocabulary")
        return found


class _Codes(dict[str, int]):
    """Codes of the strings of one corpus. A new string gets the next code.

    Copying a vocabulary would take longer than labelling a sentence.
    """

    def __init__(self, known: Mapping[str, int]) -> None:
        super().__init__()
        self._known, self.new = known, list[str]()

    def __missing__(self, value: str) -> int:
        code = self._known.get(value, -1)
        if code < 0:
            code = len(self._known) + len(self.new)
            self.new.append(value)
        self[value] = code
        return code


def codes_of(column: np.ndarray, index: dict[str, int]) -> np.ndarray:
    """Return the codes of a column of known strings, (num_tokens,) int64."""
    codes = map(index.__getitem__, _as_list(column))
    return np.fromiter(codes, np.int64, len(column))


def _as_list(column: np.ndarray | Sequence[str]) -> Sequence[str]:
    return column.tolist() if isinstance(column, np.ndarray) else column


class Windows:
    """Codes of the values around each token, including places outside a sentence.

    Each data column is laid out once, with room for the values before and after every
    sentence. A macro ``%x[row,column]`` is then one gather.

    Attributes:
      num_tokens: Length of the arrays that `at` returns.
      new_values: Strings of this corpus that the vocabulary lacks. Their codes follow
        the codes of the vocabulary.
    """

    def __init__(
        self,
        columns: Mapping[int | str, np.ndarray],
        offsets: np.ndarray,
        macros: Iterable[tuple[int, int | str]],
        vocabulary: Vocabulary,
    ) -> None:
        """Lay out the columns.

        Args:
          columns: Columns of strings by number or name, each (num_tokens,).
          offsets: (num_sentences + 1,) starts of the sentences, and the end.
          macros: All pairs ``(row, column)`` that `at` will be called with.
          vocabulary: Known strings; new ones get the codes after them.
        """
        macros = set(macros)
        used = {column for _, column in macros}
        before = max([-row for row, _ in macros if row < 0], default=0)
        after = max([row for row, _ in macros if row > 0], default=0)
        pads_before = [f"_B-{distance}" for distance in range(before, 0, -1)]
        pads_after = [f"_B+{distance}" for distance in range(1, after + 1)]

        index = _Codes(vocabulary.index)
        pads = {pad: index[pad] for pad in pads_before + pads_after}
        starts, ends = (
            np.asarray(offsets[s], np.int64) for s in (np.s_[:-1], np.s_[1:])
        )
        sentence = np.repeat(np.arange(len(starts)), ends - starts)
        self.num_tokens = len(sentence)
        shift = before + after
        self._places = np.arange(self.num_tokens) + before + shift * sentence
        first = starts + shift * np.arange(len(starts))
        last = ends + before + shift * np.arange(len(starts))
        layout = np.empty(self.num_tokens + shift * len(starts), np.int64)
        for distance, pad in enumerate(pads_before):
            layout[first + distance] = pads[pad]
        for distance, pad in enumerate(pads_after):
            layout[last + distance] = pads[pad]
        self._layouts = {}
        for column in sorted(used, key=lambda name: (isinstance(name, str), name)):
            self._layouts[column] = layout.copy()
            self._layouts[column][self._places] = codes_of(columns[column], index)
        self.new_values = tuple(index.new)

    def at(self, row: int, column: int | str) -> np.ndarray:
        """Return the codes of ``%x[row,column]`` at each token, (num_tokens,) int64."""
        return self._layouts[column][self._places + row]


@dataclasses.dataclass(frozen=True, eq=False)
class KeyTable:
    """Distinct tuples of codes seen in training.

    Attributes:
      base: Number above every code of the tuples.
      num_digits: Length of the tuples.
      prefixes: Sorted (num_prefixes,) int64 tables, one for each time that the digits
        so far were replaced by their rank.
      keys: (num_keys,) int64, sorted.
    """

    base: int
    num_digits: int
    prefixes: tuple[np.ndarray, ...]
    keys: np.ndarray

    def is_sound(self) -> bool:
        """Return False if a table from a file is not sorted or a key out of range."""
        num_values, prefixes = 1, iter(self.prefixes)
        for is_full in self._cuts:
            if is_full and not _is_sorted(table := next(prefixes), num_values):
                return False
            num_values = (len(table) if is_full else num_values) * self.base
        return _is_sorted(self.keys, num_values) and next(prefixes, None) is None

    def find(self, codes: np.ndarray) -> np.ndarray:
        """Return the place of each tuple in `keys`, or -1: (num_tuples,) int64.

        Args:
          codes: (num_digits, num_tuples) codes; a tuple with a code of `base` or more
            is not in the table.
        """
        num_tuples = codes.shape[1]
        key = np.zeros(num_tuples, np.int64)
        is_known = np.ones(num_tuples, bool)
        prefixes = iter(self.prefixes)
        for code, is_full in zip(codes, self._cuts, strict=True):
            if is_full:
                key = _place(next(prefixes), key)  # -1 stays below 0 to the end
            is_known &= code < self.base
            key = np.where(is_known, key * self.base + code, 0)
        return np.where(is_known, _place(self.keys, key), -1)

    def digits(self, places: np.ndarray) -> np.ndarray:
        """Return the tuples at some places of `keys`: (num_digits, num_places)."""
        key = self.keys[places]
        prefixes = list(self.prefixes)
        result = np.empty((self.num_digits, len(key)), np.int64)
        for i, is_full in reversed(list(enumerate(self._cuts))):
            key, result[i] = np.divmod(key, self.base)
            if is_full:
                key = prefixes.pop()[key]
        return result

    @functools.cached_property
    def _cuts(self) -> list[bool]:
        """Return for each digit True if the digits before it are replaced by a rank."""
        cuts, prefixes, num_values = [], iter(self.prefixes), 1
        for _ in range(self.num_digits):
            cuts.append(_is_full(num_values, self.base))
            num_values = (len(next(prefixes)) if cuts[-1] else num_values) * self.base
        return cuts


def fit_keys(codes: np.ndarray, base: int) -> tuple[KeyTable, np.ndarray]:
    """Return the table of the distinct tuples, and the place of each tuple in it.

    Args:
      codes: (num_digits, num_tuples) int64 in 0..base-1.
      base: Number above all codes.

    Returns:
      The table, and the (num_tuples,) int64 places of the tuples in its `keys`.
    """
    key, num_values = np.zeros(codes.shape[1], np.int64), 1
    prefixes = []
    for code in codes:
        if _is_full(num_values, base):
            prefix, key = _distinct(key, num_values)
            prefixes.append(prefix)
            num_values = len(prefix)
        key = key * base + code
        num_values *= base
    keys, places = _distinct(key, num_values)
    return KeyTable(base, len(codes), tuple(prefixes), keys), places


def _distinct(key: np.ndarray, num_values: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted distinct keys, all below `num_values`, and each key's place."""
    if num_values > len(key):
        return np.unique(key, return_inverse=True)
    is_there = np.zeros(num_values, bool)  # few possible keys: mark instead of sort
    is_there[key] = True
    return np.flatnonzero(is_there), (np.cumsum(is_there) - 1)[key]


def _is_sorted(table: np.ndarray, num_values: int) -> bool:
    """Return True for int64 keys, strictly rising from 0 to below a number."""
    if table.ndim != 1 or table.dtype != np.int64:
        return False
    is_rising = bool((table[1:] > table[:-1]).all())
    return is_rising and (table.size == 0 or 0 <= table[0] <= table[-1] < num_values)


def _is_full(num_values: int, base: int) -> bool:
    """Return True if one more digit could overflow; the first digit always fits."""
    return num_values > 1 and num_values * base > _LARGEST_KEY


def _place(table: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Return the place of each key in a sorted table, or -1."""
    if len(table) == 0:
        return np.full(len(key), -1)
    place = np.searchsorted(table, key)
    np.minimum(place, len(table) - 1, out=place)
    return np.where(table[place] == key, place, -1)
