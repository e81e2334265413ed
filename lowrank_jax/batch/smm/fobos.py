r"""Spectral max-margin tagging by forward-backward splitting (SMM-Alg1).

.. math:: \min_H \; \sum_i L(x^i, y^i; H) + \tau\,R(H)      \qquad\text{(SMM-Eq3, Eq8)}

with L the structured hinge of a piecewise score (`models.hankel`, `hinge`) and R the
nuclear norm or another penalty of `penalties`. Iteration t = 1, 2, ...:

.. math:: H_{t+1/2} = H_t - \eta_t G_t, \qquad
          H_{t+1} = \operatorname{prox}_{\eta_t \tau R}(H_{t+1/2}), \qquad
          \eta_t = c / \sqrt t

The objective does not fall in every iteration. The theorem is about the best or the
averaged iterate (errata), and `final_params` gives either. The certificate is the lower
bound DR-M2 on the optimum. It uses the mean of the subgradients with weights
:math:`\eta_t`, from the last t that is a power of two. The best bound is kept. Since

.. math:: \sum_t \eta_t (G_t + \tau S_t) = H_{\text{first}} - H_{\text{last}}, \qquad
          S_t \in \partial R(H_{t+1}),

the averaged subgradient comes to within :math:`\|\Delta H\| / \sum_t \eta_t` of
the dual feasible set.

One `update` is one iteration over the whole corpus. The corpus is a `Lattice`, made
once on the host by `streams.words.lattice`. On NETtalk (15,000 words, float32, one
core) an iteration takes a few tenths of a second. Nearly all of that time is decoding.
The threshold takes some hundredths of a second.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.batch.smm import splitting
from lowrank_jax.batch.smm.penalties import Regulariser, lower_bound
from lowrank_jax.models import hankel
from lowrank_jax.streams.words import Lattice
from lowrank_jax.types import Learner, check_dtype, documented

__all__ = ["Info", "State", "final_params", "learner"]
__dir__ = __all__.copy


@documented
class State(NamedTuple):
    """What the next iteration needs, and what `final_params` may be asked for.

    Attributes:
      params: H_t.
      best_params: H with the smallest objective so far.
      average: Mean of H_2..H_t, weighted by step size.
      best_objective: Least objective so far, ().
      penalty: Tau R(H_t), ().
      rank: Rank, () int32.
      step_sum: Sum of step sizes, ().
      gradient_sum: Sum of eta_s G_s, s from the last power of two.
      cost_sum: Sum of eta_s times the Hamming cost, same s, ().
      weight_sum: Sum of eta_s, same s, ().
      lower_bound: The best lower bound so far (DR-M2), ().
      right: Right vectors or multipliers: see `penalties.Proximal`.
      num_iterations: t - 1, () int32.
    """

    params: hankel.Params
    best_params: hankel.Params
    average: hankel.Params
    best_objective: jax.Array
    penalty: jax.Array
    rank: jax.Array
    step_sum: jax.Array
    gradient_sum: hankel.Params
    cost_sum: jax.Array
    weight_sum: jax.Array
    lower_bound: jax.Array
    right: hankel.Params
    num_iterations: jax.Array


@documented
class Info(NamedTuple):
    """What the report needs of this iteration. Its values belong to H_t.

    Attributes:
      objective: Loss + penalty, ().
      loss: Hinges, summed or averaged over words, ().
      penalty: Tau R(H_t), ().
      rank: Rank of all blocks; -1 where no spectrum is computed, () int32.
      step_size: eta_t, ().
      accuracy: Share of letters right on the loss-augmented paths, ().
      best_objective: Least objective so far, ().
      lower_bound: Lower bound on the optimum, best so far, ().
      gap: (best objective - lower bound) / best objective, ().
      is_complete: True if the rank, or the steps, of the prox sufficed, () bool.
      converged: True if the gap is within the tolerance, () bool.
    """

    objective: jax.Array
    loss: jax.Array
    penalty: jax.Array
    rank: jax.Array
    step_size: jax.Array
    accuracy: jax.Array
    best_objective: jax.Array
    lower_bound: jax.Array
    gap: jax.Array
    is_complete: jax.Array
    converged: jax.Array


def learner(
    *,
    order: int = 3,
    lower_orders: Literal["none", "stacked", "separate"] = "none",
    unfolding: Literal["last", "first", "both"] = "last",
    regulariser: Regulariser = "nuclear",
    strength: float | jax.Array = 1.0,
    block_strengths: tuple[float, ...] | None = None,
    step_size: float | jax.Array | Callable = 1.0,
    reduction: Literal["sum", "mean"] = "sum",
    half: bool = False,
    has_boundary: bool = True,
    svt: Literal["full", "svd", "truncated"] = "full",
    max_rank: int = 32,
    num_subspace_steps: int = 1,
    gap_every: int = 10,
    tolerance: float | jax.Array = 1e-3,
    dtype: jnp.dtype = jnp.float32,
) -> Learner[State, Info, Lattice]:
    r"""Build the pair ``(init, update)``; both are pure.

    Args:
      order: Number of symbols in the longest factor, 1 to 3.
      lower_orders: Lower orders: ``"none"`` for :math:`F_k`, ``"stacked"`` or
        ``"separate"`` for :math:`F_{[k]}`; see `models.hankel.basis`.
      unfolding: Unfolding of the table: ``"last"``, ``"first"`` or ``"both"``; see
        `models.hankel.basis`. ``"both"`` learns two tables and penalises one unfolding
        of each. This is the latent form: the penalty of the sum of the tables is the
        infimal convolution of the two norms.
      regulariser: Penalty: ``"nuclear"``, ``"none"``, ``"frobenius"`` (the norm, as
        printed), ``"squared_frobenius"`` (half its square) or ``"overlapped"``: the
        nuclear norms of both unfoldings of *one* table of trigrams, added (DR-M3).
      strength: Strength :math:`\tau`, zero or more. May be traced.
      block_strengths: Factors of the strength, one per block of the basis; None for 1.
      step_size: Number :math:`c` of :math:`\eta_t = c/\sqrt t`, which may be traced, or
        any optax schedule. A schedule is a function of the number of steps done.
      reduction: Reduction of the hinges over words: ``"sum"`` (the paper's reduction)
        or ``"mean"``.
      half: True halves the thresholds, as the printed proximal problem does (SMM-N6).
        This is the same as half the strength.
      has_boundary: True scores factors over the boundary symbol.
      svt: Thresholding: ``"full"`` (through the Gram matrix), ``"svd"`` or
        ``"truncated"``.
      max_rank: Largest rank of a truncated step. `Info.is_complete` tells whether this
        rank sufficed.
      num_subspace_steps: Subspace iterations of a truncated step, at least 1. Static.
      gap_every: Number of iterations from one lower bound to the next. Static.
      tolerance: Gap, relative to the objective, within which `Info.converged` is True.
      dtype: Type of the matrices.
    """
    blocks = hankel.basis(order, lower_orders=lower_orders, unfolding=unfolding)
    backward = splitting.Backward(
        blocks, regulariser, svt, max_rank, num_subspace_steps
    )
    backward.check()
    checks.choice(("sum", "mean"), reduction=reduction)
    checks.non_negative(strength=strength, tolerance=tolerance)
    checks.positive(step_size=step_size)
    checks.whole(gap_every=gap_every)
    if block_strengths is None:
        block_strengths = (1.0,) * len(blocks)
    if len(block_strengths) != len(blocks):
        raise checks.InputError(
            f"`block_strengths` must have {len(blocks)} numbers, one per block, "
            f"got {block_strengths}."
        )
    schedule = splitting.inverse_root(step_size)

    def init(key: jax.Array, lattice: Lattice) -> State:
        check_dtype(dtype)
        zeros = hankel.zeros(blocks, lattice.num_symbols, dtype)
        zero = jnp.zeros((), dtype)
        return State(
            params=zeros,
            best_params=zeros,
            average=zeros,
            best_objective=jnp.array(jnp.inf, dtype),
            penalty=zero,
            rank=jnp.zeros((), jnp.int32),
            step_sum=zero,
            gradient_sum=zeros,
            cost_sum=zero,
            weight_sum=zero,
            lower_bound=zero,
            right=backward.start(key, zeros),
            num_iterations=jnp.zeros((), jnp.int32),
        )

    def update(state: State, lattice: Lattice) -> tuple[State, Info]:
        tau = jnp.asarray(strength, dtype) * (0.5 if half else 1.0)
        strengths = tuple(tau * factor for factor in block_strengths)
        scale = splitting.loss_scale(lattice, reduction)
        found = splitting.scaled_hinge(
            blocks, state.params, lattice, scale, has_boundary=has_boundary
        )
        eta = schedule(state.num_iterations).astype(dtype)  # c / sqrt(t)
        common = splitting.common_info(state, found.loss, found.num_wrong, lattice, eta)
        best = splitting.keep_best(state, state.params, common["objective"])
        gradient = found.gradient  # G_t
        half_way = jax.tree.map(lambda h, g: h - eta * g, state.params, gradient)
        moved = backward.step(half_way, strengths, eta, state.right)

        t = state.num_iterations + 1
        keep = jnp.where((t & (t - 1)) == 0, 0, 1).astype(dtype)  # powers of two
        gradient_sum = jax.tree.map(
            lambda total, g: keep * total + eta * g, state.gradient_sum, gradient
        )
        cost_sum = keep * state.cost_sum + eta * (scale * found.num_wrong.astype(dtype))
        weight_sum = keep * state.weight_sum + eta

        def bound(_: None) -> jax.Array:
            average = jax.tree.map(lambda part: part / weight_sum, gradient_sum)
            return lower_bound(regulariser, average, cost_sum / weight_sum, strengths)

        is_due = (t % gap_every == 0) | ((t & (t + 1)) == 0)  # before a restart too
        found_bound = lax.cond(is_due, bound, lambda _: state.lower_bound, None)
        best_bound = jnp.maximum(state.lower_bound, found_bound)  # DR-M2
        gap = splitting.relative_gap(best["best_objective"], best_bound)
        step_sum = state.step_sum + eta
        new_state = State(
            params=moved.params,
            **best,
            average=splitting.running_mean(state.average, moved.params, eta, step_sum),
            penalty=moved.penalty,
            rank=moved.rank,
            step_sum=step_sum,
            gradient_sum=gradient_sum,
            cost_sum=cost_sum,
            weight_sum=weight_sum,
            lower_bound=best_bound,
            right=moved.right,
            num_iterations=t,
        )
        info = Info(
            **common,
            best_objective=best["best_objective"],
            lower_bound=best_bound,
            gap=gap,
            is_complete=moved.is_complete,
            converged=gap <= jnp.asarray(tolerance, dtype),
        )
        return new_state, info

    return Learner(init, update)


def final_params(state: State, iterate: str = "last") -> hankel.Params:
    """Return the model to predict with.

    Args:
      state: State after the last iteration.
      iterate: Iterate: ``"last"``, ``"best"`` (smallest objective seen) or
        ``"average"``.
    """
    return splitting.final_params(state, iterate)
