"""The sparse dual against the dense one, on streams that overflow records and pools."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import decode, loops, streams
from lowrank_jax.certify import comparator, spectrum
from lowrank_jax.data.sequences import Sequences, Space
from lowrank_jax.models import bilinear
from lowrank_jax.online import bol
from lowrank_jax.store import checkpoint

SMALL = bol.Capacity(num_features=30, num_pages=20, num_slots=2)

final_params = jax.jit(bol.final_params)
theta = jax.jit(bol.theta)


def stream(seed=0, num_features=60, num_labels=5, has_transitions=True):
    """Random labels, so mistakes never end; some features recur at most positions."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, 24)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    ids = rng.zipf(1.3, (offsets[-1], 3)) % num_features
    ids[rng.random(ids.shape) < 0.1] = num_features
    labels = rng.integers(0, num_labels, offsets[-1]).astype(np.int32)
    space = Space(num_features, num_labels, ("01", "1", "01"), has_transitions)
    return Sequences(ids.astype(np.int32), labels, offsets, space)


def run(sequences, num_passes=2, **settings):
    learner = bol.learner(dtype=jnp.float64, **settings)
    key = jax.random.key(0)
    return loops.train(learner, sequences, key=key, num_passes=num_passes)


def by_feature(params):
    """Return the tables of a model with one row per feature."""
    tables = (params.table,) if hasattr(params, "table") else params[:2]
    return [np.asarray(t if params.rows is None else t[params.rows]) for t in tables]


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rank": 2, "start": 0.5, "averaging": "weights", "step_size": 0.5},
        {"variant": "paper", "start": 0.5},
        {"variant": "paper", "divisor": "global"},
        {"variant": "exact"},
    ],
)
def test_a_sparse_dual_that_grew_equals_the_dense_one(settings):
    sequences = stream()
    dense, expected = run(sequences, dual="dense", **settings)
    state, trace = run(sequences, capacity=SMALL, **settings)
    # The pools were too small, and all ways to store an entry were used.
    assert state.params.table.shape[0] > 32 and state.blocks.values.pages.shape[0] > 21
    assert (
        int(state.blocks.num_pages) > 5
        and (np.asarray(state.blocks.keys) > 0).all(1).any()
    )
    assert not bool(state.pool.is_full)
    # In double precision these runs have no ties: the predictions are the same.
    np.testing.assert_array_equal(trace.num_wrong, expected.num_wrong)
    np.testing.assert_allclose(theta(state), theta(dense), atol=1e-12)
    np.testing.assert_allclose(trace.bregman, expected.bregman, atol=1e-8)
    np.testing.assert_allclose(trace.conjugate, expected.conjugate, atol=1e-8)
    for one, other in (
        (state.params, dense.params),
        (final_params(state), final_params(dense)),
    ):
        for ours, theirs in zip(by_feature(one), by_feature(other), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-7)
        np.testing.assert_allclose(one.transitions, other.transitions, atol=1e-12)
    found, wanted = spectrum.conjugate(state), spectrum.conjugate(dense)
    assert found.value == pytest.approx(wanted.value, rel=1e-12)
    np.testing.assert_allclose(found.spectrum, wanted.spectrum, rtol=1e-9)


MANY = 70


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"rank": 2, "start": 0.5}])
def test_maps_by_entries_for_many_labels_equal_the_dense_ones(settings):
    sequences = stream(num_labels=MANY, has_transitions=False)
    dense, expected = run(sequences, dual="dense", **settings)
    state, trace = run(sequences, capacity=SMALL, **settings)
    assert isinstance(state.scores, decode.LowRankScores)
    assert int(state.blocks.num_pages) > 5
    np.testing.assert_array_equal(trace.num_wrong, expected.num_wrong)
    np.testing.assert_allclose(theta(state), theta(dense), atol=1e-12)
    np.testing.assert_allclose(trace.bregman, expected.bregman, atol=1e-8)
    for one, other in (
        (state.params, dense.params),
        (final_params(state), final_params(dense)),
    ):
        for ours, theirs in zip(by_feature(one), by_feature(other), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-7)
    found, wanted = spectrum.conjugate(state), spectrum.conjugate(dense)
    assert found.value == pytest.approx(wanted.value, rel=1e-12)


def test_low_rank_scores_find_the_path_of_the_scores_written_out():
    sequences = stream(num_labels=MANY, has_transitions=False)
    values = np.random.default_rng(0).normal(size=sequences.feature_ids.shape)
    sequences = dataclasses.replace(sequences, values=values)
    corpus = streams.sentences.stream(sequences)
    params = bilinear.random(jax.random.key(0), corpus.space, 2, jnp.float64)
    params = params._replace(scale=jnp.asarray(0.5))

    @jax.jit
    def both(index):
        example = corpus.example(index)
        written = bilinear.scores(params, example, has_zero_row=True)
        sought = bilinear.sought(params, example)
        assert isinstance(sought, decode.LowRankScores)
        return [decode.best_path(s, example.length) for s in (written, sought)]

    for index in range(6):
        one, other = both(index)
        np.testing.assert_array_equal(one.labels, other.labels)
        np.testing.assert_allclose(one.score, other.score, rtol=1e-10)


@pytest.mark.slow
def test_capacity_changes_nothing_and_a_bare_scan_says_that_it_is_full():
    sequences = stream(1)
    corpus = streams.sentences.stream(sequences)
    order = jnp.arange(corpus.num_examples, dtype=jnp.int32)
    learner = bol.learner(capacity=SMALL)
    go = jax.jit(lambda *given: loops.run(learner, *given))
    state = learner.init(jax.random.key(0), corpus.example(0))
    state, trace = go(state, corpus, order)
    done = int(state.num_rounds)
    assert bool(state.pool.is_full) and 0 < done < corpus.num_examples
    assert not np.asarray(trace.is_mistake)[done:].any()
    again, _ = go(state, corpus, order)  # nothing happens to a full state
    for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, other)
    while bool(state.pool.is_full):
        state = learner.grow(state)
        assert learner.grow(state) is state
        state, _ = go(state, corpus, order[int(state.num_rounds) :])
    roomy = bol.learner()
    whole = roomy.init(jax.random.key(0), corpus.example(0))
    whole, _ = jax.jit(lambda *given: loops.run(roomy, *given))(whole, corpus, order)
    np.testing.assert_array_equal(theta(state), theta(whole))
    for one, other in zip(
        by_feature(final_params(state)),
        by_feature(final_params(whole)),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.slow
def test_a_state_that_grew_resumes_from_its_checkpoint(tmp_path):
    sequences = stream(2)
    corpus, key = streams.sentences.stream(sequences), jax.random.key(0)
    learner = bol.learner(capacity=SMALL)
    first, second = [
        done.state if i else jax.tree.map(jnp.copy, done.state)
        for i, done in enumerate(loops.passes(learner, corpus, key=key, num_passes=2))
    ]
    checkpoint.save(tmp_path / "one", first, {})
    like = jax.eval_shape(learner.init, key, corpus.example(0))
    state, _ = checkpoint.load(tmp_path / "one", like, may_grow=True)
    assert state.params.table.shape[0] > like.params.table.shape[0]
    (done,) = loops.passes(
        learner, corpus, key=key, num_passes=2, state=state, first_pass=1
    )
    for one, other in zip(
        jax.tree.leaves(done.state), jax.tree.leaves(second), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_model_with_an_index_is_the_comparator_that_it_is_without():
    sequences = stream(3)
    corpus = streams.sentences.stream(sequences)
    params = final_params(run(sequences, capacity=SMALL, start=0.5)[0])
    plain = bilinear.Params(
        jnp.asarray(by_feature(params)[0]), params.transitions, params.scale
    )
    predicted = jax.random.randint(
        jax.random.key(1), corpus.labels.shape[:1], 0, 5, jnp.int32
    )[: corpus.window]
    for i in range(5):
        example = corpus.example(i)
        one, other = [comparator.margin(p, example, predicted) for p in (params, plain)]
        np.testing.assert_allclose(one, other, atol=1e-12)
    for variant in ("sp", "block", "paper"):
        one, other = [
            comparator.penalty(p, sequences.space, variant=variant)
            for p in (params, plain)
        ]
        np.testing.assert_allclose(one, other, rtol=1e-10)
