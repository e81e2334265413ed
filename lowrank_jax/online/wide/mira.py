r"""Wide rounds of `online.mira`: the quadratic program of a batch.

.. math:: \min_{0 \le \tau_i \le C} \tfrac12 \Big\|W_{t-1}
   + \sum_{i \in M_t} \tau_i \Delta\Phi_i\Big\|^2 - \sum_{i \in M_t} \tau_i c_i

Its solution is the smallest change of the weights that restores all margins of the
batch, as far as :math:`C` allows. Coordinate steps work on the weights themselves: read
the margin of sentence i, and move by the change of :math:`\tau_i`. At most ten sweeps
over the mistaken sentences are made. For one sentence the program is PA-I.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.data.sequences import Space
from lowrank_jax.models import linear
from lowrank_jax.models.linear import Sums
from lowrank_jax.online import entries, mistakes
from lowrank_jax.online import wide as base
from lowrank_jax.online.wide import linear as wide_linear
from lowrank_jax.online.wide import share
from lowrank_jax.streams import packs

__all__ = ["mira_rounds"]
__dir__ = __all__.copy


Place = Callable[[jax.Array], mistakes.Position]  # the n-th place that differs


class _Batch(NamedTuple):
    """The constraints of a batch: one per mistaken sentence."""

    which: jax.Array  # (B,) int32 mistaken sentences, in ascending order
    number: jax.Array  # () int32 of them
    first: jax.Array  # (B,) int32 first place of each sentence that differs
    end: jax.Array  # (B,) int32
    cost: jax.Array  # (B,)  c_i
    square: jax.Array  # (B,)  ||dPhi_i||^2


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

        def at(n: jax.Array) -> mistakes.Position:
            return found.position(here.stream, n)

        price = found.num_wrong if cost == "hamming" else found.num_wrong > 0
        batch = _constraints(at, space, found, price.astype(dtype))
        largest = jnp.asarray(max_step_size, dtype)
        params, tau, growth = _solve(state.params, at, space, batch, largest)
        sums = state.sums
        if sums is not None:
            weight = state.num_rounds.astype(dtype) * tau
            sums = _each(params, sums, at, space, found, weight)
        info = share.info(found, tau, cost=batch.cost)
        state = wide_linear.ended(state, (params, sums, growth), here)
        return state, buffers, info

    return wide_linear.rounds_of(update, dtype)


def _constraints(
    at: Place, space: Space, found: share.Found, cost: jax.Array
) -> _Batch:
    size = cost.shape[0]
    place = jnp.arange(found.where.shape[0], dtype=jnp.int32)
    owner = jnp.where(place < found.number, found.owner[found.where], size)
    counts = jnp.zeros((size,), jnp.int32).at[owner].add(1, mode="drop")
    end = jnp.cumsum(counts, dtype=jnp.int32)
    first = end - counts
    is_mistake = found.num_wrong > 0
    (which,) = jnp.nonzero(is_mistake, size=size, fill_value=0)
    number = is_mistake.sum(dtype=jnp.int32)

    def square(n: jax.Array, total: jax.Array) -> jax.Array:
        here, i = at(n), owner[n]

        def with_one(m: jax.Array, one: jax.Array) -> jax.Array:
            return one + _inner(here, at(m), space, cost.dtype)

        zero = jnp.zeros((), cost.dtype)
        return total.at[i].add(lax.fori_loop(first[i], end[i], with_one, zero))

    zero = jnp.zeros((), jnp.int32)
    squares = lax.fori_loop(zero, found.number, square, jnp.zeros_like(cost))
    return _Batch(which.astype(jnp.int32), number, first, end, cost, squares)


def _inner(
    one: mistakes.Position, two: mistakes.Position, space: Space, dtype: Any
) -> jax.Array:
    """Return the inner product of the differences of two places."""

    def shared(columns: tuple[int, ...]) -> jax.Array:
        at = jnp.array(columns, jnp.int32)
        same = one.ids[at][:, None] == two.ids[at][None]
        same = same & (one.ids[at] < space.num_features)[:, None]
        if one.values is None or two.values is None:
            return same.sum(dtype=jnp.int32).astype(dtype)
        product = one.values[at][:, None] * two.values[at][None]
        return jnp.where(same, product, 0).sum().astype(dtype)

    def agree(a: jax.Array, b: jax.Array) -> jax.Array:
        same = (a[:, None] == b[None]).astype(dtype)
        return same[0, 0] + same[1, 1] - same[0, 1] - same[1, 0]

    total = jnp.zeros((), dtype)
    if space.zero_order:
        total = total + agree(one.labels, two.labels) * shared(space.zero_order)
    each = space.num_labels + 1
    pairs = [here.labels * each + here.previous for here in (one, two)]
    if space.has_transitions:
        total = total + agree(*pairs)
    if space.first_order:
        total = total + agree(*pairs) * shared(space.first_order)
    return total


def _solve(
    params: linear.Params,
    at: Place,
    space: Space,
    batch: _Batch,
    largest: jax.Array,
) -> tuple[linear.Params, jax.Array, jax.Array]:
    """Return the weights, the tau of each sentence, and the growth of F*."""
    dtype, zero = largest.dtype, jnp.zeros((), jnp.int32)

    def margin_of(i: jax.Array, params: linear.Params) -> jax.Array:
        def one(n: jax.Array, total: jax.Array) -> jax.Array:
            here = at(n)
            for name, own in mistakes.entries(here, space, dtype).items():
                held = entries.read(getattr(params, name), own, space)
                total = total + (held * own.delta).sum()
            return total

        return lax.fori_loop(batch.first[i], batch.end[i], one, jnp.zeros((), dtype))

    def step(k: jax.Array, carry: tuple) -> tuple:
        params, tau, growth, moved = carry
        i = batch.which[k]
        square = batch.square[i]
        gap = batch.cost[i] - margin_of(i, params)
        full = tau[i] + gap / jnp.where(square > 0, square, 1)
        full = jnp.where(square > 0, jnp.clip(full, 0, largest), 0)
        change = full - tau[i]

        def add(n: jax.Array, carry: tuple) -> tuple:
            params, growth = carry
            given = at(n), space, change, change
            carry = entries.add_all(params, None, growth, *given)
            return carry[0], carry[2]

        end = jnp.where(change == 0, batch.first[i], batch.end[i])
        params, growth = lax.fori_loop(batch.first[i], end, add, (params, growth))
        moved = jnp.maximum(moved, jnp.abs(change))
        return params, tau.at[i].set(full), growth, moved

    def sweep(carry: tuple) -> tuple[tuple, jax.Array]:
        start = (*carry, jnp.zeros((), dtype))
        *carry, moved = lax.fori_loop(zero, batch.number, step, start)
        return tuple(carry), moved

    begin = params, jnp.zeros_like(batch.cost), jnp.zeros((), dtype)
    return base.sweeps(sweep, begin, largest)


def _each(
    params: linear.Params,
    sums: Sums,
    at: Place,
    space: Space,
    found: share.Found,
    weight: jax.Array,
) -> Sums:
    """Add each difference to the lazy sums, with the weight of its sentence."""

    def one(n: jax.Array, sums: Sums) -> Sums:
        given = at(n), space, weight[found.owner[found.where[n]]]
        return entries.add_sums(params, sums, *given)

    return lax.fori_loop(jnp.zeros((), jnp.int32), found.number, one, sums)
