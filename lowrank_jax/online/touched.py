"""Tables with one row per touched feature, and the index from features to rows.

Most features are never part of a mistake, and their weights stay at the start. A
learner with an index keeps tables of R rows, where R does not depend on the number of
features K:

==============  ====================================================================
row             content
==============  ====================================================================
0               a feature that no mistake has touched; it is never written
1, 2, ...       touched features, in the order of their first mistake
R - 1           "not a feature", as the last row of every table of the library
==============  ====================================================================

`rows` (K + 1,) holds the row of each feature. A round gives rows to the features of its
mistakes before it moves. If it might need more rows than are left, it is not begun:
`Pool.is_full` is set, and this round and all rounds after it change nothing else.
`loops.passes` then grows the tables on the host and goes on from there. The result does
not depend on the capacity at the start.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax.data.sequences import Space
from lowrank_jax.models import blocks
from lowrank_jax.online import mistakes
from lowrank_jax.types import Sentence

__all__ = [
    "Pool",
    "by_feature",
    "enter",
    "first_of_its_kind",
    "grown",
    "num_rows_for",
    "start",
]
__dir__ = __all__.copy

#: Memory of the rows that a learner starts with. Small data never need more.
_BYTES = 80_000_000


class Pool(NamedTuple):
    """How much of the tables is in use."""

    num_rows: jax.Array  # () int32  rows in use, row 0 included
    is_full: jax.Array  # () bool  a round did not fit, and none was done since


def num_rows_for(space: Space, row_bytes: int, capacity: int | None = None) -> int:
    """Return R: rows for `capacity` features, in whole sixteens.

    Args:
      space: Sizes of the feature space.
      row_bytes: Memory of one row in all tables.
      capacity: Number of features that have a row at the start. None takes all of
        them if that is at most 80 MB, else as many as 80 MB hold.
    """
    if capacity is None:
        capacity = _BYTES // row_bytes
    return -(-(min(capacity, space.num_features) + 2) // 16) * 16


def start(space: Space, num_rows: int) -> tuple[jax.Array, Pool]:
    """Return the index and the pool before the first round."""
    rows = jnp.zeros((space.num_features + 1,), jnp.int32)
    pool = Pool(jnp.ones((), jnp.int32), jnp.zeros((), bool))
    return rows.at[-1].set(num_rows - 1), pool


def enter(
    pool: Pool,
    rows: jax.Array,
    example: Sentence,
    differences: mistakes.Differences,
    *,
    num_rows: int,
    is_short: jax.Array | bool = False,
) -> tuple[Pool, jax.Array, Sentence, mistakes.Differences]:
    """Give a row to each feature of the mistakes, or begin nothing.

    Args:
      pool: Pool before the round.
      rows: (K + 1,) index.
      example: Sentence of the round.
      differences: Positions where label pairs differ.
      num_rows: R, rows of the tables. Static.
      is_short: True if another store of the learner may not suffice for this round.

    Returns:
      The pool and the index after the round; the sentence with the sizes of the
      tables; the differences, whose positions hold rows in place of features. Without
      room there are no differences.
    """
    num_columns = example.feature_ids.shape[1]
    is_full = pool.is_full | jnp.asarray(is_short)
    if num_rows - 2 < rows.shape[0] - 1:  # else there is a row for every feature
        most = pool.num_rows + differences.num_positions * num_columns
        is_full = is_full | (most > num_rows - 1)
    zero = jnp.zeros((), jnp.int32)
    differences = differences._replace(
        num_positions=jnp.where(is_full, zero, differences.num_positions),
        num_wrong=jnp.where(is_full, zero, differences.num_wrong),
    )

    def one(n: jax.Array, carry: tuple) -> tuple[jax.Array, jax.Array]:
        rows, count = carry
        ids = mistakes.position(example, differences, n).ids
        old = rows.at[ids].get(mode="promise_in_bounds")
        is_new = (old == 0) & first_of_its_kind(ids)
        new = count - 1 + jnp.cumsum(is_new, dtype=jnp.int32)
        rows = rows.at[ids].add(jnp.where(is_new, new, 0), mode="promise_in_bounds")
        return rows, count + is_new.sum(dtype=jnp.int32)

    rows, count = lax.fori_loop(
        zero, differences.num_positions, one, (rows, pool.num_rows)
    )
    space = dataclasses.replace(example.space, num_features=num_rows - 1)
    example = dataclasses.replace(example, space=space)
    return Pool(count, is_full), rows, example, differences._replace(rows=rows)


def first_of_its_kind(ids: jax.Array) -> jax.Array:
    """Mark each id that has no equal before it in the row."""
    same = ids[:, None] == ids[None, :]
    is_before = jnp.tril(jnp.ones(same.shape, bool), -1)
    return ~(same & is_before).any(axis=1)


def grown(table: Any, num_rows: int) -> Any:
    """Return a table with `num_rows` rows: new ones equal row 0, the last is last."""
    if table is None:
        return None
    more = jnp.broadcast_to(table[:1], (num_rows - table.shape[0], *table.shape[1:]))
    return jnp.concatenate([table[:-1], more, table[-1:]])


def by_feature(params: Any, num_labels: int | None = None) -> Any:
    """Return a model with one row per feature, from one with an index or without.

    Args:
      params: Model.
      num_labels: S, for a linear model of first-order weights alone. Static.
    """
    if params.rows is None:
        return params
    names = [name for name in ("table", "zero", "first") if hasattr(params, name)]
    tables = {name: getattr(params, name) for name in names}
    for name, part in tables.items():
        if isinstance(part, blocks.Blocks):
            if params.zero is not None:
                num_labels = params.zero.shape[1]
            elif params.transitions is not None:
                num_labels = params.transitions.shape[0]
            assert num_labels is not None, "`num_labels` is needed for such a model"
            whole = blocks.dense(part.keys, part.values, params.rows, num_labels)
            tables[name] = whole[:, :, : num_labels + 1]
        elif part is not None:
            tables[name] = part[params.rows]
    return params._replace(rows=None, **tables)
