r"""Forward-backward splitting on mini-batches of words.

The problem of `batch.fobos`, with the subgradient of a batch :math:`B_t` in place of
the subgradient of all words:

.. math:: H_{t+1/2} = H_t - \eta_t \tfrac{m}{|B_t|} G_{B_t}(H_t), \qquad
          H_{t+1} = \operatorname{prox}_{(\sum\eta)\tau R}(H_{t+1/2})

With the number of batches :math:`m/|B_t|` as factor, the mean over batches is the
subgradient of the sum. Thresholding costs as much for a batch as for all words. So it
can be done every `prox_every` steps alone, with the step sizes since the last time
added up. The loss of a batch is computed before the step on it. The trace therefore
compares different H, not one.

The examples are the batches of `streams.words.batches`, in a `streams.Stacked`.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.batch.smm import splitting
from lowrank_jax.batch.smm.hinge import hinge
from lowrank_jax.models import hankel
from lowrank_jax.streams.words import Lattice
from lowrank_jax.types import Learner

__all__ = ["Info", "State", "final_params", "learner"]


class State(NamedTuple):
    """What the next step needs, and what `final_params` may be asked for."""

    params: hankel.Params  # H_t
    average: hankel.Params  # of H_2..H_t, weighted by step size
    penalty: jax.Array  # ()  tau R(H), at the last thresholding
    rank: jax.Array  # () int32, there
    step_sum: jax.Array  # ()  sum of step sizes
    pending: jax.Array  # ()  sum of step sizes since the last thresholding
    right: hankel.Params  # right vectors or multipliers: see `penalties.Proximal`
    num_rounds: jax.Array  # () int32


class Info(NamedTuple):
    """What the report needs of this step; before it."""

    objective: jax.Array  # ()  loss + penalty
    loss: jax.Array  # ()  hinges of the batch, scaled to all words
    penalty: jax.Array  # ()  at the last thresholding
    rank: jax.Array  # () int32, there; -1 where no spectrum is computed
    step_size: jax.Array  # ()  eta_t
    accuracy: jax.Array  # ()  share of letters right on the loss-augmented paths
    is_complete: jax.Array  # () bool: the prox had room, or steps, enough; True
    # where this step does not threshold


def learner(
    *,
    num_batches: int,
    order: int = 3,
    lower_orders: str = "none",
    unfolding: str = "last",
    regulariser: str = "nuclear",
    strength: float | jax.Array = 1.0,
    step_size: float | jax.Array | Callable = 1.0,
    reduction: str = "sum",
    has_boundary: bool = True,
    svt: str = "full",
    max_rank: int = 32,
    num_subspace_steps: int = 1,
    prox_every: int = 1,
    dtype: jnp.dtype = jnp.float32,
) -> Learner:
    r"""Build the pair ``(init, update)``; both are pure.

    Args:
      num_batches: Number of batches :math:`m/|B|`, as given to `streams.words.batches`.
      order: Number of symbols in the longest factor, 1 to 3.
      lower_orders: Lower orders, as in `fobos.learner`.
      unfolding: Unfolding of the table, as in `fobos.learner`.
      regulariser: Penalty, as in `fobos.learner`.
      strength: Strength :math:`\tau`, zero or more. May be traced.
      step_size: Number :math:`c` of :math:`\eta_t = c/\sqrt t`, with t the number of
        batches seen, which may be traced; or any optax schedule.
      reduction: ``"sum"`` or ``"mean"``.
      has_boundary: True scores factors over the boundary symbol.
      svt: ``"full"``, ``"svd"`` or ``"truncated"``.
      max_rank: Largest rank of a truncated step; `Info.is_complete` tells if it
        sufficed.
      num_subspace_steps: Subspace iterations of a truncated step, at least 1. Static.
      prox_every: Number of steps from one thresholding to the next. Static.
      dtype: Type of the matrices.
    """
    blocks = hankel.basis(order, lower_orders=lower_orders, unfolding=unfolding)
    backward = splitting.Backward(
        blocks, regulariser, svt, max_rank, num_subspace_steps
    )
    backward.check()
    checks.choice(("sum", "mean"), reduction=reduction)
    checks.non_negative(strength=strength)
    checks.positive(step_size=step_size)
    checks.whole(num_batches=num_batches, prox_every=prox_every)
    schedule = splitting.inverse_root(step_size)

    def init(key: jax.Array, lattice: Lattice) -> State:
        zeros = hankel.zeros(blocks, lattice.num_symbols, dtype)
        zero = jnp.zeros((), dtype)
        return State(
            params=zeros,
            average=zeros,
            penalty=zero,
            rank=jnp.zeros((), jnp.int32),
            step_sum=zero,
            pending=zero,
            right=backward.start(key, zeros),
            num_rounds=jnp.zeros((), jnp.int32),
        )

    def update(state: State, lattice: Lattice) -> tuple[State, Info]:
        strengths = (jnp.asarray(strength, dtype),) * len(blocks)
        scale = splitting.loss_scale(lattice, reduction, num_batches)
        found = hinge(blocks, state.params, lattice, has_boundary=has_boundary)
        eta = schedule(state.num_rounds).astype(dtype)
        move = eta * scale
        half_way = jax.tree.map(lambda h, g: h - move * g, state.params, found.gradient)
        pending = state.pending + eta
        num_rounds = state.num_rounds + 1

        def threshold(_: None) -> tuple:
            moved = backward.step(half_way, strengths, pending, state.right)
            zero = jnp.zeros_like(pending)
            done = (moved.params, moved.penalty, moved.rank, moved.right)
            return *done, zero, moved.is_complete

        def wait(_: None) -> tuple:
            kept = (half_way, state.penalty, state.rank, state.right)
            return *kept, pending, jnp.array(True)

        if prox_every == 1:
            result = threshold(None)
        else:
            result = lax.cond(num_rounds % prox_every == 0, threshold, wait, None)
        params, penalty, rank, right, pending, is_complete = result
        step_sum = state.step_sum + eta
        average = splitting.running_mean(state.average, params, eta, step_sum)
        new_state = State(
            params, average, penalty, rank, step_sum, pending, right, num_rounds
        )
        common = splitting.common_info(
            state, scale * found.loss, found.num_wrong, lattice, eta
        )
        return new_state, Info(**common, is_complete=is_complete)

    return Learner(init, update)


def final_params(state: State, iterate: str = "last") -> hankel.Params:
    """Return the model to predict with.

    Args:
      state: State after the last step. With ``prox_every`` above 1 the state has low
        rank only if its last step has thresholded.
      iterate: ``"last"`` or ``"average"``.
    """
    return splitting.final_params(state, iterate)
