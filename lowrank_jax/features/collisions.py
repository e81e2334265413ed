"""Find the features that must be compared by their text.

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

import copy
from collections.abc import Sequence

import numpy as np

__all__ = ["Doubts"]


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
        for literals in skeletons:
            others = [other for other in skeletons if other != literals]
            between = literals[1:-1]
            is_total = "" in between or any(_may_meet(literals, o) for o in others)
            self._is_total.append(is_total)
            self._marks.append(frozenset(literal[0] for literal in between if literal))
        self._is_marked = {marks: _has_mark(values, marks) for marks in self._marks}

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
