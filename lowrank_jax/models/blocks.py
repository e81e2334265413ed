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

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax.data import records
from lowrank_jax.linalg.forms import accumulate

__all__ = [
    "MANY",
    "SLOTS",
    "Blocks",
    "Part",
    "at",
    "dense",
    "listed",
    "page_size",
    "products",
    "scores",
    "squares",
    "stride",
    "zeros",
]
__dir__ = __all__.copy

Product = Callable[[jax.Array], jax.Array]
MANY = 64  # labels; from there on a block takes too long to be written out
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

    def whole(t: Any) -> jax.Array:
        found = part.pages.at[page[:, t]].get(mode="promise_in_bounds")
        return found if times is None else found * times[:, t, None]

    block = accumulate(
        lambda found, t: found + whole(t), whole(0), range(1, ids.shape[1])
    )
    lane = jnp.arange(len(ids), dtype=jnp.int32)[:, None]
    where = jnp.maximum(record[:, :, 1:] - 1, 0).reshape(len(ids), -1)
    values = values[:, :, 1:].reshape(len(ids), -1)  # a free slot adds 0
    # A single block may be written over: each entry has one home.
    start = block if ids.shape[1] == 1 else jnp.zeros_like(block)
    slots = start.at[lane, where].add(values, mode="promise_in_bounds")
    block = slots if ids.shape[1] == 1 else block + slots
    each = stride(num_labels)
    return block[:, : num_labels * each].reshape(-1, num_labels, each)


def products(
    keys: jax.Array,
    parts: Sequence[tuple[Part, jax.Array | float]],
    ids: jax.Array,
    num_labels: int,
    *,
    prior: jax.Array | None = None,
) -> tuple[Product, Product]:
    """Return the products of some blocks with vectors; no block is written out.

    Args:
      keys: (R, 1 + num_slots) `Blocks.keys`.
      parts: Values and sums with their factors; the blocks are the sum of the products.
      ids: (n,) rows.
      num_labels: S. Static.
      prior: () number that is added to each entry of a feature, or None for 0.

    Returns:
      Products with (n, stride) from the right, and with (n, S) from the left.
    """
    size = num_labels, stride(num_labels)
    record = keys.at[ids].get(mode="promise_in_bounds")
    pair = jnp.maximum(record[:, 1:] - 1, 0)
    lane = jnp.arange(len(ids), dtype=jnp.int32)[:, None]
    place = [lane * size[0] + pair // size[1], lane * size[1] + pair % size[1]]
    slots = [
        factor * part.slots.at[ids].get(mode="promise_in_bounds")[:, 1:]
        for part, factor in parts
    ]
    values = sum(slots[1:], start=slots[0])  # a free slot adds 0
    has_page = record[:, 0] > 0
    (paged,) = jnp.nonzero(has_page, size=len(ids), fill_value=0)
    num_paged = has_page.sum(dtype=jnp.int32)

    def page(t: jax.Array) -> jax.Array:
        at = record[t, 0]
        found = [
            factor * part.pages.at[at].get(mode="promise_in_bounds")
            for part, factor in parts
        ]
        whole = sum(found[1:], start=found[0])
        return whole[: size[0] * size[1]].reshape(size)

    def product(vectors: jax.Array, source: int, target: int) -> jax.Array:
        own = vectors.reshape(-1).at[place[source]].get(mode="promise_in_bounds")
        found = jnp.zeros((len(ids) * size[target],), vectors.dtype)
        found = found.at[place[target]].add(values * own, mode="promise_in_bounds")

        def add(k: jax.Array, found: jax.Array) -> jax.Array:
            t = paged[k]
            block, vector = page(t), vectors[t]
            more = block @ vector if target == 0 else vector @ block
            return found.at[t].add(more, mode="promise_in_bounds")

        found = found.reshape(len(ids), size[target])
        if prior is not None:
            is_feature = (ids < keys.shape[0] - 1)[:, None]
            is_column = jnp.arange(size[target], dtype=jnp.int32) <= num_labels
            total = prior * vectors.sum(axis=1, keepdims=True)
            found = found + jnp.where(is_feature & is_column[None], total, 0)
        return lax.fori_loop(np.int32(0), num_paged, add, found)

    return lambda right: product(right, 1, 0), lambda left: product(left, 0, 1)


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
