"""Moves of blocks that are kept by their entries (`models.blocks`), and their room."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax.data.sequences import Space
from lowrank_jax.linalg import places
from lowrank_jax.models.blocks import (
    MANY,
    SLOTS,
    Blocks,
    Part,
    dense,
    listed,
    products,
    stride,
    zeros,
)
from lowrank_jax.online import mistakes, touched
from lowrank_jax.online.touched import first_of_its_kind
from lowrank_jax.types import Sentence

__all__ = [
    "MANY",
    "SLOTS",
    "Blocks",
    "Capacity",
    "Part",
    "add",
    "add_all",
    "dense",
    "enter",
    "grown",
    "is_short",
    "larger",
    "listed",
    "products",
    "zeros",
]
__dir__ = __all__.copy


class Capacity(NamedTuple):
    """Room of sparse tables at the start; the result does not depend on it.

    Attributes:
      num_features: Number of touched features; None takes as many as 80 MB hold.
      num_pages: Number of blocks with many entries; None takes as many as 24 MB hold.
      num_slots: Number of entries that a block has before it needs a page; None takes
        15, or 127 if a page is large (64 labels or more).
    """

    num_features: int | None = None
    num_pages: int | None = None
    num_slots: int | None = None

    def slots_of(self, space: Space) -> int:
        """Return the number of entries in a record."""
        if self.num_slots is not None:
            return self.num_slots
        return SLOTS if space.num_labels < MANY else 127

    def sizes(
        self, space: Space, num_columns: int, dtype: jnp.dtype
    ) -> tuple[int, int]:
        """Return the numbers of rows and pages.

        Args:
          space: Sizes of the feature space.
          num_columns: Number of weights of a row beside its record.
          dtype: Type of the weights.
        """
        labels, size = space.num_labels, jnp.dtype(dtype).itemsize
        record = 1 + self.slots_of(space)
        row_bytes = (num_columns + 2 * record) * size + 4 * record
        num_rows = touched.num_rows_for(space, row_bytes, self.num_features)
        num_pages = self.num_pages
        if num_pages is None:
            num_pages = 24_000_000 // (2 * size * labels * stride(labels))
        return num_rows, min(max(num_pages, 1), num_rows) + 1


def enter(
    pool: touched.Pool,
    rows: jax.Array,
    blocks: Blocks,
    example: Sentence,
    differences: mistakes.Differences,
) -> tuple[touched.Pool, jax.Array, Sentence, mistakes.Differences]:
    """Give rows to the touched features, or begin no round; see `touched.enter`."""
    num_touched = differences.num_positions * len(example.space.first_order)
    return touched.enter(
        pool,
        rows,
        example,
        differences,
        num_rows=blocks.keys.shape[0],
        is_short=is_short(blocks, num_touched),
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
    *,
    is_measured: bool = False,
) -> tuple[Blocks, Part | None, jax.Array]:
    r"""Add ``step * dPhi`` of a position, and ``weight * dPhi`` to the sums.

    Args:
      blocks: Blocks, with room for a page per touched row.
      sums: Lazy sums of the same entries, or None.
      here: Position whose ids are rows.
      space: Sizes of the feature space. Static.
      step: () factor of the values.
      weight: () factor of the sums.
      is_measured: If true, the growth of ``||blocks||^2 / 2`` is returned too; else 0.
        Static.
    """
    num_rows, num_slots = blocks.keys.shape[0], blocks.keys.shape[1] - 1
    ids = here.ids[jnp.array(space.first_order, jnp.int32)]
    pair = here.labels * stride(space.num_labels) + here.previous
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
    keys = places.add(blocks.keys, (ids[:, None], where), marks)

    growth = jnp.zeros((), step.dtype)
    if is_measured:
        slots, pages = blocks.values
        old = places.read(slots, (ids[:, None], slot))
        old = old + places.read(pages, (page[:, None], pair[None]))
        inner = (old * delta).sum()
        growth = step * inner + step * step * (delta * delta).sum() / 2
        # What is written depends on what was read: no copy (see `mistakes.add`).
        delta = jnp.where(jnp.isnan(inner), inner, delta)

    def grow(part: Part, scale: jax.Array) -> Part:
        change = scale * delta
        slots, pages = (ids[:, None], slot), (page[:, None], pair[None])
        return Part(
            places.add(part.slots, slots, jnp.where(fits, change, 0)),
            places.add(part.pages, pages, jnp.where(fits, 0, change)),
        )

    num_pages = blocks.num_pages + needs_page.sum(dtype=jnp.int32)
    blocks = Blocks(keys, grow(blocks.values, step), num_pages)
    return blocks, None if sums is None else grow(sums, weight), growth


def add_all(
    params: Any,
    sums: Any,
    growth: jax.Array,
    here: mistakes.Position,
    space: Space,
    step: jax.Array,
    weight: jax.Array,
) -> tuple[Any, Any, jax.Array]:
    """Add ``step * dPhi`` of a position to all tables, ``weight * dPhi`` to their sums.

    Args:
      params: `models.linear.Params` or `models.linear.Sums`.
      sums: `models.linear.Sums`, or None.
      growth: () growth of half the squared norm of the weights so far.
      here: Position; its ids are rows of the tables.
      space: Sizes of the tables. Static.
      step: () factor of the weights.
      weight: () factor of the sums.

    Returns:
      The new weights, sums and growth.
    """
    new: dict[str, Any] = {}
    totals: dict[str, Any] = {}
    for name, found in mistakes.entries(here, space, step.dtype).items():
        total = None if sums is None else getattr(sums, name)
        table, given = getattr(params, name), (here, space, step, weight)
        if isinstance(table, Blocks):
            new[name], totals[name], more = add(table, total, *given, is_measured=True)
        else:
            new[name], totals[name], more = mistakes.add(
                table, total, found, step, weight
            )
        growth = growth + more
    return params._replace(**new), sums and sums._replace(**totals), growth


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


def larger(pool: touched.Pool, rows: jax.Array, blocks: Blocks) -> tuple[int, int]:
    """Return the numbers of rows and pages with the shorter of the two doubled."""
    num_rows, num_pages = blocks.keys.shape[0], blocks.values.pages.shape[0]
    left = num_rows - 1 - int(pool.num_rows), num_pages - int(blocks.num_pages)
    if num_rows - 2 < rows.shape[0] - 1 and left[0] * num_pages <= left[1] * num_rows:
        return 2 * num_rows, num_pages
    return num_rows, 2 * num_pages
