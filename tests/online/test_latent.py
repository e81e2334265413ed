"""Unknown labels, costs of labels and weights of sentences, against enumeration."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import certify, decode, streams
from lowrank_jax.batch import crf
from lowrank_jax.checks import InputError
from lowrank_jax.linalg import mirror
from lowrank_jax.models import linear
from lowrank_jax.online import bcd, bol, mira, mirror_descent, perceptron, touched
from tests import references
from tests.online.test_values import inner, phi, valued


def hidden(sequences, share=0.5, seed=5):
    """Return the task with some labels unknown."""
    is_open = np.random.default_rng(seed).random(len(sequences.labels)) < share
    labels = np.where(is_open, -1, sequences.labels).astype(np.int32)
    return dataclasses.replace(sequences, labels=labels)


def run(learner, sequences, **changes):
    stream = dataclasses.replace(streams.sentences.stream(sequences), **changes)

    @jax.jit
    def one(stream):
        state = learner.init(jax.random.key(0), stream.example(0))
        order = jnp.arange(stream.num_examples, dtype=jnp.int32)
        return jax.lax.scan(
            lambda s, i: learner.update(s, stream.example(i)), state, order
        )

    return one(stream)


def by_feature(state):
    """Return the tables of a linear model, one row per feature."""
    return touched.by_feature(state.params)[:3]


def scores_of(sequences, index, weights):
    """Score each label and pair of a sentence from dense weights."""
    start, end = sequences.offsets[index : index + 2]
    S = sequences.space.num_labels
    unary, pairs = np.zeros((end - start, S)), np.zeros((end - start, S, S + 1))
    for i in range(end - start):
        for t in range(3):
            k, value = sequences.feature_ids[start + i, t], 1.0
            if sequences.values is not None:
                value = sequences.values[start + i, t]
            if k == sequences.space.num_features:
                continue
            if t in sequences.space.zero_order:
                unary[i] += value * weights[0][k]
            if t in sequences.space.first_order:
                pairs[i] += value * weights[1][k]
        pairs[i] += weights[2]
    return unary, pairs


def twin(sequences, cost=None, step=lambda *given: 1.0):
    """Return weights, predictions and losses of rounds by enumeration."""
    S = sequences.space.num_labels
    shapes = linear.zeros(sequences.space, jnp.float64)[:3]
    weights = [np.zeros(part.shape) for part in shapes]
    paths, losses = [], []
    for index in range(sequences.num_sentences):
        start, end = sequences.offsets[index : index + 2]
        gold, number = sequences.labels[start:end], end - start
        unary, pairs = scores_of(sequences, index, weights)
        costs = np.zeros((number, S))
        if cost is not None:
            costs = np.where((gold >= 0)[:, None], cost[np.maximum(gold, 0)], 0)
        found, _ = references.best_path(unary + costs, pairs, number)
        allowed = (gold < 0)[:, None] | (gold[:, None] == np.arange(S))
        true, _ = references.best_path(unary, pairs, number, allowed)
        if ((gold < 0) | (gold == found)).all():
            true = found
        move = [
            a - b
            for a, b in zip(
                phi(sequences, index, true), phi(sequences, index, found), strict=True
            )
        ]
        price = costs[np.arange(number), found].sum() if cost is not None else 1.0
        margin = inner(weights, move)
        size = step(price, margin, inner(move, move))
        is_mistake = (true != found).any()
        losses.append(max(0.0, price - margin) if is_mistake else 0.0)
        weights = [w + size * m for w, m in zip(weights, move, strict=True)]
        paths.append(found)
    return weights, paths, np.array(losses)


COST = np.array([[0, 0.7, 2.0], [0.3, 0, 0.5], [1.5, 0.2, 0]])


@pytest.mark.slow
@pytest.mark.parametrize("cost", [None, COST], ids=["plain", "cost"])
def test_perceptron_goes_towards_the_best_path_that_agrees(cost):
    sequences = hidden(valued(has_transitions=True, shared=True, max_length=5))
    record = ("predicted", "squared_norm")
    learner = perceptron.learner(
        averaging="none", record=record, label_cost=cost, dtype=jnp.float64
    )
    state, trace = run(learner, sequences)
    weights, paths, losses = twin(sequences, cost)
    for predicted, path in zip(np.asarray(trace.predicted), paths, strict=True):
        np.testing.assert_array_equal(predicted[: len(path)], path)
    np.testing.assert_allclose(trace.loss, losses, rtol=1e-10, atol=1e-12)
    for part, expected in zip(by_feature(state), weights, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-10, atol=1e-12)
    assert 3 < int(trace.is_mistake.sum())


def test_mira_restores_the_margin_of_the_cost_of_labels():
    sequences = hidden(valued(has_transitions=True, shared=True, max_length=5), 0.3)
    learner = mira.learner(
        max_step_size=0.2,
        decoding="cost",
        averaging="none",
        label_cost=COST,
        dtype=jnp.float64,
    )
    state, trace = run(learner, sequences)
    weights, _, losses = twin(
        sequences, COST, lambda c, m, q: min(0.2, max(0, c - m) / q) if q else 0
    )
    np.testing.assert_allclose(trace.loss, losses, rtol=1e-9, atol=1e-12)
    for part, expected in zip(by_feature(state), weights, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_costs_of_one_are_the_hamming_cost():
    sequences = valued(shared=True)
    for decoding in ("plain", "cost"):
        found = [
            run(
                mira.learner(decoding=decoding, label_cost=c, dtype=jnp.float64),
                sequences,
            )
            for c in (None, np.ones(3))
        ]
        for one, two in zip(*map(jax.tree.leaves, found), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12)


def test_bol_of_full_rank_is_the_perceptron():
    """With all S ranks and an exact map, BOL-Eq8 is BOL-B2, with latent labels too."""
    sequences = hidden(valued(has_transitions=True, shared=True))
    record = ("predicted",)
    one = perceptron.learner(record=record, label_cost=COST, dtype=jnp.float64)
    two = bol.learner(
        rank=3, num_power_steps=0, record=record, label_cost=COST, dtype=jnp.float64
    )
    (_, trace), (_, other) = run(one, sequences), run(two, sequences)
    np.testing.assert_array_equal(trace.predicted, other.predicted)
    np.testing.assert_array_equal(trace.num_wrong, other.num_wrong)
    np.testing.assert_allclose(trace.loss, other.loss, rtol=1e-7, atol=1e-9)


LEARNERS = {
    "sp": lambda size: perceptron.learner(step_size=size, dtype=jnp.float64),
    "mira": lambda size: mira.learner(max_step_size=size, dtype=jnp.float64),
    "bcd": lambda size: bcd.learner(max_step_size=size, dtype=jnp.float64),
    "bol": lambda size: bol.learner(step_size=size, dtype=jnp.float64),
    "paper": lambda size: bol.learner(
        variant="paper", step_size=size, dtype=jnp.float64
    ),
    "mirror": lambda size: mirror_descent.learner(
        map=mirror.rank_k(1), step_size=size, dtype=jnp.float64
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_weights_multiply_the_step_and_full_labels_are_not_latent(name):
    sequences = valued(shared=True)
    heavy = dataclasses.replace(sequences, weights=np.full(14, 3.0))
    one = run(LEARNERS[name](0.6), sequences)
    two = run(LEARNERS[name](0.2), heavy, is_partial=True)
    models = [s.params for s, _ in (one, two)]
    for a, b in zip(*map(jax.tree.leaves, (models[0], models[1])), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)
    np.testing.assert_array_equal(one[1].num_wrong, two[1].num_wrong)


def likelihood(sequences, params):
    """Return the weighted sum of log Z - log Z(known) by enumeration."""
    weights = [np.array(part) for part in params[:3]]
    total = 0.0
    for index in range(sequences.num_sentences):
        start, end = sequences.offsets[index : index + 2]
        gold = sequences.labels[start:end]
        unary, pairs = scores_of(sequences, index, weights)
        allowed = (gold < 0)[:, None] | (gold[:, None] == np.arange(3))
        part = references.log_partition(unary, pairs, end - start)
        part -= references.log_partition(unary, pairs, end - start, allowed)
        total += part * (1 if sequences.weights is None else sequences.weights[index])
    return total


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.5, 80.0], ids=["scaled", "logarithms"])
@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("share", [0.5, 0.0])
def test_the_crf_sums_over_the_paths_that_agree(size, is_shared, share):
    task = valued(has_transitions=True, shared=True, max_length=5, num_sentences=6)
    if is_shared:
        space = dataclasses.replace(task.space, orders=("0", "0", "0"))
        task = dataclasses.replace(task, space=space)
    rng = np.random.default_rng(2)
    task = dataclasses.replace(hidden(task, share), weights=rng.uniform(0, 2, 6))
    lanes = streams.lanes.lanes(task, num_lanes=3)
    assert lanes.is_partial == (share > 0)

    def draw():
        zeros = linear.zeros(task.space, jnp.float64)
        found = jax.tree.map(lambda w: jnp.asarray(rng.normal(size=w.shape)), zeros)
        names = [n for n in ("zero", "first") if getattr(found, n) is not None]
        return found._replace(**{n: getattr(found, n).at[-1].set(0) for n in names})

    params, way = jax.tree.map(lambda w: size * w, draw()), draw()
    loss, gradient = crf.negative_log_likelihood(params, lanes)
    given = (
        params
        if params.first is not None
        else params._replace(first=np.zeros((13, 3, 4)))
    )
    np.testing.assert_allclose(loss, likelihood(task, given), rtol=1e-8, atol=1e-8)

    def at(far):
        moved = jax.tree.map(lambda w, d: w + far * d, params, way)
        return crf.negative_log_likelihood(moved, lanes)[0]

    slope = (at(1e-5) - at(-1e-5)) / 2e-5
    expected = inner(jax.tree.leaves(gradient), jax.tree.leaves(way))
    np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-5)


def test_what_does_not_fit_is_one_sentence():
    task = valued()
    learner = perceptron.learner(record=("predicted",), dtype=jnp.float64)
    order = np.arange(14)
    for given, what in (
        (hidden(task), "unknown labels"),
        (dataclasses.replace(task, weights=np.ones(14)), "weights of sentences"),
    ):
        state, trace = run(learner, given)
        with pytest.raises(InputError, match=f"without {what}"):
            certify.regret(state, trace, given, state.params, order=order)
    with pytest.raises(InputError, match="All .* unknown label"):
        streams.sentences.stream(hidden(task, 1.1)).check()
    with pytest.raises(InputError, match="no token has a known one"):
        streams.lanes.lanes(hidden(task, 1.1))
    with pytest.raises(InputError, match="-1.0 at sentence 2"):
        weights = np.where(np.arange(14) == 2, -1.0, 1.0)
        streams.sentences.stream(dataclasses.replace(task, weights=weights))
    with pytest.raises(InputError, match="`label_cost` must hold finite"):
        decode.cost_table(-np.ones(3), 3)
    with pytest.raises(InputError, match="`label_cost` needs `cost='hamming'`"):
        mira.learner(cost="one", label_cost=np.ones(3))
