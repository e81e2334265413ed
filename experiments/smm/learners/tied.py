r"""Spectral max-margin tagging on a basis from which operators can be recovered.

This is the problem of `batch.fobos`, with its iterations, on the tied trigram basis of
`models.hankel.tie_groups` (SMM-N5). Rows are the strings of length 0, 1 and 2. Columns
are the strings of length 0 and 1. All entries uv that spell one string are equal,

.. math:: \min_{H \in \mathbb H} \; \sum_i L_{[3]}(x^i, y^i; H) + \tau\|H\|_*, \qquad
          H(u, v) = F(uv)                                 \qquad\text{(SMM-Eq8)}

A position scores :math:`F(abc) + F(bc) + F(c)`. These values stand in the columns of
single symbols. On the subspace of tied matrices, the subgradient is the mean over tied
entries. Iteration t = 1, 2, ... with :math:`\eta_t = c/\sqrt t`:

.. math:: H_{t+1/2} = H_t - \eta_t \overline{G_t}, \qquad
   H_{t+1} = \arg\min_{H \in \mathbb H} \tfrac12\|H - H_{t+1/2}\|_F^2
             + \eta_t\tau\|H\|_*

``ties="projection"`` replaces the minimum by thresholding and then averaging, as the
paper suggests (SMM-X2). This is not the proximal map of the problem. So the iterations
do not go to the optimum, and the matrix does not have low rank. ``ties="exact"`` solves
the minimum by ADMM, from the multiplier of the iteration before.

Then ``operators.recover(hankel.sub_blocks(final_params(state)), rank)`` makes a model
with `rank` states (SMM-R1). Symbols of unseen letters are zero throughout. If the block
of P', S' is invertible on all other symbols, as many states as its rank give every
learnt score back. Fewer states approximate the scores. Lay words out with
``streams.words.lattice(..., has_end=True)``. Otherwise no word ends in the boundary
symbol: its column is zero, its row is not, and scores are lost.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax import checks
from lowrank_jax.batch.smm import splitting
from lowrank_jax.linalg.svt import singular_values
from lowrank_jax.linalg.ties import tied_prox
from lowrank_jax.models import hankel
from lowrank_jax.streams.words import Lattice
from lowrank_jax.types import Learner

__all__ = [
    "BLOCKS",
    "Info",
    "State",
    "average_strings",
    "final_params",
    "learner",
    "table_params",
]

#: The basis without ties of the tables that `table_params` returns.
BLOCKS = hankel.basis(3, lower_orders="stacked")


class State(NamedTuple):
    """What the next iteration needs, and what `final_params` may be asked for."""

    params: jax.Array  # (1 + n + n^2, 1 + n)  H_t
    best_params: jax.Array  # H with the smallest objective so far
    average: jax.Array  # mean of H_2..H_t, weighted by step size
    best_objective: jax.Array  # ()
    penalty: jax.Array  # ()  tau |H_t|_*
    rank: jax.Array  # () int32
    step_sum: jax.Array  # ()  sum of step sizes
    multiplier: jax.Array  # of ADMM, divided by eta_t; shape of H_t, or (0, 0)
    num_iterations: jax.Array  # () int32  t - 1


class Info(NamedTuple):
    """What the report needs of this iteration. Most values belong to H_t."""

    objective: jax.Array  # ()  loss + penalty
    loss: jax.Array  # ()  hinges, summed or averaged over words
    penalty: jax.Array  # ()  tau |H_t|_*
    rank: jax.Array  # () int32: singular values that exceed the tolerance
    step_size: jax.Array  # ()  eta_t
    accuracy: jax.Array  # ()  share of letters right on the loss-augmented paths
    best_objective: jax.Array  # ()
    num_prox_steps: jax.Array  # () int32, steps of ADMM to H_{t+1}
    is_complete: jax.Array  # () bool: ADMM reached its tolerance, or did not run
    tie_violation: jax.Array  # ()  largest |entry - mean of its ties| of H_{t+1}
    converged: jax.Array  # () bool: False; no bound on the tied optimum is computed,
    # and neither objective nor step tells how far the optimum is


def average_strings(matrix: jax.Array) -> jax.Array:
    """Replace each entry by the mean of the entries that spell the same string.

    The result equals `linalg.ties.average_ties` with `hankel.tie_groups`, but no table
    of groups is needed. Single symbols stand in the first row and the first column.
    Pairs stand in the first column and in the square of single symbols. Nothing else is
    tied.

    Args:
      matrix: Matrix over the basis, (1 + n + n^2, 1 + n).
    """
    n = matrix.shape[1] - 1
    single = (matrix[0, 1:] + matrix[1 : 1 + n, 0]) / 2
    pair = (matrix[1 : 1 + n, 1:] + matrix[1 + n :, 0].reshape(n, n)) / 2
    matrix = matrix.at[0, 1:].set(single).at[1 : 1 + n, 0].set(single)
    return matrix.at[1 : 1 + n, 1:].set(pair).at[1 + n :, 0].set(pair.reshape(-1))


def table_params(matrix: jax.Array) -> hankel.Params:
    """Return the learnt scores as parameters of the basis `BLOCKS`, to decode with.

    Args:
      matrix: Tied matrix from `final_params`, (1 + n + n^2, 1 + n).
    """
    return (matrix[:, 1:],)


def learner(
    *,
    ties: str = "projection",
    strength: float | jax.Array = 1.0,
    step_size: float | jax.Array | Callable = 1.0,
    reduction: str = "sum",
    has_boundary: bool = True,
    svt: str = "full",
    tolerance: float | jax.Array = 1e-5,
    max_prox_steps: int = 200,
    dtype: jnp.dtype = jnp.float32,
) -> Learner:
    r"""Build the pair ``(init, update)``; both are pure.

    Args:
      ties: Treatment of ties: ``"projection"`` (as in the paper) or ``"exact"``.
      strength: Strength :math:`\tau`, zero or more. May be traced.
      step_size: Number :math:`c` of :math:`\eta_t = c/\sqrt t`, which may be traced, or
        any optax schedule. A schedule is a function of the number of steps done.
      reduction: Reduction of the hinges over words: ``"sum"`` (the paper's reduction)
        or ``"mean"``.
      has_boundary: True scores factors over the boundary symbol.
      svt: Thresholding: ``"full"`` (through the Gram matrix) or ``"svd"``.
      tolerance: Tolerance of ADMM, and of the rank: singular values up to this share of
        :math:`\|H_{t+1/2}\|_F` count as zero. Positive. May be traced.
      max_prox_steps: Largest number of steps of ADMM per iteration, at least 1. Static.
      dtype: Type of the matrix.
    """
    checks.choice(("projection", "exact"), ties=ties)
    checks.choice(("sum", "mean"), reduction=reduction)
    checks.choice(("full", "svd"), svt=svt)
    checks.non_negative(strength=strength)
    checks.positive(step_size=step_size, tolerance=tolerance)
    checks.whole(max_prox_steps=max_prox_steps)
    is_exact = ties == "exact"
    schedule = splitting.inverse_root(step_size)

    def init(key: jax.Array, lattice: Lattice) -> State:
        del key  # nothing is random
        n = lattice.num_symbols
        zeros = jnp.zeros((1 + n + n * n, 1 + n), dtype)
        zero = jnp.zeros((), dtype)
        return State(
            params=zeros,
            best_params=zeros,
            average=zeros,
            best_objective=jnp.array(jnp.inf, dtype),
            penalty=zero,
            rank=jnp.zeros((), jnp.int32),
            step_sum=zero,
            multiplier=zeros if is_exact else jnp.zeros((0, 0), dtype),
            num_iterations=jnp.zeros((), jnp.int32),
        )

    def update(state: State, lattice: Lattice) -> tuple[State, Info]:
        tau = jnp.asarray(strength, dtype)
        table = table_params(state.params)
        scale = splitting.loss_scale(lattice, reduction)
        found = splitting.scaled_hinge(
            BLOCKS, table, lattice, scale, has_boundary=has_boundary
        )
        gradient = jnp.pad(found.gradient[0], ((0, 0), (1, 0)))
        eta = schedule(state.num_iterations).astype(dtype)  # c / sqrt(t)
        common = splitting.common_info(state, found.loss, found.num_wrong, lattice, eta)
        best = splitting.keep_best(state, state.params, common["objective"])
        half_way = state.params - eta * average_strings(gradient)
        moved = tied_prox(
            half_way,
            average_strings,
            eta * tau,
            start=eta * state.multiplier if is_exact else None,
            method="admm" if is_exact else "projection",
            tolerance=tolerance,
            max_steps=max_prox_steps,
            svt_method="svd" if svt == "svd" else "gram",
        )
        params = moved.matrix
        values = singular_values(params)
        cut = jnp.asarray(tolerance, dtype) * jnp.sqrt(jnp.vdot(half_way, half_way))
        step_sum = state.step_sum + eta
        new_state = State(
            params=params,
            **best,
            average=splitting.running_mean(state.average, params, eta, step_sum),
            penalty=tau * values.sum(),
            rank=(values > cut).sum(dtype=jnp.int32),
            step_sum=step_sum,
            multiplier=moved.multiplier / eta if is_exact else state.multiplier,
            num_iterations=state.num_iterations + 1,
        )
        info = Info(
            **common,
            best_objective=best["best_objective"],
            num_prox_steps=moved.num_steps,
            is_complete=moved.converged if is_exact else jnp.array(True),
            tie_violation=jnp.abs(params - average_strings(params)).max(),
            converged=jnp.array(False),
        )
        return new_state, info

    return Learner(init, update)


def final_params(state: State, iterate: str = "last") -> jax.Array:
    """Return the tied matrix, (1 + n + n^2, 1 + n).

    `table_params` makes a table to decode with from this matrix. `hankel.sub_blocks`
    cuts the matrix into the blocks that the recovery of operators needs.

    Args:
      state: State after the last iteration.
      iterate: Iterate: ``"last"``, ``"best"`` (smallest objective seen) or
        ``"average"``.
    """
    params = splitting.final_params(state, iterate)
    return average_strings(params) if iterate == "average" else params
