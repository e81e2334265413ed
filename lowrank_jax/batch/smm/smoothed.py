r"""Spectral max-margin tagging by accelerated proximal gradient on a smoothed loss.

SMM-X1: the maximum of each hinge is replaced by
:math:`\mu \log \sum_z \exp(\cdot/\mu)`. This function has a Lipschitz gradient. It lies
above the maximum by at most :math:`\mu \log(\text{number of paths})`. Then (Nesterov)

.. math:: H_{k+1} = \operatorname{prox}_{\tau R / L}(Z_k - \nabla f_\mu(Z_k) / L),
   \qquad Z_{k+1} = H_{k+1} + \tfrac{t_k - 1}{t_{k+1}} (H_{k+1} - H_k),
   \qquad t_{k+1} = \tfrac{1 + \sqrt{1 + 4 t_k^2}}2

with two changes that save evaluations. First, L is found by a search. It grows until

.. math:: f_\mu(H_{k+1}) \le f_\mu(Z_k) + \langle\nabla f_\mu(Z_k), H_{k+1} - Z_k\rangle
          + \tfrac L2 \|H_{k+1} - Z_k\|^2

holds, and it shrinks a little in each iteration. The constant of SMM-X1 is safe but far
too large. Second, the momentum restarts where it points uphill (O'Donoghue and Candes).

The gradient is the expected counts minus the true counts, so it is also a dual point.
With the expected Hamming cost, this point bounds the optimum of the *unsmoothed*
problem from below (DR-M2). The unsmoothed objective of H bounds the optimum from above.
The gap lies between these two bounds.

One `update` is one iteration over the whole corpus, a `streams.words.Lattice`.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.batch.smm import splitting
from lowrank_jax.batch.smm.hinge import hinge_loss, smoothed_hinge
from lowrank_jax.batch.smm.penalties import Proximal, Regulariser, lower_bound
from lowrank_jax.models import hankel
from lowrank_jax.streams.words import Lattice
from lowrank_jax.types import Learner, check_dtype, documented

__all__ = ["Info", "State", "final_params", "learner"]
__dir__ = __all__.copy


@documented
class State(NamedTuple):
    """What the next iteration needs, and what `final_params` may be asked for.

    Attributes:
      params: H_k.
      ahead: Z_k.
      best_params: H with the smallest unsmoothed objective so far.
      best_objective: Least objective so far, ().
      momentum: t_k, ().
      curvature: L, ().
      lower_bound: The best lower bound so far (DR-M2), ().
      right: Right vectors or multipliers: see `penalties.Proximal`.
      num_iterations: Number of iterations, () int32.
    """

    params: hankel.Params
    ahead: hankel.Params
    best_params: hankel.Params
    best_objective: jax.Array
    momentum: jax.Array
    curvature: jax.Array
    lower_bound: jax.Array
    right: hankel.Params
    num_iterations: jax.Array


@documented
class Info(NamedTuple):
    """What the report needs of this iteration. Its values belong to H_{k+1}.

    Attributes:
      objective: Hinges + penalty, not smoothed, ().
      loss: Hinges, ().
      smoothed_loss: Smoothed loss, ().
      penalty: Tau R, ().
      rank: -1 where no spectrum is computed, () int32.
      step_size: 1 / L, ().
      num_evaluations: Evaluations of the smoothed loss, () int32.
      best_objective: Least objective so far, ().
      lower_bound: Lower bound on the optimum of the unsmoothed problem, ().
      gap: (best objective - lower bound) / best objective, ().
      is_complete: True if the rank, or the steps, of the prox sufficed, () bool.
      is_accepted: True if the search found an L within `max_trials`, () bool.
      converged: True if the gap is within the tolerance, () bool.
    """

    objective: jax.Array
    loss: jax.Array
    smoothed_loss: jax.Array
    penalty: jax.Array
    rank: jax.Array
    step_size: jax.Array
    num_evaluations: jax.Array
    best_objective: jax.Array
    lower_bound: jax.Array
    gap: jax.Array
    is_complete: jax.Array
    is_accepted: jax.Array
    converged: jax.Array


class _Trial(NamedTuple):
    moved: Proximal
    loss: jax.Array
    curvature: jax.Array
    is_accepted: jax.Array
    num_trials: jax.Array


def learner(
    *,
    smoothing: float | jax.Array = 0.1,
    order: int = 3,
    lower_orders: Literal["none", "stacked", "separate"] = "none",
    unfolding: Literal["last", "first", "both"] = "last",
    regulariser: Regulariser = "nuclear",
    strength: float | jax.Array = 1.0,
    reduction: Literal["sum", "mean"] = "sum",
    has_boundary: bool = True,
    mixing: jax.Array | None = None,
    svt: Literal["full", "svd", "truncated"] = "full",
    max_rank: int = 32,
    num_subspace_steps: int = 1,
    first_curvature: float | jax.Array = 1.0,
    max_trials: int = 20,
    tolerance: float | jax.Array = 1e-3,
    dtype: jnp.dtype = jnp.float32,
) -> Learner[State, Info, Lattice]:
    r"""Build the pair ``(init, update)``; both are pure.

    Args:
      smoothing: Smoothing :math:`\mu`, positive. May be traced.
      order: Number of symbols in the longest factor, 1 to 3.
      lower_orders: Lower orders, as in `fobos.learner`.
      unfolding: Unfolding of the table, as in `fobos.learner`.
      regulariser: Penalty, as in `fobos.learner`.
      strength: Strength :math:`\tau`, zero or more. May be traced.
      reduction: Reduction of the hinges over words, ``"sum"`` or ``"mean"``.
      has_boundary: True scores factors over the boundary symbol.
      mixing: (n, n) symmetric matrix on each axis of the table, or None, as in
        `hankel.score_table`. May be traced.
      svt: Thresholding: ``"full"``, ``"svd"`` or ``"truncated"``.
      max_rank: Largest rank of a truncated step. `Info.is_complete` tells whether this
        rank sufficed.
      num_subspace_steps: Subspace iterations of a truncated step, at least 1. Static.
      first_curvature: Curvature L at the start. The search doubles it until it
        suffices. May be traced.
      max_trials: Largest number of trials of one search for L. If they do not suffice,
        the step takes the last L and `Info.is_accepted` is False. Static.
      tolerance: Relative gap within which `Info.converged` is True. May be traced.
      dtype: Type of the matrices.
    """
    blocks = hankel.basis(order, lower_orders=lower_orders, unfolding=unfolding)
    backward = splitting.Backward(
        blocks, regulariser, svt, max_rank, num_subspace_steps
    )
    backward.check()
    checks.choice(("sum", "mean"), reduction=reduction)
    checks.positive(smoothing=smoothing, first_curvature=first_curvature)
    checks.non_negative(strength=strength, tolerance=tolerance)
    checks.whole(max_trials=max_trials)

    def init(key: jax.Array, lattice: Lattice) -> State:
        check_dtype(dtype)
        zeros = hankel.zeros(blocks, lattice.num_symbols, dtype)
        return State(
            params=zeros,
            ahead=zeros,
            best_params=zeros,
            best_objective=jnp.array(jnp.inf, dtype),
            momentum=jnp.ones((), dtype),
            curvature=jnp.asarray(first_curvature, dtype),
            lower_bound=jnp.zeros((), dtype),
            right=backward.start(key, zeros),
            num_iterations=jnp.zeros((), jnp.int32),
        )

    reading: dict[str, Any] = {"has_boundary": has_boundary, "mixing": mixing}

    def update(state: State, lattice: Lattice) -> tuple[State, Info]:
        strengths = (jnp.asarray(strength, dtype),) * len(blocks)
        scale = splitting.loss_scale(lattice, reduction)
        mu = jnp.asarray(smoothing, dtype)

        start = smoothed_hinge(blocks, state.ahead, lattice, mu, **reading)
        gradient = jax.tree.map(lambda part: scale * part, start.gradient)
        bound = lower_bound(regulariser, gradient, scale * start.cost, strengths)
        best_bound = jnp.maximum(state.lower_bound, bound)  # DR-M2

        def attempt(last: _Trial) -> _Trial:
            curvature = jnp.where(last.num_trials > 0, 2, 1) * last.curvature
            size = 1 / curvature
            half_way = jax.tree.map(lambda z, g: z - size * g, state.ahead, gradient)
            moved = backward.step(half_way, strengths, size, state.right)
            loss = scale * hinge_loss(blocks, moved.params, lattice, mu, **reading)
            shift = jax.tree.map(jnp.subtract, moved.params, state.ahead)
            model = scale * start.loss + _dot(gradient, shift)
            model = model + curvature / 2 * _dot(shift, shift)
            # Each loss is a difference of large sums: their rounding is no failure.
            sums = jnp.abs(loss) + scale * jnp.abs(start.gold)
            slack = 4 * jnp.finfo(dtype).eps * sums
            return _Trial(
                moved=moved,
                loss=loss,
                curvature=curvature,
                is_accepted=loss <= model + slack,
                num_trials=last.num_trials + 1,
            )

        none_yet = _Trial(
            moved=Proximal(
                params=state.ahead,
                penalty=jnp.zeros((), dtype),
                rank=jnp.zeros((), jnp.int32),
                right=state.right,
                is_complete=jnp.array(True),
            ),
            loss=jnp.zeros((), dtype),
            curvature=jnp.asarray(0.8, dtype) * state.curvature,
            is_accepted=jnp.array(False),
            num_trials=jnp.zeros((), jnp.int32),
        )
        found = lax.while_loop(
            lambda last: ~last.is_accepted & (last.num_trials < max_trials),
            attempt,
            none_yet,
        )

        moved = found.moved
        move = jax.tree.map(jnp.subtract, moved.params, state.params)
        back = jax.tree.map(jnp.subtract, state.ahead, moved.params)
        momentum = jnp.where(_dot(back, move) > 0, 1, state.momentum)  # restart
        following = (1 + jnp.sqrt(1 + 4 * momentum * momentum)) / 2
        share = (momentum - 1) / following
        ahead = jax.tree.map(lambda h, m: h + share * m, moved.params, move)

        loss = scale * hinge_loss(blocks, moved.params, lattice, None, **reading)
        objective = loss + moved.penalty
        best = splitting.keep_best(state, moved.params, objective)
        gap = splitting.relative_gap(best["best_objective"], best_bound)
        new_state = State(
            params=moved.params,
            ahead=ahead,
            **best,
            momentum=following,
            curvature=found.curvature,
            lower_bound=best_bound,
            right=moved.right,
            num_iterations=state.num_iterations + 1,
        )
        info = Info(
            objective=objective,
            loss=loss,
            smoothed_loss=found.loss,
            penalty=moved.penalty,
            rank=moved.rank,
            step_size=1 / found.curvature,
            num_evaluations=found.num_trials + 1,
            best_objective=best["best_objective"],
            lower_bound=best_bound,
            gap=gap,
            is_complete=moved.is_complete,
            is_accepted=found.is_accepted,
            converged=gap <= jnp.asarray(tolerance, dtype),
        )
        return new_state, info

    return Learner(init, update)


def _dot(left: hankel.Params, right: hankel.Params) -> jax.Array:
    products = [jnp.vdot(a, b) for a, b in zip(left, right, strict=True)]
    return jnp.stack(products).sum()


def final_params(state: State, iterate: str = "last") -> hankel.Params:
    """Return the model to predict with.

    Args:
      state: State after the last iteration.
      iterate: Iterate: ``"last"`` or ``"best"`` (smallest unsmoothed objective seen).
    """
    return splitting.final_params(state, iterate)
