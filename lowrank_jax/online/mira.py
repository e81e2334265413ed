r"""MIRA with one violated sequence per round, also known as passive-aggressive (PA-I).

Round :math:`t` takes a sequence :math:`\bar y^t` that violates its margin. It moves by
the smallest step that restores the margin, at most :math:`C`:

.. math:: W_t = W_{t-1} + \tau_t\,\Delta\Phi^t, \qquad
   \tau_t = \min\Big\{C, \frac{[c_t - \langle W_{t-1}, \Delta\Phi^t\rangle]_+}
                              {\|\Delta\Phi^t\|^2}\Big\}

with :math:`c_t` the number of wrong labels (``cost="hamming"``) or 1 (``cost="one"``).
The weight of a sentence multiplies C.
``decoding="cost"`` seeks :math:`\bar y^t` with the cost added to the scores.
``decoding="plain"`` takes the model's own prediction. In the dual, :math:`\tau_t` is
the step on :math:`F^* = \frac12\|\cdot\|_F^2` that raises the dual objective most. So
every `dual_increment` is zero or more.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax import checks
from lowrank_jax.decode import best_path, hamming_cost
from lowrank_jax.models import linear
from lowrank_jax.online import mistakes, perceptron
from lowrank_jax.online.perceptron import Capacity, State, final_params, grow
from lowrank_jax.types import Learner, Sentence, check_dtype, documented

__all__ = ["Capacity", "Info", "State", "final_params", "grow", "learner"]
__dir__ = __all__.copy


@documented
class Info(NamedTuple):
    """What the proof and the report need of this round.

    Attributes:
      loss: [c_t - <W, dPhi>]_+, ().
      is_mistake: True if the sequence of this round is not the true one, () bool.
      num_wrong: Number of labels that differ, () int32.
      margin: <W_{t-1}, dPhi_t>, ().
      step_size: tau_t, ().
      dual_increment: Delta_t = tau c_t - (F*(W_t) - F*(W_{t-1})), ().
      conjugate: F*(W_t), ().
      bregman: ``tau^2 ||dPhi||^2 / 2``, ().
    """

    loss: jax.Array
    is_mistake: jax.Array
    num_wrong: jax.Array
    margin: jax.Array
    step_size: jax.Array
    dual_increment: jax.Array
    conjugate: jax.Array
    bregman: jax.Array


def learner(
    *,
    max_step_size: float | jax.Array = 1.0,
    cost: Literal["hamming", "one"] = "hamming",
    decoding: Literal["plain", "cost"] = "plain",
    averaging: Literal["dual", "none"] = "dual",
    label_cost: jax.typing.ArrayLike | None = None,
    dual: Literal["sparse", "dense"] = "sparse",
    capacity: Capacity | None = None,
    dtype: jnp.dtype = jnp.float32,
) -> Learner[State, Info, Sentence]:
    """Build the pair ``(init, update)``; both are pure.

    Args:
      max_step_size: :math:`C`, positive. May be traced.
      cost: ``"hamming"`` (number of wrong labels) or ``"one"`` (any wrong sequence).
      decoding: ``"plain"`` or ``"cost"``; ``"cost"`` needs ``cost="hamming"``.
      averaging: ``"dual"`` (average over rounds) or ``"none"``.
      label_cost: Cost of a wrong label, by true label (S,) or by true and predicted
        label (S, S), in place of 1. Needs ``cost="hamming"``.
      dual: First-order weights: ``"sparse"`` or ``"dense"``, as in `perceptron`.
      capacity: Room of ``"sparse"`` at the start, as in `perceptron`. Static.
      dtype: Type of the weights.
    """
    checks.positive(max_step_size=max_step_size)
    checks.choice(("hamming", "one"), cost=cost)
    checks.choice(("plain", "cost"), decoding=decoding)
    for name, is_asked in (
        ("decoding='cost'", decoding == "cost"),
        ("label_cost", label_cost is not None),
    ):
        if is_asked and cost != "hamming":
            raise checks.InputError(
                f"`{name}` needs `cost='hamming'`, got cost={cost!r}."
            )
    base = perceptron.learner(
        averaging=averaging, dual=dual, capacity=capacity, dtype=dtype
    )

    def init(key: jax.Array, example: Sentence) -> State:
        check_dtype(dtype)
        return base.init(key, example)._replace(
            step_size=None
        )  # each round has its own

    def update(state: State, example: Sentence) -> tuple[State, Info]:
        example = perceptron.begun(state, example)
        scores = linear.scores(
            state.params, example, has_zero_row=True, buffers=state.scores
        )
        sought, costs = mistakes.with_cost(example, scores, label_cost)
        if decoding == "cost" and costs is None:
            extra = hamming_cost(example.labels, example.space.num_labels, dtype=dtype)
            sought = scores._replace(unary=scores.unary + extra)
        sought = sought if decoding == "cost" else scores
        predicted = best_path(sought, example.length).labels
        example, differences = mistakes.compare(example, scores, predicted)
        state, own, differences = perceptron.enter(state, example, scores, differences)
        is_mistake = differences.num_positions > 0

        by_feature = differences._replace(rows=None)
        margin = mistakes.margin(scores, example, by_feature)
        norm = mistakes.squared_norm(example, by_feature).astype(dtype)
        price = differences.num_wrong if cost == "hamming" else is_mistake
        if costs is not None:
            price = mistakes.price(costs, predicted, example, dtype)
        loss = jax.nn.relu(price.astype(dtype) - margin)
        loss = jnp.where(is_mistake, loss, 0)
        largest = mistakes.weighted(jnp.asarray(max_step_size, dtype), example)
        step = jnp.minimum(largest, loss / jnp.where(norm > 0, norm, 1))  # PA-I
        step = jnp.where(is_mistake, step, 0)

        moved = perceptron.move(state, own, scores, differences, step)
        conjugate = state.conjugate + moved.growth
        info = Info(
            loss=loss,
            is_mistake=is_mistake,
            num_wrong=differences.num_wrong,
            margin=margin,
            step_size=step,
            dual_increment=step * price.astype(dtype) - moved.growth,
            conjugate=conjugate,
            bregman=step * step * norm / 2,
        )
        return perceptron.ended(state, moved, conjugate), info

    def wide() -> Any:
        from lowrank_jax.online.wide import mira as wide_mira

        mistakes.refuse_cost(label_cost)
        return wide_mira.mira_rounds(
            max_step_size=max_step_size, cost=cost, decoding=decoding, dtype=dtype
        )

    return Learner(init, update, grow, wide=wide)
