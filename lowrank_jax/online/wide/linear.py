"""Wide rounds of `online.perceptron`; see `online.wide`."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.data.sequences import Space
from lowrank_jax.models import bilinear, linear
from lowrank_jax.online import entries
from lowrank_jax.online import wide as base
from lowrank_jax.online.wide import share, touches
from lowrank_jax.streams import packs, sentences

__all__ = ["perceptron_rounds"]
__dir__ = __all__.copy


def perceptron_rounds(
    *, step_size: float | jax.Array, record: tuple[str, ...], dtype: Any
) -> base.Wide:
    """Return the wide rounds of a perceptron; arguments as for its learner."""
    _check_record(record)

    def update(
        state: Any, buffers: Buffers, here: packs.Round
    ) -> tuple[Any, Buffers, base.Info]:
        state, buffers, found, space = decode(state, here, buffers)
        number = (found.num_wrong > 0).sum(dtype=jnp.int32)
        step = base.step_of(number, jnp.asarray(step_size, dtype))
        weight = state.num_rounds.astype(step.dtype) * step

        def one(n: jax.Array, carry: tuple) -> tuple:
            params, sums, growth = carry
            given = found.position(here.stream, n), space, step, weight
            return entries.add_all(params, sums, growth, *given)

        first = jnp.zeros((), jnp.int32)
        carry = state.params, state.sums, jnp.zeros((), dtype)
        carry = lax.fori_loop(first, found.number, one, carry)
        info = share.info(found, step, record=record)
        return ended(state, carry, here), buffers, info

    return rounds_of(update, dtype)


class Buffers(NamedTuple):
    """What each round writes over."""

    share: share.Buffers
    touches: touches.Buffers | None  # None without first-order features
    more: Any = None  # buffers of the learner


def rounds_of(update: Any, dtype: Any, more: Any = None) -> base.Wide:
    """Return wide rounds of a linear model, all of which is on every device.

    Args:
      update: Update of a round, as in `Wide`.
      dtype: Type of the weights.
      more: Buffers of the learner, as in `Wide`, or None.
    """

    def buffers(stream: sentences.Stream, shapes: packs.Layout) -> Buffers:
        space, is_first = stream.space, bool(stream.space.first_order)
        own = share.buffers_for(shapes, space, dtype, has_pairs=is_first)
        marks = touches.buffers_for(shapes, space) if is_first else None
        return Buffers(own, marks, more and more(stream, shapes))

    return share.rounds(update, buffers)


def decode(
    state: Any, here: packs.Round, buffers: Buffers
) -> tuple[Any, Buffers, share.Found, Space]:
    """Decode a batch, find its differences, and give rows to their features.

    Returns:
      The state, the buffers, the differences, and the sizes of the tables.
    """
    params, space, pool = state.params, here.stream.space, state.pool
    width, labels = bilinear.stride(space.num_labels), space.num_labels
    room = ((0, 0), (0, width - labels))
    if params.first is None:

        def unary(ids: jax.Array, values: jax.Array | None) -> jax.Array:
            return jnp.pad(linear.positions(params, ids, space, values)[0], room)

        pairs = jnp.zeros((labels + 1, labels), buffers.share.gaps.dtype)
        if params.transitions is not None:
            pairs = params.transitions.T
        own, found = share.find(unary, jnp.pad(pairs, room), here, buffers.share)
        return state, buffers._replace(share=own), found, space

    def joined(ids: jax.Array, values: jax.Array | None) -> jax.Array:
        unary, pairs = linear.packed(params, ids, space, values)
        return jnp.pad(pairs + unary[:, None], ((0, 0), *room))

    is_off = jnp.zeros((), bool) if pool is None else pool.is_full
    own, found = share.find(joined, None, here, buffers.share, is_off=is_off)
    buffers = buffers._replace(share=own)
    if pool is None:
        return state, buffers, found, space
    assert buffers.touches is not None
    marks, listed = touches.listed_of(
        buffers.touches, here.stream.feature_ids, found, space
    )
    num_rows = params.first.keys.shape[0]
    found = found._replace(extra=params.first.num_pages[None])
    pool, _, found = touches.enter(
        *(pool, params.rows, num_rows, params.first, listed, found)
    )
    state = state._replace(params=params._replace(rows=found.rows), pool=pool)
    space = dataclasses.replace(space, num_features=num_rows - 1)
    return state, buffers._replace(touches=marks), found, space


def ended(state: Any, carry: tuple, here: packs.Round) -> Any:
    """Return the state after a round with these weights, sums and growth of F*."""
    params, sums, growth = carry
    size = here.plan.size[here.number]
    if state.pool is not None:  # a round that was not begun does not count
        size = jnp.where(state.pool.is_full, 0, size)
    return state._replace(
        params=params,
        sums=sums,
        conjugate=state.conjugate + growth,
        num_rounds=state.num_rounds + size,
    )


def _check_record(record: tuple[str, ...]) -> None:
    more = [name for name in record if name != "predicted"]
    if more:
        raise checks.InputError(
            f"Wide rounds (`batch_size` above 1) record 'predicted' alone, got "
            f"record={', '.join(more)}: leave it out, or take batch_size=1."
        )
