"""Rows of the touched features: their differences added up, moved, mapped, written.

`online.padded` says how. A row holds whole lanes of an accelerator.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax.data.sequences import Space
from lowrank_jax.linalg.forms import by_platform
from lowrank_jax.linalg.power_iteration import orthonormalise
from lowrank_jax.models import bilinear
from lowrank_jax.online.bol.block import NUDGE
from lowrank_jax.types import documented

__all__ = ["Columns", "Moves", "State", "hot", "mapped", "moved", "whole_lanes"]
__dir__ = __all__.copy

_LANES = 128
_BIG = np.int32(2**31 - 1)


@documented
class State(NamedTuple):
    """What the next round needs.

    Attributes:
      table: Rows of features, (K + 1, lanes): w, alpha, beta, sums of w, and beta at
        the start of a round, W columns each, alpha and beta rank times as many.
      dual: Theta of each feature, (K + 1, lanes), column label * (S + 1) + previous;
        None for the perceptron.
      sums: Lazy sums of Theta, like `dual`.
      transitions: (S, S + 1), if the space has them.
      transition_sums: Their lazy sums.
      nudge: Random directions that start a new block, (rank, S + 1); None for the
        perceptron.
      num_rounds: Number of sentences seen, () int32.
    """

    table: jax.Array
    dual: jax.Array | None
    sums: jax.Array | None
    transitions: jax.Array | None
    transition_sums: jax.Array | None
    nudge: jax.Array | None
    num_rounds: jax.Array


class Columns(NamedTuple):
    """Places of the parts of a row of the table."""

    labels: int
    rank: int

    @property
    def width(self) -> int:
        """Number W of columns of one vector."""
        return bilinear.stride(self.labels)

    def at(self, part: str) -> slice:
        """Return the columns of a part."""
        sizes = [1, self.rank, self.rank, 1, self.rank]
        place = ("zero", "left", "right", "sums", "start").index(part)
        first = sum(sizes[:place]) * self.width
        return slice(first, first + sizes[place] * self.width)

    @property
    def lanes(self) -> int:
        """Number of columns in all."""
        return whole_lanes(self.at("start").stop)

    def factors(self, rows: jax.Array, part: str) -> jax.Array:
        """Return alpha or beta of rows, (..., rank, W)."""
        found = rows[..., self.at(part)]
        return found.reshape(*found.shape[:-1], self.rank, self.width)


def whole_lanes(size: int) -> int:
    """Return a size rounded up to whole lanes."""
    return -(-size // _LANES) * _LANES


def hot(index: jax.Array, size: int, dtype: Any) -> jax.Array:
    """Return one-hot rows of indices."""
    each = lax.broadcasted_iota(jnp.int32, (*index.shape, size), index.ndim)
    return (index[..., None] == each).astype(dtype)


class Moves(NamedTuple):
    """Positions of a round, N = B L of them."""

    ids: jax.Array  # (N, num_templates)
    pairs: jax.Array  # (2, N) label * (S + 1) + previous: true, predicted
    differs: jax.Array  # (N,)
    step: jax.Array
    weight: jax.Array


def moved(
    state: State,
    moves: Moves,
    space: Space,
    columns: Columns,
    size: int,
    num_steps: int,
) -> State:
    """Move and map the rows of all touched features, `size` positions at a time."""
    place = jnp.arange(moves.differs.size, dtype=jnp.int32)
    listed = jnp.where(moves.differs, place, _BIG)
    listed = lax.sort(jnp.pad(listed, (0, size), constant_values=_BIG))
    number = moves.differs.sum(dtype=jnp.int32)
    num_turns = (number + size - 1) // size
    is_single = num_turns <= 1
    # More than one turn: the first half of them moves, the second half maps.
    last = jnp.where(is_single | (columns.rank == 0), num_turns, 2 * num_turns)

    def turn(carry: tuple) -> tuple:
        n, state = carry
        at = jnp.where(n < num_turns, n, n - num_turns) * size
        here = lax.dynamic_slice_in_dim(listed, at, size)
        is_here = here < _BIG
        here = jnp.minimum(here, place.size - 1)
        ids = moves.ids.at[here].get(mode="promise_in_bounds")
        ids = jnp.where(is_here[:, None], ids, space.num_features)
        some = moves._replace(
            ids=ids,
            pairs=moves.pairs.at[:, here].get(mode="promise_in_bounds"),
            step=jnp.where(n < num_turns, moves.step, 0),
            weight=jnp.where(n < num_turns, moves.weight, 0),
        )
        is_mapped = is_single | (n >= num_turns)
        new = _turn(state, some, space, columns, n < num_turns, is_mapped, num_steps)
        return n + 1, new

    def goes_on(carry: tuple) -> jax.Array:
        return carry[0] < last

    return lax.while_loop(goes_on, turn, (jnp.zeros((), jnp.int32), state))[1]


def _turn(
    state: State,
    moves: Moves,
    space: Space,
    columns: Columns,
    is_moved: jax.Array,
    is_mapped: jax.Array,
    num_steps: int,
) -> State:
    """Move, and map, the rows of some positions. Each row is read and written once."""
    labels, dtype = columns.labels, state.table.dtype
    nowhere = space.num_features
    flat = lax.sort(moves.ids.ravel())
    is_first = jnp.concatenate([jnp.ones((1,), bool), flat[1:] != flat[:-1]])
    own = lax.sort(jnp.where(is_first, flat, nowhere))  # each once, then K
    signs = _signs(moves.pairs // (labels + 1), columns.width)
    more = _product(_hits(own, moves.ids, space.zero_order, nowhere), signs, dtype)
    rows = state.table.at[own].get(mode="promise_in_bounds")
    is_row = (own < nowhere)[:, None]
    parts = {
        "zero": rows[:, columns.at("zero")] + moves.step * more,
        "sums": rows[:, columns.at("sums")] + moves.weight * more,
    }
    dual, sums = state.dual, state.sums

    def put(table: jax.Array, new: jax.Array) -> jax.Array:
        new = jnp.pad(new, ((0, 0), (0, table.shape[1] - new.shape[1])))
        at = table.at[own]
        new = jnp.where(is_row, new, 0)
        return at.set(new, mode="promise_in_bounds", indices_are_sorted=True)

    if dual is not None and sums is not None and state.nudge is not None:
        signs = _signs(moves.pairs, dual.shape[1])
        hits = _hits(own, moves.ids, space.first_order, nowhere)
        more = _product(hits, signs, dtype)
        theta = dual.at[own].get(mode="promise_in_bounds") + moves.step * more
        total = sums.at[own].get(mode="promise_in_bounds") + moves.weight * more
        old = columns.factors(rows, "right")
        start = jnp.where(is_moved, old, columns.factors(rows, "start"))
        blocks = theta[:, : labels * (labels + 1)].reshape(-1, labels, labels + 1)
        left, right = mapped(blocks, start, state.nudge, num_steps)
        if not set(space.zero_order) <= set(space.first_order):
            is_touched = (hits > 0).any(axis=1)[:, None, None]
            is_mapped = is_mapped & is_touched  # not by 0-order features alone
        left = jnp.where(is_mapped, left, columns.factors(rows, "left"))
        right = jnp.where(is_mapped, right, old)
        parts |= {
            name: part.reshape(part.shape[0], -1)
            for name, part in (("left", left), ("right", right), ("start", start))
        }
        dual, sums = put(dual, theta), put(sums, total)
    order = ("zero", "left", "right", "sums", "start")
    whole = jnp.concatenate([parts[name] for name in order if name in parts], axis=1)
    return state._replace(
        table=put(state.table, whole.astype(dtype)), dual=dual, sums=sums
    )


def _signs(index: jax.Array, size: int) -> jax.Array:
    """Return one-hot true rows less one-hot predicted rows, (P, size)."""
    return hot(index[0], size, jnp.bfloat16) - hot(index[1], size, jnp.bfloat16)


def _hits(
    own: jax.Array, ids: jax.Array, templates: tuple[int, ...], nowhere: int
) -> jax.Array:
    """Return how often each position has each feature, (U, P)."""
    if templates != tuple(range(ids.shape[1])):
        ids = ids[:, np.array(templates, np.int32)]
    same = own[:, None, None] == ids[None]
    number = same.sum(2, dtype=jnp.int32)
    return jnp.where((own < nowhere)[:, None], number, 0).astype(jnp.bfloat16)


def _product(hits: jax.Array, signs: jax.Array, dtype: Any) -> jax.Array:
    """Return the product; exact, since all numbers are whole and small."""

    def narrow(hits: jax.Array, signs: jax.Array) -> jax.Array:
        return lax.dot(hits, signs, preferred_element_type=jnp.float32)

    def plain(hits: jax.Array, signs: jax.Array) -> jax.Array:
        return hits.astype(jnp.float32) @ signs.astype(jnp.float32)

    found = by_platform(hits, signs, cpu=plain, gpu=narrow, tpu=narrow)
    return found.astype(dtype)


def mapped(
    blocks: jax.Array, start: jax.Array, nudge: jax.Array, num_steps: int
) -> tuple[jax.Array, jax.Array]:
    """Return alpha and beta, (U, rank, W) each, of the mirror map of some blocks."""
    num_labels, width = blocks.shape[1], start.shape[2]
    right = start[:, :, : num_labels + 1] + NUDGE * nudge[None]

    def image(right: jax.Array) -> jax.Array:
        return (blocks[:, None] * right[:, :, None, :]).sum(axis=3)

    for n in range(num_steps):
        left = image(right)
        right = (blocks[:, None] * left[..., None]).sum(axis=2)
        # One vector needs its length only, and not at each step: less to launch.
        if right.shape[1] > 1 or n % 2 or n == num_steps - 1:
            right = orthonormalise(right)
    left = image(right)

    def wide(part: jax.Array) -> jax.Array:
        return jnp.pad(part, ((0, 0), (0, 0), (0, width - part.shape[2])))

    return wide(left), wide(right)
