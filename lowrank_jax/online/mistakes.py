r"""Positions where a prediction differs from the truth, and the step there.

:math:`\Delta\Phi = \Phi(x, y) - \Phi(x, \bar y)` (BOL-Eq7) is zero except at the
positions where the pair (current, previous label) differs. One wrong label makes at
most two of them. A learner loops over those positions only, and not at all after a
right prediction. So the large tables are never part of a conditional, which would copy
them.

`add` adds :math:`C\,\Delta\Phi` to weights, one position at a time, and returns the
numbers that the certificate needs. Adding :math:`\delta_i` of position :math:`i` to
:math:`\Theta` changes :math:`\frac12\|\Theta\|^2` by
:math:`C\langle\Theta, \delta_i\rangle + \frac12 C^2\|\delta_i\|^2`. Here :math:`\Theta`
is the dual after the earlier positions. These are two small sums over entries that are
read in any case.
"""

import dataclasses
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Space
from lowrank_jax.decode import LowRankScores, Scores, allow_labels, best_path
from lowrank_jax.linalg import places
from lowrank_jax.linalg.forms import by_platform
from lowrank_jax.types import Sentence

__all__ = [
    "Differences",
    "Entries",
    "Position",
    "add",
    "compare",
    "entries",
    "find",
    "margin",
    "marked",
    "num_repeats",
    "pairs",
    "position",
    "predict",
    "price",
    "refuse_cost",
    "score_gap",
    "squared_norm",
    "transitions",
    "unary",
    "weighted",
    "with_cost",
]
__dir__ = __all__.copy


Sought = TypeVar("Sought", bound=Scores | LowRankScores)


class Differences(NamedTuple):
    """Positions where the label pairs differ, in ascending order."""

    positions: jax.Array  # (window,) int32; only the first `num_positions` count
    num_positions: jax.Array  # () int32
    num_wrong: jax.Array  # () int32  number of labels that differ
    labels: jax.Array  # (2, window) int32: true and predicted
    previous: jax.Array  # (2, window) int32: labels before them; S at the start
    rows: jax.Array | None = None  # (K + 1,) row of each feature; None: its id


class Position(NamedTuple):
    """One position: its features, its true and its predicted pair of labels."""

    ids: jax.Array  # (num_templates,) features, or rows of tables with an index
    labels: jax.Array  # (2,) int32: true, predicted
    previous: jax.Array  # (2,) int32
    place: jax.Array  # () int32, the position in the sentence
    values: jax.Array | None = None  # (num_templates,) of the features; None: 1 each


def compare(
    sentence: Sentence, scores: Scores | LowRankScores, predicted: jax.Array
) -> tuple[Sentence, Differences]:
    """Return the sentence with all labels known, and where the prediction differs.

    Unknown labels (-1) become the labels of the best path that agrees with the known
    labels. A prediction that agrees with them is right: then it is that path, whatever
    other paths have the same score. Only known labels count as wrong.

    Args:
      sentence: Sentence of the round.
      scores: Scores of the model, without costs.
      predicted: (window,) predicted labels.
    """
    if not sentence.is_partial:
        return sentence, find(sentence, predicted)
    given = sentence.labels
    is_known = given >= 0
    allowed = allow_labels(given, sentence.space.num_labels)
    best = best_path(scores, sentence.length, allowed=allowed).labels
    is_inside = jnp.arange(given.shape[0], dtype=jnp.int32) < sentence.length
    is_wrong = is_known & is_inside & (given != predicted)
    labels = jnp.where(is_wrong.any(), best, predicted)
    sentence = dataclasses.replace(sentence, labels=labels.astype(given.dtype))
    found = find(sentence, predicted)
    return sentence, found._replace(num_wrong=is_wrong.sum(dtype=jnp.int32))


def with_cost(
    sentence: Sentence, scores: Sought, cost: jax.typing.ArrayLike | None
) -> tuple[Sought, jax.Array | None]:
    """Return the scores plus the cost of each label, and those costs.

    Args:
      sentence: Sentence of the round; unknown labels cost nothing.
      scores: Scores of the model.
      cost: Cost for `decode.cost_table`, or None for the scores alone.
    """
    if cost is None:
        return scores, None
    from lowrank_jax.decode import cost_table, label_costs  # a run with costs alone

    table = cost_table(cost, sentence.space.num_labels)
    costs = label_costs(sentence.labels, jnp.asarray(table, scores.unary.dtype))
    return scores._replace(unary=scores.unary + costs), costs  # type: ignore[return-value]


def predict(
    sentence: Sentence,
    scores: Scores | LowRankScores,
    cost: jax.typing.ArrayLike | None = None,
) -> tuple[Sentence, jax.Array, Differences, jax.Array]:
    """Predict a sentence, and compare the prediction with what is known of it.

    Args:
      sentence: Sentence of the round.
      scores: Scores of the model.
      cost: Costs of labels, added to the scores, or None.

    Returns:
      The sentence with all labels known, the predicted labels, the differences, and the
      cost of the predicted labels, which is 1 if there are no costs.
    """
    sought, costs = with_cost(sentence, scores, cost)
    predicted = best_path(sought, sentence.length).labels
    sentence, differences = compare(sentence, scores, predicted)
    paid = price(costs, predicted, sentence, scores.unary.dtype)
    return sentence, predicted, differences, paid


def refuse_cost(cost: jax.typing.ArrayLike | None) -> None:
    """Raise `InputError` if wide rounds are asked for with costs of labels."""
    if cost is not None:
        raise InputError(
            "`label_cost` is for rounds of one sentence; leave out `batch_size` and "
            "`num_devices`, or the costs."
        )


def price(
    costs: jax.Array | None,
    predicted: jax.Array,
    sentence: Sentence,
    dtype: jnp.dtype,
) -> jax.Array:
    """Return the cost c_t of the predicted path: 1 if there are no costs."""
    if costs is None:
        return jnp.ones((), dtype)
    from lowrank_jax.decode import path_cost

    return path_cost(costs, predicted, sentence.length)


def weighted(step: jax.Array, sentence: Sentence) -> jax.Array:
    """Return a step times the weight of the sentence."""
    return (
        step if sentence.weight is None else step * sentence.weight.astype(step.dtype)
    )


def find(sentence: Sentence, predicted: jax.Array) -> Differences:
    """Compare the predicted labels (window,) with the labels of the sentence."""
    window = sentence.labels.shape[0]
    labels = jnp.stack([sentence.labels, predicted])
    start = jnp.full((2, 1), sentence.space.num_labels, labels.dtype)
    previous = jnp.concatenate([start, labels[:, :-1]], axis=1)
    is_inside = jnp.arange(window, dtype=jnp.int32) < sentence.length
    is_wrong = (labels[0] != labels[1]) & is_inside
    differs = is_wrong | ((previous[0] != previous[1]) & is_inside)
    positions, count = marked(differs)
    return Differences(
        positions=positions,
        num_positions=count,
        num_wrong=is_wrong.sum(dtype=jnp.int32),
        labels=labels,
        previous=previous,
    )


def marked(is_marked: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return where the marks are in ascending order, then zeros; and their number."""
    count = is_marked.sum(dtype=jnp.int32)
    found = by_platform(is_marked, count, cpu=_one_by_one, gpu=_at_once, tpu=_at_once)
    return found, count


def _one_by_one(is_marked: jax.Array, count: jax.Array) -> jax.Array:
    """Return the places of the marks.

    Most sentences have no mark or few, and two running sums of a window take as long as
    its scores.
    """
    index = jnp.arange(is_marked.shape[0], dtype=jnp.int32)

    def one(n: jax.Array, carry: tuple) -> tuple[jax.Array, jax.Array]:
        places, last = carry
        is_next = is_marked & (index > last)
        last = jnp.where(is_next, index, index.shape[0]).min()
        return places.at[n].set(last), last

    start = jnp.zeros_like(index), jnp.full_like(count, -1)
    return lax.fori_loop(jnp.zeros_like(count), count, one, start)[0]


def _at_once(is_marked: jax.Array, count: jax.Array) -> jax.Array:
    """Return what `_one_by_one` returns, without a loop."""
    del count
    (places,) = jnp.nonzero(is_marked, size=is_marked.shape[0], fill_value=0)
    return places.astype(jnp.int32)


def position(sentence: Sentence, differences: Differences, n: jax.Array) -> Position:
    """Return the n-th position where the label pairs differ."""
    i = differences.positions[n]
    ids = sentence.feature_ids[i]
    if differences.rows is not None:
        ids = differences.rows.at[ids].get(mode="promise_in_bounds")
    return Position(
        ids=ids,
        labels=differences.labels[:, i],
        previous=differences.previous[:, i],
        place=i,
        values=None if sentence.values is None else sentence.values[i],
    )


def score_gap(scores: Scores | LowRankScores, here: Position) -> jax.Array:
    """Return score(true pair) - score(predicted pair) at this position."""
    unary = scores.unary[here.place, here.labels]
    if isinstance(scores, LowRankScores):
        pairs = scores.pairs(here.place, here.labels, here.previous)
    elif scores.pairwise.ndim == 2:
        pairs = scores.pairwise[here.labels, here.previous]
    else:
        pairs = scores.pairwise[here.place, here.labels, here.previous]
    return (unary[0] - unary[1]) + (pairs[0] - pairs[1])


def margin(scores: Scores, sentence: Sentence, differences: Differences) -> jax.Array:
    r"""Return :math:`\langle W, \Delta\Phi\rangle` from the scores of W."""

    def one(n: jax.Array, total: jax.Array) -> jax.Array:
        return total + score_gap(scores, position(sentence, differences, n))

    count, zero = differences.num_positions, jnp.zeros((), scores.unary.dtype)
    return lax.fori_loop(jnp.zeros_like(count), count, one, zero)


def squared_norm(
    sentence: Sentence, differences: Differences, *, has_blocks: bool = True
) -> jax.Array:
    r"""Return :math:`\|\Delta\Phi\|^2` as an exact int32; of values as a float.

    The inner product of two positions is the number of features they share times the
    inner product of their label differences, a sum of four comparisons. The sum over
    all pairs of positions is the squared norm, even if features repeat in the sentence.
    With values, a shared feature counts the product of its two values.

    Args:
      sentence: Sentence of the round.
      differences: Positions where the label pairs of the sentence differ.
      has_blocks: If false, first-order features are left out.
    """
    space = sentence.space
    window = sentence.labels.shape[0]
    is_inside = jnp.arange(window, dtype=jnp.int32) < sentence.length
    (true, guess), (true_before, guess_before) = (
        differences.labels,
        differences.previous,
    )

    values = sentence.values
    dtype = jnp.int32 if values is None else values.dtype

    def num_shared(here: Position, columns: tuple[int, ...]) -> jax.Array:
        at = jnp.array(columns, jnp.int32)
        mine, theirs = here.ids[at], sentence.feature_ids[:, at]
        same = mine[None, :, None] == theirs[:, None, :]
        same = same & (mine < space.num_features)[None, :, None]
        if values is not None and here.values is not None:
            product = here.values[at][None, :, None] * values[:, at][:, None, :]
            return jnp.where(same, product, 0).sum(axis=(1, 2))
        return same.sum(axis=(1, 2), dtype=jnp.int32)

    def pair(label: jax.Array, before: jax.Array) -> jax.Array:
        return label * (space.num_labels + 1) + before

    def one(n: jax.Array, total: jax.Array) -> jax.Array:
        here = position(sentence, differences, n)
        unary = _inner(here.labels, true, guess).astype(dtype)
        pairs = _inner(
            pair(here.labels, here.previous),
            pair(true, true_before),
            pair(guess, guess_before),
        ).astype(dtype)
        products = jnp.zeros((window,), dtype)
        if space.zero_order:
            products = products + unary * num_shared(here, space.zero_order)
        if space.first_order and has_blocks:
            products = products + pairs * num_shared(here, space.first_order)
        if space.has_transitions:
            products = products + pairs
        return total + jnp.where(is_inside, products, 0).sum(dtype=dtype)

    count = differences.num_positions
    return lax.fori_loop(jnp.zeros_like(count), count, one, jnp.zeros((), dtype))


def _inner(one: jax.Array, c: jax.Array, d: jax.Array) -> jax.Array:
    """Return the inner products of e_a - e_b, (a, b) = one, with each e_c - e_d."""
    a, b = one[0], one[1]
    agree = (a == c).astype(jnp.int32) + (b == d).astype(jnp.int32)
    return agree - (a == d).astype(jnp.int32) - (b == c).astype(jnp.int32)


class Entries(NamedTuple):
    """Entries of one weight table that the difference at a position touches."""

    where: tuple[jax.Array, ...]  # one (n,) int32 per axis of the table
    delta: jax.Array  # (n,)  value for the true label, -value for the predicted one
    square: jax.Array  # ()  squared norm of the difference


def unary(here: Position, space: Space, dtype: jnp.dtype) -> Entries:
    """Return the entries of the 0-order weights (K + 1, S)."""
    ids, delta, repeats = _features(here, space, space.zero_order, dtype)
    labels = jnp.repeat(here.labels, len(space.zero_order))
    square = jnp.where(here.labels[0] == here.labels[1], 0, 2 * repeats)
    return Entries((ids, labels), delta, square)


def pairs(here: Position, space: Space, dtype: jnp.dtype) -> Entries:
    """Return the entries of the first-order weights (K + 1, S, S + 1)."""
    each = len(space.first_order)
    ids, delta, repeats = _features(here, space, space.first_order, dtype)
    index = (ids, jnp.repeat(here.labels, each), jnp.repeat(here.previous, each))
    return Entries(index, delta, 2 * repeats)


def transitions(here: Position, dtype: jnp.dtype) -> Entries:
    """Return the entries of the label transitions (S, S + 1)."""
    delta = jnp.array([1, -1], dtype)
    return Entries((here.labels, here.previous), delta, jnp.array(2, dtype))


def entries(here: Position, space: Space, dtype: jnp.dtype) -> dict[str, Entries]:
    """Return the touched entries of each table that the feature space asks for.

    The names are the fields of `models.linear.Params`.
    """
    found = {}
    if space.zero_order:
        found["zero"] = unary(here, space, dtype)
    if space.first_order:
        found["first"] = pairs(here, space, dtype)
    if space.has_transitions:
        found["transitions"] = transitions(here, dtype)
    return found


def add(
    table: jax.Array,
    total: jax.Array | None,
    entries: Entries,
    step: jax.Array,
    weight: jax.Array,
) -> tuple[jax.Array, jax.Array | None, jax.Array]:
    r"""Add ``step * delta`` to `table` and ``weight * delta`` to the lazy `total`.

    Returns:
      The new table, the new total (None stays None) and the growth of
      :math:`\frac12\|\text{table}\|^2`.
    """
    inner = (places.read(table, entries.where) * entries.delta).sum()
    # The values written must depend on the values read. Otherwise the compiler may
    # reorder the two, and to be free to do so it copies the whole table each time.
    delta = jnp.where(jnp.isnan(inner), inner, entries.delta)
    growth = step * inner + step * step * entries.square / 2
    table = places.add(table, entries.where, step * delta)
    if total is not None:
        total = places.add(total, entries.where, weight * delta)
    return table, total, growth


def num_repeats(
    ids: jax.Array, num_features: int, values: jax.Array | None = None
) -> jax.Array:
    """Count the ordered pairs of equal features in a row of ids, self-pairs too.

    With values, a pair counts the product of its values.
    """
    same = (ids[:, None] == ids[None, :]) & (ids < num_features)[:, None]
    if values is None:
        return same.sum(dtype=jnp.int32)
    return jnp.where(same, values[:, None] * values[None, :], 0).sum()


def _features(
    here: Position, space: Space, columns: tuple[int, ...], dtype: jnp.dtype
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the ids twice, their signed values (0 if no feature), and the repeats."""
    at = jnp.array(columns, jnp.int32)
    ids, values = here.ids[at], None
    value = (ids < space.num_features).astype(dtype)
    if here.values is not None:
        values = here.values[at].astype(dtype)
        value = value * values
    delta = jnp.concatenate([value, -value])
    repeats = num_repeats(ids, space.num_features, values).astype(dtype)
    return jnp.tile(ids, 2), delta, repeats
