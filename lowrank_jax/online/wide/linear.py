"""Wide rounds of `online.perceptron`; see `online.wide`."""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.data.sequences import Space
from lowrank_jax.models import bilinear, linear
from lowrank_jax.online import mistakes
from lowrank_jax.online import wide as base
from lowrank_jax.online.wide import share
from lowrank_jax.streams import packs, sentences

__all__ = ["perceptron_rounds"]
__dir__ = __all__.copy

Weights = TypeVar("Weights", linear.Params, linear.Sums)


def perceptron_rounds(
    *, step_size: float | jax.Array, record: tuple[str, ...], dtype: Any
) -> base.Wide:
    """Return the wide rounds of a perceptron; arguments as for its learner."""
    _check_record(record)

    def update(
        state: Any,
        buffers: share.Buffers,
        stream: sentences.Stream,
        plan: packs.Plan,
        index: jax.Array,
        shapes: packs.Layout,
        axis: str | None,
    ) -> tuple[Any, share.Buffers, base.Info]:
        buffers, found = decode(
            state.params, stream, plan, index, buffers, shapes, axis
        )
        is_mistake = found.num_wrong > 0
        number = is_mistake.sum(dtype=jnp.int32)
        step = base.step_of(number, jnp.asarray(step_size, dtype))
        weight = state.num_rounds.astype(step.dtype) * step
        params, sums, growth = move(
            state.params, state.sums, stream, found, step, weight
        )
        state = state._replace(
            params=params,
            sums=sums,
            conjugate=state.conjugate + growth,
            num_rounds=state.num_rounds + plan.size[index],
        )
        info = base.Info(
            loss=jnp.where(is_mistake, jax.nn.relu(1 - found.margin), 0),
            is_mistake=is_mistake,
            num_wrong=found.num_wrong,
            margin=found.margin,
            step_size=step,
            predicted=found.labels[1] if "predicted" in record else None,
        )
        return state, buffers, info

    return rounds_of(update, dtype)


def rounds_of(update: Any, dtype: Any) -> base.Wide:
    """Return wide rounds of a linear model, all of which is on every device."""

    def buffers(stream: sentences.Stream, shapes: packs.Layout) -> share.Buffers:
        _check_space(stream.space)
        return share.buffers_for(shapes, stream.space, dtype, has_pairs=False)

    def spread(state: Any, num_devices: int) -> tuple[Any, Any]:
        del num_devices
        return state, jax.tree.map(lambda _: False, state)

    return base.Wide(
        layout=share.layout,
        plan=share.plan,
        buffers=buffers,
        update=update,
        trace=share.trace,
        info_like=base.info_like,
        spread=spread,
        gather=lambda state: state,
    )


def decode(
    params: linear.Params,
    stream: sentences.Stream,
    plan: packs.Plan,
    index: jax.Array,
    buffers: share.Buffers,
    shapes: packs.Layout,
    axis: str | None,
) -> tuple[share.Buffers, share.Found]:
    """Decode a batch with a linear model, and find its differences."""
    space, dtype = stream.space, buffers.gaps.dtype
    width = bilinear.stride(space.num_labels)
    room = ((0, 0), (0, width - space.num_labels))

    def score(ids: jax.Array, values: jax.Array | None) -> jax.Array:
        return jnp.pad(linear.positions(params, ids, space, values)[0], room)

    pairs = jnp.zeros((space.num_labels + 1, space.num_labels), dtype)
    if params.transitions is not None:
        pairs = params.transitions.T
    return share.find(
        *(score, jnp.pad(pairs, room), stream, plan, index, buffers, shapes), axis=axis
    )


def move(
    params: linear.Params,
    sums: linear.Sums | None,
    stream: sentences.Stream,
    found: share.Found,
    step: jax.Array,
    weight: jax.Array,
) -> tuple[linear.Params, linear.Sums | None, jax.Array]:
    """Add ``step * G`` to the weights, and ``weight * G`` to their lazy sums."""

    def one(n: jax.Array, carry: tuple) -> tuple:
        here, (params, sums, growth) = found.position(stream, n), carry
        return add(params, sums, growth, here, stream.space, step, weight)

    zero = jnp.zeros((), step.dtype)
    first = jnp.zeros((), jnp.int32)
    return lax.fori_loop(first, found.number, one, (params, sums, zero))


def add(
    params: Weights,
    sums: linear.Sums | None,
    growth: jax.Array,
    here: mistakes.Position,
    space: Space,
    step: jax.Array,
    weight: jax.Array,
) -> tuple[Weights, linear.Sums | None, jax.Array]:
    """Add the difference of one place to the weights, their sums and the conjugate."""
    for name, entries in mistakes.entries(here, space, step.dtype).items():
        total = None if sums is None else getattr(sums, name)
        table, total, more = mistakes.add(
            getattr(params, name), total, entries, step, weight
        )
        params = params._replace(**{name: table})
        sums = None if sums is None else sums._replace(**{name: total})
        growth = growth + more
    return params, sums, growth


def _check_space(space: Space) -> None:
    if space.first_order:
        raise checks.InputError(
            "Wide rounds (`batch_size` above 1) of sp and mira need templates without "
            "first-order features, and this one has them: take bol, or batch_size=1."
        )


def _check_record(record: tuple[str, ...]) -> None:
    more = [name for name in record if name != "predicted"]
    if more:
        raise checks.InputError(
            f"Wide rounds (`batch_size` above 1) record 'predicted' alone, got "
            f"record={', '.join(more)}: leave it out, or take batch_size=1."
        )
