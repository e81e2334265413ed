"""Wide rounds of `online.bol` with blocks of any rank; see `online.wide`.

The dual is sparse (`online.entries`). A feature gets its row before the batch moves. If
there may be too little room, the round is not begun, and `wide.passes` grows the state.
Each touched block is mapped once.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.data.sequences import Space
from lowrank_jax.linalg import places
from lowrank_jax.models import bilinear
from lowrank_jax.online import entries
from lowrank_jax.online import wide as base
from lowrank_jax.online.bol import block as bol_block
from lowrank_jax.online.bol.state import State
from lowrank_jax.online.wide import owners, share, touches
from lowrank_jax.streams import packs, sentences

__all__ = ["Buffers", "rounds"]
__dir__ = __all__.copy

_BLOCKS = 32  # mapped at a time
_PLACES = 32  # at which the weights of single labels move at a time
_SENT = 512  # rows of a device in one exchange


class Buffers(NamedTuple):
    """What each round writes over."""

    share: share.Buffers
    touches: touches.Buffers
    mine: jax.Array  # (room,) int32 rows that this device maps


def rounds(
    *,
    variant: str,
    averaging: str,
    num_power_steps: int,
    step_size: float | jax.Array,
    record: tuple[str, ...],
    dual: str,
    dtype: Any,
) -> base.Wide:
    """Return the wide rounds of a learner; arguments as for `online.bol.learner`."""
    for name, value, needed in (
        ("variant", variant, "block"),
        ("dual", dual, "sparse"),
        ("record", ",".join(set(record) - {"predicted"}), ""),
    ):
        if value != needed:
            words = f"{name}={needed}" if needed else f"no {name} beside 'predicted'"
            raise checks.InputError(
                f"Wide rounds (`batch_size` above 1) of bol need {words}, got "
                f"{name}={value}: change it, or take batch_size=1."
            )

    def buffers(stream: sentences.Stream, shapes: packs.Layout) -> Buffers:
        space = stream.space
        own = touches.buffers_for(shapes, space)
        return Buffers(
            share=share.buffers_for(shapes, space, dtype, has_pairs=True),
            touches=own,
            mine=jnp.zeros((own.listed.shape[0] + _SENT,), jnp.int32),
        )

    def update(
        state: State, buffers: Buffers, here: packs.Round
    ) -> tuple[State, Buffers, base.Info]:
        assert state.pool is not None and isinstance(state.blocks, entries.Blocks)
        stream, space = here.stream, here.stream.space
        own = owners.Owner.of(here.axis, here.layout.num_devices)
        own_buffers, found = share.find(
            lambda *at: _scores(state.params, space, *at),
            None,
            here,
            buffers.share,
            is_off=state.pool.is_full,
            extra=state.blocks.num_pages,
        )
        marks, listed = touches.listed_of(
            buffers.touches, stream.feature_ids, found, space
        )
        num_rows = state.params.table.shape[0]
        pool, listed, found = touches.enter(
            *(state.pool, state.params.rows, num_rows, state.blocks, listed, found)
        )
        params = state.params._replace(rows=found.rows)
        state = state._replace(params=params, pool=pool)
        number = (found.num_wrong > 0).sum(dtype=jnp.int32)
        step = base.step_of(number, jnp.asarray(step_size, dtype))
        size = jnp.where(pool.is_full, 0, here.plan.size[here.number])
        # The mean of W is over what the rounds predicted with (DR-B13).
        before = state.num_rounds + (size if averaging == "weights" else 0)
        weight = before.astype(step.dtype)
        state = _move(state, stream, found, step, weight * step, own)
        state, mine = _map(
            state, listed, buffers.mine, weight, space, own, num_power_steps
        )
        info = share.info(found, step, record=record)
        state = state._replace(num_rounds=state.num_rounds + size)
        return state, Buffers(own_buffers, marks, mine), info

    return share.rounds(update, buffers, spread=owners.spread, gather=owners.gather)


def _scores(
    params: bilinear.Params, space: Space, ids: jax.Array, values: jax.Array | None
) -> jax.Array:
    """Return (n, S + 1, W) scores of (previous, current), single labels added in."""
    rows = bilinear.packed_rows(params, ids, space, values)
    unary, labels = bilinear.packed_unary(rows, space), space.num_labels
    each = (ids.shape[0], labels + 1, unary.shape[1])
    pairs = jnp.broadcast_to(unary[:, None], each)
    if params.transitions is not None:
        room = ((0, 0), (0, unary.shape[1] - labels))
        pairs = pairs + jnp.pad(params.transitions.T, room)[None]
    return bilinear.packed_pairs(rows, space, pairs)


def _move(
    state: State,
    stream: sentences.Stream,
    found: share.Found,
    step: jax.Array,
    weight: jax.Array,
    own: owners.Owner,
) -> State:
    """Add ``step * G`` to Theta and w, and ``weight * G`` to their sums."""
    params, num_rows = state.params, state.params.table.shape[0]
    space = dataclasses.replace(stream.space, num_features=num_rows - 1)
    table, sums, growth = params.table, state.sums, jnp.zeros((), step.dtype)
    if space.zero_order:
        table, sums, growth = _move_single(
            table, sums, stream, found, space, step, weight
        )
        pairs_only = tuple(order.replace("0", "") for order in space.orders)
        space = dataclasses.replace(space, orders=pairs_only)

    def one(n: jax.Array, moved: bol_block.Moved) -> bol_block.Moved:
        here = found.position(stream, n)
        local = own.local(here.ids, num_rows)
        return bol_block.add(moved, here, local, space, step, weight)

    given = table, params.transitions, state.blocks, sums
    growth = state.conjugate + growth
    start = bol_block.Moved(*given, jnp.zeros((), step.dtype), growth)
    moved = lax.fori_loop(jnp.zeros((), jnp.int32), found.number, one, start)
    params = params._replace(table=moved.table, transitions=moved.transitions)
    return state._replace(
        params=params, blocks=moved.blocks, sums=moved.sums, conjugate=moved.growth
    )


def _move_single(
    table: jax.Array,
    sums: bol_block.Sums | None,
    stream: sentences.Stream,
    found: share.Found,
    space: Space,
    step: jax.Array,
    weight: jax.Array,
) -> tuple[jax.Array, bol_block.Sums | None, jax.Array]:
    """Add the differences to w and its sums; return the growth of ||w||^2 / 2 too."""
    columns = jnp.array(space.zero_order, jnp.int32)
    place, last = jnp.arange(_PLACES, dtype=jnp.int32), found.where.shape[0] - 1

    def some(k: jax.Array, carry: tuple) -> tuple:
        table, total, growth = carry
        n = k * _PLACES + place
        here = found.position(stream, jnp.minimum(n, last))
        ids = here.ids[:, columns]
        is_there = (n < found.number)[:, None] & (ids < space.num_features)
        value = is_there.astype(step.dtype)
        if here.values is not None:
            value = value * here.values[:, columns].astype(step.dtype)
        where = ids[None], here.labels[:, :, None]
        delta = jnp.stack([value, -value])
        before = (places.read(table, where) * delta).sum()
        # What is written depends on what is read: else the compiler copies the table.
        delta = jnp.where(jnp.isnan(before), before, delta)
        table = places.add(table, where, step * delta)
        if total is not None:
            total = places.add(total, where, weight * delta)
        # |w + d|^2 - |w|^2 = <w + d, d> + <w, d>
        after = (places.read(table, where) * delta).sum()
        return table, total, growth + step * (before + after) / 2

    zero, num_steps = jnp.zeros((), jnp.int32), (found.number + _PLACES - 1) // _PLACES
    total = None if sums is None else sums.table
    start = table, total, jnp.zeros((), step.dtype)
    table, total, growth = lax.fori_loop(zero, num_steps, some, start)
    if sums is not None and total is not None:
        sums = sums._replace(table=total)
    return table, sums, growth


def _map(
    state: State,
    listed: touches.Listed,
    buffer: jax.Array,
    weight: jax.Array,
    space: Space,
    own: owners.Owner,
    num_power_steps: int,
) -> tuple[State, jax.Array]:
    """Set alpha and beta of each touched block to the mirror map of Theta, once."""
    table, rows, labels = state.params.table, state.params.rows, space.num_labels
    assert rows is not None
    num_rows, zero = table.shape[0], jnp.zeros((), jnp.int32)
    size = _BLOCKS if own.axis is None else _SENT
    mine, number, most = own.mine(listed, rows, buffer, num_rows)
    columns = bilinear.width(labels, bilinear.rank_of(table, labels)) - labels

    def some(n: jax.Array, state: State) -> State:
        ids = lax.dynamic_slice_in_dim(mine, n * size, size)
        place = n * size + jnp.arange(size, dtype=jnp.int32)
        ids = jnp.where(place < number, ids, num_rows - 1)
        if own.axis is None:
            return _write(state, ids, _mapped(state, ids, own, num_power_steps), weight)

        def part(k: jax.Array, found: jax.Array) -> jax.Array:
            few = lax.dynamic_slice_in_dim(ids, k * _BLOCKS, _BLOCKS)
            new = _mapped(state, few, own, num_power_steps)
            return lax.dynamic_update_slice_in_dim(found, new, k * _BLOCKS, 0)

        left = jnp.clip(number - n * size, 0, size)
        new = jnp.zeros((size, columns), table.dtype)
        new = lax.fori_loop(zero, (left + _BLOCKS - 1) // _BLOCKS, part, new)
        return _write(state, *own.together(ids, new), weight)

    return lax.fori_loop(zero, (most + size - 1) // size, some, state), mine


def _mapped(
    state: State, ids: jax.Array, own: owners.Owner, num_power_steps: int
) -> jax.Array:
    """Return the new alpha and beta of some rows, as columns; 0 for no feature."""
    labels, table = state.nudge.shape[1] - 1, state.params.table
    num_rows = table.shape[0]
    local = own.local(ids, num_rows)
    theta = bol_block.theta_to_map(state.blocks, local, state.start, labels)
    old = table.at[ids].get(mode="promise_in_bounds")
    start = bilinear.split(old, labels).right + bol_block.NUDGE * state.nudge[None]
    new = bol_block.leading(theta, start, num_steps=num_power_steps)
    found = bilinear.join(new.left, new.right)
    return jnp.where((ids < num_rows - 1)[:, None], found, 0)


def _write(state: State, ids: jax.Array, new: jax.Array, weight: jax.Array) -> State:
    """Write new factors of some rows, and add the change to the sums of an average."""
    labels, table, sums = state.nudge.shape[1] - 1, state.params.table, state.sums
    rank = bilinear.rank_of(table, labels)
    old = table.at[ids, labels:].get(mode="promise_in_bounds")

    def energy(columns: jax.Array) -> jax.Array:
        left = columns[:, : rank * labels]
        return (left * left).sum()

    growth = (energy(new) - energy(old)) / 2
    # What is written depends on what is read: else the compiler copies the table.
    new = jnp.where(jnp.isnan(growth), growth, new)
    table = table.at[ids, labels:].set(new, mode="promise_in_bounds")
    if sums is not None and sums.weights is not None:
        change = bol_block.padded_product(new, labels)
        change = change - bol_block.padded_product(old, labels)
        at = sums.weights.at[ids]
        total = at.add(weight * change, mode="promise_in_bounds")
        sums = sums._replace(weights=total)
    elif sums is not None and sums.blocks is None:
        at = sums.table.at[ids, labels:]
        total = at.add(weight * (new - old), mode="promise_in_bounds")
        sums = sums._replace(table=total)
    return state._replace(
        params=state.params._replace(table=table),
        sums=sums,
        conjugate=state.conjugate + growth,
    )
