"""Wide rounds of `online.bol` with blocks of any rank; see `online.wide`.

The dual is sparse (`online.entries`). A feature gets its row before the batch moves. If
there may be too little room, the round is not begun, and `wide.passes` grows the state.
Each touched block is mapped once.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.data.sequences import Space
from lowrank_jax.models import bilinear
from lowrank_jax.online import entries, mistakes
from lowrank_jax.online import touched as tables
from lowrank_jax.online import wide as base
from lowrank_jax.online.bol import block as bol_block
from lowrank_jax.online.bol.state import State
from lowrank_jax.online.wide import owners, share, touches
from lowrank_jax.streams import packs, sentences

__all__ = ["Buffers", "rounds"]
__dir__ = __all__.copy

_BLOCKS = 32  # mapped at a time
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
        state: State,
        buffers: Buffers,
        stream: sentences.Stream,
        plan: packs.Plan,
        index: jax.Array,
        shapes: packs.Layout,
        axis: str | None,
    ) -> tuple[State, Buffers, base.Info]:
        assert state.pool is not None and isinstance(state.blocks, entries.Blocks)
        space, own = stream.space, owners.Owner.of(axis, shapes.num_devices)
        own_buffers, found = share.find(
            lambda *here: _scores(state.params, space, *here),
            *(None, stream, plan, index, buffers.share, shapes),
            is_off=state.pool.is_full,
            extra=state.blocks.num_pages,
            axis=axis,
        )
        marks, listed = touches.listed_of(
            buffers.touches, stream.feature_ids, found, space
        )
        state, listed, found = _enter(state, listed, found, own)
        is_mistake = found.num_wrong > 0
        step = base.step_of(
            is_mistake.sum(dtype=jnp.int32), jnp.asarray(step_size, dtype)
        )
        assert state.pool is not None
        is_done = ~state.pool.is_full
        size = jnp.where(is_done, plan.size[index], 0)
        # The mean of W is over what the rounds predicted with (DR-B13).
        before = state.num_rounds + (size if averaging == "weights" else 0)
        weight = before.astype(step.dtype)
        state = _move(state, stream, found, step, weight * step, own)
        state, mine = _map(
            state, listed, buffers.mine, weight, space, own, num_power_steps
        )
        info = base.Info(
            loss=jnp.where(is_mistake, jax.nn.relu(1 - found.margin), 0),
            is_mistake=is_mistake,
            num_wrong=found.num_wrong,
            margin=found.margin,
            step_size=step,
            predicted=found.labels[1] if "predicted" in record else None,
        )
        state = state._replace(num_rounds=state.num_rounds + size)
        return state, Buffers(own_buffers, marks, mine), info

    return base.Wide(
        layout=share.layout,
        plan=share.plan,
        buffers=buffers,
        update=update,
        trace=share.trace,
        info_like=base.info_like,
        spread=owners.spread,
        gather=owners.gather,
    )


def _scores(
    params: bilinear.Params, space: Space, ids: jax.Array, values: jax.Array | None
) -> jax.Array:
    """Return (n, S + 1, W) scores of (previous, current), single labels added in.

    Columns beyond the labels hold anything: a slice of W columns reaches into what lies
    beside it in the row.
    """
    labels, width = space.num_labels, bilinear.stride(space.num_labels)
    rank = bilinear.rank_of(params.table, labels)
    assert params.rows is not None
    at = params.rows.at[ids].get(mode="promise_in_bounds")
    rows = params.table.at[at].get(mode="promise_in_bounds")
    if values is not None:  # w and alpha carry the value, beta does not
        column = jnp.arange(rows.shape[2], dtype=jnp.int32)[None, None]
        factor = values.astype(rows.dtype)[:, :, None]
        rows = rows * jnp.where(column < labels * (1 + rank), factor, 1)
    unary = jnp.zeros((ids.shape[0], width), params.table.dtype)
    for t in space.zero_order:
        unary = unary + rows[:, t, :width]
    pairs = jnp.broadcast_to(unary[:, None], (ids.shape[0], labels + 1, width))
    if params.transitions is not None:
        more = jnp.pad(params.transitions.T, ((0, 0), (0, width - labels)))
        pairs = pairs + more[None]
    for t in space.first_order:
        for j in range(rank):
            left = rows[:, t, labels * (1 + j) :][:, :width]
            right = rows[:, t, labels * (1 + rank) + width * j :][:, : labels + 1]
            pairs = pairs + right[:, :, None] * left[:, None, :]
    return pairs


def _enter(
    state: State, listed: touches.Listed, found: share.Found, own: owners.Owner
) -> tuple[State, touches.Listed, share.Found]:
    """Give rows to the touched features, or begin no round."""
    pool, rows, blocks = state.pool, state.params.rows, state.blocks
    assert pool is not None and rows is not None
    assert isinstance(blocks, entries.Blocks)
    table_rows, num_pages = state.params.table.shape[0], blocks.values.pages.shape[0]
    is_full = pool.is_full
    if table_rows - 2 < rows.shape[0] - 1:  # else there is a row for every feature
        number = pool.num_rows + touches.num_new(rows, listed)
        is_full = is_full | (number > table_rows - 1)
    if num_pages <= blocks.keys.shape[0]:  # else there is a page for every row
        # Each device has told how many of its pages are in use.
        is_full = is_full | (found.extra + listed.num_first > num_pages).any()
    zero = jnp.zeros((), jnp.int32)
    listed = listed._replace(
        num_first=jnp.where(is_full, zero, listed.num_first),
        number=jnp.where(is_full, zero, listed.number),
    )
    found = found._replace(
        number=jnp.where(is_full, zero, found.number),
        num_wrong=jnp.where(is_full, zero, found.num_wrong),
    )
    rows, number = touches.give_rows(rows, pool.num_rows, listed)
    params = state.params._replace(rows=rows)
    state = state._replace(params=params, pool=tables.Pool(number, is_full))
    return state, listed, found


def _move(
    state: State,
    stream: sentences.Stream,
    found: share.Found,
    step: jax.Array,
    weight: jax.Array,
    own: owners.Owner,
) -> State:
    """Add ``step * G`` to Theta and w, and ``weight * G`` to their sums."""
    rows, space = state.params.rows, stream.space
    assert rows is not None

    def one(n: jax.Array, state: State) -> State:
        params, blocks, sums = state.params, state.blocks, state.sums
        assert isinstance(blocks, entries.Blocks)
        here = found.position(stream, n)
        here = here._replace(ids=rows.at[here.ids].get(mode="promise_in_bounds"))
        num_rows = params.table.shape[0]
        table, transitions, growth = params.table, params.transitions, state.conjugate
        zero_sum = None if sums is None else sums.table
        pair_sum = None if sums is None else sums.transitions
        if space.zero_order:
            touched = mistakes.unary(here, _sized(space, num_rows), step.dtype)
            table, zero_sum, more = mistakes.add(table, zero_sum, touched, step, weight)
            growth = growth + more
        if transitions is not None:
            touched = mistakes.transitions(here, step.dtype)
            transitions, pair_sum, more = mistakes.add(
                transitions, pair_sum, touched, step, weight
            )
            growth = growth + more
        here = here._replace(ids=own.local(here.ids, num_rows))
        block_sum: Any = None if sums is None else sums.blocks
        blocks, block_sum = entries.add(blocks, block_sum, here, space, step, weight)
        if sums is not None:
            assert zero_sum is not None
            sums = sums._replace(table=zero_sum, transitions=pair_sum, blocks=block_sum)
        params = params._replace(table=table, transitions=transitions)
        return state._replace(params=params, blocks=blocks, sums=sums, conjugate=growth)

    return lax.fori_loop(jnp.zeros((), jnp.int32), found.number, one, state)


def _sized(space: Space, num_rows: int) -> Space:
    """Return the sizes of tables with so many rows."""
    return Space(num_rows - 1, space.num_labels, space.orders, space.has_transitions)


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
        change = _product(new, labels, rank) - _product(old, labels, rank)
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


def _product(columns: jax.Array, labels: int, rank: int) -> jax.Array:
    """Return W of some blocks from the columns of their factors."""
    rows = bilinear.split(jnp.pad(columns, ((0, 0), (labels, 0))), labels)
    del rank
    return bol_block.product(rows.left, rows.right)
