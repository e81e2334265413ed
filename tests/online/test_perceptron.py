"""Structured perceptron and MIRA against plain NumPy loops (BOL-B2, PA-I)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import loops, streams
from lowrank_jax.data.sequences import Sequences, Space
from lowrank_jax.online import mira, mistakes, perceptron, touched
from tests.online import twins
from tests.online.tasks import random_task

SPACES = {
    "zero order and transitions": (("0", "0", "0"), True, False),
    "first order": (("1", "1"), False, False),
    "both orders, mixed": (("01", "0", "1"), True, False),
    "columns share features": (("01", "01", "0"), True, True),
}


def in_order(learner, sequences, num_passes):
    corpus = streams.sentences.stream(sequences)
    state = learner.init(jax.random.key(0), corpus.example(0))
    order = jnp.tile(jnp.arange(sequences.num_sentences, dtype=jnp.int32), num_passes)
    return jax.jit(lambda *given: loops.run(learner, *given))(state, corpus, order)


def weights_of(params, space):
    full = twins.empty(space)
    params = touched.by_feature(params, space.num_labels)
    parts = [params.zero, params.first, params.transitions]
    cut = [slice(-1), slice(-1), slice(None)]
    return twins.Weights(
        *(
            none if part is None else np.asarray(part)[rows]
            for none, part, rows in zip(full, parts, cut, strict=True)
        )
    )


def assert_same_weights(params, expected, space, rtol=1e-10):
    params = touched.by_feature(params, space.num_labels)
    for ours, theirs in zip(weights_of(params, space), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol)
    for part in (params.zero, params.first):
        if part is not None:  # "not a feature" stays zero
            assert not np.asarray(part)[-1].any()


def test_the_step_of_mira_for_no_feature_and_for_a_small_value():
    """Label 1 against label 0: |delta|^2 is 0, then twice 0.5^2; the loss is 1."""
    ids, values = np.array([[1], [0]], np.int32), np.array([[0.0], [0.5]])
    labels, offsets = np.ones(2, np.int32), np.arange(3, dtype=np.int32)
    sequences = Sequences(ids, labels, offsets, Space(1, 2, ("0",)), values)
    _, trace = in_order(
        mira.learner(max_step_size=10.0, dtype=jnp.float64), sequences, 1
    )
    np.testing.assert_array_equal(trace.step_size, [1.0, 1 / 0.5])


@pytest.mark.parametrize("name", SPACES)
def test_perceptron_equals_plain_loops(name):
    orders, has_transitions, shared = SPACES[name]
    sequences = random_task(orders, has_transitions=has_transitions, shared=shared)
    learner = perceptron.learner(step_size=0.75, dtype=jnp.float64)
    state, trace = in_order(learner, sequences, 3)
    last, mean, rounds = twins.perceptron(sequences, 3, 0.75)
    assert sum(one.is_mistake for one in rounds) > 10
    assert_same_weights(state.params, last, sequences.space)
    assert_same_weights(perceptron.final_params(state), mean, sequences.space)
    expected = twins.Round(*zip(*rounds, strict=True))
    np.testing.assert_array_equal(trace.is_mistake, expected.is_mistake)
    np.testing.assert_allclose(trace.loss, expected.loss, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(trace.margin, expected.margin, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(trace.conjugate, expected.conjugate, rtol=1e-10)
    # BOL-N5 and DR-B4 from their definitions.
    growth, margin = np.array(expected.growth), np.array(expected.margin)
    gain = 0.75 * np.array(expected.is_mistake)
    np.testing.assert_allclose(trace.dual_increment, gain - growth, atol=1e-9)
    np.testing.assert_allclose(trace.bregman, growth - 0.75 * margin, atol=1e-9)
    assert (trace.margin <= 1e-12).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", SPACES)
def test_squared_norm_counts_every_repeat(name):
    orders, has_transitions, shared = SPACES[name]
    sequences = random_task(orders, has_transitions=has_transitions, shared=shared)
    corpus = streams.sentences.stream(sequences)
    rng = np.random.default_rng(3)
    for i, (ids, labels) in enumerate(twins.sentences(sequences)):
        guess = rng.integers(0, sequences.space.num_labels, len(labels))
        sentence = corpus.example(i)
        padded = np.zeros(corpus.window, np.int32)
        padded[: len(guess)] = guess
        found = mistakes.find(sentence, jnp.asarray(padded))
        delta = twins.combine(
            twins.features(sequences.space, ids, labels),
            twins.features(sequences.space, ids, guess),
            -1,
        )
        norm = mistakes.squared_norm(sentence, found)
        assert int(norm) == round(twins.dot(delta, delta))
        assert int(found.num_wrong) == (guess != labels).sum()


def test_squared_norm_without_blocks_leaves_them_out():
    sequences = random_task(("01", "0", "1"), has_transitions=True, shared=True)
    space, (ids, labels) = sequences.space, next(iter(twins.sentences(sequences)))
    sentence = streams.sentences.stream(sequences).example(0)

    @jax.jit
    def norm(sentence):
        found = mistakes.find(sentence, jnp.zeros_like(sentence.labels))
        return mistakes.squared_norm(sentence, found, has_blocks=False)

    one, two = (twins.features(space, ids, part) for part in (labels, 0 * labels))
    delta = twins.combine(one, two, -1)
    assert delta.first.any()
    delta = delta._replace(first=0 * delta.first)
    assert int(norm(sentence)) == round(twins.dot(delta, delta)) > 0


@pytest.mark.parametrize(("largest", "cost"), [(0.05, "hamming"), (10.0, "one")])
@pytest.mark.parametrize("name", SPACES)
def test_mira_equals_plain_loops(name, largest, cost):
    orders, has_transitions, shared = SPACES[name]
    sequences = random_task(orders, has_transitions=has_transitions, shared=shared)
    learner = mira.learner(max_step_size=largest, cost=cost, dtype=jnp.float64)
    state, trace = in_order(learner, sequences, 2)
    last, mean, rounds = twins.mira(sequences, 2, largest, cost == "one")
    costs, margins, steps = (np.array(part) for part in zip(*rounds, strict=True))
    assert (steps == largest).any() == (largest < 1)
    np.testing.assert_array_equal(trace.num_wrong, costs)
    np.testing.assert_allclose(trace.margin, margins, atol=1e-9)
    np.testing.assert_allclose(trace.step_size, steps, rtol=1e-9, atol=1e-12)
    assert_same_weights(state.params, last, sequences.space, rtol=1e-9)
    assert_same_weights(mira.final_params(state), mean, sequences.space, rtol=1e-9)
    assert (trace.dual_increment >= -1e-12).all()
    price = costs > 0 if cost == "one" else costs
    growth = np.diff(trace.conjugate, prepend=0.0)
    loss = np.maximum(0, price - margins) * (costs > 0)
    np.testing.assert_allclose(trace.loss, loss, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(trace.dual_increment, steps * price - growth, atol=1e-9)
    np.testing.assert_allclose(trace.bregman, growth - steps * margins, atol=1e-9)
    total = sum((part**2).sum() for part in last) / 2
    np.testing.assert_allclose(trace.conjugate[-1], total, rtol=1e-9)


@pytest.mark.slow
def test_mira_mends_the_margin_where_the_step_is_free():
    sequences = random_task(("0", "0"), has_transitions=True)
    learner = mira.learner(max_step_size=1e6, averaging="none", dtype=jnp.float64)
    corpus = streams.sentences.stream(sequences)
    state = learner.init(jax.random.key(0), corpus.example(0))
    space = sequences.space
    for i, (ids, labels) in enumerate(twins.sentences(sequences)):
        old = weights_of(state.params, space)
        state, info = learner.update(state, corpus.example(i))
        guess = twins.viterbi(space, old, ids)
        delta = twins.combine(
            twins.features(space, ids, labels), twins.features(space, ids, guess), -1
        )
        new = weights_of(state.params, space)
        if info.is_mistake:
            cost = (guess != labels).sum()
            np.testing.assert_allclose(twins.dot(new, delta), cost, rtol=1e-9)


def test_mira_decodes_with_the_cost_where_asked():
    sequences = random_task(("0", "0"), has_transitions=True)
    _, plain = in_order(mira.learner(dtype=jnp.float64), sequences, 3)
    learner = mira.learner(decoding="cost", dtype=jnp.float64)
    _, augmented = in_order(learner, sequences, 3)
    # The sequence that violates most has no smaller loss than the prediction's.
    assert augmented.loss[0] >= plain.loss[0]
    assert augmented.is_mistake.sum() >= plain.is_mistake.sum()
    assert (augmented.dual_increment >= -1e-12).all()
