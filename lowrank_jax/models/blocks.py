r"""Blocks of which few entries are not zero: records for a few entries, pages for many.

A table of blocks (R, S, S + 1), such as first-order weights or the dual of BOL, is
almost empty: after ten passes over CoNLL-2000 0.27 % of it is not zero. Each row has a
record of `SLOTS` entries. An entry that finds no free slot lives in the page of its
row, a dense block, which is given to the row when it is first needed. An entry never
moves and is never dropped, so its value is the same sum in the same order as in a dense
table. Each entry has one home, so a sum over records and pages meets it once.

The key of an entry is ``1 + current * stride + previous``. Key 0 is a free slot, and
slots fill from the left. Page 0 is a block of zeros: rows without a page read it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.data import records

__all__ = [
    "SLOTS",
    "Blocks",
    "Part",
    "at",
    "dense",
    "listed",
    "page_size",
    "scores",
    "squares",
    "stride",
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


def stride(num_labels: int) -> int:
    """Return the columns kept for one row: S + 1 rounded up to a multiple of 8."""
    return -(-(num_labels + 1) // 8) * 8


def page_size(num_labels: int) -> int:
    """Return the columns of a page: S rows of `stride`, in whole sixteens."""
    return -(-num_labels * stride(num_labels) // 16) * 16


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
    slots, page = (num_rows, 1 + num_slots), page_size(num_labels)
    return Blocks(
        keys=jnp.zeros(slots, jnp.int32),
        values=Part(jnp.zeros(slots, dtype), jnp.zeros((num_pages, page), dtype)),
        num_pages=jnp.ones((), jnp.int32),
    )


def dense(keys: jax.Array, part: Part, ids: jax.Array, num_labels: int) -> jax.Array:
    """Return some blocks in full: (n, S, stride), zeros beyond column S.

    Args:
      keys: (R, 1 + num_slots) `Blocks.keys`.
      part: Values or sums.
      ids: (n,) rows.
      num_labels: S. Static.
    """
    return scores(keys, part, ids[:, None], num_labels)


def scores(
    keys: jax.Array,
    part: Part,
    ids: jax.Array,
    num_labels: int,
    *,
    is_feature: jax.Array | None = None,
    times: jax.Array | None = None,
) -> jax.Array:
    """Return sums of blocks: (n, S, stride), zeros beyond column S.

    Args:
      keys: (R, 1 + num_slots) `Blocks.keys`.
      part: Values or sums.
      ids: (n, num_columns) rows; the blocks of each line are added up.
      num_labels: S. Static.
      is_feature: (n, num_columns) booleans; False leaves a block out.
      times: (n, num_columns) factors of the blocks, or None for 1 each.
    """
    record = keys.at[ids].get(mode="promise_in_bounds")
    values = part.slots.at[ids].get(mode="promise_in_bounds")
    page = record[:, :, 0]
    if is_feature is not None:
        page = jnp.where(is_feature, page, 0)
        values = jnp.where(is_feature[:, :, None], values, 0)
    if times is not None:
        times = times.astype(values.dtype)
        values = values * times[:, :, None]

    def whole(t: int) -> jax.Array:
        found = part.pages.at[page[:, t]].get(mode="promise_in_bounds")
        return found if times is None else found * times[:, t, None]

    # Sums are spelt out: they fuse with the gathers, where a reduction would not.
    block = whole(0)
    for t in range(1, ids.shape[1]):
        block = block + whole(t)
    where = jnp.maximum(record[:, :, 1:] - 1, 0).reshape(len(ids), -1)
    values = values[:, :, 1:].reshape(len(ids), -1)  # a free slot adds 0
    block = block + _scattered(where, values, block.shape[1])
    each = stride(num_labels)
    return block[:, : num_labels * each].reshape(-1, num_labels, each)


def _scattered(where: jax.Array, values: jax.Array, size: int) -> jax.Array:
    """Return lines (n, size) of zeros with values (n, m) added at some places (n, m).

    A scatter along one axis is three times as fast as a scatter along two on a CPU, so
    few lines are scattered one by one.
    """
    if len(where) <= 32:
        line = jnp.zeros((size,), values.dtype)
        return jnp.stack(
            [
                line.at[here].add(own, mode="promise_in_bounds")
                for here, own in zip(where, values, strict=True)
            ]
        )
    lane = jnp.arange(len(where), dtype=jnp.int32)[:, None]
    lines = jnp.zeros((len(where), size), values.dtype)
    return lines.at[lane, where].add(values, mode="promise_in_bounds")


def at(blocks: Blocks, ids: jax.Array, pair: jax.Array) -> jax.Array:
    """Return single entries.

    Args:
      blocks: Blocks.
      ids: Rows, of any shape.
      pair: ``current * stride + previous``, of a shape that broadcasts with `ids`.
    """
    ids, pair = jnp.broadcast_arrays(ids, pair)
    record = blocks.keys.at[ids].get(mode="promise_in_bounds")
    values = blocks.values.slots.at[ids].get(mode="promise_in_bounds")
    is_there = record[..., 1:] == 1 + pair[..., None]
    inside = jnp.where(is_there, values[..., 1:], 0).sum(-1)
    pages = blocks.values.pages.at[record[..., 0], pair]
    return inside + pages.get(mode="promise_in_bounds")


def squares(blocks: Blocks) -> jax.Array:
    """Return the squared Frobenius norm of each block: (R,)."""
    slots, pages = blocks.values
    whole = (pages * pages).sum(1)
    return (slots * slots).sum(1) + whole.at[blocks.keys[:, 0]].get()


def listed(blocks: Blocks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row, ``current * stride + previous`` and value of the entries not zero.

    A function of the host: their number is not fixed.
    """
    keys, slots, pages = (np.asarray(part) for part in (blocks.keys, *blocks.values))
    return records.listed(keys, slots, pages)
