"""One exact 64-bit key for a tuple of codes, and sorted tables of such keys.

A tuple of codes below `base` is a number written in that base. Where the number would
not fit, the digits so far are replaced by their rank among the distinct ones of the
training data (a prefix table), and packing goes on from there: no hashing, hence no
collision, for any number of digits.
"""

import dataclasses

import numpy as np

__all__ = ["KeyTable", "fit_keys"]

_LARGEST_KEY = 2**63 - 1


@dataclasses.dataclass(frozen=True, eq=False)
class KeyTable:
    """The distinct tuples of codes that were seen.

    Attributes:
      base: every code of the tuples is below it.
      num_digits: the length of the tuples.
      prefixes: sorted (num_prefixes,) int64 tables, one for each time that the digits
        so far were replaced by their rank.
      keys: (num_keys,) int64, sorted.
    """

    base: int
    num_digits: int
    prefixes: tuple[np.ndarray, ...]
    keys: np.ndarray

    def find(self, codes: np.ndarray) -> np.ndarray:
        """Return the place of each tuple in `keys`, or -1: (num_tuples,) int64.

        Args:
          codes: (num_digits, num_tuples); tuples with a code of `base` or more are
            not in the table.
        """
        num_tuples = codes.shape[1]
        key = np.zeros(num_tuples, np.int64)
        is_known = np.ones(num_tuples, bool)
        prefixes = iter(self.prefixes)
        for code, is_full in zip(codes, self._cuts(), strict=True):
            if is_full:
                key = _place(next(prefixes), key)  # -1, and so below 0 to the end
            is_known &= code < self.base
            key = np.where(is_known, key * self.base + code, 0)
        return np.where(is_known, _place(self.keys, key), -1)

    def digits(self, places: np.ndarray) -> np.ndarray:
        """Return the tuples at some places of `keys`: (num_digits, num_places)."""
        key = self.keys[places]
        prefixes = list(self.prefixes)
        result = np.empty((self.num_digits, len(key)), np.int64)
        for i, is_full in reversed(list(enumerate(self._cuts()))):
            key, result[i] = np.divmod(key, self.base)
            if is_full:
                key = prefixes.pop()[key]
        return result

    def _cuts(self) -> list[bool]:
        """Whether the digits before each digit are replaced by their rank."""
        cuts, prefixes, num_values = [], iter(self.prefixes), 1
        for _ in range(self.num_digits):
            cuts.append(_is_full(num_values, self.base))
            num_values = (len(next(prefixes)) if cuts[-1] else num_values) * self.base
        return cuts


def fit_keys(codes: np.ndarray, base: int) -> tuple[KeyTable, np.ndarray]:
    """Collect the distinct tuples.

    Args:
      codes: (num_digits, num_tuples) int64 in 0..base-1.
      base: above all codes.

    Returns:
      the table, and the place of each tuple in its `keys`: (num_tuples,) int64.
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
    """Return the sorted distinct keys, all below `num_values`, and each one's place."""
    if num_values > len(key):
        return np.unique(key, return_inverse=True)
    is_there = np.zeros(num_values, bool)  # few possible keys: mark, no sort
    is_there[key] = True
    return np.flatnonzero(is_there), (np.cumsum(is_there) - 1)[key]


def _is_full(num_values: int, base: int) -> bool:
    """Whether one more digit could overflow; the first digit always fits."""
    return num_values > 1 and num_values * base > _LARGEST_KEY


def _place(table: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Return the place of each key in a sorted table, or -1."""
    if len(table) == 0:
        return np.full(len(key), -1)
    place = np.searchsorted(table, key)
    np.minimum(place, len(table) - 1, out=place)
    return np.where(table[place] == key, place, -1)
