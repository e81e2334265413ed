"""Wide rounds of candidate lists: `online.rerank` and `online.tensor_mira`.

All lists of a batch are scored with the weights before the round, each device its share
of them. All devices then know the two candidates of each list, and mend the weights
list by list in the order of the batch. The result does not depend on the number of
devices. Averages weigh by list.

The perceptron adds up the differences, times C over the root of their number. MIRA
solves the quadratic program of the batch by coordinate steps (`online.wide.mira`).
Tensor-MIRA has no such program, because its tensor is not linear in all vectors at
once. It takes its sub-steps against one candidate after the other, each from the tensor
after the candidate before it, and leaves out the margins that are restored by then.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax.linalg.gather import read
from lowrank_jax.models import candidates, tensor
from lowrank_jax.online import wide as base
from lowrank_jax.streams import lists, packs
from lowrank_jax.types import documented

__all__ = ["Info", "Layout", "Plan", "linear_rounds", "tensor_rounds"]
__dir__ = __all__.copy


@documented
class Info(NamedTuple):
    """What the report needs of each list, in the order of the pass.

    Attributes:
      loss: [rho - w dphi]_+ with the weights before the round.
      is_mistake: True if z is not y.
      cost: rho(y, z).
      margin: w dphi.
      step_size: tau, mean over the steps of the list.
    """

    loss: jax.Array
    is_mistake: jax.Array
    cost: jax.Array
    margin: jax.Array
    step_size: jax.Array


class Layout(NamedTuple):
    """Shapes of the plans of all passes with one batch size. Static and hashable."""

    batch_size: int  # B
    num_devices: int  # D
    share: int  # lists of a device
    num_rounds: int  # R, the ramp and an empty round included


class Plan(NamedTuple):
    """The rounds of one pass."""

    share: np.ndarray  # (D, R, share) lists of each device; -1 for none
    place: np.ndarray  # (R, B) place of each list in the shares side by side
    batch: np.ndarray  # (R, B) lists; -1 for none
    size: np.ndarray  # (R,) number of lists

    @property
    def owned(self) -> tuple[str, ...]:
        """Names of the parts with an axis of devices."""
        return ("share",)


def choose(
    scores: Callable[[lists.Candidates], jax.Array], here: packs.Round, **rules: Any
) -> candidates.Pair:
    """Return the pairs of each list of a batch, (B, num_best) each.

    Args:
      scores: Function from a list to the scores of its candidates.
      here: Round.
      **rules: Arguments of `candidates.choose`.
    """
    plan, index = here.plan, here.number

    def one(i: jax.Array) -> jax.Array:
        example = here.stream.example(jnp.maximum(i, 0))
        found = scores(example)
        pairs = candidates.choose(example, found, **rules)
        rows = [
            jnp.stack([part.astype(found.dtype) for part in pair]) for pair in pairs
        ]
        return jnp.stack(rows)  # numbers of candidates are exact in any float

    sent = lax.map(one, plan.share[index])
    got = sent[None] if here.axis is None else lax.all_gather(sent, here.axis)
    found = got.reshape(-1, *sent.shape[1:])[plan.place[index]]
    oracle, predicted, is_mistake, cost, margin = jnp.moveaxis(found, 2, 0)
    is_list = (plan.batch[index] >= 0)[:, None]
    return candidates.Pair(
        oracle=oracle.astype(jnp.int32),
        predicted=predicted.astype(jnp.int32),
        is_mistake=(is_mistake > 0) & is_list,
        cost=jnp.where(is_list, cost, 0),
        margin=jnp.where(is_list, margin, 0),
    )


def fold(
    body: Callable[..., Any], carry: Any, here: packs.Round, pairs: candidates.Pair
) -> Any:
    """Fold over the mistaken pairs of a batch, in the order of its lists.

    Args:
      body: ``(place, example, pair, carry) -> carry``; `place` is the place of the pair
        in `pairs`, line by line.
      carry: Value to start from.
      here: Round.
      pairs: Pairs from `choose`.
    """
    flat = jax.tree.map(jnp.ravel, pairs)
    size, num_best = flat.is_mistake.size, pairs.is_mistake.shape[1]
    (which,) = jnp.nonzero(flat.is_mistake, size=size, fill_value=0)
    batch = here.plan.batch[here.number]

    def one(n: jax.Array, carry: Any) -> Any:
        place = which[n].astype(jnp.int32)
        example = here.stream.example(batch[place // num_best])
        pair = jax.tree.map(lambda part: part[place], flat)
        return body(place, example, pair, carry)

    number = flat.is_mistake.sum(dtype=jnp.int32)
    return lax.fori_loop(jnp.zeros_like(number), number, one, carry)


def info(pairs: candidates.Pair, steps: jax.Array) -> Info:
    """Return what a round has found, by list; `steps` are (B, num_best)."""
    first = jax.tree.map(lambda part: part[:, 0], pairs)
    loss = jnp.where(first.is_mistake, jax.nn.relu(first.cost - first.margin), 0)
    return Info(loss, first.is_mistake, first.cost, first.margin, steps.mean(axis=1))


def linear_rounds(
    move: Callable[..., Any],
    squared_norm: Callable[..., tuple[jax.Array, jax.Array]],
    largest: jax.Array,
    **rules: Any,
) -> base.Wide:
    """Return the wide rounds of `online.rerank`.

    Args:
      move: Step of the learner, ``(state, example, pair, step) -> state``.
      squared_norm: Norm of a step, ``(scratch, example, pair) -> (scratch, square)``.
      largest: Largest step of MIRA, or the step of the perceptron.
      **rules: Arguments of `candidates.choose`.
    """

    def update(state: Any, buffers: Any, here: packs.Round) -> tuple[Any, Any, Info]:
        def scores(example: lists.Candidates) -> jax.Array:
            return candidates.linear_scores(state.params, example)

        pairs = choose(scores, here, **rules)
        if state.scratch is None:
            number = pairs.is_mistake.sum(dtype=jnp.int32)
            step = base.step_of(number, largest)
            steps = jnp.where(pairs.is_mistake, step, 0)
            state = fold(
                lambda place, example, pair, now: move(now, example, pair, step),
                *(state, here, pairs),
            )
        else:
            state, steps = solve(state, here, pairs)
        number = state.num_rounds + here.plan.size[here.number]
        return state._replace(num_rounds=number), buffers, info(pairs, steps)

    def solve(
        state: Any, here: packs.Round, pairs: candidates.Pair
    ) -> tuple[Any, jax.Array]:
        """Solve the quadratic program of the batch (`online.wide.mira`)."""
        zeros, dtype = jnp.zeros(pairs.margin.size, largest.dtype), largest.dtype

        def square(place: Any, example: Any, pair: Any, carry: tuple) -> tuple:
            scratch, squares = carry
            scratch, found = squared_norm(scratch, example, pair)
            return scratch, squares.at[place].set(found)

        scratch, squares = fold(square, (state.scratch, zeros), here, pairs)

        def step(place: Any, example: Any, pair: Any, carry: tuple) -> tuple:
            state, tau, moved = carry
            margin = candidates.margin_of(
                lambda ids: read(state.params, ids), example, pair, dtype
            )
            size, old = squares[place], tau[place]
            full = old + (pair.cost - margin) / jnp.where(size > 0, size, 1)
            full = jnp.where(size > 0, jnp.clip(full, 0, largest), 0)
            state = move(state, example, pair, full - old)
            moved = jnp.maximum(moved, jnp.abs(full - old))
            return state, tau.at[place].set(full), moved

        def sweep(carry: tuple) -> tuple[tuple, jax.Array]:
            start = (*carry, jnp.zeros((), dtype))
            state, tau, moved = fold(step, start, here, pairs)
            return (state, tau), moved

        begin = state._replace(scratch=scratch), zeros
        state, tau = base.sweeps(sweep, begin, largest)
        return state, tau.reshape(pairs.margin.shape)

    return _rounds(update)


def tensor_rounds(
    mend: Callable[..., Any], ended: Callable[..., Any], **rules: Any
) -> base.Wide:
    """Return the wide rounds of `online.tensor_mira`.

    Args:
      mend: ``(params, example, pair) -> (params, tau, has_moved)``, the sub-steps
        against one candidate.
      ended: ``(state, params, has_moved, size) -> state``, the end of a round.
      **rules: Arguments of `candidates.choose`.
    """

    def update(state: Any, buffers: Any, here: packs.Round) -> tuple[Any, Any, Info]:
        def scores(example: lists.Candidates) -> jax.Array:
            return tensor.scores(state.params, example)

        def against(place: Any, example: Any, pair: Any, carry: tuple) -> tuple:
            params, steps, has_moved = carry
            params, tau, is_moved = mend(params, example, pair)
            return params, steps.at[place].set(tau), has_moved | is_moved

        pairs = choose(scores, here, **rules)
        steps = jnp.zeros(pairs.margin.size, pairs.margin.dtype)
        start = state.params, steps, jnp.zeros((), bool)
        params, steps, has_moved = fold(against, start, here, pairs)
        state = ended(state, params, has_moved, here.plan.size[here.number])
        return state, buffers, info(pairs, steps.reshape(pairs.margin.shape))

    return _rounds(update)


def _rounds(update: Callable[..., Any]) -> base.Wide:
    """Return wide rounds of lists; all of the state is on every device.

    Args:
      update: Update of a round, as in `Wide`. The buffers of a round are empty.
    """

    def layout(stream: lists.Stream, batch_size: int, num_devices: int) -> Layout:
        packs.check_size(batch_size, stream.num_examples, "lists")
        sizes = packs.sizes_of(stream.num_examples, batch_size, has_ramp=True)
        share = -(-batch_size // num_devices)
        return Layout(batch_size, num_devices, share, len(sizes) + 1)

    def plan(
        stream: lists.Stream, order: np.ndarray, sizes: np.ndarray, shapes: Layout
    ) -> Plan:
        size = np.zeros(shapes.num_rounds, np.int32)
        size[: len(sizes)] = sizes
        before = np.cumsum(size) - size
        offsets, starts = np.asarray(stream.row_offsets), np.asarray(stream.starts)
        num_rows = (offsets[starts + np.asarray(stream.counts)] - offsets[starts])[
            order
        ]
        shapes_of = shapes.share, shapes.num_devices
        deal = packs.deal(num_rows, size, before, *shapes_of)  # (D, R, share)
        device, index, column = np.nonzero(deal >= 0)
        own = deal[device, index, column]
        place = np.zeros((len(size), shapes.batch_size), np.int32)
        place[index, own - before[index]] = device * shapes.share + column
        batch = np.full_like(place, -1)
        batch[index, own - before[index]] = order[own]
        share = np.where(deal >= 0, order[deal], -1).astype(np.int32)
        return Plan(share, place, batch, size)

    def trace(stream: lists.Stream, plan: Plan, infos: Info) -> Info:
        del stream
        is_list = plan.batch[: len(infos.loss)] >= 0
        return jax.tree.map(lambda part: part[is_list], infos)

    def info_like(info: Any) -> Info:
        return Info(*(getattr(info, name) for name in Info._fields))

    return base.Wide(
        layout=layout,
        plan=plan,
        buffers=lambda stream, shapes: (),
        update=update,
        trace=trace,
        info_like=info_like,
    )
