r"""Score the candidates of a list, and walk over the difference of two of them.

Scoring weighs each distinct feature of a list once, in a loop up to their true number,
and reads the weights of entries from there. The loops over entries take a few rows at a
time, up to the true number of rows: a round costs what the list has of features and
entries, whatever the corpus and the number of all features.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax.linalg.gather import read
from lowrank_jax.streams.lists import FEATURES, ROWS, Candidates

__all__ = [
    "Pair",
    "best",
    "choose",
    "fold_difference",
    "linear_scores",
    "margin_of",
    "scores",
]
__dir__ = __all__.copy

_PAIR_ROWS = 8  # rows of a difference at a time: most candidates have few entries
Carry = TypeVar("Carry")
Params = TypeVar("Params")


class Pair(NamedTuple):
    """The two candidates of a round."""

    oracle: jax.Array  # () int32  y_t
    predicted: jax.Array  # () int32  z_t
    is_mistake: jax.Array  # () bool  y_t differs from z_t
    cost: jax.Array  # ()  rho(y_t, z_t), 0 without a mistake
    margin: jax.Array  # ()  score of y_t minus score of z_t


def scores(
    weights: Callable[[Params, jax.Array], jax.Array],
    params: Params,
    example: Candidates,
    dtype: jnp.dtype,
) -> jax.Array:
    """Return the score of each candidate; -inf where there is none.

    Differentiable with respect to `params` and `example.values`.

    Args:
      weights: Function from params and ids (FEATURES,), in 0..V, to the weights of the
        ids, the same shape. What it gives for id V does not matter. It must not hold
        traced values.
      params: Parameters of the model, a pytree of real arrays.
      example: Candidate list.
      dtype: Type of the scores.

    Returns:
      (max_candidates,).
    """
    total = _totals(weights, jnp.dtype(dtype), params, example)
    return jnp.where(_is_there(example), total, -jnp.inf)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _totals(
    weights: Callable[[Params, jax.Array], jax.Array],
    dtype: jnp.dtype,
    params: Params,
    example: Candidates,
) -> jax.Array:
    """Return the score of each candidate, 0 where there is none."""
    max_candidates = example.quality.shape[0]
    first = example.row_offsets[0]
    end = example.row_offsets[example.num_candidates]
    num_steps = (end - first + (ROWS - 1)) // ROWS
    table = _feature_weights(functools.partial(weights, params), example, dtype)

    def step(j: jax.Array, total: jax.Array) -> jax.Array:
        row = first + j * ROWS
        places, values, owner = _rows(example, row, ROWS, dtype)
        sums = (read(table, places) * values).sum(axis=1)
        # Rows beyond the list belong to the next one: they are sent out of bounds.
        is_inside = row + jnp.arange(ROWS, dtype=jnp.int32) < end
        owner = jnp.where(is_inside, owner, max_candidates)
        return total.at[owner].add(sums, mode="drop")

    zeros = jnp.zeros((max_candidates,), dtype)
    return lax.fori_loop(jnp.zeros_like(num_steps), num_steps, step, zeros)


@_totals.defjvp
def _totals_jvp(
    weights: Callable[[Params, jax.Array], jax.Array],
    dtype: jnp.dtype,
    primals: Any,
    tangents: Any,
) -> tuple[jax.Array, jax.Array]:
    """Differentiate all rows at once: a loop to a traced end has no transpose."""
    params, example = primals
    max_candidates = example.quality.shape[0]
    start, stop = example.feature_bounds
    place = start + jnp.arange(example.max_distinct, dtype=jnp.int32)
    ids = example.features.at[place].get(mode="clip")
    is_feature = (place > start) & (place < stop)  # the first is V: it weighs 0
    row = example.row_offsets[0] + jnp.arange(example.max_rows, dtype=jnp.int32)
    is_inside = row < example.row_offsets[example.num_candidates]
    owner = example.owner.at[row].get(mode="clip")
    owner = jnp.where(is_inside, owner, max_candidates)
    places = example.places.at[row].get(mode="clip")

    def whole(params: Params, values: jax.Array) -> jax.Array:
        values = values.at[row].get(mode="clip").astype(dtype)
        table = jnp.where(is_feature, weights(params, ids), 0)
        sums = (table.at[places].get(mode="clip") * values).sum(axis=1)
        return jnp.zeros((max_candidates,), dtype).at[owner].add(sums, mode="drop")

    given = (params, example.values), (tangents[0], tangents[1].values)
    _, moved = jax.jvp(whole, *given)
    return _totals(weights, dtype, params, example), moved


def linear_scores(
    weights: jax.Array, example: Candidates, dtype: jnp.dtype | None = None
) -> jax.Array:
    """Return `scores` of a linear model, a table of weights (V + 1,)."""
    dtype = weights.dtype if dtype is None else dtype
    return scores(
        lambda weights, ids: read(weights, ids).astype(dtype), weights, example, dtype
    )


def best(found: jax.Array) -> jax.Array:
    """Return the candidate of the highest score, the first of ties: () int32."""
    return jnp.argmax(found).astype(jnp.int32)


def choose(
    example: Candidates,
    found: jax.Array,
    cost: str,
    oracle: str,
    decoding: str = "plain",
    num_best: int = 1,
) -> tuple[Pair, ...]:
    r"""Pick :math:`y_t` (highest quality) and :math:`z_t` (highest score).

    Args:
      example: Candidate list with known quality.
      found: Scores of the list.
      cost: ``"quality"`` for :math:`\rho` = difference of quality, ``"one"`` for 1.
      oracle: Rule for which of several candidates of the highest quality is
        :math:`y_t`: the ``"first"``, or the one of the highest score now
        (``"nearest"``).
      decoding: ``"plain"``: :math:`z_t` has the highest score (TM-Alg2); ``"cost"``:
        the highest sum of score and :math:`\rho(y_t, z)`, so that :math:`z_t` is the
        candidate whose margin is violated most.
      num_best: Pairs to return: :math:`y_t` with each of the best candidates, the best
        first. Where there is no further candidate nothing is a mistake.
    """
    is_there = _is_there(example)
    quality = jnp.where(is_there, example.quality.astype(found.dtype), -1)
    top = best(quality)
    if oracle == "nearest":
        top = best(jnp.where(quality == quality[top], found, -jnp.inf))
    prices = jnp.ones_like(found)
    if cost == "quality":
        prices = quality[top] - quality
    prices = prices.at[top].set(0)
    ranked = found + prices if decoding == "cost" else found
    pairs = []
    for _ in range(num_best):
        picked = best(ranked)
        is_mistake = (top != picked) & jnp.isfinite(ranked[picked])
        pairs.append(
            Pair(
                oracle=top,
                predicted=picked,
                is_mistake=is_mistake,
                cost=jnp.where(is_mistake, prices[picked], 0),
                margin=jnp.where(is_mistake, found[top] - found[picked], 0),
            )
        )
        ranked = ranked.at[picked].set(-jnp.inf)
    return tuple(pairs)


def margin_of(
    weights: Callable[[jax.Array], jax.Array],
    example: Candidates,
    pair: Pair,
    dtype: jnp.dtype,
) -> jax.Array:
    """Return the margin of a pair by other weights than those it was chosen by.

    Args:
      weights: Function from ids (rows, width), in 0..V, to their weights.
      example: Candidate list.
      pair: Pair from `choose`; without a mistake the margin is 0.
      dtype: Type of the margin.
    """

    def body(ids: jax.Array, deltas: jax.Array, total: jax.Array) -> jax.Array:
        return total + (weights(ids) * deltas).sum()

    return fold_difference(body, jnp.zeros((), dtype), example, pair, dtype)


def fold_difference(
    body: Callable[[jax.Array, jax.Array, Carry], Carry],
    carry: Carry,
    example: Candidates,
    pair: Pair,
    dtype: jnp.dtype,
) -> Carry:
    r"""Fold over the entries of :math:`\phi(y_t) - \phi(z_t)`, some rows at a time.

    A feature of both comes twice, once with each sign. Without a mistake nothing runs.

    Args:
      body: ``(ids, deltas, carry) -> carry`` with ids and deltas (rows, width); where
        there is no entry the id is anything in 0..V and the delta is 0.
      carry: Value to start from.
      example: Candidate list.
      pair: Pair from `choose`.
      dtype: Type of the deltas.
    """
    offsets, start = example.row_offsets, example.feature_bounds[0]
    first = jnp.stack([offsets[pair.oracle], offsets[pair.predicted]])
    last = jnp.stack([offsets[pair.oracle + 1], offsets[pair.predicted + 1]])
    num_steps = (last - first + (_PAIR_ROWS - 1)) // _PAIR_ROWS
    num_steps = jnp.where(pair.is_mistake, num_steps, 0)
    sign = jnp.array([1, -1], dtype)

    def step(j: jax.Array, carry: Carry) -> Carry:
        side = (j >= num_steps[0]).astype(jnp.int32)
        row = first[side] + (j - side * num_steps[0]) * _PAIR_ROWS
        places, values, _ = _rows(example, row, _PAIR_ROWS, dtype)
        # Rows beyond the list have places in another: what is read there is some id.
        ids = read(example.features, start + places.astype(jnp.int32))
        is_inside = row + jnp.arange(_PAIR_ROWS, dtype=jnp.int32) < last[side]
        return body(ids, jnp.where(is_inside[:, None], sign[side] * values, 0), carry)

    total = num_steps.sum(dtype=jnp.int32)
    return lax.fori_loop(jnp.zeros_like(total), total, step, carry)


def _is_there(example: Candidates) -> jax.Array:
    positions = jnp.arange(example.quality.shape[0], dtype=jnp.int32)
    return positions < example.num_candidates


def _feature_weights(
    weights: Callable[[jax.Array], jax.Array], example: Candidates, dtype: jnp.dtype
) -> jax.Array:
    """Return the weights of the list's features, in their order; of the first, V, 0."""
    first, end = example.feature_bounds
    num_steps = (end - first + (FEATURES - 1)) // FEATURES

    def step(j: jax.Array, table: jax.Array) -> jax.Array:
        begin = j * FEATURES
        ids = lax.dynamic_slice_in_dim(example.features, first + begin, FEATURES)
        return lax.dynamic_update_slice_in_dim(table, weights(ids), begin, axis=0)

    most = -(-example.max_distinct // FEATURES) * FEATURES
    zeros = jnp.zeros((most,), dtype)
    table = lax.fori_loop(jnp.zeros_like(num_steps), num_steps, step, zeros)
    return table.at[0].set(0)


def _rows(
    example: Candidates, first: jax.Array, size: int, dtype: jnp.dtype
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Places, values and owners of some rows."""
    places = lax.dynamic_slice_in_dim(example.places, first, size)
    values = lax.dynamic_slice_in_dim(example.values, first, size).astype(dtype)
    owner = lax.dynamic_slice_in_dim(example.owner, first, size)
    return places, values, owner
