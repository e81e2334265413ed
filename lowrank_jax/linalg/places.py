"""Entries of a table read, added to and written, in the form of the platform.

A TPU keeps a table in one layout for single entries and in another for whole rows, and
turns the whole table round between the two. Its form moves whole rows.
"""

from typing import Any

import jax
import jax.numpy as jnp

from lowrank_jax.linalg.forms import by_platform

__all__ = ["add", "put", "read"]
__dir__ = __all__.copy

Where = tuple[jax.Array, ...]


def read(table: jax.Array, where: Where) -> jax.Array:
    """Return ``table[where]``; nothing checks that the places are inside.

    Args:
      table: (n, m). With more axes, all platforms take the form of a CPU.
      where: Integers for each axis, of shapes that broadcast.
    """

    def single(table: jax.Array, where: Where) -> jax.Array:
        return table.at[where].get(mode="promise_in_bounds")

    def rows(table: jax.Array, where: Where) -> jax.Array:
        row, is_at = _spread(table, where)
        found = table.at[row].get(mode="promise_in_bounds")
        return jnp.where(is_at, found, 0).sum(axis=-1, dtype=table.dtype)

    return by_platform(table, where, cpu=single, tpu=single if table.ndim > 2 else rows)


def add(table: jax.Array, where: Where, values: jax.Array) -> jax.Array:
    """Return the table with values added; nothing checks that the places are inside.

    Args:
      table: (n, m). With more axes, all platforms take the form of a CPU.
      where: Integers for each axis, of shapes that broadcast.
      values: Values to add there.
    """

    def single(table: jax.Array, where: Where, values: jax.Array) -> jax.Array:
        return table.at[where].add(values, mode="promise_in_bounds")

    def rows(table: jax.Array, where: Where, values: jax.Array) -> jax.Array:
        row, is_at = _spread(table, where)
        more = jnp.where(is_at, values[..., None], 0)
        return table.at[row].add(more, mode="promise_in_bounds")

    tpu = single if table.ndim > 2 else rows
    return by_platform(table, where, values, cpu=single, tpu=tpu)


def put(table: jax.Array, row: jax.Array, old: jax.Array, new: jax.Array) -> jax.Array:
    """Return the table with new values in the last columns of some rows.

    Args:
      table: (n, m).
      row: (k,) rows, inside the table.
      old: (k, m) what these rows hold now.
      new: (k, j) values for the last j columns; equal rows have equal values.
    """

    def part(table: jax.Array, row: jax.Array, old: jax.Array, new: jax.Array) -> Any:
        first = table.shape[1] - new.shape[1]
        return table.at[row, first:].set(new, mode="promise_in_bounds")

    def rows(table: jax.Array, row: jax.Array, old: jax.Array, new: jax.Array) -> Any:
        kept = old[:, : table.shape[1] - new.shape[1]]
        whole = jnp.concatenate([kept, new], axis=1)
        return table.at[row].set(whole, mode="promise_in_bounds")

    return by_platform(table, row, old, new, cpu=part, tpu=rows)


def _spread(table: jax.Array, where: Where) -> tuple[jax.Array, jax.Array]:
    """Return the rows, and where in each row the place is."""
    row, column = jnp.broadcast_arrays(*where)
    columns = jnp.arange(table.shape[1], dtype=column.dtype)
    columns = columns.reshape((1,) * column.ndim + (-1,))
    return row, column[..., None] == columns
