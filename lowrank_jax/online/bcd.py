r"""Blockwise coordinate descent for the bilinear model (BOL-Alg1, BOL-B1, `bcd`).

With one factor fixed, the bilinear model is linear in the other, and BOL-Eq7 an SVM:

.. math:: \min_\alpha \tfrac\rho2 \|\alpha\|^2 + \tfrac12\|w\|^2 + C \sum_j
   [1 - \langle\alpha, z_j\rangle - \langle w, \Delta\hat\Phi^j\rangle]_+,
   \qquad z_j = \Delta\Phi^j \beta,

and correspondingly for :math:`\beta` with :math:`z_j = (\Delta\Phi^j)^\top\alpha`. The
vector w holds the 0-order weights and transitions (BOL-X1). The penalty decides
:math:`\rho`:

=============  =============================  ======================================
``"product"``  :math:`\|\beta\|^2`            :math:`\frac12\|\alpha\|^2\|\beta\|^2`,
                                              faithful to BOL-Eq7
``"sum"``      1                              :math:`\frac12\|\alpha\|^2 +
                                              \frac12\|\beta\|^2`, the slides
                                              (BOL-Eq7s, a different problem)
``"block"``    :math:`\|\beta_k\|^2`          :math:`\frac12\sum_k\|\alpha_k\|^2
                                              \|\beta_k\|^2`, the separable penalty
                                              of DR-B6
=============  =============================  ======================================

The solver is the online dual ascent of Shalev-Shwartz and Singer (2006), started at the
current factor. A round on a mistaken sentence takes the step that raises the dual of
the half-problem most,

.. math:: \tau = \min\Big\{C, \frac{\ell}{q}\Big\}, \quad
   q = \tfrac1\rho\|z\|^2 + \|\Delta\hat\Phi\|^2, \quad
   \alpha \leftarrow \alpha + \tfrac\tau\rho z, \quad
   w \leftarrow w + \tau\,\Delta\hat\Phi,

by :math:`\tau\ell - \frac12\tau^2 q \ge 0`. C limits the step of each round, but the
dual of the half-problem limits the sum of a sentence's steps. If a sentence is mistaken
in P rounds of a turn, its steps may add up to P C, as in a perceptron. The sum of the
increments is then no lower bound on the half-problem. No multipliers are kept from one
turn to the next; the factor stands for them. Alg. 1 starts from :math:`\alpha = \beta =
\mathbf 1/\|\mathbf 1\|`. The table holds :math:`A = \alpha/a` and :math:`B = \beta/b`,
which both start from 1. The scale :math:`ab` is kept separately.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.data.sequences import Space
from lowrank_jax.decode import best_path
from lowrank_jax.linalg import places
from lowrank_jax.models import bilinear
from lowrank_jax.online import mistakes
from lowrank_jax.types import Learner, Sentence, check_dtype, documented

__all__ = ["Info", "State", "final_params", "learner"]
__dir__ = __all__.copy

PENALTIES = ("product", "sum", "block")


@documented
class State(NamedTuple):
    """What the next round needs, and nothing else.

    Attributes:
      params: A, B, w and the scale a * b.
      sums: Lazy sums over rounds, for averaging.
      pending: Direction of a round; 0 between rounds, (K + 1, 2 S + 1).
      units: a and b, (2,).
      growth: ``||A||^2`` and ``||B||^2`` less their start, (2,).
      num_rounds: Number of rounds, () int32.
    """

    params: bilinear.Params
    sums: bilinear.Params | None
    pending: jax.Array
    units: jax.Array
    growth: jax.Array
    num_rounds: jax.Array


@documented
class Info(NamedTuple):
    """What the proof and the report need of this round.

    Attributes:
      loss: [1 - <W, dPhi>]_+ on a mistake, else 0, ().
      is_mistake: True if the prediction was wrong, () bool.
      num_wrong: Wrong labels, () int32.
      margin: <W, dPhi>, 0-order part included, ().
      step_size: tau, ().
      dual_increment: Gain of the half-problem's dual, zero or more, ().
      factor: 0 in a turn of alpha, 1 in a turn of beta, () int32.
    """

    loss: jax.Array
    is_mistake: jax.Array
    num_wrong: jax.Array
    margin: jax.Array
    step_size: jax.Array
    dual_increment: jax.Array
    factor: jax.Array


def learner(
    *,
    penalty: Literal["product", "sum", "block"] = "product",
    max_step_size: float | jax.Array = 1.0,
    num_rounds_per_block: int = 10_000,
    start: Literal["unit", "ones"] = "unit",
    averaging: Literal["factors", "none"] = "factors",
    dtype: jnp.dtype = jnp.float32,
) -> Learner[State, Info, Sentence]:
    r"""Build the pair ``(init, update)``; both are pure.

    Args:
      penalty: ``"product"``, ``"sum"`` or ``"block"``; see the module.
      max_step_size: :math:`C`, positive. May be traced.
      num_rounds_per_block: Number of rounds on one factor before the other has its
        turn; alpha begins. It should be a multiple of the number of training sentences,
        which the learner does not know. A run of no more rounds than this never moves
        beta. `lowrank-jax train` takes one pass, the number of training sentences.
      start: ``"unit"`` for equal entries and norm 1, as in Alg. 1; ``"ones"`` for
        entries of 1.
      averaging: ``"factors"`` averages each factor over rounds (BOL-X2), ``"none"``
        takes the last iterate.
      dtype: Type of the weights.
    """
    checks.choice(PENALTIES, penalty=penalty)
    checks.positive(max_step_size=max_step_size)
    checks.whole(num_rounds_per_block=num_rounds_per_block)
    checks.choice(("unit", "ones"), start=start)
    checks.choice(("factors", "none"), averaging=averaging)

    def init(key: jax.Array, example: Sentence) -> State:
        check_dtype(dtype)
        del key  # nothing is random
        space = example.space
        if not space.first_order:
            raise checks.InputError(
                "bcd needs first-order features, and the template has none: add `B` "
                "lines, or read it with orders='both'."
            )
        labels = space.num_labels
        params = bilinear.zeros(space, 1, dtype)
        ones = bilinear.join(
            jnp.ones((1, 1, labels), dtype), jnp.ones((1, 1, labels + 1), dtype)
        )
        units = jnp.ones((2,), dtype)
        if start == "unit":
            units = 1 / jnp.sqrt(_sizes(space, dtype))
        return State(
            params=params._replace(
                table=params.table.at[:-1, labels:].set(ones), scale=units.prod()
            ),
            sums=bilinear.zeros(space, 1, dtype) if averaging == "factors" else None,
            pending=jnp.zeros((space.num_features + 1, 2 * labels + 1), dtype),
            units=units,
            growth=jnp.zeros((2,), dtype),
            num_rounds=jnp.zeros((), jnp.int32),
        )

    def update(state: State, example: Sentence) -> tuple[State, Info]:
        scores = bilinear.scores(state.params, example, has_zero_row=True)
        predicted = best_path(scores, example.length).labels
        example, differences = mistakes.compare(example, scores, predicted)
        is_mistake = differences.num_positions > 0
        margin = mistakes.margin(scores, example, differences)
        loss = jnp.where(is_mistake, jax.nn.relu(1 - margin), 0)
        factor = (state.num_rounds // num_rounds_per_block) % 2

        pending, push = _collect(state, example, differences, factor)
        weight = _weight(state, example.space, factor, penalty)
        sizes = _measure(state, pending, example, differences, factor, weight)
        square = sizes.square + (push * push).sum()
        largest = mistakes.weighted(jnp.asarray(max_step_size, dtype), example)
        step = jnp.minimum(largest, loss / jnp.where(is_mistake, square, 1))
        state = _apply(
            state._replace(pending=pending),
            push,
            example,
            differences,
            factor,
            weight,
            step,
        )
        scaled = step / state.params.scale
        growth = 2 * scaled * sizes.inner + scaled * scaled * sizes.energy
        info = Info(
            loss=loss,
            is_mistake=is_mistake,
            num_wrong=differences.num_wrong,
            margin=margin,
            step_size=step,
            dual_increment=step * loss - step * step * square / 2,
            factor=factor,
        )
        state = state._replace(
            growth=state.growth.at[factor].add(growth), num_rounds=state.num_rounds + 1
        )
        return state, info

    return Learner(init, update)


class _Entries(NamedTuple):
    """Entries that one position adds to the direction: 0-order part and factor part."""

    rows: jax.Array  # (n,)  features
    columns: jax.Array  # (n,)  of the table
    places: jax.Array  # (n,)  columns of `pending`
    values: jax.Array  # (n,)
    weights: jax.Array  # (n,)  1 for the 0-order part, else b^2 / rho


def _entries(
    table: jax.Array,
    here: mistakes.Position,
    space: Space,
    factor: jax.Array,
    weight: jax.Array | None,
) -> _Entries:
    labels, dtype = space.num_labels, table.dtype
    is_left = factor == 0
    ids = here.ids[jnp.array(space.first_order, jnp.int32)]
    rows = table.at[ids].get(mode="promise_in_bounds")
    own = jnp.where(is_left, here.labels, here.previous)
    # z = dPhi B for A, dPhi' A for B: signed entries of the other factor.
    other = jnp.where(is_left, 2 * labels + here.previous, labels + here.labels)
    values = rows[:, other] * jnp.array([[1, -1]], dtype)
    if here.values is not None:
        value = here.values[jnp.array(space.first_order, jnp.int32)]
        values = values * value.astype(dtype)[:, None]
    if weight is None:  # the separable penalty: one weight per block
        parts = bilinear.split(rows, labels)
        norms = [(part * part).sum((1, 2)) for part in (parts.left, parts.right)]
        norm = jnp.where(is_left, norms[1], norms[0])
        weight = jnp.where(norm > 0, 1 / jnp.where(norm > 0, norm, 1), 0)
    else:
        weight = jnp.broadcast_to(weight, ids.shape)
    column = own + jnp.where(is_left, labels, 2 * labels)

    def flat(*pair: jax.Array) -> jax.Array:
        return jnp.concatenate([part.ravel() for part in pair])

    shape = values.shape
    zero = mistakes.unary(here, space, dtype)
    return _Entries(
        rows=flat(zero.where[0], jnp.broadcast_to(ids[:, None], shape)),
        columns=flat(zero.where[1], jnp.broadcast_to(column[None], shape)),
        places=flat(zero.where[1], jnp.broadcast_to(labels + own[None], shape)),
        values=flat(zero.delta, values),
        weights=flat(
            jnp.ones_like(zero.delta), jnp.broadcast_to(weight[:, None], shape)
        ),
    )


def _weight(
    state: State, space: Space, factor: jax.Array, penalty: str
) -> jax.Array | None:
    r"""Return :math:`b^2/\rho` in alpha's turn, or :math:`a^2/\rho` in beta's.

    It is None if each block has its own weight, which `_entries` computes.
    """
    other = 1 - factor
    if penalty == "product":
        return 1 / (_sizes(space, state.growth.dtype) + state.growth)[other]
    return state.units[other] ** 2 if penalty == "sum" else None


def _sizes(space: Space, dtype: jnp.dtype) -> jax.Array:
    """Return ||A||^2 and ||B||^2 at the start: the numbers of entries."""
    labels = space.num_labels
    return jnp.array([labels, labels + 1], dtype) * space.num_features


def _collect(
    state: State,
    example: Sentence,
    differences: mistakes.Differences,
    factor: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Return the direction: z and 0-order part by feature, and the transitions."""
    space, table = example.space, state.params.table
    shape = (space.num_labels, space.num_labels + 1)

    def one(n: jax.Array, carry: tuple) -> tuple[jax.Array, jax.Array]:
        pending, push = carry
        here = mistakes.position(example, differences, n)
        # The weights are not used here, so any will do.
        found = _entries(table, here, space, factor, jnp.ones((), table.dtype))
        pending = places.add(pending, (found.rows, found.places), found.values)
        if space.has_transitions:
            pair = mistakes.transitions(here, table.dtype)
            push = push.at[pair.where].add(pair.delta, mode="promise_in_bounds")
        return pending, push

    count, push = differences.num_positions, jnp.zeros(shape, table.dtype)
    return lax.fori_loop(jnp.zeros_like(count), count, one, (state.pending, push))


class _Sizes(NamedTuple):
    """Products of the direction, with z in units of the other factor."""

    square: jax.Array  # ()  q without the transitions
    inner: jax.Array  # ()  <A, weighted z>
    energy: jax.Array  # ()  ||weighted z||^2


def _measure(
    state: State,
    pending: jax.Array,
    example: Sentence,
    differences: mistakes.Differences,
    factor: jax.Array,
    weight: jax.Array | None,
) -> _Sizes:
    """Sum the products of each position's part of the direction with the whole."""
    space, table = example.space, state.params.table
    is_factor = jnp.arange(2 * (len(space.zero_order) + len(space.first_order)))
    is_factor = is_factor >= 2 * len(space.zero_order)

    def one(n: jax.Array, sizes: _Sizes) -> _Sizes:
        here = mistakes.position(example, differences, n)
        found = _entries(table, here, space, factor, weight)
        whole = places.read(pending, (found.rows, found.places))
        old = places.read(table, (found.rows, found.columns))
        weighted = found.weights * found.values
        factors = jnp.where(is_factor, weighted, 0)
        return _Sizes(
            square=sizes.square + (weighted * whole).sum(),
            inner=sizes.inner + (factors * old).sum(),
            energy=sizes.energy + (factors * found.weights * whole).sum(),
        )

    zero, count = jnp.zeros((), table.dtype), differences.num_positions
    start = _Sizes(zero, zero, zero)
    return lax.fori_loop(jnp.zeros_like(count), count, one, start)


def _apply(
    state: State,
    push: jax.Array,
    example: Sentence,
    differences: mistakes.Differences,
    factor: jax.Array,
    weight: jax.Array | None,
    step: jax.Array,
) -> State:
    """Move by ``step`` along the direction and clear `pending`."""
    space, params, sums = example.space, state.params, state.sums
    age = state.num_rounds.astype(step.dtype)

    def one(n: jax.Array, carry: tuple) -> tuple:
        table, total, pending = carry
        here = mistakes.position(example, differences, n)
        # Only one factor moves, and its values come from the other. So this loop reads
        # the same values as the loops before it.
        found = _entries(table, here, space, factor, weight)
        is_unary = jnp.arange(found.rows.shape[0]) < 2 * len(space.zero_order)
        change = found.weights * found.values * jnp.where(is_unary, 1, 1 / params.scale)
        change = step * change
        at = (found.rows, found.columns)
        table = places.add(table, at, change)
        if total is not None:
            total = places.add(total, at, age * change)
        pending = pending.at[here.ids].set(0, mode="promise_in_bounds")
        return table, total, pending

    count = differences.num_positions
    start = (params.table, None if sums is None else sums.table, state.pending)
    table, total, pending = lax.fori_loop(jnp.zeros_like(count), count, one, start)
    transitions = params.transitions
    if transitions is not None:
        transitions = transitions + step * push
    if sums is not None:
        pair_sums = sums.transitions
        if pair_sums is not None:
            pair_sums = pair_sums + age * step * push
        sums = sums._replace(table=total, transitions=pair_sums)
    params = params._replace(table=table, transitions=transitions)
    return state._replace(params=params, sums=sums, pending=pending)


def final_params(state: State) -> bilinear.Params:
    """Return the model to predict with, averaged if the learner averages."""
    if state.sums is None:
        return state.params
    num_rounds = jnp.maximum(state.num_rounds, 1)

    def average(last: jax.Array, total: jax.Array) -> jax.Array:
        return last - total / num_rounds.astype(last.dtype)

    averaged = jax.tree.map(average, state.params, state.sums)
    return averaged._replace(scale=state.params.scale)
