r"""The perceptron and BOL on batches of padded sentences, for accelerators.

A round is the wide round of `online.wide`, with the same step and averages. BOL maps
each touched block once, as `online.bol` with ``variant="block"``.

The program has few launches and no loop of single numbers:

* What a feature owns lies in rows of whole lanes of 128 numbers, and so does its block
  of the dual: (K + 1, 128 n) and (K + 1, 512) for 22 labels.
* `decode.best_path_batch` decodes in the form of the platform.
* Two sorts list each touched feature once. A product of the matrix "how often does
  position p have feature u" with the signs of the label pairs adds up the differences.
  All its entries are small whole numbers, exact even in bfloat16.
* Rows are read once and written once, sorted, no two alike.
* `num_positions` positions go at a time. If a round has more of them, one loop moves
  all before it maps any.

=========  =======================================================================
`batches`  a pass as a stream of batches
`rows`     what becomes of the rows of the touched features
=========  =======================================================================
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax import checks
from lowrank_jax.data.sequences import Space
from lowrank_jax.decode import Scores, best_path_batch
from lowrank_jax.linalg.forms import by_platform
from lowrank_jax.models import bilinear, linear
from lowrank_jax.online.padded.batches import Batch, Batches, batches
from lowrank_jax.online.padded.rows import (
    Columns,
    Moves,
    State,
    hot,
    mapped,
    moved,
    whole_lanes,
)
from lowrank_jax.online.wide import Info, step_of
from lowrank_jax.types import Learner, check_dtype

__all__ = [
    "Batch",
    "Batches",
    "Info",
    "State",
    "batches",
    "bol",
    "final_params",
    "perceptron",
]
__dir__ = __all__.copy


def perceptron(
    *,
    step_size: float | jax.Array = 1.0,
    num_positions: int = 256,
    dtype: Any = jnp.float32,
) -> Learner[State, Info, Batch]:
    """Build the averaged perceptron of 0-order features and transitions.

    Args:
      step_size: C, positive. May be traced.
      num_positions: Number of positions that move at a time. Static.
      dtype: Type of the weights.
    """
    return _learner(0, step_size, 0, num_positions, dtype)


def bol(
    *,
    rank: int = 1,
    step_size: float | jax.Array = 1.0,
    num_power_steps: int = 2,
    num_positions: int = 256,
    dtype: Any = jnp.float32,
) -> Learner[State, Info, Batch]:
    """Build BOL with blocks of rank r and averaging in the dual (DR-B6, DR-B9).

    Args:
      rank: Rank of each block, at least 1. Static.
      step_size: C, positive. May be traced.
      num_power_steps: Subspace iterations on each touched block. Static.
      num_positions: Number of positions that move at a time. Static.
      dtype: Type of the weights.
    """
    checks.whole(rank=rank, num_power_steps=num_power_steps)
    return _learner(rank, step_size, num_power_steps, num_positions, dtype)


def _learner(
    rank: int,
    step_size: float | jax.Array,
    num_power_steps: int,
    num_positions: int,
    dtype: Any,
) -> Learner[State, Info, Batch]:
    checks.positive(step_size=step_size)
    checks.whole(num_positions=num_positions)

    def init(key: jax.Array, example: Batch) -> State:
        checks.random_key(key)
        check_dtype(dtype)
        space = example.space
        if bool(space.first_order) != bool(rank):
            raise checks.InputError(
                "Padded rounds of bol need first-order features, and padded rounds of "
                f"the perceptron need none; the space has orders {space.orders}."
            )
        rows, labels = space.num_features + 1, space.num_labels
        # Arrays of their own, so that a state can be donated.
        lanes = whole_lanes(labels * (labels + 1))
        dual, sums = (jnp.zeros((rows, lanes), dtype) if rank else None for _ in "ab")
        shape, has_pairs = (labels, labels + 1), space.has_transitions
        pairs, pair_sums = (
            jnp.zeros(shape, dtype) if has_pairs else None for _ in "ab"
        )
        nudge = None
        if rank:
            nudge = jax.random.normal(key, (rank, labels + 1), dtype)
            nudge = nudge / jnp.linalg.norm(nudge, axis=1, keepdims=True)
        return State(
            table=jnp.zeros((rows, Columns(labels, rank).lanes), dtype),
            dual=dual,
            sums=sums,
            transitions=pairs,
            transition_sums=pair_sums,
            nudge=nudge,
            num_rounds=jnp.zeros((), jnp.int32),
        )

    def update(state: State, batch: Batch) -> tuple[State, Info]:
        space, labels = batch.space, batch.space.num_labels
        columns = Columns(labels, rank)
        scores = _scores(state, batch, columns)
        predicted = best_path_batch(scores, batch.lengths).labels
        both = jnp.stack([batch.labels, predicted])  # (2, B, L)
        first = jnp.full((*both.shape[:2], 1), labels, jnp.int32)
        before = jnp.concatenate([first, both[:, :, :-1]], axis=2)
        place = jnp.arange(both.shape[2], dtype=jnp.int32)
        inside = place[None] < batch.lengths[:, None]
        is_wrong = inside & (both[0] != both[1])
        differs = is_wrong | (inside & (before[0] != before[1]))
        num_wrong = is_wrong.sum(axis=1, dtype=jnp.int32)
        counted = jnp.stack([num_wrong > 0, batch.lengths > 0])
        number, size = counted.sum(axis=1, dtype=jnp.int32)
        step = step_of(number, jnp.asarray(step_size, dtype))
        margin = _margin(scores, both, before, differs)
        weight = state.num_rounds.astype(dtype) * step
        if state.transitions is not None:
            state = _move_transitions(state, both, before, differs, step, weight)
        moves = Moves(
            ids=batch.feature_ids.reshape(-1, batch.feature_ids.shape[2]),
            pairs=(both * (labels + 1) + before).reshape(2, -1),
            differs=differs.ravel(),
            step=step,
            weight=weight,
        )
        state = moved(
            state, moves, space, columns, min(num_positions, differs.size), power
        )
        info = Info(
            loss=jnp.where(num_wrong > 0, jax.nn.relu(1 - margin), 0),
            is_mistake=num_wrong > 0,
            num_wrong=num_wrong,
            margin=margin,
            step_size=step,
        )
        return state._replace(num_rounds=state.num_rounds + size), info

    power = num_power_steps
    return Learner(init, update)


def _scores(state: State, batch: Batch, columns: Columns) -> Scores:
    """Return the scores of all positions; one gather reads all rows."""
    space, labels, width = batch.space, columns.labels, columns.width
    rows = state.table.at[batch.feature_ids].get(mode="promise_in_bounds")
    unary = _some(rows[..., :labels], space.zero_order).sum(axis=2)
    transitions = jnp.zeros((labels, labels + 1), state.table.dtype)
    if state.transitions is not None:
        transitions = state.transitions
    if not columns.rank:
        return Scores(unary, transitions)
    rows = _some(rows, space.first_order)
    left = columns.factors(rows, "left")[..., :labels]
    right = columns.factors(rows, "right")

    def spelt_out(left: jax.Array, right: jax.Array) -> jax.Array:
        total = jnp.zeros((*left.shape[:2], labels, width), left.dtype)
        for t in range(left.shape[2]):
            for j in range(columns.rank):
                total = total + left[:, :, t, j, :, None] * right[:, :, t, j, None]
        return total

    def product(left: jax.Array, right: jax.Array) -> jax.Array:
        highest = lax.Precision.HIGHEST
        return jnp.einsum("bltjs,bltjr->blsr", left, right, precision=highest)

    pairs = by_platform(left, right, cpu=spelt_out, tpu=product)
    more = jnp.pad(transitions, ((0, 0), (0, width - labels - 1)))
    return Scores(unary, pairs + more[None, None])


def _some(rows: jax.Array, columns: tuple[int, ...]) -> jax.Array:
    """Return the rows (B, L, t, ...) of some templates."""
    if columns == tuple(range(rows.shape[2])):
        return rows
    return rows[:, :, np.array(columns, np.int32)]


def _margin(
    scores: Scores, both: jax.Array, before: jax.Array, differs: jax.Array
) -> jax.Array:
    """Return <W, dPhi> of each sentence."""
    num_labels, width = scores.unary.shape[2], scores.pairwise.shape[-1]
    shared = scores.pairwise.ndim == 2
    pairwise = scores.pairwise[None, None] if shared else scores.pairwise

    def masked(unary: jax.Array, pairwise: jax.Array) -> jax.Array:
        true, guess = (
            hot(both[i], num_labels, bool)[..., None]
            & hot(before[i], width, bool)[:, :, None]
            for i in (0, 1)
        )
        each = unary[..., None] + pairwise
        gaps = jnp.where(true, each, 0) - jnp.where(guess, each, 0)
        return jnp.where(differs[..., None, None], gaps, 0).sum(axis=(1, 2, 3))

    def gathered(unary: jax.Array, pairwise: jax.Array) -> jax.Array:
        sizes = (*differs.shape, num_labels, width)
        flat = (unary[..., None] + jnp.broadcast_to(pairwise, sizes)).ravel()
        first = jnp.arange(differs.size, dtype=jnp.int32).reshape(1, *differs.shape)
        at = (first * num_labels + both) * width + before
        one, two = flat.at[at].get(mode="promise_in_bounds")
        return jnp.where(differs, one - two, 0).sum(axis=1)

    forms = {"cpu": gathered, "gpu": gathered, "tpu": masked}
    return by_platform(scores.unary, pairwise, **forms)


def _move_transitions(
    state: State,
    both: jax.Array,
    before: jax.Array,
    differs: jax.Array,
    step: jax.Array,
    weight: jax.Array,
) -> State:
    """Add the differences of all positions to the transitions."""
    assert state.transitions is not None and state.transition_sums is not None
    labels, dtype = state.transitions.shape[0], step.dtype
    pairs = (both * (labels + 1) + before).reshape(2, -1)
    each = [hot(pairs[i], labels * (labels + 1), dtype) for i in (0, 1)]
    total = jnp.where(differs.reshape(-1, 1), each[0] - each[1], 0).sum(0)
    total = total.reshape(labels, labels + 1)
    return state._replace(
        transitions=state.transitions + step * total,
        transition_sums=state.transition_sums + weight * total,
    )


def final_params(
    state: State, space: Space, *, num_power_steps: int = 32
) -> linear.Params | bilinear.Params:
    """Return the model to predict with: the average in the dual, mapped once (DR-B9).

    Args:
      state: State of either learner.
      space: Sizes of the feature space.
      num_power_steps: Subspace iterations on each block. Static.
    """
    labels, nudge = space.num_labels, state.nudge
    columns = Columns(labels, 0 if nudge is None else nudge.shape[0])
    number = jnp.maximum(state.num_rounds, 1).astype(state.table.dtype)
    sums = state.table[:, columns.at("sums")]
    zero = state.table[:, columns.at("zero")] - sums / number
    transitions = state.transitions
    if transitions is not None and state.transition_sums is not None:
        transitions = transitions - state.transition_sums / number
    if state.dual is None or nudge is None:
        own = zero[:, :labels] if space.zero_order else None
        return linear.Params(own, None, transitions)

    def one(part: tuple) -> jax.Array:
        rows, theta, total = part
        mean = (theta - total / number)[: labels * (labels + 1)]
        start = columns.factors(rows[None], "right")
        blocks = mean.reshape(1, labels, labels + 1)
        left, right = mapped(blocks, start, nudge, num_power_steps)
        joined = bilinear.join(left[..., :labels], right[..., : labels + 1])
        return joined[0]

    tables = (state.table, state.dual, state.sums)
    found = lax.map(one, tables, batch_size=min(256, state.table.shape[0]))
    table = jnp.concatenate([zero[:, :labels], found], axis=1)
    return bilinear.Params(table, transitions, jnp.ones((), table.dtype))
