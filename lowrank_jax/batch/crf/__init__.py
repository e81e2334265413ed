r"""Linear-chain conditional random field, by batch optimisation (BOL-B3, BOL-B4).

.. math:: \min_w \; -\sum_j \log p_w(y^j \mid x^j) + \frac{1}{2c}\|w\|^2
   \quad\text{(BOL-B3, crf2)} \qquad\text{or}\qquad
   \min_w \; -\sum_j \log p_w(y^j \mid x^j) + \frac1c\|w\|_1
   \quad\text{(BOL-B4, crf1)}

with :math:`p_w(y \mid x) \propto e^{\langle w, \hat\Phi(x, y)\rangle}` on the weights
of `models.linear`. The number c is the option ``-c`` of CRF++. The gradient is the
expected counts minus the observed counts. One scan over the corpus computes the
marginals of all positions (`expectations`). A tree of gathers adds the marginals up
per feature (`gather_sum`).

One `update` is one iteration over the whole corpus. The corpus is a `Lanes`, made once
on the host by `streams.lanes.lanes`. `optax.lbfgs` solves the problem with L2, and
OWL-QN (`quasi_newton`) the problem with L1. The first iteration of OWL-QN evaluates the
start and stays there.

Measured on CoNLL-2000 (211,727 tokens, 19 templates, 7.4 million weights, float32, one
core): an evaluation takes 0.3 s (score 0.04, marginals 0.12, gradient 0.14), and an
iteration 0.75 s with either solver. For L1, OWL-QN reached the objective 16,894 after
101 evaluations. FISTA with restart reached 20,184 after 196 evaluations.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.batch.crf import quasi_newton
from lowrank_jax.batch.crf.expectations import expectations
from lowrank_jax.linalg.gather_sum import SumPlan, sum_rows
from lowrank_jax.models import linear
from lowrank_jax.streams.lanes import Lanes
from lowrank_jax.types import Learner, check_dtype, documented

__all__ = [
    "Info",
    "State",
    "final_params",
    "learner",
    "negative_log_likelihood",
]
__dir__ = __all__.copy


@documented
class State(NamedTuple):
    """What the next iteration needs, and nothing else.

    Attributes:
      params: w.
      objective: Infinite before the first iteration, ().
      search: State of optax.lbfgs, or a `quasi_newton.Search`.
    """

    params: linear.Params
    objective: jax.Array
    search: Any


@documented
class Info(NamedTuple):
    """What the report needs of this iteration.

    Attributes:
      objective: After the iteration, penalty included, ().
      gradient_norm: After the iteration; L1: of the pseudo-gradient, ().
      step_size: Step of the line search; 0 if the search found no step, ().
      num_evaluations: Evaluations of loss and gradient, () int32.
      num_nonzero: Weights other than 0, () int32.
      relative_change: Decrease of the objective, relative, ().
      converged: True if it holds by `quasi_newton.progress`, () bool.
    """

    objective: jax.Array
    gradient_norm: jax.Array
    step_size: jax.Array
    num_evaluations: jax.Array
    num_nonzero: jax.Array
    relative_change: jax.Array
    converged: jax.Array


def learner(
    *,
    penalty: Literal["l1", "l2"] = "l2",
    strength: float | jax.Array = 1.0,
    memory_size: int = 10,
    max_evaluations: int = 20,
    tolerance: float | jax.Array = 1e-5,
    dtype: jnp.dtype = jnp.float32,
) -> Learner[State, Info, Lanes]:
    """Build the pair ``(init, update)``; both are pure.

    Args:
      penalty: Penalty of the weights, ``"l2"`` or ``"l1"``.
      strength: Number :math:`c`, positive. A larger number means a weaker penalty. May
        be traced.
      memory_size: Number of pairs of vectors that L-BFGS remembers. Each pair takes
        twice the memory of the weights. With first-order features on all 19 templates
        of CoNLL-2000, the weights take 685 MB. Then 10 pairs take 13.7 GB, and 3 pairs
        4.1 GB. Gradient and line search take some 7 GB more. Static.
      max_evaluations: Largest number of evaluations per line search. Static.
      tolerance: Relative decrease of the objective below which `Info.converged` is
        True, if a step was taken (`quasi_newton.progress`). May be traced.
      dtype: Type of the weights.
    """
    checks.choice(("l1", "l2"), penalty=penalty)
    checks.positive(strength=strength)
    checks.non_negative(tolerance=tolerance)
    checks.whole(memory_size=memory_size, max_evaluations=max_evaluations)
    solver = quasi_newton.smooth_solver(memory_size, max_evaluations)

    def init(key: jax.Array, lanes: Lanes) -> State:
        check_dtype(dtype)
        del key  # nothing is random: the start is zero
        params = linear.zeros(lanes.space, dtype)
        if penalty == "l1":
            search = quasi_newton.init(params, memory_size)
        else:
            search = quasi_newton.smooth_init(solver, params)
        return State(params, jnp.array(jnp.inf, dtype), search)

    def update(state: State, lanes: Lanes) -> tuple[State, Info]:
        weight = 1 / jnp.asarray(strength, dtype)
        if penalty == "l1":
            stepped = quasi_newton.step(
                lambda params: negative_log_likelihood(params, lanes),
                weight,
                state.params,
                state.search,
                max_evaluations=max_evaluations,
            )
        else:
            stepped = quasi_newton.smooth_step(
                solver,
                lambda params: _ridge(params, lanes, weight),
                state.params,
                state.search,
                is_first=jnp.isinf(state.objective),
            )
        num_nonzero = sum(
            (leaf != 0).sum(dtype=jnp.int32) for leaf in jax.tree.leaves(stepped.params)
        )
        common = quasi_newton.common_info(stepped, jnp.asarray(tolerance, dtype))
        info = Info(**common, num_nonzero=num_nonzero)
        return State(stepped.params, stepped.objective, stepped.search), info

    return Learner(init, update)


def _ridge_and_gradient(
    params: linear.Params, lanes: Lanes, weight: jax.Array
) -> tuple[jax.Array, linear.Params]:
    loss, gradient = negative_log_likelihood(params, lanes)
    squares = sum((leaf * leaf).sum() for leaf in jax.tree.leaves(params))
    gradient = jax.tree.map(lambda g, w: g + weight * w, gradient, params)
    return loss + weight / 2 * squares, gradient


@jax.custom_vjp
def _ridge(params: linear.Params, lanes: Lanes, weight: jax.Array) -> jax.Array:
    """Return the objective of BOL-B3, differentiable in the weights alone."""
    return _ridge_and_gradient(params, lanes, weight)[0]


def _ridge_backward(gradient: linear.Params, outer: jax.Array) -> tuple:
    return jax.tree.map(lambda g: outer * g, gradient), None, None


_ridge.defvjp(_ridge_and_gradient, _ridge_backward)


def negative_log_likelihood(
    params: linear.Params, lanes: Lanes
) -> tuple[jax.Array, linear.Params]:
    r"""Return :math:`-\sum_j \log p_w(y^j \mid x^j)` and its gradient.

    Args:
      params: Weights w.
      lanes: Corpus in lanes.
    """
    labels = lanes.space.num_labels

    # Step by step: the gathers of a step are then fused with their sum.
    def score(given: tuple) -> tuple[jax.Array, jax.Array | None]:
        ids, values = given
        return linear.positions(params, ids, lanes.space, values)

    parts = lax.map(score, (lanes.feature_ids, lanes.values))
    scores = linear.with_transitions(params, *parts)
    found = expectations(scores.unary, scores.pairwise, lanes)

    zero, first, transitions = None, None, None
    if params.zero is not None:
        rows = found.unary.reshape(-1, labels)
        zero = _by_feature(lanes.zero_plan, lanes, lanes.space.zero_order, rows)
    if params.first is not None:
        rows = found.pairwise.reshape(-1, labels * (labels + 1))
        first = _by_feature(lanes.first_plan, lanes, lanes.space.first_order, rows)
        first = first.reshape(-1, labels, labels + 1)
    if params.transitions is not None:
        transitions = found.pairwise
        if transitions.ndim == 4:
            transitions = transitions.sum((0, 1))
    return found.loss, linear.Params(zero, first, transitions)


def _by_feature(
    plan: SumPlan | None, lanes: Lanes, columns: tuple[int, ...], rows: jax.Array
) -> jax.Array:
    """Add the row of each token to the rows of its features, times their values."""
    if plan is not None:
        return sum_rows(plan, rows)
    assert lanes.values is not None  # column by column: less memory, and faster
    num_columns, dtype = lanes.feature_ids.shape[2], rows.dtype
    ids = lanes.feature_ids.reshape(-1, num_columns)
    values = lanes.values.reshape(-1, num_columns).astype(dtype)
    table = jnp.zeros((lanes.space.num_features + 1, rows.shape[1]), dtype)
    for t in columns:
        table = table.at[ids[:, t]].add(
            values[:, t, None] * rows, mode="promise_in_bounds"
        )
    return table


def final_params(state: State) -> linear.Params:
    """Return the model to predict with."""
    return state.params
