"""Streams, passes and prediction: order, resuming, padding."""

import types

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import certify, decode, loops, streams
from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Space
from lowrank_jax.estimators import labelling
from lowrank_jax.models import bilinear, linear
from lowrank_jax.online import bol, perceptron, touched
from lowrank_jax.online.bol import dense
from tests.online import twins
from tests.online.tasks import planted_task, random_task


def assert_same_bits(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


def copied(tree):
    """Copy a state before the next pass takes its memory."""
    return jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), tree)


def test_a_sentence_of_the_stream_is_that_of_the_corpus():
    sequences = random_task(("0", "1"))
    corpus = streams.sentences.stream(sequences)
    for i, (ids, labels) in enumerate(twins.sentences(sequences)):
        found = corpus.example(i)
        n = int(found.length)
        assert n == len(labels)
        np.testing.assert_array_equal(found.feature_ids[:n], ids)
        np.testing.assert_array_equal(found.labels[:n], labels)
        assert found.feature_ids.shape[0] == corpus.window


def test_a_larger_window_changes_nothing():
    sequences = random_task(("01", "0"), has_transitions=True)
    order = jnp.arange(sequences.num_sentences, dtype=jnp.int32)
    results = []
    for window in (None, 40):
        corpus = streams.sentences.stream(sequences, window=window)
        learner = bol.learner(dtype=jnp.float64)
        state = learner.init(jax.random.key(0), corpus.example(0))
        state, trace = loops.run(learner, state, corpus, order)
        results.append((state._replace(scores=None), trace))
    assert_same_bits(*results)
    with pytest.raises(InputError, match="`window` must be at least"):
        streams.sentences.stream(sequences, window=2)


@pytest.mark.parametrize("module", [perceptron, bol])
def test_going_on_from_a_pass_gives_the_same_bits(module):
    sequences = random_task(("01", "01"))
    corpus, key = streams.sentences.stream(sequences), jax.random.key(7)
    learner = module.learner()
    states = [
        copied(done.state)
        for done in loops.passes(learner, corpus, key=key, num_passes=4)
    ]
    resumed = [
        copied(done.state)
        for done in loops.passes(
            learner,
            corpus,
            key=key,
            num_passes=4,
            state=copied(states[1]),
            first_pass=2,
        )
    ]
    assert len(resumed) == 2
    assert_same_bits(states[2:], resumed)


def test_a_look_within_a_pass_counts_the_rounds_of_all_passes():
    sequences, looks = random_task(("0",), num_sentences=7), []
    done = loops.passes(
        perceptron.learner(),
        sequences,
        key=jax.random.key(0),
        num_passes=2,
        every=3,
        on_rounds=lambda number, state: looks.append((number, int(state.num_rounds))),
    )
    assert len(list(done)) == 2
    assert looks == [(n, n) for n in (3, 6, 7, 10, 13, 14)]


def test_each_pass_is_a_shuffle_of_its_own():
    key = jax.random.key(0)
    orders = [np.asarray(loops.pass_order(key, index, 50)) for index in range(3)]
    for order in orders:
        assert sorted(order.tolist()) == list(range(50))
    assert (orders[0] != orders[1]).any() and (orders[1] != orders[2]).any()
    np.testing.assert_array_equal(orders[2], loops.pass_order(key, 2, 50))


@pytest.mark.slow
@pytest.mark.parametrize("orders", [("0", "0"), ("01", "1")])
def test_predictions_equal_the_plain_viterbi(orders):
    sequences = random_task(orders, has_transitions=True)
    state, _ = loops.train(
        perceptron.learner(), sequences, key=jax.random.key(0), num_passes=2
    )
    params = perceptron.final_params(state)
    weights = twins.empty(sequences.space)
    weights = twins.Weights(
        *(
            none if part is None else np.asarray(part, np.float64)[: len(none)]
            for none, part in zip(weights, touched.by_feature(params)[:3], strict=True)
        )
    )
    expected = np.concatenate(
        [
            twins.viterbi(sequences.space, weights, ids)
            for ids, _ in twins.sentences(sequences)
        ]
    )
    stream = labelling.predict(
        linear.scores, params, streams.sentences.stream(sequences)
    )
    np.testing.assert_array_equal(stream, expected)
    for max_tokens in (1, 20, 4096):
        for form in (labelling.predict_batch, labelling.predict_padded):
            found = form(linear, params, sequences, max_tokens=max_tokens)
            np.testing.assert_array_equal(found, expected)


def test_batched_and_streamed_bilinear_predictions_agree():
    sequences = random_task(("01", "1"), has_transitions=True)
    state, _ = loops.train(
        bol.learner(), sequences, key=jax.random.key(0), num_passes=2
    )
    params = bol.final_params(state)
    stream = labelling.predict(
        bilinear.scores, params, streams.sentences.stream(sequences)
    )
    for form in (labelling.predict_batch, labelling.predict_padded):
        found = form(bilinear, params, sequences, max_tokens=16384)
        np.testing.assert_array_equal(stream, found)


@pytest.mark.parametrize("num_sentences", [8, 9, 33])
def test_packed_labels_equal_the_stream_next_to_ties(num_sentences):
    """Small whole weights make ties, and both forms must break them alike."""
    draw = np.random.default_rng(num_sentences)
    sequences = random_task(
        ("01", "0"), has_transitions=True, num_sentences=num_sentences, max_length=9
    )
    space, labels = sequences.space, sequences.space.num_labels
    shapes = ((labels,), (labels, labels + 1))
    tables = [
        np.append(draw.integers(-1, 2, (space.num_features, *s)), np.zeros((1, *s)), 0)
        for s in shapes
    ]
    pairs = draw.integers(-1, 2, (labels, labels + 1))
    for first in (tables[1], None):
        params = linear.Params(tables[0], first, pairs)
        params = jax.tree.map(lambda part: jnp.asarray(part, float), params)
        stream = labelling.predict(
            linear.scores, params, streams.sentences.stream(sequences)
        )
        found = labelling.predict_all(linear, params, sequences)
        np.testing.assert_array_equal(found, stream)


@pytest.mark.parametrize(
    ("num_sentences", "window", "num_labels", "orders", "group"),
    [
        (7, 32, 3, ("0",), 0),  # too few sentences
        (8, 32, 3, ("01",), 4),
        (40, 256, 22, ("01",), 16),
        (40, 512, 60, ("01",), 8),  # 16 windows would hold more than 64 MB of scores
        (40, 256, 64, ("01",), 0),  # the stream does not spell pairs out
        (40, 4096, 3, ("0",), 4),
        (40, 4128, 3, ("0",), 0),
    ],
)
def test_the_packed_form_is_for_many_sentences_of_few_scores(
    num_sentences, window, num_labels, orders, group
):
    found = types.SimpleNamespace(space=Space(9, num_labels, orders), window=window)
    assert labelling._group_of(found, num_sentences, 16384) == group


def test_without_jit_a_run_is_the_same():
    sequences = random_task(("0",), num_sentences=2, max_length=2)
    learner, key = perceptron.learner(), jax.random.key(0)
    _, fast = loops.train(learner, sequences, key=key, num_passes=1)
    with jax.disable_jit():
        _, slow = loops.train(learner, sequences, key=key, num_passes=1)
    np.testing.assert_array_equal(fast.num_wrong, slow.num_wrong)


def own_run(learner, data, key, num_passes):
    """Train as a user would, by a scan of one's own."""
    stream = loops.as_stream(data)
    state = loops.start(learner, stream, key=key)

    @jax.jit
    def one_pass(state, stream, order):
        def round_of(state, index):
            return learner.update(state, stream.example(index))

        return jax.lax.scan(round_of, state, order)

    traces = []
    for index in range(num_passes):
        order = loops.pass_order(key, index, stream.num_examples)
        state, trace = one_pass(state, stream, order)
        traces.append(jax.device_get(trace))
    return state, jax.tree.map(lambda *parts: np.concatenate(parts), *traces)


def test_a_scan_of_ones_own_gives_the_bits_of_train():
    sequences, key = (
        random_task(("01", "0", "1"), has_transitions=True),
        jax.random.key(4),
    )
    for learner in (bol.learner(), perceptron.learner()):
        expected = loops.train(learner, sequences, key=key, num_passes=2)
        assert_same_bits(own_run(learner, sequences, key, 2), expected)


def test_stacked_examples_are_a_stream():
    """A pytree of arrays is trained on as it is."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 4, 3)), rng.choice([-1.0, 1.0], 20)
    choices = jax.vmap(dense.binary)(jnp.asarray(x), jnp.asarray(y))
    learner, key = dense.learner(), jax.random.key(0)
    found = loops.train(learner, choices, key=key, num_passes=2)
    expected = loops.train(learner, streams.Stacked(choices), key=key, num_passes=2)
    assert_same_bits(found, expected)
    assert_same_bits(own_run(learner, choices, key, 2), expected)
    with pytest.raises(InputError, match="got a str"):
        loops.train(learner, ["no", "arrays"], key=key, num_passes=1)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_a_sweep_equals_one_run_per_value(backend, monkeypatch):
    """Both forms: `lax.map` of the CPU, and `vmap` of other platforms."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    sequences, key = random_task(("01", "0")), jax.random.key(1)
    values = jnp.array([0.25, 1.0, 2.0])
    num_traces = []

    def learner_of(value):
        num_traces.append(value)
        return perceptron.learner(step_size=value, dtype=jnp.float64)

    states, traces = loops.sweep(learner_of, values, sequences, key, num_passes=2)
    assert len(num_traces) <= 2  # traced, not run once per value
    for i, value in enumerate(values.tolist()):
        learner = perceptron.learner(step_size=value, dtype=jnp.float64)
        state, trace = loops.train(learner, sequences, key=key, num_passes=2)
        mine = jax.tree.map(lambda part, i=i: part[i], (states, traces))
        chex.assert_trees_all_close(mine, (state, trace), rtol=1e-12)
    losses = loops.sweep(
        learner_of, values, sequences, key, keep=lambda _, trace: trace.loss.sum()
    )
    assert losses.shape == (3,)


def test_a_sweep_whose_tables_become_full_is_refused():
    """A scan cannot grow them, and skipped rounds would pass for learned ones."""
    (sequences, _, _), key = planted_task(num_features=240), jax.random.key(0)
    with pytest.raises(InputError, match="became full"):
        loops.sweep(
            lambda value: bol.learner(start=value, capacity=bol.Capacity(16)),
            jnp.array([0.5, 1.0]),
            sequences,
            key,
            keep=lambda state, trace: trace.is_mistake.sum(),
        )


def test_an_integer_in_place_of_a_key_is_told_of():
    sequences, learner = random_task(("01",)), bol.learner(record=("predicted",))
    corpus, space = streams.sentences.stream(sequences), sequences.space
    key, number = jax.random.key(0), {"key": 0}
    state, trace = loops.train(learner, corpus, key=key, num_passes=1)
    params, scores = (
        bol.final_params(state),
        decode.Scores(jnp.ones((4, 3)), jnp.ones((3, 4))),
    )
    run = learner, corpus
    for call in (
        lambda: loops.start(*run, **number),
        lambda: loops.pass_order(0, 0, 3),
        lambda: loops.train(*run, **number, num_passes=1),
        lambda: next(loops.passes(*run, **number, num_passes=1)),
        lambda: loops.sweep(lambda c: bol.learner(step_size=c), jnp.ones(2), corpus, 0),
        lambda: certify.run(*run, **number, num_passes=1),
        lambda: certify.regret(state, trace, corpus, params, **number),
        lambda: certify.along(state, trace, corpus, params, **number),
        lambda: learner.init(0, corpus.example(0)),
        lambda: bilinear.random(0, space, 1),
        lambda: decode.sample_path(0, scores),
        lambda: decode.sample_path_batch(0, jax.tree.map(lambda x: x[None], scores)),
    ):
        with pytest.raises(InputError, match="`key` must be a key such as"):
            call()
