r"""Blocks of which few entries are not zero: records for a few entries, pages for many.

A table of blocks (R, S, S + 1), such as the dual of BOL, is almost empty: after ten
passes over CoNLL-2000 0.27 % of it is not zero. Each row has a record of `SLOTS`
entries. An entry that finds no free slot lives in the page of its row, a dense block,
which is given to the row when it is first needed. An entry never moves and is never
dropped, so its value is the same sum in the same order as in a dense table.

The key of an entry is ``1 + current * stride + previous``. Key 0 is a free slot, and
slots fill from the left. Page 0 is a block of zeros: rows without a page read it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.data.sequences import Space
from lowrank_jax.models import bilinear
from lowrank_jax.online import mistakes, touched
from lowrank_jax.online.touched import first_of_its_kind

__all__ = [
    "SLOTS",
    "Blocks",
    "Part",
    "add",
    "dense",
    "grown",
    "is_short",
    "listed",
    "zeros",
]
__dir__ = __all__.copy

SLOTS = 15  # with the number of the page one cache line; 8 or 32 are no faster


class Part(NamedTuple):
    """One number per entry: a value, or the lazy sum that belongs to it."""

    slots: jax.Array  # (R, 1 + num_slots); column 0 is 0
    pages: jax.Array  # (num_pages, S * stride in whole sixteens); page 0 is 0


class Blocks(NamedTuple):
    """Blocks of R rows by their entries."""

    keys: jax.Array  # (R, 1 + num_slots) int32: the page, then the keys
    values: Part
    num_pages: jax.Array  # () int32  pages in use, page 0 included


def zeros(
    num_rows: int,
    num_labels: int,
    dtype: jnp.dtype,
    *,
    num_pages: int,
    num_slots: int = SLOTS,
) -> Blocks:
    """Return blocks of zeros.

    Args:
      num_rows: R.
      num_labels: S.
      dtype: Type of the entries.
      num_pages: Number of pages at the start, page 0 included.
      num_slots: Number of entries in a record.
    """
    page = -(-num_labels * bilinear.stride(num_labels) // 16) * 16
    slots = (num_rows, 1 + num_slots)
    return Blocks(
        keys=jnp.zeros(slots, jnp.int32),
        values=Part(jnp.zeros(slots, dtype), jnp.zeros((num_pages, page), dtype)),
        num_pages=jnp.ones((), jnp.int32),
    )


def is_short(blocks: Blocks, num_touched: jax.Array) -> jax.Array:
    """Return True if so many touched rows might need more pages than are left."""
    num_pages = blocks.values.pages.shape[0]
    if num_pages > blocks.keys.shape[0]:  # a page for every row
        return jnp.zeros((), bool)
    return blocks.num_pages + num_touched > num_pages


def add(
    blocks: Blocks,
    sums: Part | None,
    here: mistakes.Position,
    space: Space,
    step: jax.Array,
    weight: jax.Array,
) -> tuple[Blocks, Part | None]:
    """Add ``step * dPhi`` of a position, and ``weight * dPhi`` to the sums.

    Args:
      blocks: Blocks, with room for a page per touched row.
      sums: Lazy sums of the same entries, or None.
      here: Position whose ids are rows.
      space: Sizes of the feature space. Static.
      step: () factor of the values.
      weight: () factor of the sums.
    """
    num_rows, num_slots = blocks.keys.shape[0], blocks.keys.shape[1] - 1
    ids = here.ids[jnp.array(space.first_order, jnp.int32)]
    pair = here.labels * bilinear.stride(space.num_labels) + here.previous
    # A row that occurs twice is written once, times two.
    same = ids[:, None] == ids[None, :]
    is_first = first_of_its_kind(ids) & (ids < num_rows - 1)
    times = same.sum(1, dtype=jnp.int32)
    if here.values is not None:
        value = here.values[jnp.array(space.first_order, jnp.int32)]
        times = jnp.where(same, value[None, :], 0).sum(1)
    times = jnp.where(is_first, times, 0).astype(step.dtype)
    delta = times[:, None] * jnp.array([[1, -1]], step.dtype)

    record = blocks.keys.at[ids].get(mode="promise_in_bounds")
    page, keys = record[:, 0], record[:, 1:]
    place = jnp.arange(1, 1 + num_slots, dtype=jnp.int32)
    is_there = keys[:, None, :] == 1 + pair[None, :, None]
    found = jnp.where(is_there, place[None, None], 0).max(2)
    is_new = found == 0
    free = (keys > 0).sum(1, dtype=jnp.int32)[:, None]
    free = free + jnp.cumsum(is_new, axis=1, dtype=jnp.int32)
    fits = ~is_new | (free <= num_slots)
    slot = jnp.where(fits, jnp.where(is_new, free, found), 0)
    needs_page = is_first & (page == 0) & ~fits.all(1)
    fresh = blocks.num_pages - 1 + jnp.cumsum(needs_page, dtype=jnp.int32)
    fresh = jnp.where(needs_page, fresh, 0)
    page = page + fresh

    new_keys = jnp.where(is_new & fits & is_first[:, None], 1 + pair[None], 0)
    where = jnp.concatenate([jnp.zeros_like(page)[:, None], slot], axis=1)
    marks = jnp.concatenate([fresh[:, None], new_keys], axis=1)
    keys = blocks.keys.at[ids[:, None], where].add(marks, mode="promise_in_bounds")

    def grow(part: Part, scale: jax.Array) -> Part:
        change = scale * delta
        slots = part.slots.at[ids[:, None], slot]
        pages = part.pages.at[page[:, None], pair[None]]
        return Part(
            slots.add(jnp.where(fits, change, 0), mode="promise_in_bounds"),
            pages.add(jnp.where(fits, 0, change), mode="promise_in_bounds"),
        )

    num_pages = blocks.num_pages + needs_page.sum(dtype=jnp.int32)
    blocks = Blocks(keys, grow(blocks.values, step), num_pages)
    return blocks, None if sums is None else grow(sums, weight)


def dense(keys: jax.Array, part: Part, ids: jax.Array, num_labels: int) -> jax.Array:
    """Return some blocks in full: (n, S, stride), zeros beyond column S.

    Args:
      keys: (R, 1 + num_slots) `Blocks.keys`.
      part: Values or sums.
      ids: (n,) rows.
      num_labels: S. Static.
    """
    record = keys.at[ids].get(mode="promise_in_bounds")
    values = part.slots.at[ids].get(mode="promise_in_bounds")
    block = part.pages.at[record[:, 0]].get(mode="promise_in_bounds")
    lane = jnp.arange(ids.shape[0], dtype=jnp.int32)[:, None]
    where = jnp.maximum(record[:, 1:] - 1, 0)  # a free slot adds 0
    block = block.at[lane, where].add(values[:, 1:], mode="promise_in_bounds")
    each = bilinear.stride(num_labels)
    return block[:, : num_labels * each].reshape(-1, num_labels, each)


def grown(
    blocks: Blocks, sums: Part | None, num_rows: int, num_pages: int
) -> tuple[Blocks, Part | None]:
    """Return the same entries with room for more rows and pages."""

    def more(part: Part) -> Part:
        room = num_pages - part.pages.shape[0]
        pages = jnp.pad(part.pages, ((0, room), (0, 0)))
        return Part(touched.grown(part.slots, num_rows), pages)

    keys = touched.grown(blocks.keys, num_rows)
    blocks = Blocks(keys, more(blocks.values), blocks.num_pages)
    return blocks, None if sums is None else more(sums)


def listed(blocks: Blocks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row, ``current * stride + previous`` and value of the entries not zero.

    A function of the host: their number is not fixed.
    """
    keys, slots, pages = (np.asarray(part) for part in (blocks.keys, *blocks.values))
    row, slot = np.nonzero(keys[:, 1:])
    key, value = keys[row, 1 + slot] - 1, slots[row, 1 + slot]
    (owner,) = np.nonzero(keys[:, 0])
    own = pages[keys[owner, 0]]
    i, place = np.nonzero(own)
    found = (
        np.concatenate([row, owner[i]]),
        np.concatenate([key, place]),
        np.concatenate([value, own[i, place]]),
    )
    is_entry = found[2] != 0
    return found[0][is_entry], found[1][is_entry], found[2][is_entry]
