"""Which device owns which row of the dual of BOL.

Row r belongs to device ``r mod D``, where it is row ``r div D``. The last row of a
device stands for rows of other devices and for "not a feature": it takes what is
written there and is never read. Each device numbers its own pages.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax.online import entries
from lowrank_jax.online.bol.state import State
from lowrank_jax.online.wide import touches

__all__ = ["Owner", "gather", "spread"]
__dir__ = __all__.copy

_ROWS = 256  # looked at together


class Owner(NamedTuple):
    """One device of the mesh; without an axis the only one."""

    axis: str | None
    num_devices: int
    number: jax.Array  # () int32

    @classmethod
    def of(cls, axis: str | None, num_devices: int) -> "Owner":
        """Return the device that runs this program."""
        zero = jnp.zeros((), jnp.int32)
        number = zero if axis is None else lax.axis_index(axis).astype(jnp.int32)
        return cls(axis, num_devices, number)

    def local(self, rows: jax.Array, num_rows: int) -> jax.Array:
        """Return the places of rows in the tables of this device."""
        if self.axis is None:
            return rows
        is_mine = (rows % self.num_devices == self.number) & (rows < num_rows - 1)
        return jnp.where(is_mine, rows // self.num_devices, _room(num_rows, self) - 1)

    def mine(
        self, listed: touches.Listed, rows: jax.Array, buffer: jax.Array, num_rows: int
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Return the rows of touched blocks that this device owns.

        Returns:
          A list of rows; their number; the largest such number of all devices.
        """
        devices = jnp.arange(self.num_devices, dtype=jnp.int32)

        def one(k: jax.Array, carry: tuple) -> tuple[jax.Array, jax.Array]:
            found, numbers = carry
            ids = lax.dynamic_slice_in_dim(listed.features, k * _ROWS, _ROWS)
            place = k * _ROWS + jnp.arange(_ROWS, dtype=jnp.int32)
            own = rows.at[ids].get(mode="promise_in_bounds")
            is_listed = place < listed.num_first
            is_at = own[:, None] % self.num_devices == devices[None]
            is_at = is_at & is_listed[:, None]
            is_mine = is_at[:, self.number] if self.axis is not None else is_at[:, 0]
            at = numbers[self.number] - 1 + jnp.cumsum(is_mine, dtype=jnp.int32)
            at = jnp.where(is_mine, at, found.shape[0])
            found = found.at[at].set(own, mode="drop")
            return found, numbers + is_at.sum(axis=0, dtype=jnp.int32)

        zero = jnp.zeros((), jnp.int32)
        num_steps = (listed.num_first + _ROWS - 1) // _ROWS
        numbers = jnp.zeros((self.num_devices,), jnp.int32)
        found, numbers = lax.fori_loop(zero, num_steps, one, (buffer, numbers))
        return found, numbers[self.number], numbers.max()

    def together(
        self, ids: jax.Array, columns: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Return the rows of all devices, and their columns: one all-gather."""
        assert self.axis is not None
        sent = jnp.concatenate([ids.astype(columns.dtype)[:, None], columns], axis=1)
        got = lax.all_gather(sent, self.axis).reshape(-1, sent.shape[1])
        return got[:, 0].astype(jnp.int32), got[:, 1:]


def _room(num_rows: int, own: Owner) -> int:
    return -(-num_rows // own.num_devices) + 1


def spread(state: State, num_devices: int) -> tuple[State, Any]:
    """Return a state whose dual has an axis of devices in front, and which leaves do.

    Pages are given anew: to the rows in ascending order.
    """
    is_owned = jax.tree.map(lambda _: False, state)
    blocks, sums = state.blocks, state.sums
    assert isinstance(blocks, entries.Blocks)
    num_rows, num_pages = blocks.keys.shape[0], blocks.values.pages.shape[0]
    room = -(-num_rows // num_devices) + 1
    each = min(max(-(-num_pages * 5 // (4 * num_devices)), 2), room + 1)
    if num_pages > num_rows:
        each = room + 1  # a page for every row
    own = jnp.arange(num_rows, dtype=jnp.int32)
    device, local = own % num_devices, own // num_devices
    is_row = own < num_rows - 1
    local = jnp.where(is_row, local, room - 1)
    has_page = (blocks.keys[:, 0] > 0) & is_row
    at = device[:, None] == jnp.arange(num_devices, dtype=jnp.int32)[None]
    number = jnp.cumsum(at & has_page[:, None], axis=0, dtype=jnp.int32)
    page = jnp.where(has_page, number[own, device], 0)
    most = int(number[-1].max()) + 1
    each = max(each, 2 * most if most > each else each)

    def slots(part: jax.Array) -> jax.Array:
        fresh = jnp.zeros((num_devices, room, *part.shape[1:]), part.dtype)
        return fresh.at[device, local].set(part)

    def split(part: entries.Part) -> entries.Part:
        fresh = jnp.zeros((num_devices, each, part.pages.shape[1]), part.pages.dtype)
        pages = part.pages[jnp.where(has_page, blocks.keys[:, 0], 0)]
        return entries.Part(slots(part.slots), fresh.at[device, page].set(pages))

    keys = blocks.keys.at[:, 0].set(page)
    spread_blocks = entries.Blocks(slots(keys), split(blocks.values), number[-1] + 1)
    owned = jax.tree.map(lambda _: True, spread_blocks)
    state = state._replace(blocks=spread_blocks)
    is_owned = is_owned._replace(blocks=owned)
    if sums is not None and sums.blocks is not None:
        total: Any = sums.blocks
        state = state._replace(sums=sums._replace(blocks=split(total)))
        is_owned = is_owned._replace(sums=is_owned.sums._replace(blocks=owned.values))
    return state, is_owned


def gather(state: State) -> State:
    """Return the state with one dual; the inverse of `spread` up to page numbers."""
    blocks, sums = state.blocks, state.sums
    assert isinstance(blocks, entries.Blocks)
    num_devices, each = blocks.values.pages.shape[:2]
    num_rows = state.params.table.shape[0]
    own = jnp.arange(num_rows, dtype=jnp.int32)
    device, local = own % num_devices, own // num_devices
    is_row = own < num_rows - 1
    before = jnp.cumsum(blocks.num_pages - 1, dtype=jnp.int32) - (blocks.num_pages - 1)

    def slots(part: jax.Array) -> jax.Array:
        found = part[device, local]
        return jnp.where(is_row[:, None], found, 0)

    num_pages = num_devices * (each - 1) + 1

    def join(part: entries.Part) -> entries.Part:
        place = jnp.arange(each, dtype=jnp.int32)[None]
        to = jnp.where(place > 0, before[:, None] + place, 0)
        in_use = (place > 0) & (place < blocks.num_pages[:, None])
        to = jnp.where(in_use, to, num_pages)  # a free page is zero: drop it
        fresh = jnp.zeros((num_pages, part.pages.shape[2]), part.pages.dtype)
        flat = part.pages.reshape(-1, part.pages.shape[2])
        return entries.Part(
            slots(part.slots), fresh.at[to.ravel()].set(flat, mode="drop")
        )

    keys = slots(blocks.keys)
    page = keys[:, 0]
    keys = keys.at[:, 0].set(jnp.where(page > 0, page + before[device], 0))
    total = (blocks.num_pages - 1).sum(dtype=jnp.int32) + 1
    state = state._replace(blocks=entries.Blocks(keys, join(blocks.values), total))
    if sums is not None and sums.blocks is not None:
        own_sums: Any = sums.blocks
        state = state._replace(sums=sums._replace(blocks=join(own_sums)))
    return state
