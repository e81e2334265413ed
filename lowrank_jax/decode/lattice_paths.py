r"""Best paths and smooth maxima of all words of a lattice.

.. math:: \delta_t(b, c) = \max_a \{\delta_{t-1}(a, b) + F(a, b, c)\}
   + \ell(c, y_t) \qquad\text{(SMM-Eq4, SMM-N1)}

One scan over the steps of the lanes. A group of states with w candidates for a takes w
gathers from the table and w from the step before, fused into one loop. Only maxima are
kept going forward; going back the best a is sought on the traced path alone. With the
maximum replaced by :math:`\mu\log\sum\exp(\cdot/\mu)` the same recursion gives the
smoothed loss of SMM-X1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp

from lowrank_jax import checks
from lowrank_jax.streams.words import Lattice

__all__ = ["LatticePaths", "best_paths", "paths_to_words", "smooth_maximum"]
__dir__ = __all__.copy


class LatticePaths(NamedTuple):
    """The best paths of all words.

    Attributes:
      score: () their sum, costs included.
      num_wrong: () int32, letters in which they differ from the true paths.
      cells: (T, B) int32, the entry of the flat table each step took; the first one
        past the table where a step scores nothing. (D, T, B) of shares.
    """

    score: jax.Array
    num_wrong: jax.Array
    cells: jax.Array


def _flat(table: jax.Array, lattice: Lattice) -> jax.Array:
    """Lay the table out as the lattice reads it, and zeros behind it."""
    n, order = lattice.num_symbols, lattice.order
    if table.shape != (n,) * order:
        raise checks.InputError(
            f"`table` must have shape {(n,) * order}, got {table.shape}."
        )
    turned = jnp.moveaxis(table, 0, -1)  # (b, c, a), or (c, b)
    return jnp.pad(turned.reshape(-1), (0, max(lattice.widths)))


def _groups(lattice: Lattice) -> list[tuple[int, slice]]:
    """Width and place of each group of states."""
    ends = np.cumsum(lattice.sizes).tolist()
    places = [slice(e - size, e) for e, size in zip(ends, lattice.sizes, strict=True)]
    return list(zip(lattice.widths, places, strict=True))


def _take(values: jax.Array, places: jax.Array) -> jax.Array:
    return values.at[places].get(mode="promise_in_bounds")


def _largest(entries: list[jax.Array]) -> jax.Array:
    """Maximum of a list, as a tree: elementwise, so all of it is one loop."""
    while len(entries) > 1:
        pairs = zip(entries[::2], entries[1::2], strict=False)
        odd = entries[-1:] if len(entries) % 2 else []
        entries = [jnp.maximum(left, right) for left, right in pairs] + odd
    return entries[0]


def _inputs(lattice: Lattice) -> tuple[jax.Array, jax.Array, jax.Array]:
    return (
        jnp.asarray(lattice.table_base),
        jnp.asarray(lattice.delta_base),
        jnp.asarray(lattice.is_wrong),
    )


def best_paths(
    table: jax.Array, lattice: Lattice, *, cost: float | jax.Array = 1.0
) -> LatticePaths:
    """Find the best path of each word, with the Hamming cost added.

    Args:
      table: (n, n, n) or (n, n), score of each factor, oldest symbol first.
      lattice: Words from `streams.words.lattice`.
      cost: Cost of one wrong symbol; 0 for plain decoding. May be traced.
    """
    if lattice.table_base.ndim == 3:  # shares, of one device each
        each = jax.vmap(lambda share: best_paths(table, share, cost=cost))(lattice)
        wrong = each.num_wrong.sum(dtype=jnp.int32)
        return LatticePaths(each.score.sum(), wrong, each.cells)
    flat = _flat(table, lattice)
    cost = jnp.asarray(cost, table.dtype)
    table_base, delta_base, is_wrong = _inputs(lattice)
    start = jnp.zeros((sum(lattice.sizes),), table.dtype)

    def forward(
        delta: jax.Array, inputs: tuple[jax.Array, jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        table_base, delta_base, is_wrong = inputs
        parts = []
        for width, here in _groups(lattice):
            entries = [
                _take(flat, table_base[here] + j) + _take(delta, delta_base[here] + j)
                for j in range(width)
            ]
            parts.append(_largest(entries))
        return jnp.concatenate(parts) + jnp.where(is_wrong, cost, 0), delta

    end, deltas = lax.scan(forward, start, (table_base, delta_base, is_wrong))

    window = jnp.arange(max(lattice.widths), dtype=jnp.int32)

    def backward(state: jax.Array, inputs: tuple) -> tuple[jax.Array, tuple]:
        delta, table_base, delta_base, is_wrong, width = inputs
        cell, before = table_base[state], delta_base[state]
        near = before[:, None] + window[None, :]
        values = _take(flat, cell[:, None] + window[None, :])
        values = values + delta.at[near].get(mode="clip")
        inside = window[None, :] < width[:, None]
        best = jnp.argmax(jnp.where(inside, values, -jnp.inf), axis=1)
        best = best.astype(jnp.int32)
        return before + best, (cell + best, is_wrong[state])

    last_state = jnp.asarray(lattice.last_state)
    width = jnp.asarray(lattice.width)
    inputs = (deltas, table_base, delta_base, is_wrong, width)
    _, (cells, wrong) = lax.scan(backward, last_state, inputs, reverse=True)
    cells = jnp.minimum(cells, table.size)
    return LatticePaths(end[last_state].sum(), wrong.sum(dtype=jnp.int32), cells)


def smooth_maximum(
    table: jax.Array,
    lattice: Lattice,
    *,
    smoothing: float | jax.Array,
    cost: float | jax.Array = 1.0,
) -> jax.Array:
    r"""Return the sum over words of :math:`\mu\log\sum_z e^{(F(z) + \ell(z))/\mu}`.

    Its gradient in the table is the expected number of times each factor occurs
    (SMM-X1); with a smoothing of 1 and no cost it is the log-partition function.

    Args:
      table: (n, n, n) or (n, n), score of each factor, oldest symbol first.
      lattice: Words from `streams.words.lattice`.
      smoothing: Smoothing mu, positive. May be traced.
      cost: Cost of one wrong symbol; 0 for none. May be traced.
    """
    if lattice.table_base.ndim == 3:  # shares, of one device each

        def one(share: Lattice) -> jax.Array:
            return smooth_maximum(table, share, smoothing=smoothing, cost=cost)

        return jax.vmap(one)(lattice).sum()
    flat = _flat(table, lattice)
    cost = jnp.asarray(cost, table.dtype)
    smoothing = jnp.asarray(smoothing, table.dtype)
    start = jnp.zeros((sum(lattice.sizes),), table.dtype)

    @jax.checkpoint
    def forward(
        delta: jax.Array, inputs: tuple[jax.Array, jax.Array, jax.Array]
    ) -> tuple[jax.Array, None]:
        table_base, delta_base, is_wrong = inputs
        parts = []
        for width, here in _groups(lattice):
            window = jnp.arange(width, dtype=jnp.int32)[None, :]
            entries = _take(flat, table_base[here, None] + window)
            entries += _take(delta, delta_base[here, None] + window)
            parts.append(smoothing * logsumexp(entries / smoothing, axis=1))
        return jnp.concatenate(parts) + jnp.where(is_wrong, cost, 0), None

    end, _ = lax.scan(forward, start, _inputs(lattice))
    return end[jnp.asarray(lattice.last_state)].sum()


def paths_to_words(paths: LatticePaths, lattice: Lattice) -> np.ndarray:
    """Return (num_words, max_length) int32 ids of the paths, -1 beyond the end.

    On the host.
    """
    position, cells = np.asarray(lattice.position), np.asarray(paths.cells)
    found = np.full(lattice.num_words * lattice.max_length, -1, np.int32)
    is_letter = position >= 0
    # The table lies as (b, c, a) or (c, b): c is the symbol before the last.
    n = lattice.num_symbols
    found[position[is_letter]] = cells[is_letter] // n % n
    return found.reshape(lattice.num_words, lattice.max_length)
