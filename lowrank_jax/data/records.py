"""Entries of blocks in NumPy: from records and pages to a list, and back.

`models.blocks` has the layout: a record holds the page of its row and the keys of a few
entries, a page holds a whole block. The list has one line per entry that is not zero.
"""

from typing import NamedTuple

import numpy as np

__all__ = ["Listed", "Records", "build", "listed"]
__dir__ = __all__.copy


class Listed(NamedTuple):
    """Entries that are not zero."""

    rows: np.ndarray  # (n,)
    places: np.ndarray  # (n,)  current * stride + previous
    values: np.ndarray  # (n,)


class Records(NamedTuple):
    """Records and pages, as `models.blocks.Blocks` has them."""

    keys: np.ndarray  # (R, 1 + num_slots) int32
    slots: np.ndarray  # (R, 1 + num_slots)
    pages: np.ndarray  # (num_pages, page_size)


def listed(keys: np.ndarray, slots: np.ndarray, pages: np.ndarray) -> Listed:
    """Return the entries of records and pages."""
    row, slot = np.nonzero(keys[:, 1:])
    key, value = keys[row, 1 + slot] - 1, slots[row, 1 + slot]
    (owner,) = np.nonzero(keys[:, 0])
    own = pages[keys[owner, 0]]
    i, place = np.nonzero(own)
    rows = np.concatenate([row, owner[i]])
    places = np.concatenate([key, place])
    values = np.concatenate([value, own[i, place]])
    is_entry = values != 0
    return Listed(rows[is_entry], places[is_entry], values[is_entry])


def build(found: Listed, num_rows: int, page_size: int, num_slots: int) -> Records:
    """Undo `listed`: the first entries of a row go to its record, others to a page."""
    order = np.lexsort((found.places, found.rows))
    rows, places, values = (part[order] for part in found)
    counts = np.bincount(rows, minlength=num_rows)
    rank = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    keys = np.zeros((num_rows, 1 + num_slots), np.int32)
    owners = np.flatnonzero(counts > num_slots)
    keys[owners, 0] = np.arange(1, len(owners) + 1)
    slots = np.zeros(keys.shape, values.dtype)
    pages = np.zeros((len(owners) + 1, page_size), values.dtype)
    fits = rank < num_slots
    keys[rows[fits], 1 + rank[fits]] = 1 + places[fits]
    slots[rows[fits], 1 + rank[fits]] = values[fits]
    pages[keys[rows[~fits], 0], places[~fits]] = values[~fits]
    return Records(keys, slots, pages)
