r"""Sparse logistic regression of two classes by proximal Newton on a working set.

.. math:: \min_{w, b} F(w, b) = \mathcal L(w, b) + \mu_1\|w\|_1 + \tfrac{\mu_2}2\|w\|^2

the problem of `batch.fista` with the elastic net (SBLR-Eq2, B2), offset not penalised.
With scores z, probabilities :math:`p_i` and :math:`r_i = \omega_i(p_i - y_i)` an
iteration

1. takes the m entries W to work on: those with a weight, then those that violate the
   optimality conditions most;
2. minimises on W the quadratic model with the Hessian of the loss,
   :math:`H = X_W^\top D X_W`, :math:`D_{ii} = \omega_i p_i(1 - p_i)`, the offset
   eliminated: sweeps over the coordinates, which find the signs, in turn with a Newton
   step on the nonzero ones, where what would change its sign becomes 0 (of a dozen
   lengths the best is taken, so both only descend);
3. halves the step until F, not the model, has decreased enough.

**A bound from below.** By Fenchel's duality any u with :math:`\sum_i\omega_i u_i = 0`,
:math:`0 \le y_i + u_i \le 1` and :math:`\kappa = \sum_i \omega_i u_i x_i` has

.. math:: F^* \ge \sum_i \omega_i \big(-|u_i|\log|u_i| - (1 - |u_i|)\log(1 - |u_i|)\big)
   - \sum_j \frac{[|\kappa_j| - \mu_1]_+^2}{2\mu_2}

(:math:`|\kappa_j| \le \mu_1` where :math:`\mu_2 = 0`). Here :math:`u = p - y`, the
residuals of the heavier class shrunk until the sums agree, and, as a second trial,
all of them until :math:`|\kappa_j| \le \mu_1`. `Info.gap` is F less the best bound so
far: a certificate.

**More weights than m.** While fewer than m weights are not 0, all of them are worked
on and the tail is quadratic. Once they are m or more, the set is that of the largest
violations, nonzero weights or not: it rotates, as in block coordinate descent, which
still comes to the minimum, if slowly. Some minimum has at most n weights.

Every iteration must be given the same data; it reads the matrices twice, and W of them.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.linalg import prox
from lowrank_jax.models import logistic, matrix_logit
from lowrank_jax.models.matrix_logit import Params
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.types import Learner

__all__ = ["Info", "State", "final_params", "learner"]

_ENOUGH = 0.01  # of the decrease that the model promises
_INNER = 0.1  # of the violation before: what the model may be left with
_NUM_SWEEPS = 3  # over the coordinates, between two Newton steps on the model
_CUTS = tuple(1.6**-k for k in range(12))  # lengths tried of such a step: 1 to 1/176
_MAX_HALVINGS = 30
_NOISE = 16  # units of rounding of F that tell nothing


class State(NamedTuple):
    """What the next iteration needs, and nothing else."""

    params: Params  # w, b
    scores: jax.Array  # (n, 1)  z
    slope: Params  # the gradient of the loss
    objective: jax.Array  # ()  F
    bound: jax.Array  # ()  of F* from below, the best so far


class Info(NamedTuple):
    """What the theory and the report need of this iteration, after its step."""

    objective: jax.Array  # ()  F
    loss: jax.Array  # ()  its part without the penalty
    gap: jax.Array  # ()  F less a bound of F* from below
    violation: jax.Array  # ()  max-norm of the least subgradient
    support: jax.Array  # () int32  weights other than 0
    step_size: jax.Array  # ()  1, or less after halvings; 0: rounding left no decrease
    num_inner_steps: jax.Array  # () int32  rounds of sweeps and a Newton step
    converged: jax.Array  # () bool: gap <= tolerance F, or the step size is 0


def learner(
    *,
    l1: float | jax.Array,
    l2: float | jax.Array = 0.0,
    working_set: int = 128,
    max_inner_steps: int = 16,
    tolerance: float | jax.Array = 1e-6,
) -> Learner:
    r"""Build the pair ``(init, update)``; both are pure.

    The start has no weights and the best offset for that, so a strength from which on
    all weights are 0 is done at once. The matrices give the dtype.

    Args:
      l1: :math:`\mu_1`, strength of the absolute values. May be traced.
      l2: :math:`\mu_2`, strength of half the squares. May be traced.
      working_set: Size m of the working set, at least 1; best somewhat above the
        weights expected. Static.
      max_inner_steps: Largest number of steps on one model, at least 1. Static.
      tolerance: Largest gap over F; what the dtype cannot give ends with a step size of
        0, since every further iteration would be the same. May be traced.
    """
    checks.non_negative(l1=l1, l2=l2, tolerance=tolerance)
    checks.whole(working_set=working_set, max_inner_steps=max_inner_steps)

    def strengths(dtype: jnp.dtype) -> tuple[jax.Array, jax.Array]:
        return jnp.asarray(l1, dtype), jnp.asarray(l2, dtype)

    def look(
        params: Params, scores: jax.Array, labelled: Labelled, bound: jax.Array
    ) -> State:
        """Return the state at a point; reads the matrices for the gradient."""
        x, targets, weights = labelled[:3]
        mu_1, mu_2 = strengths(x.dtype)
        u = jax.nn.sigmoid(scores) - targets  # (n, 1)
        sides = jnp.concatenate([jax.nn.relu(u), jax.nn.relu(-u)], axis=1)
        parts = matrix_logit.gradients(weights[:, None] * sides, x)
        slope = Params(
            parts.weights[:1] - parts.weights[1:], parts.bias[:1] - parts.bias[1:]
        )
        w = params.weights
        penalty = mu_1 * jnp.abs(w).sum() + mu_2 / 2 * (w * w).sum()
        objective = logistic.loss(scores, targets, weights) + penalty
        found = _lower_bound(sides, parts, weights, mu_1, mu_2)
        return State(params, scores, slope, objective, jnp.maximum(bound, found))

    def init(key: jax.Array, labelled: Labelled) -> State:
        del key  # nothing is random
        x, targets, weights = labelled[:3]
        if targets.shape[1] != 1:
            raise InputError(
                f"`sparse_newton` takes two classes, got {targets.shape[1] + 1}; use "
                "`batch.fista` with `l1`."
            )
        tiny = jnp.finfo(x.dtype).eps
        share = jnp.clip((weights[:, None] * targets).sum(0), tiny, 1 - tiny)
        bias = jnp.log(share) - jnp.log1p(-share)
        params = Params(jnp.zeros((1, *x.shape[1:]), x.dtype), bias)
        scores = jnp.zeros_like(targets) + bias[None]
        return look(params, scores, labelled, jnp.zeros((), x.dtype))

    def update(state: State, labelled: Labelled) -> tuple[State, Info]:
        x, targets, weights = labelled[:3]
        dtype = x.dtype
        mu_1, mu_2 = strengths(dtype)
        rows = x.reshape(x.shape[0], -1)
        w, b = state.params.weights.ravel(), state.params.bias[0]
        slope, in_bias = state.slope.weights.ravel(), state.slope.bias[0]
        violations = _violations(w, slope + mu_2 * w, mu_1)
        worst = _worst(state, mu_1, mu_2)

        chosen = _choose(w, violations, min(working_set, w.shape[0]))
        columns = rows.T[chosen]  # (m, n)
        before = w[chosen]
        p = jax.nn.sigmoid(state.scores[:, 0])
        bend = weights * p * (1 - p)
        mass = jnp.maximum(bend.sum(), jnp.finfo(dtype).tiny)
        means = _product(columns, bend) / mass
        centred = columns - means[:, None]  # eliminates the offset
        hessian = _product(centred * bend[None], centred.T)
        hessian = hessian + mu_2 * jnp.eye(before.shape[0], dtype=dtype)
        linear = slope[chosen] - means * in_bias + mu_2 * before
        after, num_inner_steps = _minimise_model(
            hessian,
            linear,
            before,
            mu_1,
            jnp.asarray(_INNER, dtype) * worst,
            max_inner_steps,
        )
        move = after - before
        shift = -in_bias / mass - _product(means, move)  # of the offset

        moves = (_product(move, columns) + shift)[:, None]
        residuals = logistic.residuals(state.scores, targets, weights)
        smooth = (residuals * moves).sum()

        def penalty_rise(size: jax.Array) -> jax.Array:
            new = before + size * move
            bent = mu_2 * size * move * (before + size / 2 * move)
            return (mu_1 * (jnp.abs(new) - jnp.abs(before)) + bent).sum()

        one = jnp.ones((), dtype)
        promised = smooth + mu_1 * (jnp.abs(after) - jnp.abs(before)).sum()
        promised = promised + mu_2 * (before * move).sum()  # at most 0

        def is_refused(size: jax.Array) -> jax.Array:
            rise = logistic.divergence(state.scores, size * moves, weights)
            rise = rise + size * smooth + penalty_rise(size)
            return ~(rise <= jnp.asarray(_ENOUGH, dtype) * size * promised)

        least = jnp.asarray(2.0**-_MAX_HALVINGS, dtype)
        size = lax.while_loop(
            lambda size: (size > least) & is_refused(size), lambda size: size / 2, one
        )
        size = jnp.where((size > least) & (promised < 0), size, 0)
        new = w.at[chosen].set(jnp.where(size == 1, after, before + size * move))
        params = Params(
            new.reshape(state.params.weights.shape), (b + size * shift)[None]
        )
        found = look(params, matrix_logit.scores(params, x), labelled, state.bound)
        # Where F is level but for rounding, the violation on W must have fallen.
        noise = _NOISE * jnp.finfo(dtype).eps * state.objective
        is_lower = found.objective < state.objective - noise
        is_level = found.objective <= state.objective + noise
        is_better = is_level & (2 * _worst(found, mu_1, mu_2, chosen) <= worst)
        is_kept = (size > 0) & (is_lower | is_better)
        kept = jax.tree.map(lambda a, b: jnp.where(is_kept, a, b), found, state)
        kept = kept._replace(bound=found.bound)
        gap = jax.nn.relu(kept.objective - kept.bound)
        is_within = gap <= jnp.asarray(tolerance, dtype) * kept.objective
        info = Info(
            objective=kept.objective,
            loss=logistic.loss(kept.scores, targets, weights),
            gap=gap,
            violation=_worst(kept, mu_1, mu_2),
            support=(kept.params.weights != 0).sum(dtype=jnp.int32),
            step_size=jnp.where(is_kept, size, 0),
            num_inner_steps=num_inner_steps,
            converged=is_within | ~is_kept,
        )
        return kept, info

    return Learner(init, update)


def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def _violations(w: jax.Array, slope: jax.Array, mu_1: jax.Array) -> jax.Array:
    """Return the least absolute subgradient of each entry."""
    at_zero = jax.nn.relu(jnp.abs(slope) - mu_1)
    return jnp.where(w == 0, at_zero, jnp.abs(slope + mu_1 * jnp.sign(w)))


def _worst(
    state: State, mu_1: jax.Array, mu_2: jax.Array, chosen: jax.Array | None = None
) -> jax.Array:
    """Return the largest violation, of the chosen entries or all, and the offset."""
    w = state.params.weights.ravel()
    violations = _violations(w, state.slope.weights.ravel() + mu_2 * w, mu_1)
    violations = violations if chosen is None else violations[chosen]
    return jnp.maximum(violations.max(), jnp.abs(state.slope.bias[0]))


def _choose(w: jax.Array, violations: jax.Array, size: int) -> jax.Array:
    """Return the entries to work on: the worst is always among them."""
    is_weight = w != 0
    fits = is_weight.sum() < size
    scores = jnp.where(is_weight & fits, jnp.inf, violations)
    return lax.top_k(scores.astype(jnp.float32), size)[1]  # doubles sort slowly


def _lower_bound(
    sides: jax.Array,
    parts: Params,
    weights: jax.Array,
    mu_1: jax.Array,
    mu_2: jax.Array,
) -> jax.Array:
    """Return the better of the two bounds of F* from below.

    Args:
      sides: (n, 2) the positive and the negative parts of p - y.
      parts: Their sums over the matrices, weighted: (2, s, t) and (2,).
      weights: (n,) of the loss.
      mu_1: Strength of the absolute values.
      mu_2: Strength of half the squares.
    """
    tiny = jnp.finfo(weights.dtype).tiny
    shrink = parts.bias.min() / jnp.maximum(parts.bias, tiny)  # (2,)  to equal sums
    kappa = jnp.abs(shrink[0] * parts.weights[0] - shrink[1] * parts.weights[1])
    sizes = (sides * shrink[None]).sum(1)  # |u|

    def entropy(scale: jax.Array) -> jax.Array:
        part = scale * sizes
        other = jax.scipy.special.xlog1py(1 - part, -part)
        return (weights * (jax.scipy.special.entr(part) - other)).sum()

    feasible = entropy(jnp.minimum(1, mu_1 / jnp.maximum(kappa.max(), tiny)))
    excess = jax.nn.relu(kappa - mu_1)
    cost = (excess * (excess / jnp.maximum(mu_2, tiny))).sum() / 2
    full = entropy(jnp.ones((), weights.dtype)) - cost
    return jnp.where(mu_2 > 0, jnp.maximum(feasible, full), feasible)


class _Inner(NamedTuple):
    point: jax.Array  # (m,)
    slope: jax.Array  # (m,)  of the smooth part of the model
    violation: jax.Array
    num_steps: jax.Array


def _minimise_model(
    hessian: jax.Array,
    linear: jax.Array,
    start: jax.Array,
    mu_1: jax.Array,
    target: jax.Array,
    max_steps: int,
) -> tuple[jax.Array, jax.Array]:
    """Minimise <linear, v> + v'Hv / 2 + mu_1 |start + v|_1; return start + v."""
    dtype = hessian.dtype
    diagonal = jnp.diagonal(hessian)
    floor = jnp.finfo(dtype).eps * diagonal.max()
    # An entry without curvature (a constant one) stays where it is.
    inverse = jnp.where(diagonal > floor, 1 / jnp.maximum(diagonal, floor), 0)
    ridge = 4 * jnp.finfo(dtype).eps * diagonal.sum()  # what a factorisation needs
    cuts = jnp.asarray(_CUTS, dtype)

    def coordinate(j: jax.Array, carry: tuple) -> tuple:
        point, slope = carry
        old, flat = point[j], inverse[j]
        new = prox.soft_threshold(old - flat * slope[j], flat * mu_1)
        return point.at[j].set(new), slope + (new - old) * hessian[j]

    def sweep(_: jax.Array, carry: tuple) -> tuple:
        return lax.fori_loop(0, start.shape[0], coordinate, carry)

    def newton(point: jax.Array, slope: jax.Array) -> jax.Array:
        """Return the point moved on its orthant; never up."""
        enters = jnp.where(jnp.abs(slope) > mu_1, -jnp.sign(slope), 0)
        signs = jnp.where(point != 0, jnp.sign(point), enters)
        is_free = signs != 0
        pair = is_free[:, None] & is_free[None]
        eye = jnp.eye(point.shape[0], dtype=dtype)
        matrix = (
            jnp.where(pair, hessian, 0) + jnp.where(is_free[:, None], ridge, 1) * eye
        )
        pull = jnp.where(is_free, -(slope + mu_1 * signs), 0)
        factor = jnp.linalg.cholesky(matrix)
        direction = jax.scipy.linalg.cho_solve((factor, True), pull)
        direction = jnp.where(jnp.isfinite(direction), direction, 0)
        trials = point[None] + cuts[:, None] * direction[None]
        trials = jnp.where(trials * signs[None] > 0, trials, 0)
        moves = trials - point[None]
        bent = (_product(moves, hessian) * moves).sum(1) / 2
        rise = (jnp.abs(trials) - jnp.abs(point)[None]).sum(1)
        change = bent + _product(moves, slope) + mu_1 * rise
        best = change.argmin()
        return jnp.where(change[best] < 0, trials[best], point)

    def advance(last: _Inner) -> _Inner:
        carry = (last.point, last.slope)
        point, slope = lax.fori_loop(0, _NUM_SWEEPS, sweep, carry)
        point = newton(point, slope)
        slope = linear + _product(hessian, point - start)
        violation = _violations(point, slope, mu_1).max()
        return _Inner(point, slope, violation, last.num_steps + 1)

    first = _Inner(
        start,
        linear,
        _violations(start, linear, mu_1).max(),
        jnp.zeros((), jnp.int32),
    )
    found = lax.while_loop(
        lambda last: (last.violation > target) & (last.num_steps < max_steps),
        advance,
        first,
    )
    return found.point, found.num_steps


def final_params(state: State) -> Params:
    """Return the model to predict with."""
    return state.params
