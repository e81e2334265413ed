r"""Add :math:`C\,\Delta\Phi` to weights, one position at a time.

Beside each addition comes what the certificate needs. Adding :math:`\delta_i` of
position :math:`i` to :math:`\Theta` changes :math:`\frac12\|\Theta\|^2` by
:math:`C\langle\Theta, \delta_i\rangle + \frac12 C^2\|\delta_i\|^2`, with
:math:`\Theta` as the earlier positions have left it: two small sums over entries that
are being read anyway.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax.data.sequences import Space
from lowrank_jax.online.mistakes import Position

__all__ = ["Entries", "add", "num_repeats", "pairs", "transitions", "unary"]


class Entries(NamedTuple):
    """The entries of one weight table that a position's difference touches."""

    where: tuple[jax.Array, ...]  # one (n,) int32 for each axis of the table
    delta: jax.Array  # (n,)  +1 for the true label, -1 for the predicted one
    square: jax.Array  # ()  squared norm of the difference


def unary(here: Position, space: Space, dtype: jnp.dtype) -> Entries:
    """Entries of the 0-order weights (K + 1, S)."""
    ids, delta, repeats = _features(here, space, space.zero_order, dtype)
    labels = jnp.repeat(here.labels, len(space.zero_order))
    square = jnp.where(here.labels[0] == here.labels[1], 0, 2 * repeats)
    return Entries((ids, labels), delta, square)


def pairs(here: Position, space: Space, dtype: jnp.dtype) -> Entries:
    """Entries of the first-order weights (K + 1, S, S + 1)."""
    each = len(space.first_order)
    ids, delta, repeats = _features(here, space, space.first_order, dtype)
    index = (ids, jnp.repeat(here.labels, each), jnp.repeat(here.previous, each))
    return Entries(index, delta, 2 * repeats)


def transitions(here: Position, dtype: jnp.dtype) -> Entries:
    """Entries of the label transitions (S, S + 1)."""
    delta = jnp.array([1, -1], dtype)
    return Entries((here.labels, here.previous), delta, jnp.array(2, dtype))


def add(
    table: jax.Array,
    total: jax.Array | None,
    entries: Entries,
    step: jax.Array,
    weight: jax.Array,
) -> tuple[jax.Array, jax.Array | None, jax.Array]:
    r"""Add ``step * delta`` to `table` and ``weight * delta`` to the lazy `total`.

    Returns:
      The new table, the new total (None stays None) and the growth of
      :math:`\frac12\|\text{table}\|^2`.
    """
    at = table.at[entries.where]
    inner = (at.get(mode="promise_in_bounds") * entries.delta).sum()
    # What is written must depend on what is read: else the compiler may order the
    # two as it likes, and copies the whole table at each position to be free to.
    delta = jnp.where(jnp.isnan(inner), inner, entries.delta)
    growth = step * inner + step * step * entries.square / 2
    table = at.add(step * delta, mode="promise_in_bounds")
    if total is not None:
        total = total.at[entries.where].add(weight * delta, mode="promise_in_bounds")
    return table, total, growth


def num_repeats(ids: jax.Array, num_features: int) -> jax.Array:
    """Count the ordered pairs of equal features in a row of ids, each with itself."""
    same = (ids[:, None] == ids[None, :]) & (ids < num_features)[:, None]
    return same.sum(dtype=jnp.int32)


def _features(
    here: Position, space: Space, columns: tuple[int, ...], dtype: jnp.dtype
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Ids twice over, signs (0 where it is not a feature), and the repeats."""
    ids = here.ids[jnp.array(columns, jnp.int32)]
    is_feature = (ids < space.num_features).astype(dtype)
    delta = jnp.concatenate([is_feature, -is_feature])
    repeats = num_repeats(ids, space.num_features).astype(dtype)
    return jnp.tile(ids, 2), delta, repeats
