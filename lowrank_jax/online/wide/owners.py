"""Which device owns which row of the dual of BOL.

Row r belongs to device ``r mod D``, where it is row ``r div D``. The last row of a
device stands for rows of other devices and for "not a feature": it takes what is
written there and is never read. Each device numbers its own pages.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
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

    Pages are given anew: to the rows in ascending order. A function of the host.
    """
    is_owned = jax.tree.map(lambda _: False, state)
    blocks: Any = jax.tree.map(np.asarray, state.blocks)
    sums: Any = state.sums
    num_rows, num_pages = len(blocks.keys), len(blocks.values.pages)
    room = -(-num_rows // num_devices) + 1
    own = [np.arange(d, num_rows - 1, num_devices) for d in range(num_devices)]
    paged = [rows[blocks.keys[rows, 0] > 0] for rows in own]
    number: Any = np.array([1 + len(rows) for rows in paged], np.int32)
    each = min(max(-(-num_pages * 5 // (4 * num_devices)), 2), room + 1)
    if num_pages > num_rows:
        each = room + 1  # a page for every row
    most = int(number.max())
    each = max(each, 2 * most if most > each else each)

    def filled(size: int, part: Any, given: list[Any]) -> Any:
        found = np.zeros((num_devices, size, part.shape[1]), part.dtype)
        for device, rows in zip(found, given, strict=True):
            device[: len(rows)] = rows
        return found

    def split(part: Any) -> entries.Part:
        slots = filled(room, part.slots, [part.slots[rows] for rows in own])
        pages = [part.pages[np.append(0, blocks.keys[rows, 0])] for rows in paged]
        return entries.Part(slots, filled(each, part.pages, pages))

    keys = blocks.keys.copy()
    for rows in paged:
        keys[rows, 0] = np.arange(1, 1 + len(rows))
    keys = filled(room, keys, [keys[rows] for rows in own])
    state = state._replace(blocks=entries.Blocks(keys, split(blocks.values), number))
    owned = jax.tree.map(lambda _: True, state.blocks)
    is_owned = is_owned._replace(blocks=owned)
    if sums is not None and sums.blocks is not None:
        part = split(jax.tree.map(np.asarray, sums.blocks))
        state = state._replace(sums=sums._replace(blocks=part))
        is_owned = is_owned._replace(sums=is_owned.sums._replace(blocks=owned.values))
    return state, is_owned


def gather(state: State) -> State:
    """Return the state with one dual; the inverse of `spread` up to page numbers.

    A function of the host.
    """
    blocks: Any = state.blocks
    sums: Any = state.sums
    num_devices, each, _ = blocks.values.pages.shape
    num_rows = state.params.table.shape[0]
    own = np.arange(num_rows - 1)
    in_use = blocks.num_pages - 1
    before = np.cumsum(in_use) - in_use

    def slots(part: Any) -> Any:
        found = part[own % num_devices, own // num_devices]
        return np.concatenate([found, np.zeros_like(found[:1])])

    def join(part: Any) -> entries.Part:
        pages: Any = np.zeros((num_devices * (each - 1) + 1, part.pages.shape[2]))
        pages = pages.astype(part.pages.dtype)
        for first, number, given in zip(before, in_use, part.pages, strict=True):
            pages[1 + first : 1 + first + number] = given[1 : 1 + number]
        return entries.Part(slots(part.slots), pages)

    keys = slots(blocks.keys)
    keys[:-1, 0] += np.where(keys[:-1, 0] > 0, before[own % num_devices], 0)
    total: Any = np.int32(1 + in_use.sum())
    state = state._replace(blocks=entries.Blocks(keys, join(blocks.values), total))
    if sums is not None and sums.blocks is not None:
        state = state._replace(sums=sums._replace(blocks=join(sums.blocks)))
    return state
