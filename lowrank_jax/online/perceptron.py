r"""Structured perceptron, plain and averaged (BOL-B2, `sp`).

Round :math:`t` predicts :math:`\bar y^t` with :math:`W_{t-1}` and moves on a mistake by

.. math:: W_t = W_{t-1} + C\,\Delta\Phi^t, \qquad
   \Delta\Phi^t = \Phi(x^t, y^t) - \Phi(x^t, \bar y^t)       \qquad \text{(BOL-B2)}

This is mirror descent (BOL-Eq8) with :math:`F^*(\Theta) = \frac12\|\Theta\|_F^2`. Its
certificate (DR-B4) has :math:`B_t = \frac12 C^2 \|\Delta\Phi^t\|^2`. Averaging over
rounds is averaging in the dual (DR-B9), kept lazily as
:math:`\sum_t (t-1)\,C\,\Delta\Phi^t`.

First-order weights are almost all zero. The learner keeps the entries that a mistake
has touched (`models.blocks`), in tables with one row per touched feature
(`online.touched`).
"""

import dataclasses
from typing import Any, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.decode import Scores
from lowrank_jax.models import blocks, linear
from lowrank_jax.online import entries, mistakes, touched
from lowrank_jax.online.entries import Capacity
from lowrank_jax.types import Learner, Sentence, check_dtype, documented, fingerprint

__all__ = [
    "Capacity",
    "Info",
    "State",
    "average",
    "final_params",
    "grow",
    "learner",
]
__dir__ = __all__.copy

Tree = TypeVar("Tree")


@documented
class State(NamedTuple):
    """What the next round needs, and nothing else.

    Attributes:
      params: W_t.
      sums: sum_t (t - 1) C dPhi_t, if the learner averages.
      conjugate: F*(W_t), ().
      num_rounds: Number of rounds t, () int32.
      step_size: C of the learner that made the state, ().
      pool: Rows in use, if there is an index `params.rows`.
      scores: Buffers that each round writes over.
    """

    params: linear.Params
    sums: linear.Sums | None
    conjugate: jax.Array
    num_rounds: jax.Array
    step_size: jax.Array | None = None
    pool: touched.Pool | None = None
    scores: linear.Buffers | None = None


@documented
class Info(NamedTuple):
    """What the proof and the report need of this round.

    Attributes:
      loss: [1 - <W, dPhi>]_+ on a mistake, else 0 (errata of BOL-N3), ().
      is_mistake: True if the prediction was wrong, () bool.
      num_wrong: Wrong labels, () int32.
      margin: <W_{t-1}, dPhi_t>, 0 or less, ().
      dual_increment: Delta_t (BOL-N5), ().
      conjugate: F*(Theta_t), ().
      bregman: B_t (DR-B4), ().
      predicted: Predicted labels, if recorded, (window,) int32.
      fingerprint: Hash of the sentence, recorded with them, () uint32.
      squared_norm: ``||dPhi_t||^2``, if recorded, () int32.
      curvature: ``2 B_t / C^2 = ||dPhi_t||^2``, if recorded, ().
      step_size: C, times the weight of the sentence, ().
    """

    loss: jax.Array
    is_mistake: jax.Array
    num_wrong: jax.Array
    margin: jax.Array
    dual_increment: jax.Array
    conjugate: jax.Array
    bregman: jax.Array
    predicted: jax.Array | None = None
    fingerprint: jax.Array | None = None
    squared_norm: jax.Array | None = None
    curvature: jax.Array | None = None
    step_size: jax.Array | None = None


def learner(
    *,
    step_size: float | jax.Array = 1.0,
    averaging: Literal["dual", "none"] = "dual",
    record: tuple[Literal["predicted", "squared_norm", "curvature"], ...] = (),
    label_cost: jax.typing.ArrayLike | None = None,
    dual: Literal["sparse", "dense"] = "sparse",
    capacity: Capacity | None = None,
    dtype: jnp.dtype = jnp.float32,
) -> Learner[State, Info, Sentence]:
    r"""Build the pair ``(init, update)``; both are pure.

    Args:
      step_size: :math:`C`, positive. May be traced. The predictions do not depend on
        it; the loss and the certificate do.
      averaging: ``"dual"`` for the averaged perceptron, ``"none"`` for the last
        iterate.
      record: ``("predicted",)`` records the predicted labels of each round. `certify`
        needs them to certify the run against any model. ``"squared_norm"`` records
        :math:`\|\Delta\Phi^t\|^2`, and ``"curvature"`` the same number as the bound
        on :math:`2B_t/C^2` of DR-B3, whose ratio is 0 here. Static.
      label_cost: Cost of a wrong label, by true label (S,) or by true and predicted
        label (S, S). The round then predicts the path of the greatest score plus cost,
        and :math:`\ell_t = [c_t - \langle W, \Delta\Phi^t\rangle]_+` with
        :math:`c_t` the cost of that path. None predicts with the scores alone.
      dual: ``"sparse"`` keeps the first-order weights that a mistake has touched,
        ``"dense"`` all K S (S + 1) of them. The entries are equal. Static.
      capacity: Room of ``"sparse"`` at the start, as in `online.bol`. `loops.passes`
        grows a full state by itself. Static.
      dtype: Type of the weights.
    """
    checks.positive(step_size=step_size)
    checks.choice(("sparse", "dense"), dual=dual)
    checks.choice(("dual", "none"), averaging=averaging)
    for name in record:
        checks.choice(("predicted", "squared_norm", "curvature"), record=name)

    def init(key: jax.Array, example: Sentence) -> State:
        check_dtype(dtype)
        del key  # nothing is random: the start is zero
        room = (capacity or Capacity()) if dual == "sparse" else None
        params, pool = _start(example, room, dtype)
        sums = None
        if averaging == "dual":
            sums = jax.tree.map(jnp.zeros_like, _weights(params))
        return State(
            params=params,
            sums=sums,
            conjugate=jnp.zeros((), dtype),
            num_rounds=jnp.zeros((), jnp.int32),
            step_size=jnp.asarray(step_size, dtype),
            pool=pool,
            scores=linear.buffers_for(params, example),
        )

    def update(state: State, example: Sentence) -> tuple[State, Info]:
        example = begun(state, example)
        scores = linear.scores(
            state.params, example, has_zero_row=True, buffers=state.scores
        )
        example, predicted, differences, price = mistakes.predict(
            example, scores, label_cost
        )
        state, own, differences = enter(state, example, scores, differences)
        step = mistakes.weighted(jnp.asarray(step_size, dtype), example)
        moved = move(state, own, scores, differences, step)
        is_mistake = differences.num_positions > 0
        gain = jnp.where(is_mistake, step * price, 0)
        conjugate = state.conjugate + moved.growth
        square = None
        if "squared_norm" in record or "curvature" in record:
            by_feature = differences._replace(rows=None)
            square = mistakes.squared_norm(example, by_feature)
        info = Info(
            loss=jnp.where(is_mistake, jax.nn.relu(price - moved.margin), 0),
            is_mistake=is_mistake,
            num_wrong=differences.num_wrong,
            margin=moved.margin,
            dual_increment=gain - moved.growth,  # BOL-N5
            conjugate=conjugate,
            bregman=moved.growth - step * moved.margin,  # DR-B4
            predicted=predicted if "predicted" in record else None,
            fingerprint=fingerprint(example) if "predicted" in record else None,
            squared_norm=square if "squared_norm" in record else None,
            curvature=(
                square.astype(dtype)
                if square is not None and "curvature" in record
                else None
            ),
            step_size=step,
        )
        return ended(state, moved, conjugate), info

    def wide() -> Any:
        from lowrank_jax.online.wide import linear as wide_linear

        mistakes.refuse_cost(label_cost)
        return wide_linear.perceptron_rounds(
            step_size=step_size, record=record, dtype=dtype
        )

    return Learner(init, update, grow, wide=wide)


def _start(
    example: Sentence, room: Capacity | None, dtype: jnp.dtype
) -> tuple[linear.Params, touched.Pool | None]:
    """Return zero weights, and the pool of an index if entries are kept."""
    space = example.space
    if room is None or not space.first_order:
        return linear.zeros(space, dtype), None
    labels = space.num_labels
    # A round scatters the slots of a whole sentence, so few slots cost less.
    if room.num_slots is None and labels < blocks.MANY:
        room = room._replace(num_slots=7)
    num_rows, num_pages = room.sizes(space, 2 * labels, dtype)
    index, pool = touched.start(space, num_rows)
    own = dataclasses.replace(
        space,
        num_features=num_rows - 1,
        orders=tuple(order.replace("1", "") for order in space.orders),
    )
    params = linear.Params(None, None, None)
    if space.zero_order or space.has_transitions:
        params = linear.zeros(own, dtype)
    first = blocks.zeros(
        num_rows, labels, dtype, num_pages=num_pages, num_slots=room.slots_of(space)
    )
    return params._replace(first=first, rows=index), pool


def _weights(params: linear.Params) -> linear.Sums:
    """Return the numbers that are averaged: no index, and of entries the values."""
    first = params.first
    values = first.values if isinstance(first, blocks.Blocks) else first
    return linear.Sums(params.zero, values, params.transitions)


def begun(state: State, example: Sentence) -> Sentence:
    """Return the sentence of the round; a full state does none, so it is empty."""
    if state.pool is None:
        return example
    length = jnp.where(state.pool.is_full, 0, example.length)
    return dataclasses.replace(example, length=length)


def enter(
    state: State,
    example: Sentence,
    scores: Scores,
    differences: mistakes.Differences,
) -> tuple[State, Sentence, mistakes.Differences]:
    """Keep the buffers, and give rows to the features of mistakes or begin no round.

    Returns:
      The state, the sentence with the sizes of the tables, and the differences.
    """
    if state.scores is not None and state.scores.unary.shape == scores.unary.shape:
        pairs = None if state.scores.pairwise is None else scores.pairwise
        state = state._replace(scores=linear.Buffers(scores.unary, pairs))
    if state.pool is None or state.params.rows is None:
        return state, example, differences
    assert isinstance(state.params.first, blocks.Blocks)
    pool, rows, example, differences = entries.enter(
        state.pool, state.params.rows, state.params.first, example, differences
    )
    params = state.params._replace(rows=rows)
    return state._replace(params=params, pool=pool), example, differences


def ended(state: State, moved: "Moved", conjugate: jax.Array) -> State:
    """Return the state after a round; a round that was not begun does not count."""
    one = jnp.ones((), jnp.int32)
    if state.pool is not None:
        one = (~state.pool.is_full).astype(jnp.int32)
    return state._replace(
        params=moved.params,
        sums=moved.sums,
        conjugate=conjugate,
        num_rounds=state.num_rounds + one,
    )


def grow(state: State) -> State:
    """Return the state with twice the rows or pages that a round fell short of.

    A state that is not full is returned as it is. A function of the host, as the
    shapes change.
    """
    params, sums, pool = state.params, state.sums, state.pool
    if pool is None or not bool(pool.is_full):
        return state
    assert isinstance(params.first, blocks.Blocks) and params.rows is not None
    num_rows, num_pages = entries.larger(pool, params.rows, params.first)
    total = None if sums is None else sums.first
    assert total is None or isinstance(total, blocks.Part)
    first, total = entries.grown(params.first, total, num_rows, num_pages)
    if sums is not None:
        zero = touched.grown(sums.zero, num_rows)
        sums = sums._replace(zero=zero, first=total)
    params = params._replace(
        zero=touched.grown(params.zero, num_rows),
        first=first,
        rows=params.rows.at[-1].set(num_rows - 1),
    )
    pool = pool._replace(is_full=jnp.zeros((), bool))
    return state._replace(params=params, sums=sums, pool=pool)


class Moved(NamedTuple):
    """Weights after ``W + step * dPhi``, with the margin and the growth of F*."""

    params: linear.Params
    sums: linear.Sums | None
    margin: jax.Array  # ()  <W_{t-1}, dPhi>
    growth: jax.Array  # ()  F*(W_t) - F*(W_{t-1})


def move(
    state: State,
    example: Sentence,
    scores: Scores,
    differences: mistakes.Differences,
    step: jax.Array,
) -> Moved:
    """Add ``step * dPhi`` to the weights, position by position."""
    space, dtype = example.space, step.dtype
    weight = state.num_rounds.astype(dtype) * step

    def one(n: jax.Array, moved: Moved) -> Moved:
        here = mistakes.position(example, differences, n)
        carry = moved.params, moved.sums, moved.growth
        params, sums, growth = entries.add_all(*carry, here, space, step, weight)
        margin = moved.margin + mistakes.score_gap(scores, here)
        return Moved(params, sums, margin, growth)

    zero = jnp.zeros((), dtype)
    count = differences.num_positions
    start = Moved(state.params, state.sums, zero, zero)
    return lax.fori_loop(jnp.zeros_like(count), count, one, start)


def final_params(state: State) -> linear.Params:
    """Return the model to predict with, the average over rounds if it was kept."""
    if state.sums is None:
        return state.params
    mean = average(_weights(state.params), state.sums, state.num_rounds)
    first = mean.first
    if isinstance(first, blocks.Part):
        assert isinstance(state.params.first, blocks.Blocks)
        whole = state.params.first._replace(values=first)
        return linear.Params(mean.zero, whole, mean.transitions, state.params.rows)
    return linear.Params(mean.zero, first, mean.transitions, state.params.rows)


def average(params: Tree, sums: Tree | None, num_rounds: jax.Array) -> Tree:
    r"""Return the mean of the weights over rounds, from their lazy sums.

    Args:
      params: Weights after the last round.
      sums: :math:`\sum_t (t - 1)` times the move of round t; None returns `params`.
      num_rounds: Number of rounds, t.
    """
    if sums is None:
        return params
    number = jnp.maximum(num_rounds, 1)
    return jax.tree.map(
        lambda last, total: last - total / number.astype(last.dtype), params, sums
    )
