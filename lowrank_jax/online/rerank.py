r"""Perceptron and MIRA on candidate lists, one weight per feature (TM-B1, TM-B2).

Round :math:`t` compares the candidate :math:`z_t` of the highest score with the oracle
:math:`y_t`. On a mistake it moves by

.. math:: w \leftarrow w + \tau\,\Delta\phi, \qquad
   \Delta\phi = \phi(x_t, y_t) - \phi(x_t, z_t)

with :math:`\tau = 1` (``rule="perceptron"``, TM-B1) or the smallest step that restores
the margin, at most C (``rule="mira"``, TM-B2):

.. math:: \tau = \min\Big\{C, \frac{[\rho(y_t, z_t) - w\cdot\Delta\phi]_+}
                                   {\|\Delta\phi\|^2}\Big\}

With ``decoding="cost"``, :math:`z_t` has the highest sum of score and cost. With
``num_best`` n, MIRA takes a step against each of the n best candidates in turn. MIRA is
Tensor-MIRA of order 1. The average over rounds is kept lazily, as
:math:`\sum_t (t-1)\,\tau_t\,\Delta\phi_t`. A round touches only the entries of the
list.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.linalg.gather import read
from lowrank_jax.models import candidates
from lowrank_jax.streams.lists import Candidates
from lowrank_jax.types import Learner, check_dtype, documented

__all__ = ["Info", "State", "final_params", "learner"]
__dir__ = __all__.copy


@documented
class State(NamedTuple):
    """What the next round needs, and nothing else.

    Attributes:
      params: w_t; the last is 0, (V + 1,).
      sums: sum_t (t - 1) tau_t dphi_t, if averaged, (V + 1,).
      scratch: Zeros, room for dphi_t, if its norm is needed, (V + 1,).
      num_rounds: Number of rounds t, () int32.
    """

    params: jax.Array
    sums: jax.Array | None
    scratch: jax.Array | None
    num_rounds: jax.Array


@documented
class Info(NamedTuple):
    """What the report needs of this round. All fields are 0 without a mistake.

    Attributes:
      loss: [rho - w dphi]_+, ().
      is_mistake: True if z_t is not y_t, () bool.
      cost: rho(y_t, z_t), ().
      margin: w dphi; 0 or less where decoding is plain, ().
      step_size: tau, mean over the candidates of the round, ().
    """

    loss: jax.Array
    is_mistake: jax.Array
    cost: jax.Array
    margin: jax.Array
    step_size: jax.Array


def learner(
    *,
    rule: Literal["perceptron", "mira"] = "mira",
    max_step_size: float | jax.Array = 1.0,
    averaging: Literal["average", "none"] = "average",
    cost: Literal["quality", "one"] = "quality",
    oracle: Literal["first", "nearest"] = "first",
    decoding: Literal["plain", "cost"] = "plain",
    num_best: int = 1,
    dtype: jnp.dtype = jnp.float32,
) -> Learner[State, Info, Candidates]:
    r"""Build the pair ``(init, update)``; both are pure.

    Args:
      rule: ``"perceptron"`` or ``"mira"``.
      max_step_size: :math:`C` of MIRA, or the step of the perceptron, whose choices do
        not depend on it. Positive. May be traced.
      averaging: ``"average"`` over rounds or ``"none"``.
      cost: :math:`\rho`: ``"quality"`` (difference of quality) or ``"one"``. The
        perceptron only reports it, in the loss.
      oracle: Choice among several best candidates: the ``"first"``, or the
        ``"nearest"``, which has the highest score.
      decoding: ``"plain"`` if :math:`z_t` has the highest score, ``"cost"`` if it has
        the highest sum of score and cost.
      num_best: Number of candidates per round to update against, one after the other.
        Above 1 only for MIRA. Static.
      dtype: Type of the weights.
    """
    checks.choice(("perceptron", "mira"), rule=rule)
    checks.positive(max_step_size=max_step_size)
    checks.choice(("average", "none"), averaging=averaging)
    checks.choice(("quality", "one"), cost=cost)
    checks.choice(("first", "nearest"), oracle=oracle)
    checks.choice(("plain", "cost"), decoding=decoding)
    checks.whole(num_best=num_best)
    checks.at_most(1000, num_best=num_best)
    if rule == "perceptron" and num_best > 1:
        raise checks.InputError(
            f"`num_best` must be 1 for the perceptron, which mends no margin, got "
            f"{num_best}."
        )

    def init(key: jax.Array, example: Candidates) -> State:
        check_dtype(dtype)
        del key  # nothing is random: the start is zero
        size = example.num_features + 1
        return State(
            params=jnp.zeros((size,), dtype),
            sums=jnp.zeros((size,), dtype) if averaging == "average" else None,
            scratch=jnp.zeros((size,), dtype) if rule == "mira" else None,
            num_rounds=jnp.zeros((), jnp.int32),
        )

    def move(
        state: State, example: Candidates, pair: candidates.Pair, step: jax.Array
    ) -> State:
        """Add ``step * dphi`` to the weights, and the lazy share to their sums."""
        weight = state.num_rounds.astype(dtype) * step

        def body(
            ids: jax.Array, deltas: jax.Array, tables: tuple[jax.Array, ...]
        ) -> tuple[jax.Array, ...]:
            deltas = _after_reading(tables[0], ids, deltas)
            amounts = (step, weight)
            return tuple(
                table.at[ids].add(amount * deltas, mode="promise_in_bounds")
                for table, amount in zip(tables, amounts, strict=False)
            )

        tables: tuple[jax.Array, ...] = (state.params,)
        if state.sums is not None:
            tables = (state.params, state.sums)
        moved = candidates.fold_difference(body, tables, example, pair, dtype)
        sums = None if state.sums is None else moved[1]
        return state._replace(params=moved[0], sums=sums)

    def mend(
        state: State, example: Candidates, pair: candidates.Pair
    ) -> tuple[State, jax.Array]:
        """Move against one candidate; return the new state and the step."""
        loss = jnp.where(pair.is_mistake, jax.nn.relu(pair.cost - pair.margin), 0)
        step, scratch = jnp.asarray(max_step_size, dtype), state.scratch
        if scratch is not None:
            scratch, square = _squared_norm(scratch, example, pair)
            full = jnp.where(square > 0, loss / jnp.where(square > 0, square, 1), 0)
            step = jnp.minimum(step, full)  # TM-B2
        step = jnp.where(pair.is_mistake, step, 0)
        state = move(state, example, pair, step)
        return state._replace(scratch=scratch), step

    def update(state: State, example: Candidates) -> tuple[State, Info]:
        found = candidates.linear_scores(state.params, example)
        pairs = candidates.choose(example, found, cost, oracle, decoding, num_best)
        pair = pairs[0]
        loss = jnp.where(pair.is_mistake, jax.nn.relu(pair.cost - pair.margin), 0)
        state, step = mend(state, example, pair)
        if num_best > 1:
            rest = jax.tree.map(lambda *parts: jnp.stack(parts), *pairs[1:])

            def against(
                carry: tuple[State, jax.Array], other: candidates.Pair
            ) -> tuple[tuple[State, jax.Array], None]:
                now, total = carry
                table = now.params
                margin = candidates.margin_of(
                    lambda ids: read(table, ids),
                    example,
                    other,
                    dtype,
                )
                now, step = mend(now, example, other._replace(margin=margin))
                return (now, total + step), None

            (state, step), _ = lax.scan(against, (state, step), rest)
        info = Info(loss, pair.is_mistake, pair.cost, pair.margin, step / num_best)
        return state._replace(num_rounds=state.num_rounds + 1), info

    def wide() -> Any:
        from lowrank_jax.online.wide import lists as wide_lists

        rules: dict[str, Any] = {"cost": cost, "oracle": oracle, "decoding": decoding}
        largest = jnp.asarray(max_step_size, dtype)
        return wide_lists.linear_rounds(
            move, _squared_norm, largest, **rules, num_best=num_best
        )

    return Learner(init, update, wide=wide)


def final_params(state: State) -> jax.Array:
    """Return the weights to predict with, the average over rounds if it was kept."""
    if state.sums is None:
        return state.params
    num_rounds = jnp.maximum(state.num_rounds, 1).astype(state.params.dtype)
    return state.params - state.sums / num_rounds


def _squared_norm(
    scratch: jax.Array, example: Candidates, pair: candidates.Pair
) -> tuple[jax.Array, jax.Array]:
    """Return the scratch table, zero again, and the squared norm of the difference.

    A feature of both candidates has two entries, which must be summed before squaring.
    The entries are therefore visited three times: to add, to read and to clear.
    """
    dtype = scratch.dtype

    def add(ids: jax.Array, deltas: jax.Array, table: jax.Array) -> jax.Array:
        deltas = _after_reading(table, ids, deltas)
        return table.at[ids].add(deltas, mode="promise_in_bounds")

    def square_of(
        ids: jax.Array, deltas: jax.Array, carry: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        table, total = carry
        held = read(table, ids)
        return table, total + (deltas * held).sum()

    scratch = candidates.fold_difference(add, scratch, example, pair, dtype)
    scratch, square = candidates.fold_difference(
        square_of, (scratch, jnp.zeros((), dtype)), example, pair, dtype
    )
    zero = jnp.where(jnp.isnan(square), square, 0)  # clear only after reading

    def wipe(ids: jax.Array, deltas: jax.Array, table: jax.Array) -> jax.Array:
        del deltas
        return table.at[ids].multiply(zero, mode="promise_in_bounds")

    return candidates.fold_difference(wipe, scratch, example, pair, dtype), square


def _after_reading(table: jax.Array, ids: jax.Array, deltas: jax.Array) -> jax.Array:
    """Return the deltas, made to depend on the values in the table.

    The values written must depend on the values read. Otherwise the compiler may
    reorder the two, and to be free to do so it copies the whole table at each step.
    """
    held = read(table, ids).sum()
    return jnp.where(jnp.isnan(held), held, deltas)
