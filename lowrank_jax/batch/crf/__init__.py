r"""Linear-chain conditional random field, by batch optimisation (BOL-B3, BOL-B4).

.. math:: \min_w \; -\sum_j \log p_w(y^j \mid x^j) + \frac{1}{2c}\|w\|^2
   \quad\text{(BOL-B3, crf2)} \qquad\text{or}\qquad
   \min_w \; -\sum_j \log p_w(y^j \mid x^j) + \frac1c\|w\|_1
   \quad\text{(BOL-B4, crf1)}

with :math:`p_w(y \mid x) \propto e^{\langle w, \hat\Phi(x, y)\rangle}` on the weights
of `models.linear`; c is the option of that name of CRF++. The gradient is expected less
observed counts: the marginals of all positions by one scan over the corpus
(`expectations`), added into the features by a tree of gathers (`gather_sum`).

One `update` is one iteration over the whole corpus, a `Lanes` made once on the host by
`streams.lanes.lanes`. L2 goes by `optax.lbfgs`, L1 by OWL-QN (`quasi_newton`). On
CoNLL-2000 (211,727 tokens, 19 templates, 7.4 million weights, float32, one core) an
evaluation takes 0.3 s (score 0.04, marginals 0.12, gradient 0.14) and an iteration of
either 0.75 s. There FISTA with restart, the other way to L1, stood at 20,184 after 196
evaluations, OWL-QN at 16,894 after 101. The first iteration of OWL-QN evaluates the
start and stays there.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from lowrank_jax import checks
from lowrank_jax.batch.crf import quasi_newton
from lowrank_jax.batch.crf.expectations import expectations
from lowrank_jax.linalg.gather_sum import sum_rows
from lowrank_jax.models import linear
from lowrank_jax.streams.lanes import Lanes
from lowrank_jax.types import Learner

__all__ = [
    "Info",
    "State",
    "final_params",
    "learner",
    "negative_log_likelihood",
]


class State(NamedTuple):
    """What the next iteration needs, and nothing else."""

    params: linear.Params  # w
    objective: jax.Array  # ()  infinite before the first iteration
    search: Any  # of optax.lbfgs, or an `owlqn.Search`


class Info(NamedTuple):
    """What the report needs of this iteration."""

    objective: jax.Array  # ()  after the iteration, penalty included
    gradient_norm: jax.Array  # ()  there; for L1 of the pseudo-gradient
    step_size: jax.Array  # ()  of the line search; 0 where it found none
    num_evaluations: jax.Array  # () int32  of the loss and its gradient
    num_nonzero: jax.Array  # () int32  weights other than 0
    relative_change: jax.Array  # ()  decrease of the objective, relative
    converged: jax.Array  # () bool: as `owlqn.progress` tells


def learner(
    *,
    penalty: str = "l2",
    strength: float | jax.Array = 1.0,
    memory_size: int = 10,
    max_evaluations: int = 20,
    tolerance: float | jax.Array = 1e-5,
    dtype: jnp.dtype = jnp.float32,
) -> Learner:
    """Build the pair ``(init, update)``; both are pure.

    Args:
      penalty: ``"l2"`` or ``"l1"``.
      strength: :math:`c`, positive; the larger, the weaker the penalty. May be traced.
      memory_size: pairs of vectors that L-BFGS remembers, each pair twice the size of
        the weights. First-order features on all 19 templates of CoNLL-2000 make
        weights of 685 MB: 13.7 GB at 10, 4.1 GB at 3, and some 7 GB beside for the
        gradient and the line search. Static.
      max_evaluations: of one line search. Static.
      tolerance: relative decrease of the objective below which `Info.converged` is
        True, if a step was taken (`owlqn.progress`). May be traced.
      dtype: of the weights.
    """
    checks.choice(("l1", "l2"), penalty=penalty)
    checks.positive(strength=strength)
    checks.non_negative(tolerance=tolerance)
    checks.whole(memory_size=memory_size, max_evaluations=max_evaluations)
    solver = optax.lbfgs(
        memory_size=memory_size,
        linesearch=optax.scale_by_zoom_linesearch(
            max_linesearch_steps=max_evaluations, initial_guess_strategy="one"
        ),
    )

    def init(key: jax.Array, lanes: Lanes) -> State:
        del key  # nothing is random: the start is zero
        params = linear.zeros(lanes.space, dtype)
        if penalty == "l1":
            search = quasi_newton.init(params, memory_size)
        else:
            search = solver.init(params)
        return State(params, jnp.array(jnp.inf, dtype), _cast(search, dtype))

    def update(state: State, lanes: Lanes) -> tuple[State, Info]:
        weight = 1 / jnp.asarray(strength, dtype)
        if penalty == "l1":
            stepped = _step_l1(state, lanes, weight, max_evaluations)
        else:
            stepped = _step_l2(state, lanes, weight, solver)
        change, converged = quasi_newton.progress(
            stepped, jnp.asarray(tolerance, dtype)
        )
        num_nonzero = sum(
            (leaf != 0).sum(dtype=jnp.int32) for leaf in jax.tree.leaves(stepped.params)
        )
        info = Info(
            objective=stepped.objective,
            gradient_norm=stepped.gradient_norm,
            step_size=stepped.step_size,
            num_evaluations=stepped.num_evaluations,
            num_nonzero=num_nonzero,
            relative_change=change,
            converged=converged,
        )
        return State(stepped.params, stepped.objective, stepped.search), info

    return Learner(init, update)


def _step_l1(
    state: State, lanes: Lanes, weight: jax.Array, max_evaluations: int
) -> quasi_newton.Stepped:
    return quasi_newton.step(
        lambda params: negative_log_likelihood(params, lanes),
        weight,
        state.params,
        state.search,
        max_evaluations=max_evaluations,
    )


def _step_l2(
    state: State,
    lanes: Lanes,
    weight: jax.Array,
    solver: optax.GradientTransformationExtraArgs,
) -> quasi_newton.Stepped:
    dtype = state.objective.dtype

    def objective(params: linear.Params) -> jax.Array:
        return _ridge(params, lanes, weight)

    # optax does not run under strict promotion.
    with jax.numpy_dtype_promotion("standard"):
        evaluate = optax.value_and_grad_from_state(objective)
        before, gradient = evaluate(state.params, state=state.search)
        moves, search = solver.update(
            gradient,
            state.search,
            state.params,
            value=before,
            grad=gradient,
            value_fn=objective,
        )
        params = optax.apply_updates(state.params, moves)
    memory, line = search[0], search[-1]
    # Where it finds no lower point, optax goes to a higher one. Stay instead, forget
    # all pairs, and begin again along the gradient.
    is_good = (line.value < before) | (line.info.decrease_error <= 0)
    is_good &= line.learning_rate > 0
    slope = optax.tree.vdot(gradient, moves)
    params, value, new = jax.tree.map(
        lambda found, old: jnp.where(is_good, found, old),
        (params, line.value, line.grad),
        (state.params, before, gradient),
    )
    search = (
        memory._replace(
            count=jnp.where(is_good, memory.count, 0),
            weights_memory=jnp.where(is_good, memory.weights_memory, 0),
        ),
        *search[1:-1],
        line._replace(value=value, grad=new),
    )
    is_steepest = (state.search[0].count == 0) & (line.learning_rate > 0)
    is_first = jnp.isinf(state.objective)
    num_evaluations = line.info.num_linesearch_steps.astype(jnp.int32)
    return quasi_newton.Stepped(
        params=params,
        search=_cast(search, dtype),
        objective=value.astype(dtype),
        objective_before=before.astype(dtype),
        step_size=jnp.where(is_good, line.learning_rate, 0).astype(dtype),
        promise=jnp.where(is_steepest, -slope, jnp.inf).astype(dtype),
        num_evaluations=num_evaluations + is_first.astype(jnp.int32),
        gradient_norm=optax.tree.norm(new).astype(dtype),
    )


def _cast(search: Any, dtype: jnp.dtype) -> Any:
    """Give all floats of a search one dtype: optax has some of the default one."""

    def one(leaf: jax.Array) -> jax.Array:
        is_float = jnp.issubdtype(leaf.dtype, jnp.floating)
        return leaf.astype(dtype if is_float else leaf.dtype)  # never weak

    return jax.tree.map(one, search)


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
      params: w.
      lanes: the corpus.
    """
    labels = lanes.space.num_labels

    # Step by step: the gathers of a step are then fused with their sum.
    def score(ids: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        return linear.positions(params, ids, lanes.space)

    scores = linear.with_transitions(params, *lax.map(score, lanes.feature_ids))
    found = expectations(scores.unary, scores.pairwise, lanes)

    zero, first, transitions = None, None, None
    if lanes.zero_plan is not None:
        zero = sum_rows(lanes.zero_plan, found.unary.reshape(-1, labels))
    if lanes.first_plan is not None:
        width = labels * (labels + 1)
        first = sum_rows(lanes.first_plan, found.pairwise.reshape(-1, width))
        first = first.reshape(-1, labels, labels + 1)
    if params.transitions is not None:
        transitions = found.pairwise
        if transitions.ndim == 4:
            transitions = transitions.sum((0, 1))
    return found.loss, linear.Params(zero, first, transitions)


def final_params(state: State) -> linear.Params:
    """Return the model to predict with."""
    return state.params
