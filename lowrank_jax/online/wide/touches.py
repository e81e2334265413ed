"""Features touched by a batch, each once, and the rows that they get.

`mark` holds for each feature a number of the touch that came last. A touch writes its
running number by a maximum and reads it back: who finds his own number is listed. No
sort is needed, and the list is the same on all devices. New rows are given by running
sums over the list (`online.touched` has the tables).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax.data.sequences import Space
from lowrank_jax.online.touched import Pool
from lowrank_jax.online.wide.share import Found
from lowrank_jax.streams import packs

__all__ = ["Buffers", "Listed", "buffers_for", "enter", "listed_of"]
__dir__ = __all__.copy

_POSITIONS = 32  # listed at a time
_ROWS = 256  # given at a time


class Buffers(NamedTuple):
    """What each round writes over."""

    mark: jax.Array  # (K + 1,) int32 running number of the last touch
    stamp: jax.Array  # () int32 running number of the next touch
    listed: jax.Array  # (room,) int32 features


class Listed(NamedTuple):
    """Features touched in a round, each once: first those with first-order weights."""

    features: jax.Array  # (room,) int32; only the first `number` count
    num_first: jax.Array  # () int32 features of first-order columns
    number: jax.Array  # () int32


def buffers_for(shapes: packs.Layout, space: Space) -> Buffers:
    """Return buffers of zeros for one device."""
    most = (shapes.batch_tokens + _POSITIONS) * len(space.orders) + _ROWS
    return Buffers(
        mark=jnp.zeros((space.num_features + 1,), jnp.int32),
        stamp=jnp.zeros((), jnp.int32),
        listed=jnp.zeros((most,), jnp.int32),
    )


def listed_of(
    buffers: Buffers, feature_ids: jax.Array, found: Found, space: Space
) -> tuple[Buffers, Listed]:
    """List the features of all places that differ."""
    zero, num_features = jnp.zeros((), jnp.int32), space.num_features
    # Numbers grow from round to round. After 2^30 touches they begin again.
    is_worn = buffers.stamp > 2**30
    num_steps = jnp.where(is_worn, num_features + 1, zero)
    mark = lax.fori_loop(zero, num_steps, lambda k, x: x.at[k].set(0), buffers.mark)
    floor = jnp.where(is_worn, zero, buffers.stamp)
    others = tuple(i for i in range(len(space.orders)) if i not in space.first_order)
    carry = mark, floor, buffers.listed, zero
    carry = _listed(carry, floor, feature_ids, found, space.first_order, num_features)
    num_first = carry[3]
    if others:
        carry = _listed(carry, floor, feature_ids, found, others, num_features)
    mark, stamp, listed, number = carry
    return Buffers(mark, stamp, listed), Listed(listed, num_first, number)


def _listed(
    carry: tuple,
    floor: jax.Array,
    feature_ids: jax.Array,
    found: Found,
    columns: tuple[int, ...],
    num_features: int,
) -> tuple:
    """List the features of some columns that are not listed yet."""
    size = _POSITIONS * len(columns)
    running = jnp.arange(1, size + 1, dtype=jnp.int32)
    place = jnp.arange(_POSITIONS, dtype=jnp.int32)
    last = found.where.shape[0] - 1

    def one(k: jax.Array, carry: tuple) -> tuple:
        mark, stamp, listed, number = carry
        n = k * _POSITIONS + place
        token = found.token[found.where[jnp.minimum(n, last)]]
        ids = feature_ids.at[token].get(mode="promise_in_bounds")
        ids = ids[:, jnp.array(columns, jnp.int32)]
        ids = jnp.where((n < found.number)[:, None], ids, num_features).ravel()
        seen = mark.at[ids].get(mode="promise_in_bounds")
        is_fresh = (seen <= floor) & (ids < num_features)
        own = stamp + running
        touched = jnp.where(is_fresh, own, 0)
        mark = mark.at[ids].max(touched, mode="promise_in_bounds")
        is_last = is_fresh & (mark.at[ids].get(mode="promise_in_bounds") == own)
        at = number - 1 + jnp.cumsum(is_last, dtype=jnp.int32)
        at = jnp.where(is_last, at, listed.shape[0])
        listed = listed.at[at].set(ids, mode="drop")
        return mark, stamp + size, listed, number + is_last.sum(dtype=jnp.int32)

    num_steps = (found.number + _POSITIONS - 1) // _POSITIONS
    return lax.fori_loop(jnp.zeros((), jnp.int32), num_steps, one, carry)


def enter(
    pool: Pool, rows: Any, num_rows: int, blocks: Any, listed: Listed, found: Found
) -> tuple[Pool, Listed, Found]:
    """Give rows to the touched features, or begin no round; see `online.touched`.

    Args:
      pool: Pool before the round.
      rows: (K + 1,) index.
      num_rows: Rows of the tables.
      blocks: Blocks of this device.
      listed: Features of the round.
      found: Differences. `extra` is the number of pages in use, by device.

    Returns:
      The pool, the features, and the differences with the new index.
    """
    is_full, num_pages = pool.is_full, blocks.values.pages.shape[0]
    if num_rows - 2 < rows.shape[0] - 1:  # else there is a row for every feature
        is_full = is_full | (pool.num_rows + listed.number > num_rows - 1)
    if num_pages <= blocks.keys.shape[0]:  # else there is a page for every row
        needed = _needed(rows, pool.num_rows, listed, found.extra.shape[0])
        is_full = is_full | (found.extra + needed > num_pages).any()
    zero = jnp.zeros((), jnp.int32)
    listed = listed._replace(
        num_first=jnp.where(is_full, zero, listed.num_first),
        number=jnp.where(is_full, zero, listed.number),
    )
    rows, number = _give_rows(rows, pool.num_rows, listed)
    found = found._replace(
        number=jnp.where(is_full, zero, found.number),
        num_wrong=jnp.where(is_full, zero, found.num_wrong),
        rows=rows,
    )
    return Pool(number, is_full), listed, found


def _needed(
    rows: jax.Array, num_rows: jax.Array, touched: Listed, num_devices: int
) -> jax.Array:
    """Return (D,) how many first-order features of a round each device owns.

    Each may need a page of that device. Features without a row count with the row that
    they would get.
    """
    if num_devices == 1:
        return touched.num_first[None]
    devices = jnp.arange(num_devices, dtype=jnp.int32)

    def one(k: jax.Array, carry: tuple) -> tuple[jax.Array, jax.Array]:
        found, number = carry
        ids = lax.dynamic_slice_in_dim(touched.features, k * _ROWS, _ROWS)
        is_listed = k * _ROWS + jnp.arange(_ROWS, dtype=jnp.int32) < touched.num_first
        own = rows.at[ids].get(mode="promise_in_bounds")
        is_new = is_listed & (own == 0)
        new = number - 1 + jnp.cumsum(is_new, dtype=jnp.int32)
        own = jnp.where(is_new, new, own)
        is_at = (own[:, None] % num_devices == devices[None]) & is_listed[:, None]
        counts = is_at.sum(axis=0, dtype=jnp.int32)
        return found + counts, number + is_new.sum(dtype=jnp.int32)

    zero, num_steps = jnp.zeros((), jnp.int32), (touched.num_first + _ROWS - 1) // _ROWS
    start = jnp.zeros((num_devices,), jnp.int32), num_rows
    return lax.fori_loop(zero, num_steps, one, start)[0]


def _give_rows(
    rows: jax.Array, num_rows: jax.Array, touched: Listed
) -> tuple[jax.Array, jax.Array]:
    """Give a row to each listed feature that has none.

    Args:
      rows: (K + 1,) index.
      num_rows: () int32 number of rows in use.
      touched: Features of the round.

    Returns:
      The index and the number of rows in use.
    """

    def one(k: jax.Array, carry: tuple) -> tuple[jax.Array, jax.Array]:
        rows, number = carry
        ids = lax.dynamic_slice_in_dim(touched.features, k * _ROWS, _ROWS)
        place = k * _ROWS + jnp.arange(_ROWS, dtype=jnp.int32)
        ids = jnp.where(place < touched.number, ids, rows.shape[0] - 1)
        is_new = rows.at[ids].get(mode="promise_in_bounds") == 0
        new = number - 1 + jnp.cumsum(is_new, dtype=jnp.int32)
        rows = rows.at[ids].add(jnp.where(is_new, new, 0), mode="promise_in_bounds")
        return rows, number + is_new.sum(dtype=jnp.int32)

    zero, num_steps = jnp.zeros((), jnp.int32), (touched.number + _ROWS - 1) // _ROWS
    return lax.fori_loop(zero, num_steps, one, (rows, num_rows))
