r"""Sparse bilinear logistic regression by block coordinate descent.

Shi, Xu and Baraniuk, "Sparse bilinear logistic regression", 2014 (SBLR).

.. math:: \min_{U, V, b} F = \mathcal L(U, V, b) + r_1(U) + r_2(V)  \qquad (4), (31)

with the loss of `models.logistic` on the scores of `models.bilinear_logit`: two classes
are the case m = 1 of many, so that Algorithm 2 is Algorithm 3 at m = 1. One `update` is
one sweep: the left factors and the bias by a step of `block_step`, then the right
factors and the bias (7a..7d, 32). With ``solver="minimise"`` each block is solved to a
tolerance instead (Algorithm 1).

A sweep reads the matrices twice, for :math:`X_i^\top U^k` and :math:`X_i V^k`;
gradients, trials of the step size and all of `Info` follow from these two. The run ends
when

.. math:: q^k = \max\Big\{\frac{\|W^k - W^{k-1}\|_F}{1 + \|W^{k-1}\|_F},
   \frac{|F^k - F^{k-1}|}{1 + F^{k-1}}\Big\} \le \epsilon  \qquad (8)

`loops.converge` runs sweeps in one compiled program until then. U = V = 0 is always
stationary: never start there.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import checks
from lowrank_jax.batch.sblr.block_step import (
    Block,
    Search,
    Stepped,
    gradients,
    minimise,
    proximal_step,
)
from lowrank_jax.batch.sblr.start import best_size, check_start, revive, start_params
from lowrank_jax.linalg.penalties import Penalty, elastic_net
from lowrank_jax.models import bilinear_logit, logistic
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.types import Learner, documented

__all__ = ["Info", "Settings", "Stages", "State", "final_params", "learner", "stages"]
__dir__ = __all__.copy


@documented
class State(NamedTuple):
    """What the next sweep needs, and nothing else.

    Attributes:
      params: U, V, b.
      features: X_i V, (m, n, r, s).
      left_constant: L_u accepted last, ().
      right_constant: L_v accepted last, ().
      objective: F, ().
    """

    params: Params
    features: jax.Array
    left_constant: jax.Array
    right_constant: jax.Array
    objective: jax.Array


@documented
class Info(NamedTuple):
    """What the theory and the report need of this sweep.

    Attributes:
      objective: F^k, ().
      loss: Objective without the penalties, ().
      change: q^k, Eq. (8), ().
      left_constant: L_u^k, ().
      right_constant: L_v^k, ().
      num_trials: Trials of constants; inner steps with "minimise", () int32.
      decrease_slack: Slack of Eq. (17), with the L_min given, ().
      tight_slack: Slack of DR-S3, with the constants accepted, ().
      stationarity: dist(0, dF(W^k)), ().
      balance: Residual of DR-S4, zero at a stationary point, ().
      left_support: Entries of U other than 0, () int32.
      right_support: Entries of V other than 0, () int32.
      num_zero: Classes with U_c = 0 or V_c = 0, which no matrix scores, () int32.
      converged: True if q^k is within the tolerance, () bool.
    """

    objective: jax.Array
    loss: jax.Array
    change: jax.Array
    left_constant: jax.Array
    right_constant: jax.Array
    num_trials: jax.Array
    decrease_slack: jax.Array
    tight_slack: jax.Array
    stationarity: jax.Array
    balance: jax.Array
    left_support: jax.Array
    right_support: jax.Array
    num_zero: jax.Array
    converged: jax.Array


class Settings(NamedTuple):
    """Settings of the descent, as `learner` explains them."""

    rank: int = 1
    mu1: float | jax.Array = 0.0
    mu2: float | jax.Array = 0.0
    nu1: float | jax.Array = 0.0
    nu2: float | jax.Array = 0.0
    left_penalty: Penalty | None = None
    right_penalty: Penalty | None = None
    solver: str = "proximal"
    step: str = "backtracking"
    start: str | Params = "paper"
    scale_start: bool | None = None
    tolerance: float | jax.Array = 1e-3
    growth: float | jax.Array = 1.5
    least_constant: float | jax.Array = 1e-6
    block_tolerance: float | jax.Array = 1e-5
    max_block_steps: int = 1000

    def check(self) -> None:
        """Raise `InputError` if a setting is out of range or would have no effect."""
        checks.whole(rank=self.rank, max_block_steps=self.max_block_steps)
        checks.non_negative(mu1=self.mu1, mu2=self.mu2, nu1=self.nu1, nu2=self.nu2)
        checks.non_negative(tolerance=self.tolerance)
        checks.positive(least_constant=self.least_constant)
        checks.positive(block_tolerance=self.block_tolerance)
        checks.choice(("proximal", "minimise"), solver=self.solver)
        checks.choice(("backtracking", "tight", "lemma"), step=self.step)
        if isinstance(self.growth, float | int) and not self.growth > 1:
            raise checks.InputError(f"`growth` must be above 1, got {self.growth}.")
        place, idle = f"solver={self.solver!r}", ["step", "growth"]
        if self.solver == "proximal":
            idle = ["block_tolerance", "max_block_steps"]
            if self.step != "backtracking":
                place, idle = f"{place} with step={self.step!r}", [*idle, "growth"]
        for name in idle:
            value = getattr(self, name)
            if isinstance(value, str | float | int) and (
                value != self._field_defaults[name]
            ):
                raise checks.InputError(
                    f"`{name}` has no part in {place}, got {value!r}: leave it out."
                )
        check_start(self.start, self.rank)
        self.penalties()

    def penalties(self) -> tuple[Penalty, Penalty]:
        """Return the penalty of each side, or the elastic net of its strengths."""
        left = {"mu1": self.mu1, "mu2": self.mu2}
        right = {"nu1": self.nu1, "nu2": self.nu2}
        return (
            _one_penalty("left_penalty", self.left_penalty, **left),
            _one_penalty("right_penalty", self.right_penalty, **right),
        )

    @property
    def is_scaled(self) -> bool:
        """True if the factors of the start are scaled to where F is least."""
        if self.scale_start is not None:
            return self.scale_start
        return isinstance(self.start, str) and self.start == "label"

    def split(self) -> tuple["Settings", dict[str, float | jax.Array]]:
        """Return the static settings, and the real numbers, which may be traced.

        Strengths are left out where a penalty takes their place.
        """
        names = ["tolerance", "growth", "least_constant", "block_tolerance"]
        names += ["mu1", "mu2"] if self.left_penalty is None else []
        names += ["nu1", "nu2"] if self.right_penalty is None else []
        static = self._replace(**{name: self._field_defaults[name] for name in names})
        return static, {name: getattr(self, name) for name in names}


def _one_penalty(
    name: str, penalty: Penalty | None, **strengths: float | jax.Array
) -> Penalty:
    """Return the penalty, or the elastic net of the strengths; refuse both."""
    l1, l2 = strengths.values()
    if penalty is None:
        return elastic_net(l1=l1, l2=l2)
    if not all(isinstance(s, float | int | np.number) and s == 0 for s in (l1, l2)):
        first, second = strengths
        raise checks.InputError(
            f"Give either `{name}`, or `{first}` and `{second}`, not both."
        )
    return penalty


class Stages(NamedTuple):
    """A sweep in its parts, between which the matrices are read.

    Attributes:
      init: ``(params, features, targets, weights, is_scaled) -> State``; the features
        are :math:`X_i V`.
      first: ``(state, targets, weights) -> Stepped``: the left block has moved.
      second: ``(state, one, meets, targets, weights) -> Stepped``: the right block has
        moved; `meets` is :math:`X_i^T U^k`.
      finish: ``(state, one, two, meets, features, targets, weights) -> (State, Info)``;
        the features are :math:`X_i V^k`.
    """

    init: Callable[..., State]
    first: Callable[..., Stepped]
    second: Callable[..., Stepped]
    finish: Callable[..., tuple[State, Info]]


def learner(
    *,
    rank: int = 1,
    mu1: float | jax.Array = 0.0,
    mu2: float | jax.Array = 0.0,
    nu1: float | jax.Array = 0.0,
    nu2: float | jax.Array = 0.0,
    left_penalty: Penalty | None = None,
    right_penalty: Penalty | None = None,
    solver: Literal["proximal", "minimise"] = "proximal",
    step: Literal["backtracking", "tight", "lemma"] = "backtracking",
    start: Literal["paper", "label"] | Params = "paper",
    scale_start: bool | None = None,
    tolerance: float | jax.Array = 1e-3,
    growth: float | jax.Array = 1.5,
    least_constant: float | jax.Array = 1e-6,
    block_tolerance: float | jax.Array = 1e-5,
    max_block_steps: int = 1000,
) -> Learner[State, Info, Labelled]:
    r"""Build the pair ``(init, update)`` on `Labelled` matrices; both are pure.

    Args:
      rank: Rank r, at most the smaller side of a matrix; the rank of `start` if it is
        given as factors. Static.
      mu1: Strength of :math:`\|U\|_1` (SBLR-Eq5), zero or more. May be traced.
      mu2: Strength of :math:`\frac12\|U\|_F^2`. May be traced.
      nu1: Strength of :math:`\|V\|_1`. May be traced.
      nu2: Strength of :math:`\frac12\|V\|_F^2`. May be traced.
      left_penalty: Penalty :math:`r_1` in place of mu1 and mu2.
      right_penalty: Penalty :math:`r_2` in place of nu1 and nu2.
      solver: Solver of a block: ``"proximal"``, one step per block (Algorithms 2 and
        3), or ``"minimise"``, each block solved to `block_tolerance` (Algorithm 1).
      step: Constant of a proximal step: ``"backtracking"`` (SBLR-Eq13..16), ``"tight"``
        (DR-S1, DR-S2) or ``"lemma"`` (SBLR-L3.1, L6.1). ``"minimise"`` takes none.
      start: Start of the descent: ``"paper"`` (SBLR-I1), ``"label"`` (its correction)
        or factors. A class whose factors are zero, where a solution path dies, starts
        from the label start if F is less there.
      scale_start: True scales the factors of the start to where F is least. None does
        so for ``"label"`` alone.
      tolerance: Epsilon of Eq. (8). May be traced.
      growth: Factor :math:`\eta` of the backtracking, above 1. May be traced.
      least_constant: Constant :math:`L_{\min}` of the backtracking and of
        `Info.decrease_slack`. May be traced.
      block_tolerance: Norm of the gradient mapping at which ``"minimise"`` ends a
        block.
      max_block_steps: Largest number of steps of ``"minimise"`` per block. Static.

    Raises:
      InputError: If an argument is out of range, or would have no effect.
    """
    settings = Settings(**locals())
    settings.check()
    parts = stages(settings)

    def init(key: jax.Array, labelled: Labelled) -> State:
        del key  # nothing is random
        if isinstance(start, str):
            params = start_params(labelled, rank=rank, start=start)
        else:
            params = revive(start, labelled, *settings.penalties())
        features = bilinear_logit.left_features(labelled, params.right)
        given = labelled.targets, labelled.weights
        return parts.init(params, features, *given, settings.is_scaled)

    def update(state: State, labelled: Labelled) -> tuple[State, Info]:
        given = labelled.targets, labelled.weights
        one = parts.first(state, *given)
        meets = bilinear_logit.right_features(labelled, one.factors)
        two = parts.second(state, one, meets, *given)
        features = bilinear_logit.left_features(labelled, two.factors)
        return parts.finish(state, one, two, meets, features, *given)

    return Learner(init, update)


def stages(settings: Settings) -> Stages:
    """Build the parts of a sweep."""
    left, right = settings.penalties()
    search = Search(settings.step, settings.growth, settings.least_constant)
    solver = settings.solver

    def step_block(block: Block, penalty: Penalty, constant: jax.Array) -> Stepped:
        if solver == "minimise":
            return minimise(
                block,
                penalty,
                tolerance=settings.block_tolerance,
                max_steps=settings.max_block_steps,
            )
        return proximal_step(block, penalty, search, constant)

    def init(
        params: Params,
        features: jax.Array,
        targets: jax.Array,
        weights: jax.Array,
        is_scaled: bool,
    ) -> State:
        no_bias = jnp.zeros_like(params.bias)
        linear = bilinear_logit.block_scores(features, params.left, no_bias)
        if is_scaled:
            size = best_size(params, linear, targets, weights, left, right)
            params = Params(size * params.left, size * params.right, params.bias)
            features, linear = size * features, size * size * linear
        loss = logistic.loss(linear + params.bias[None], targets, weights)
        objective = loss + left.value(params.left) + right.value(params.right)
        one = jnp.ones((), features.dtype)
        return State(params, features, one, one, objective)

    def first(state: State, targets: jax.Array, weights: jax.Array) -> Stepped:
        params = state.params
        block = Block(state.features, params.left, params.bias, targets, weights)
        return step_block(block, left, state.left_constant)  # (7a), (7b)

    def second(
        state: State,
        one: Stepped,
        meets: jax.Array,
        targets: jax.Array,
        weights: jax.Array,
    ) -> Stepped:
        block = Block(meets, state.params.right, one.bias, targets, weights)
        return step_block(block, right, state.right_constant)  # (7c), (7d)

    def finish(
        state: State,
        one: Stepped,
        two: Stepped,
        meets: jax.Array,
        features: jax.Array,
        targets: jax.Array,
        weights: jax.Array,
    ) -> tuple[State, Info]:
        params = Params(one.factors, two.factors, two.bias)
        loss = logistic.loss(two.scores, targets, weights)
        objective = loss + left.value(params.left) + right.value(params.right)
        new = State(params, features, one.constant, two.constant, objective)

        block = Block(meets, params.right, params.bias, targets, weights)
        in_right, in_bias = gradients(block, two.scores)
        in_left, _ = gradients(block._replace(features=features), two.scores)
        distances = (
            left.distance(params.left, in_left),
            right.distance(params.right, in_right),
            _norm(in_bias),
        )
        decrease, tight = _slacks(state, new, one, left, right, search, solver)
        change = _change(state, new)
        info = Info(
            objective=objective,
            loss=loss,
            change=change,
            left_constant=one.constant,
            right_constant=two.constant,
            num_trials=one.num_trials + two.num_trials,
            decrease_slack=decrease,
            tight_slack=tight,
            stationarity=_norm(jnp.stack(distances)),
            balance=_balance(params, left, right),
            left_support=(params.left != 0).sum(dtype=jnp.int32),
            right_support=(params.right != 0).sum(dtype=jnp.int32),
            num_zero=(~(params.left.any((1, 2)) & params.right.any((1, 2)))).sum(
                dtype=jnp.int32
            ),
            converged=change <= jnp.asarray(settings.tolerance, objective.dtype),
        )
        return new, info

    return Stages(init, first, second, finish)


def _slacks(
    old: State,
    new: State,
    one: Stepped,
    left: Penalty,
    right: Penalty,
    search: Search,
    solver: str,
) -> tuple[jax.Array, jax.Array]:
    """Return how much more F fell than Eq. (17) and DR-S3 promise.

    A block solved to its minimum promises less for its longer way: what strong
    convexity gives, the constants counting for nothing.
    """
    dtype = old.objective.dtype
    counts = jnp.asarray(0 if solver == "minimise" else 1, dtype)
    in_u, in_v = counts * new.left_constant, counts * new.right_constant
    in_left = _square(new.params.left - old.params.left)
    in_right = _square(new.params.right - old.params.right)
    first = _square(one.bias - old.params.bias)
    second = _square(new.params.bias - one.bias)
    fall = old.objective - new.objective
    least = jnp.asarray(search.least, dtype)
    printed = least / 2 * (in_left + in_right + first + second)  # Eq. (17)
    tight = (
        (in_u + jnp.asarray(left.modulus, dtype)) * in_left
        + (in_v + jnp.asarray(right.modulus, dtype)) * in_right
        + in_u * first
        + in_v * second
    ) / 2  # DR-S3
    return fall - printed, fall - tight


def _change(old: State, new: State) -> jax.Array:
    """Return q^k of Eq. (8)."""
    move = jax.tree.map(lambda a, b: a - b, new.params, old.params)
    length = jnp.sqrt(sum(_square(part) for part in move))
    before = jnp.sqrt(sum(_square(part) for part in old.params))
    fall = jnp.abs(new.objective - old.objective)
    return jnp.maximum(length / (1 + before), fall / (1 + old.objective))


def _balance(params: Params, left: Penalty, right: Penalty) -> jax.Array:
    r"""Return the largest gap, over columns, of the identity DR-S4.

    At a stationary point :math:`\langle u_j, \partial r_1\rangle = \langle v_j,
    \partial r_2\rangle`, for the elastic net :math:`\mu_1\|u_j\|_1 + \mu_2\|u_j\|^2`.
    """
    in_left = (params.left * jax.grad(left.value)(params.left)).sum(1)
    in_right = (params.right * jax.grad(right.value)(params.right)).sum(1)
    return jnp.abs(in_left - in_right).max()


def _square(x: jax.Array) -> jax.Array:
    return (x * x).sum()


def _norm(x: jax.Array) -> jax.Array:
    return jnp.sqrt(_square(x))


def final_params(state: State) -> Params:
    """Return the model to predict with."""
    return state.params
