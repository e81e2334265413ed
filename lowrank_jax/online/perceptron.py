r"""Structured perceptron, plain and averaged (BOL-B2, `sp`).

Round :math:`t` predicts :math:`\bar y^t` with :math:`W_{t-1}` and moves on a mistake by

.. math:: W_t = W_{t-1} + C\,\Delta\Phi^t, \qquad
   \Delta\Phi^t = \Phi(x^t, y^t) - \Phi(x^t, \bar y^t)       \qquad \text{(BOL-B2)}

This is mirror descent (BOL-Eq8) with :math:`F^*(\Theta) = \frac12\|\Theta\|_F^2`. Its
certificate (DR-B4) has :math:`B_t = \frac12 C^2 \|\Delta\Phi^t\|^2`. Averaging over
rounds is averaging in the dual (DR-B9), kept lazily as
:math:`\sum_t (t-1)\,C\,\Delta\Phi^t`.
"""

from typing import Any, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.decode import Scores
from lowrank_jax.models import linear
from lowrank_jax.online import mistakes
from lowrank_jax.types import Learner, Sentence, check_dtype, fingerprint

__all__ = ["Info", "State", "average", "final_params", "learner"]
__dir__ = __all__.copy

Tree = TypeVar("Tree")


class State(NamedTuple):
    """What the next round needs, and nothing else.

    Attributes:
      params: W_t.
      sums: sum_t (t - 1) C dPhi_t, if the learner averages.
      conjugate: F*(W_t), ().
      num_rounds: Number of rounds t, () int32.
      step_size: C of the learner that made the state, ().
    """

    params: linear.Params
    sums: linear.Params | None
    conjugate: jax.Array
    num_rounds: jax.Array
    step_size: jax.Array | None = None


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


def learner(
    *,
    step_size: float | jax.Array = 1.0,
    averaging: Literal["dual", "none"] = "dual",
    record: tuple[Literal["predicted", "squared_norm", "curvature"], ...] = (),
    label_cost: jax.typing.ArrayLike | None = None,
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
      dtype: Type of the weights.
    """
    checks.positive(step_size=step_size)
    checks.choice(("dual", "none"), averaging=averaging)
    for name in record:
        checks.choice(("predicted", "squared_norm", "curvature"), record=name)

    def init(key: jax.Array, example: Sentence) -> State:
        check_dtype(dtype)
        del key  # nothing is random: the start is zero
        return State(
            params=linear.zeros(example.space, dtype),
            sums=linear.zeros(example.space, dtype) if averaging == "dual" else None,
            conjugate=jnp.zeros((), dtype),
            num_rounds=jnp.zeros((), jnp.int32),
            step_size=jnp.asarray(step_size, dtype),
        )

    def update(state: State, example: Sentence) -> tuple[State, Info]:
        scores = linear.scores(state.params, example, has_zero_row=True)
        example, predicted, differences, price = mistakes.predict(
            example, scores, label_cost
        )
        step = mistakes.weighted(jnp.asarray(step_size, dtype), example)
        moved = move(state, example, scores, differences, step)
        is_mistake = differences.num_positions > 0
        gain = jnp.where(is_mistake, step * price, 0)
        conjugate = state.conjugate + moved.growth
        square = None
        if "squared_norm" in record or "curvature" in record:
            square = mistakes.squared_norm(example, differences)
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
        )
        num_rounds = state.num_rounds + 1
        ended = State(moved.params, moved.sums, conjugate, num_rounds, state.step_size)
        return ended, info

    def wide() -> Any:
        from lowrank_jax.online.wide import linear as wide_linear

        mistakes.refuse_cost(label_cost)
        return wide_linear.perceptron_rounds(
            step_size=step_size, record=record, dtype=dtype
        )

    return Learner(init, update, wide=wide)


class Moved(NamedTuple):
    """Weights after ``W + step * dPhi``, with the margin and the growth of F*."""

    params: linear.Params
    sums: linear.Params | None
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
        touched = mistakes.entries(here, space, dtype)
        params, sums, growth = {}, {}, moved.growth
        for name, entries in touched.items():
            total = None if moved.sums is None else getattr(moved.sums, name)
            table = getattr(moved.params, name)
            params[name], sums[name], more = mistakes.add(
                table, total, entries, step, weight
            )
            growth = growth + more
        return Moved(
            params=moved.params._replace(**params),
            sums=moved.sums and moved.sums._replace(**sums),
            margin=moved.margin + mistakes.score_gap(scores, here),
            growth=growth,
        )

    zero = jnp.zeros((), dtype)
    count = differences.num_positions
    start = Moved(state.params, state.sums, zero, zero)
    return lax.fori_loop(jnp.zeros_like(count), count, one, start)


def final_params(state: State) -> linear.Params:
    """Return the model to predict with, the average over rounds if it was kept."""
    return average(state.params, state.sums, state.num_rounds)


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
