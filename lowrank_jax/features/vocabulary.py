"""Strings and their integer codes: the values of a corpus, seen through windows.

All data columns share one vocabulary, because features are equal when their expanded
texts are equal, whatever column a value comes from. Places outside a sentence have
the values of CRF++: ``_B-1`` just before the first token, ``_B-2`` before that,
``_B+1`` just after the last one, and so on.
"""

import dataclasses
import functools
from collections.abc import Iterable, Sequence

import numpy as np

__all__ = ["Vocabulary", "Windows", "codes_of"]


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Distinct strings and their codes.

    Attributes:
      index: from a string to its code, 0, 1, 2 and so on.
    """

    index: dict[str, int] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def values(self) -> tuple[str, ...]:
        """The strings in the order of their codes."""
        return tuple(self.index)

    def extend(self, columns: Iterable[np.ndarray | Sequence[str]]) -> "Vocabulary":
        """Append the strings that are not there yet, in order of appearance."""
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
        """Undo `to_arrays`."""
        text = arrays["values_text"].tobytes()
        ends = arrays["values_offsets"].tolist()
        pairs = zip(ends[:-1], ends[1:], strict=True)
        values = [text[a:b].decode("utf-8", "surrogatepass") for a, b in pairs]
        return Vocabulary().extend([values])


def codes_of(column: np.ndarray, index: dict[str, int]) -> np.ndarray:
    """Look up each string of a column, all of which are known: (num_tokens,) int64."""
    codes = map(index.__getitem__, _as_list(column))
    return np.fromiter(codes, np.int64, len(column))


def _as_list(column: np.ndarray | Sequence[str]) -> Sequence[str]:
    return column.tolist() if isinstance(column, np.ndarray) else column


class Windows:
    """Codes of the values around each token, with the places outside a sentence.

    Each data column is laid out once with room for the values before and after every
    sentence; a macro ``%x[row,column]`` is then one gather.

    Attributes:
      num_tokens: the length of what `at` returns.
      vocabulary: the given one and after it the new strings of this corpus.
    """

    def __init__(
        self,
        columns: Sequence[np.ndarray],
        offsets: np.ndarray,
        macros: Iterable[tuple[int, int]],
        vocabulary: Vocabulary,
    ) -> None:
        """Lay out the columns.

        Args:
          columns: each (num_tokens,) strings.
          offsets: (num_sentences + 1,), where the sentences begin and end.
          macros: all pairs ``(row, column)`` that will be asked for.
          vocabulary: known strings; new ones get the codes after them.
        """
        macros = set(macros)
        used = {column for _, column in macros}
        before = max([-row for row, _ in macros if row < 0], default=0)
        after = max([row for row, _ in macros if row > 0], default=0)
        pads_before = [f"_B-{distance}" for distance in range(before, 0, -1)]
        pads_after = [f"_B+{distance}" for distance in range(1, after + 1)]

        data = [columns[column] for column in sorted(used)]
        self.vocabulary = vocabulary.extend([pads_before + pads_after, *data])
        index = self.vocabulary.index
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
            layout[first + distance] = index[pad]
        for distance, pad in enumerate(pads_after):
            layout[last + distance] = index[pad]
        self._layouts = {}
        for column in used:
            self._layouts[column] = layout.copy()
            self._layouts[column][self._places] = codes_of(columns[column], index)

    def at(self, row: int, column: int) -> np.ndarray:
        """Codes of ``%x[row,column]`` at each token: (num_tokens,) int64."""
        return self._layouts[column][self._places + row]
