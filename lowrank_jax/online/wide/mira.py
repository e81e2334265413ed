r"""Wide rounds of `online.mira`: the quadratic program of a batch.

.. math:: \min_{0 \le \tau_i \le C} \tfrac12 \Big\|W_{t-1}
   + \sum_{i \in M_t} \tau_i \Delta\Phi_i\Big\|^2 - \sum_{i \in M_t} \tau_i c_i

Its solution is the smallest change of the weights that restores all margins of the
batch, as far as :math:`C` allows. Coordinate steps work on the weights themselves: read
the margin of sentence i, and move by the change of :math:`\tau_i`. At most ten sweeps
over the mistaken sentences are made. For one sentence the program is PA-I.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.data.sequences import Space
from lowrank_jax.models import linear
from lowrank_jax.models.linear import Sums
from lowrank_jax.online import mistakes
from lowrank_jax.online import wide as base
from lowrank_jax.online.wide import linear as wide_linear
from lowrank_jax.online.wide import share
from lowrank_jax.streams import packs, sentences

__all__ = ["NUM_SWEEPS", "mira_rounds"]
__dir__ = __all__.copy

NUM_SWEEPS = 10
TOLERANCE = 1e-5  # change of a tau, as a share of C, that ends the sweeps


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
        state: Any,
        buffers: share.Buffers,
        stream: sentences.Stream,
        plan: packs.Plan,
        index: jax.Array,
        shapes: packs.Layout,
        axis: str | None,
    ) -> tuple[Any, share.Buffers, base.Info]:
        buffers, found = wide_linear.decode(
            state.params, stream, plan, index, buffers, shapes, axis
        )
        is_mistake = found.num_wrong > 0
        price = found.num_wrong if cost == "hamming" else is_mistake
        batch = _constraints(stream, found, price.astype(dtype))
        largest = jnp.asarray(max_step_size, dtype)
        params, tau, growth = _solve(state.params, stream, found, batch, largest)
        sums = state.sums
        if sums is not None:
            weight = state.num_rounds.astype(dtype) * tau
            sums = _each(sums, stream, found, weight)
        state = state._replace(
            params=params,
            sums=sums,
            conjugate=state.conjugate + growth,
            num_rounds=state.num_rounds + plan.size[index],
        )
        loss = jax.nn.relu(batch.cost - found.margin)
        info = base.Info(
            loss=jnp.where(is_mistake, loss, 0),
            is_mistake=is_mistake,
            num_wrong=found.num_wrong,
            margin=found.margin,
            step_size=tau,
        )
        return state, buffers, info

    return wide_linear.rounds_of(update, dtype)


def _constraints(
    stream: sentences.Stream, found: share.Found, cost: jax.Array
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
        here, i = found.position(stream, n), owner[n]

        def with_one(m: jax.Array, one: jax.Array) -> jax.Array:
            other = found.position(stream, m)
            return one + _inner(here, other, stream.space, cost.dtype)

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
    if space.has_transitions:
        each = space.num_labels + 1
        pairs = [here.labels * each + here.previous for here in (one, two)]
        total = total + agree(*pairs)
    return total


def _solve(
    params: linear.Params,
    stream: sentences.Stream,
    found: share.Found,
    batch: _Batch,
    largest: jax.Array,
) -> tuple[linear.Params, jax.Array, jax.Array]:
    """Return the weights, the tau of each sentence, and the growth of F*."""
    dtype, zero = largest.dtype, jnp.zeros((), jnp.int32)

    def margin_of(i: jax.Array, params: linear.Params) -> jax.Array:
        def one(n: jax.Array, total: jax.Array) -> jax.Array:
            here = found.position(stream, n)
            for name, entries in mistakes.entries(here, stream.space, dtype).items():
                at = getattr(params, name).at[entries.where]
                held = at.get(mode="promise_in_bounds")
                total = total + (held * entries.delta).sum()
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
            here = found.position(stream, n)
            given = params, None, growth, here, stream.space, change, change
            params, _, growth = wide_linear.add(*given)
            return params, growth

        end = jnp.where(change == 0, batch.first[i], batch.end[i])
        params, growth = lax.fori_loop(batch.first[i], end, add, (params, growth))
        moved = jnp.maximum(moved, jnp.abs(change))
        return params, tau.at[i].set(full), growth, moved

    def goes_on(carry: tuple) -> jax.Array:
        sweep, _, _, _, moved = carry
        return (sweep < NUM_SWEEPS) & (moved > TOLERANCE * largest)

    def sweep(carry: tuple) -> tuple:
        start = (*carry[1:4], jnp.zeros((), dtype))
        return carry[0] + 1, *lax.fori_loop(zero, batch.number, step, start)

    tau = jnp.zeros_like(batch.cost)
    begin = zero, params, tau, jnp.zeros((), dtype), largest
    return lax.while_loop(goes_on, sweep, begin)[1:4]


def _each(
    sums: Sums, stream: sentences.Stream, found: share.Found, weight: jax.Array
) -> Sums:
    """Add each difference to the lazy sums, with the weight of its sentence."""

    def one(n: jax.Array, sums: Sums) -> Sums:
        here = found.position(stream, n)
        own = weight[found.owner[found.where[n]]]
        zero = jnp.zeros((), weight.dtype)
        return wide_linear.add(sums, None, zero, here, stream.space, own, own)[0]

    return lax.fori_loop(jnp.zeros((), jnp.int32), found.number, one, sums)
