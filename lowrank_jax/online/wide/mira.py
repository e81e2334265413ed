r"""Wide rounds of `online.mira`: the quadratic program of a batch.

.. math:: \min_{0 \le \tau_i \le C} \tfrac12 \Big\|W_{t-1}
   + \sum_{i \in M_t} \tau_i \Delta\Phi_i\Big\|^2 - \sum_{i \in M_t} \tau_i c_i

Its solution is the smallest change of the weights that restores all margins of the
batch, as far as :math:`C` allows. Coordinate steps need the margins at the start, which
the round has found, and the inner products of the differences: the change of
:math:`\tau_i` moves the margin of sentence j by :math:`\langle \Delta\Phi_i,
\Delta\Phi_j \rangle` times as much. Each device makes the products of its share of the
mistaken sentences, and one sum gives them to all. Then at most ten sweeps over numbers
are made, and each difference is added once. For one sentence the program is PA-I.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax import checks
from lowrank_jax.online import entries
from lowrank_jax.online import wide as base
from lowrank_jax.online.wide import linear as wide_linear
from lowrank_jax.online.wide import owners, share
from lowrank_jax.streams import packs, sentences

__all__ = ["mira_rounds"]
__dir__ = __all__.copy


_PLACES = 32  # places whose products with one place are made at a time


class Buffers(NamedTuple):
    """What each round writes over."""

    counts: tuple  # (K + 1,) of the features of one place, by order, or None; zeros
    places: jax.Array  # (room, num_templates + 5) int32 of the places that differ
    values: jax.Array | None  # (room, num_templates) of the features; None: 1 each


def mira_rounds(
    *, max_step_size: float | jax.Array, cost: str, decoding: str, dtype: Any
) -> base.Wide:
    """Return the wide rounds of MIRA; arguments as for its learner."""
    if decoding != "plain":
        raise checks.InputError(
            "Wide rounds (`batch_size` above 1) of mira need decoding=plain, got "
            f"decoding={decoding}: change it, or take batch_size=1."
        )

    def update(
        state: Any, buffers: wide_linear.Buffers, here: packs.Round
    ) -> tuple[Any, wide_linear.Buffers, base.Info]:
        state, buffers, found, space = wide_linear.decode(state, here, buffers)

        price = found.num_wrong if cost == "hamming" else found.num_wrong > 0
        price = price.astype(dtype)
        products, gram = _gram(buffers.more, found, here, dtype)
        tau = _solve(gram, found, price, jnp.asarray(max_step_size, dtype))
        rounds = state.num_rounds.astype(dtype)

        def one(n: jax.Array, carry: tuple) -> tuple:
            params, sums, growth = carry
            own = tau[found.owner[found.where[n]]]
            given = found.position(here.stream, n), space, own, rounds * own
            return entries.add_all(params, sums, growth, *given)

        carry = state.params, state.sums, jnp.zeros((), dtype)
        carry = lax.fori_loop(jnp.zeros((), jnp.int32), found.number, one, carry)
        info = share.info(found, tau, cost=price)
        state = wide_linear.ended(state, carry, here)
        return state, buffers._replace(more=products), info

    def buffers(stream: sentences.Stream, shapes: packs.Layout) -> Buffers:
        room = -(-shapes.batch_tokens // _PLACES) * _PLACES
        columns = stream.feature_ids.shape[1]
        space, values = stream.space, stream.values
        return Buffers(
            counts=tuple(
                jnp.zeros((space.num_features + 1,), dtype) if templates else None
                for templates in (space.zero_order, space.first_order)
            ),
            places=jnp.zeros((room, columns + 5), jnp.int32),
            values=None if values is None else jnp.zeros((room, columns), dtype),
        )

    return wide_linear.rounds_of(update, dtype, buffers)


def _places(buffers: Buffers, found: share.Found, here: packs.Round) -> Buffers:
    """Gather what is needed of the places that differ.

    A row has the features of a place, its true and predicted label, its true and
    predicted pair of labels, and its sentence.
    """
    stream, each = here.stream, here.stream.space.num_labels + 1
    where = jnp.pad(found.where, (0, _PLACES))

    def fill(k: jax.Array, buffers: Buffers) -> Buffers:
        at = lax.dynamic_slice_in_dim(where, k * _PLACES, _PLACES)
        token, labels = found.token[at], found.labels[:, at]
        pairs = labels * each + found.previous[:, at]
        rows = [stream.feature_ids[token], labels.T, pairs.T, found.owner[at][:, None]]
        set_rows = lax.dynamic_update_slice_in_dim
        places = set_rows(
            buffers.places, jnp.concatenate(rows, axis=1), k * _PLACES, axis=0
        )
        values = buffers.values
        if values is not None:
            own = stream.values[token].astype(values.dtype)
            values = set_rows(values, own, k * _PLACES, axis=0)
        return buffers._replace(places=places, values=values)

    num_steps = (found.number + _PLACES - 1) // _PLACES
    return lax.fori_loop(jnp.zeros_like(num_steps), num_steps, fill, buffers)


def _gram(
    buffers: Buffers, found: share.Found, here: packs.Round, dtype: Any
) -> tuple[Buffers, jax.Array]:
    """Return (B, B) inner products of the differences of sentences.

    The product of two places is the number of features they share, times the product
    of their differences of labels. A row of the matrix is the work of one device, so
    its sums have one order on any number of devices.
    """
    space, size = here.stream.space, found.num_wrong.shape[0]
    buffers, width = _places(buffers, found, here), here.stream.feature_ids.shape[1]
    own = owners.Owner.of(here.axis, here.layout.num_devices)
    (which,) = jnp.nonzero(found.num_wrong > 0, size=size, fill_value=0)
    number = (found.num_wrong > 0).sum(dtype=jnp.int32)
    place = jnp.arange(found.where.shape[0], dtype=jnp.int32)
    owner = jnp.where(place < found.number, found.owner[found.where], size)
    each = jnp.zeros((size,), jnp.int32).at[owner].add(1, mode="drop")
    ends = jnp.cumsum(each, dtype=jnp.int32)
    orders = (space.zero_order, width), (space.first_order, width + 2)

    def marked(counts: Any, n: jax.Array, zero: jax.Array | None = None) -> Any:
        """Add the features of place n to the counts, or set zeros there."""
        new = []
        for held, (templates, _) in zip(counts, orders, strict=True):
            if held is not None:
                at = np.array(templates, np.int32)
                ids = buffers.places[n, at]
                value = jnp.where(ids < space.num_features, 1, 0).astype(dtype)
                if buffers.values is not None:
                    value = value * buffers.values[n, at]
                at = held.at[ids]
                held = at.add(value) if zero is None else at.set(zero)
            new.append(held)
        return tuple(new)

    def with_block(counts: Any, n: jax.Array, k: jax.Array, row: jax.Array) -> Any:
        """Add the products of place n with the k-th block of places to a row."""
        block = lax.dynamic_slice_in_dim(buffers.places, k * _PLACES, _PLACES)
        mine, total = buffers.places[n], jnp.zeros((_PLACES,), dtype)
        for held, (templates, first) in zip(counts, orders, strict=True):
            is_pair = first > width
            shared = jnp.full((_PLACES,), is_pair and space.has_transitions, dtype)
            if held is not None:
                at = np.array(templates, np.int32)
                both = held.at[block[:, at]].get(mode="promise_in_bounds")
                if buffers.values is not None:
                    values = buffers.values
                    values = lax.dynamic_slice_in_dim(values, k * _PLACES, _PLACES)
                    both = both * values[:, at]
                shared = shared + both.sum(axis=1)
            pair = slice(first, first + 2)
            same = (mine[None, pair, None] == block[:, None, pair]).astype(dtype)
            sign = same[:, 0, 0] + same[:, 1, 1] - same[:, 0, 1] - same[:, 1, 0]
            total = total + sign * shared
        m = k * _PLACES + jnp.arange(_PLACES, dtype=jnp.int32)
        i = block[:, -1]
        # Each two places are taken once; within a sentence they count twice.
        times = jnp.where((i == mine[-1]) & (m > n), 2, 1)
        times = jnp.where((m < n) | (m >= found.number), 0, times)
        return row.at[i].add(times.astype(dtype) * total)

    def with_place(n: jax.Array, carry: tuple) -> tuple:
        counts, row = carry
        counts = marked(counts, n)
        blocks = n // _PLACES, (found.number + _PLACES - 1) // _PLACES
        row = lax.fori_loop(*blocks, lambda k, row: with_block(counts, n, k, row), row)
        # What is written must depend on what was read (`mistakes.add`).
        zero = jnp.where(jnp.isnan(row[0]), row[0], 0)
        return marked(counts, n, zero), row

    def one(k: jax.Array, carry: tuple) -> tuple:
        counts, gram = carry
        i = which[k * own.num_devices + own.number]
        start = counts, jnp.zeros((size,), dtype)
        counts, row = lax.fori_loop(ends[i] - each[i], ends[i], with_place, start)
        return counts, gram.at[i].set(row)

    share_of = (number - own.number + own.num_devices - 1) // own.num_devices
    start = buffers.counts, jnp.zeros((size, size), dtype)
    counts, half = lax.fori_loop(jnp.zeros_like(number), share_of, one, start)
    if own.axis is not None:
        half = lax.psum(half, own.axis)  # one addend of each sum is not zero
    gram = half + half.T - jnp.diag(jnp.diag(half))
    return buffers._replace(counts=counts), gram


def _solve(
    gram: jax.Array, found: share.Found, cost: jax.Array, largest: jax.Array
) -> jax.Array:
    """Return the tau of each sentence."""
    size, number = cost.shape[0], (found.num_wrong > 0).sum(dtype=jnp.int32)
    (which,) = jnp.nonzero(found.num_wrong > 0, size=size, fill_value=0)

    def step(k: jax.Array, carry: tuple) -> tuple:
        tau, margin, moved = carry
        i = which[k]
        row = gram[i]
        square = row[i]
        full = tau[i] + (cost[i] - margin[i]) / jnp.where(square > 0, square, 1)
        full = jnp.where(square > 0, jnp.clip(full, 0, largest), 0)
        change = full - tau[i]
        # A choice by place is fused with the rest; a write of one number is not.
        tau = jnp.where(jnp.arange(size, dtype=i.dtype) == i, full, tau)
        return tau, margin + change * row, jnp.maximum(moved, jnp.abs(change))

    def sweep(carry: tuple) -> tuple[tuple, jax.Array]:
        start = (*carry, jnp.zeros((), cost.dtype))
        *carry, moved = lax.fori_loop(jnp.zeros_like(number), number, step, start)
        return tuple(carry), moved

    return base.sweeps(sweep, (jnp.zeros_like(cost), found.margin), largest)[0]
