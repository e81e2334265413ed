r"""Logistic regression on whole matrices with a convex penalty, by FISTA.

.. math:: \min_{W, b} F(W, b) = \mathcal L(W, b) + h(W)

with the loss of `models.logistic` and :math:`z_{ic} = \langle W_c, X_i\rangle + b_c`.
The offsets are not penalised. Without a penalty, or with a ridge, this is logistic
regression (SBLR-Eq1, B1). With the absolute values it is sparse logistic regression
(SBLR-Eq2, B2). With the nuclear norm it is a convex problem, and no factored model can
go below its minimum (DR-S7). From the extrapolated point z (Beck and Teboulle, 2009)

.. math:: w^k = \operatorname{prox}_{h/L}\big(z^k - \tfrac1L \nabla\mathcal L(z^k)\big),
   \quad t_{k+1} = \tfrac12\Big(1 + \sqrt{1 + 4t_k^2}\Big),
   \quad z^{k+1} = w^k + \frac{t_k - 1}{t_{k+1}}(w^k - w^{k-1})
.. math:: F(w^k) - F^* \le \frac{2L\|w^0 - w^*\|^2}{(k + 1)^2}
   \qquad\text{(`theory.fista_certificate`)}

An iteration reads the matrices twice: once for the scores of the new weights, once for
the gradient. The scores of z need no reading. They combine the last two scores as z
combines the last two weights. Every iteration must be given the same data.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.linalg import penalties
from lowrank_jax.linalg.penalties import Penalty
from lowrank_jax.models import lipschitz, logistic, matrix_logit
from lowrank_jax.models.matrix_logit import Params
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.types import Learner, documented

__all__ = ["Info", "State", "final_params", "learner", "stationarity"]
__dir__ = __all__.copy


@documented
class State(NamedTuple):
    """What the next iteration needs, and nothing else.

    Attributes:
      params: w^{k-1}, b^{k-1}.
      previous: w^{k-2}, b^{k-2}.
      scores: Scores of params, (n, m).
      previous_scores: Scores of previous, (n, m).
      momentum: (t_{k-1} - 1) / t_k, ().
      length: t_k, ().
      constant: The last L that was accepted, ().
      ceiling: Constant with which every step is safe, ().
      objective: F, ().
    """

    params: Params
    previous: Params
    scores: jax.Array
    previous_scores: jax.Array
    momentum: jax.Array
    length: jax.Array
    constant: jax.Array
    ceiling: jax.Array
    objective: jax.Array


@documented
class Info(NamedTuple):
    """What the theory and the report need of this iteration.

    Attributes:
      objective: F(w^k), ().
      loss: F(w^k) without the penalty, ().
      change: q^k of SBLR-Eq8, ().
      constant: L, ().
      num_trials: Constants tried, () int32.
      stationarity: Bound of dist(0, dF(w^k)), ``(L + ceiling) |z - w|``, ().
      squared_norm: ``|w^k|^2 + |b^k|^2``, the squared distance from 0, ().
      support: Weights other than 0, () int32.
      restarted: True if the momentum was dropped, () bool.
      converged: True if q^k is within the tolerance, () bool.
    """

    objective: jax.Array
    loss: jax.Array
    change: jax.Array
    constant: jax.Array
    num_trials: jax.Array
    stationarity: jax.Array
    squared_norm: jax.Array
    support: jax.Array
    restarted: jax.Array
    converged: jax.Array


def learner(
    *,
    penalty: Penalty | None = None,
    l1: float | jax.Array = 0.0,
    l2: float | jax.Array = 0.0,
    step: Literal["tight", "backtracking"] = "tight",
    growth: float | jax.Array = 2.0,
    restart: bool = False,
    tolerance: float | jax.Array = 1e-6,
) -> Learner[State, Info, Labelled]:
    """Build the pair ``(init, update)``; both are pure. The start is zero.

    Args:
      penalty: Penalty of the weights (m, s, t); None takes the elastic net of `l1` and
        `l2`.
      l1: Strength of the absolute values if `penalty` is None. May be traced.
      l2: Strength of half the squares if `penalty` is None. May be traced.
      step: Choice of the constant L. ``"tight"`` takes the least constant that is safe
        everywhere (DR-S1, DR-S2), from the eigenvalues of the smaller Gram matrix.
        ``"backtracking"`` needs no eigenvalues: it starts at the mean eigenvalue, from
        the trace, and never goes down.
      growth: Growth of the constant after a failed trial, above 1. May be traced.
      restart: True drops the momentum when it points uphill (O'Donoghue and Candes,
        2015). This saves many iterations as a rule, but the bound above is then not
        proved.
      tolerance: Largest q^k at which `Info.converged` is True. May be traced.
    """
    checks.choice(("tight", "backtracking"), step=step)
    checks.non_negative(l1=l1, l2=l2, tolerance=tolerance)
    if isinstance(growth, float | int) and not growth > 1:
        raise InputError(f"`growth` must be above 1, got {growth}.")
    has_strengths = not all(isinstance(s, float | int) and s == 0 for s in (l1, l2))
    if penalty is not None and has_strengths:
        raise InputError("Give either `penalty`, or `l1` and `l2`, not both.")
    h = penalties.elastic_net(l1=l1, l2=l2) if penalty is None else penalty

    def init(key: jax.Array, labelled: Labelled) -> State:
        del key  # nothing is random: the start is zero
        x, targets, weights = labelled[:3]
        params = Params(
            jnp.zeros((targets.shape[1], *x.shape[1:]), x.dtype),
            jnp.zeros(targets.shape[1:], x.dtype),
        )
        scores = jnp.zeros_like(targets)
        constant, ceiling = _constants(labelled, step)
        return State(
            params=params,
            previous=params,
            scores=scores,
            previous_scores=scores,
            momentum=jnp.zeros((), x.dtype),
            length=jnp.ones((), x.dtype),
            constant=constant,
            ceiling=ceiling,
            objective=logistic.loss(scores, targets, weights) + h.value(params.weights),
        )

    def update(state: State, labelled: Labelled) -> tuple[State, Info]:
        x, targets, weights = labelled[:3]
        dtype = x.dtype

        def ahead(now: jax.Array, before: jax.Array) -> jax.Array:
            return now + state.momentum * (now - before)

        point = jax.tree.map(ahead, state.params, state.previous)  # z^k
        scores = ahead(state.scores, state.previous_scores)
        slope = matrix_logit.gradients(logistic.residuals(scores, targets, weights), x)

        def trial(constant: jax.Array, num_trials: jax.Array) -> _Trial:
            size = 1 / constant
            params = Params(
                h.prox(point.weights - size * slope.weights, size),
                point.bias - size * slope.bias,
            )
            return _Trial(
                params, matrix_logit.scores(params, x), constant, num_trials + 1
            )

        def is_refused(last: _Trial) -> jax.Array:
            moves = last.scores - scores
            rise = logistic.divergence(scores, moves, weights)
            # The difference of scores has rounding errors that are no rise.
            noise = jnp.finfo(dtype).eps * (1 + jnp.abs(scores).max())
            limit = last.constant / 2 * _squares(last.params, point) + noise * noise
            return (rise > limit) & (last.constant < state.ceiling)

        found = trial(state.constant, jnp.zeros((), jnp.int32))
        if step == "backtracking":
            larger = jnp.asarray(growth, dtype)
            found = lax.while_loop(
                is_refused,
                lambda last: trial(
                    jnp.minimum(last.constant * larger, state.ceiling), last.num_trials
                ),
                found,
            )

        loss = logistic.loss(found.scores, targets, weights)
        objective = loss + h.value(found.params.weights)
        squares = _squares(found.params, state.params)
        norm = jnp.sqrt(_squares(state.params))
        change = jnp.maximum(
            jnp.sqrt(squares) / (1 + norm),
            jnp.abs(objective - state.objective) / (1 + jnp.abs(state.objective)),
        )  # SBLR-Eq8
        gap = jnp.sqrt(_squares(found.params, point))
        is_uphill = jnp.zeros((), bool)
        if restart:
            is_uphill = _inner(point, found.params, state.params) > 0
        length = jnp.where(is_uphill, 1, state.length)
        further = (1 + jnp.sqrt(1 + 4 * length * length)) / 2
        new = State(
            params=found.params,
            previous=state.params,
            scores=found.scores,
            previous_scores=state.scores,
            momentum=(length - 1) / further,
            length=further,
            constant=found.constant,
            ceiling=state.ceiling,
            objective=objective,
        )
        info = Info(
            objective=objective,
            loss=loss,
            change=change,
            constant=found.constant,
            num_trials=found.num_trials,
            stationarity=(found.constant + state.ceiling) * gap,
            squared_norm=_squares(found.params),
            support=(found.params.weights != 0).sum(dtype=jnp.int32),
            restarted=is_uphill,
            converged=change <= jnp.asarray(tolerance, dtype),
        )
        return new, info

    return Learner(init, update)


class _Trial(NamedTuple):
    params: Params
    scores: jax.Array  # (n, m)
    constant: jax.Array
    num_trials: jax.Array


def _constants(labelled: Labelled, step: str) -> tuple[jax.Array, jax.Array]:
    """Return the first constant and the ceiling."""
    x, targets, weights = labelled[:3]
    rows = x.reshape(x.shape[0], -1)
    bend = lipschitz.curvature(targets.shape[1])
    if step == "tight":
        constant = bend * lipschitz.largest_moment(rows, weights)
        return constant, constant
    squares = jnp.einsum("nk,nk->n", rows, rows) + 1
    ceiling = bend * (weights * squares).sum()  # the trace
    # The mean of the eigenvalues that may be nonzero: the largest is no smaller.
    return ceiling / min(rows.shape[0], rows.shape[1] + 1), ceiling


def _squares(one: Params, other: Params | None = None) -> jax.Array:
    if other is not None:
        one = jax.tree.map(jnp.subtract, one, other)
    return (one.weights * one.weights).sum() + (one.bias * one.bias).sum()


def _inner(point: Params, new: Params, old: Params) -> jax.Array:
    """Return <z - w, w - w'>: positive where the momentum went too far."""
    parts = jax.tree.map(lambda z, w, v: ((z - w) * (w - v)).sum(), point, new, old)
    return parts.weights + parts.bias


def stationarity(params: Params, labelled: Labelled, penalty: Penalty) -> jax.Array:
    r"""Return :math:`\operatorname{dist}(0, \partial F)` at the parameters, exactly.

    This reads the matrices twice more. The bound in `Info` needs no such reading.

    Args:
      params: Weights w and b.
      labelled: Matrices with their classes.
      penalty: Penalty h.
    """
    scores = matrix_logit.scores(params, labelled.x)
    residuals = logistic.residuals(scores, labelled.targets, labelled.weights)
    slope = matrix_logit.gradients(residuals, labelled.x)
    far = penalty.distance(params.weights, slope.weights)
    return jnp.sqrt(far * far + (slope.bias * slope.bias).sum())


def final_params(state: State) -> Params:
    """Return the model to predict with."""
    return state.params
