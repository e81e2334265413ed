"""Real-valued features: a dense twin, doubled columns, values of 1, scaling."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import certify, decode, streams, testing
from lowrank_jax.batch import crf
from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Sequences, Space
from lowrank_jax.linalg import mirror
from lowrank_jax.models import bilinear, linear
from lowrank_jax.online import bcd, bol, mira, mirror_descent, perceptron, touched
from tests.online.tasks import random_task

ORDERS = ("01", "0", "1")
LEARNERS = {
    "sp": (perceptron, {"record": ("predicted", "squared_norm")}),
    "mira": (mira, {"decoding": "cost", "max_step_size": 0.3}),
    "bcd": (bcd, {"num_rounds_per_block": 5}),
    "bcd-block": (bcd, {"penalty": "block", "num_rounds_per_block": 5}),
    "block": (bol, {"record": ("predicted", "squared_norm", "curvature")}),
    "dense": (bol, {"dual": "dense", "rank": 2, "record": ("predicted",)}),
    "paper": (bol, {"variant": "paper", "record": ("predicted",)}),
    "global": (bol, {"variant": "paper", "divisor": "global"}),
    "exact": (bol, {"variant": "exact", "record": ("predicted",)}),
    "mirror": (
        mirror_descent,
        {"map": mirror.rank_k(1), "record": ("predicted",)},
    ),
}


def valued(seed=0, **changes):
    """Return the task of random ids with values between -2 and 2."""
    task = random_task(ORDERS, seed=seed, **changes)
    rng = np.random.default_rng(seed + 1)
    return dataclasses.replace(task, values=rng.uniform(-2, 2, task.feature_ids.shape))


def run(name, sequences):
    """Return state and trace of one pass, in double precision."""
    module, settings = LEARNERS[name]
    learner = module.learner(**settings, dtype=jnp.float64)
    stream = streams.sentences.stream(sequences)

    @jax.jit
    def one(stream):
        state = learner.init(jax.random.key(0), stream.example(0))
        order = jnp.arange(stream.num_examples, dtype=jnp.int32)
        return jax.lax.scan(
            lambda s, i: learner.update(s, stream.example(i)), state, order
        )

    return one(stream)


def phi(sequences, index, labels):
    """Return Phi(x, y) of a sentence as dense arrays: zero, first, transitions."""
    space = sequences.space
    K, S = space.num_features, space.num_labels
    parts = np.zeros((K + 1, S)), np.zeros((K + 1, S, S + 1)), np.zeros((S, S + 1))
    start, end = sequences.offsets[index : index + 2]
    before = S
    for token, label in zip(range(start, end), labels, strict=False):
        for t in range(len(space.orders)):
            k, value = sequences.feature_ids[token, t], 1.0
            if sequences.values is not None:
                value = sequences.values[token, t]
            if t in space.zero_order:
                parts[0][k, label] += value
            if t in space.first_order:
                parts[1][k, label, before] += value
        parts[2][label, before] += space.has_transitions
        before = label
    parts[0][K], parts[1][K] = 0, 0
    return parts


def inner(one, other):
    return sum((a * b).sum() for a, b in zip(one, other, strict=True))


def moves(sequences, trace):
    """Yield dPhi of each round, from the predictions of the trace."""
    for index, predicted in enumerate(np.asarray(trace.predicted)):
        start, end = sequences.offsets[index : index + 2]
        true = phi(sequences, index, sequences.labels[start:end])
        found = phi(sequences, index, predicted[: end - start])
        yield tuple(a - b for a, b in zip(true, found, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 2])
def test_scores_are_inner_products_with_the_dense_features(rank):
    sequences = valued(has_transitions=True, shared=True)
    space, rng = sequences.space, np.random.default_rng(3)
    sizes = linear.zeros(space, jnp.float64)
    if rank:
        params = bilinear.random(jax.random.key(1), space, rank, jnp.float64)
        table = rng.normal(size=params.table.shape[:1] + (space.num_labels,))
        table[-1] = 0
        params = params._replace(
            table=params.table.at[:, : space.num_labels].set(table),
            transitions=jnp.asarray(rng.normal(size=sizes.transitions.shape)),
        )
        rows = bilinear.split(params.table, space.num_labels)
        first = np.einsum("kjs,kjt->kst", rows.left, rows.right)
        weights = np.asarray(rows.zero), first, np.asarray(params.transitions)
    else:
        weights = [rng.normal(size=part.shape) for part in sizes[:3]]
        params = linear.Params(*(jnp.asarray(part) for part in weights))
    stream = streams.sentences.stream(sequences)
    for index in range(4):
        example = stream.example(index)
        model = bilinear if rank else linear
        length = int(example.length)
        labels = rng.integers(0, space.num_labels, length).astype(np.int32)
        path = jnp.asarray(np.pad(labels, (0, stream.window - length)))
        found = decode.path_score(model.scores(params, example), path, example.length)
        expected = inner(phi(sequences, index, labels), weights)
        np.testing.assert_allclose(found, expected, rtol=1e-10)

    def score(values):
        given = dataclasses.replace(stream.example(1), values=values)
        return model.scores(params, given).unary.sum()

    values = stream.example(1).values
    gradient = jax.grad(score)(values)
    step = jnp.zeros_like(values).at[0, 0].set(1e-6)
    slope = (score(values + step) - score(values - step)) / 2e-6
    np.testing.assert_allclose(gradient[0, 0], slope, rtol=1e-6, atol=1e-9)


def test_rounds_of_the_perceptron_are_those_of_the_dense_twin():
    """BOL-B2 and DR-B4 with any P(x)."""
    sequences = valued(has_transitions=True, shared=True)
    state, trace = run("sp", sequences)
    params = touched.by_feature(state.params)
    sums = [np.zeros(part.shape) for part in params[:3]]
    for t, move in enumerate(moves(sequences, trace)):
        np.testing.assert_allclose(trace.margin[t], inner(sums, move), atol=1e-10)
        np.testing.assert_allclose(trace.squared_norm[t], inner(move, move), atol=1e-10)
        sums = [a + b for a, b in zip(sums, move, strict=True)]
        size = inner(sums, sums) / 2
        np.testing.assert_allclose(trace.conjugate[t], size, rtol=1e-10)
    for part, expected in zip(params[:3], sums, strict=True):
        np.testing.assert_allclose(part, expected, atol=1e-12)
    assert int(trace.is_mistake.sum()) > 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["block", "dense", "paper", "exact"])
def test_the_dual_of_bol_is_the_sum_of_the_dense_differences(name):
    """BOL-Eq8 with any P(x)."""
    sequences = valued(shared=True)
    state, trace = run(name, sequences)
    weights = np.zeros((13, 3)), np.zeros((13, 3, 4))
    for move in moves(sequences, trace):
        weights = [a + b for a, b in zip(weights, move[:2], strict=True)]
    np.testing.assert_allclose(bol.theta(state), weights[1], atol=1e-12)
    rows = state.params.table[state.params.rows] if state.pool else state.params.table
    np.testing.assert_allclose(rows[:, :3], weights[0], atol=1e-12)
    assert int(trace.is_mistake.sum()) > 5


def doubled(seed=0):
    """Return one task twice: features in two columns, and in one with the value 2."""
    one = random_task(("01", "0", "1"), has_transitions=True, seed=seed)
    twice = np.concatenate([one.feature_ids, one.feature_ids], axis=1)
    space = Space(12, 3, one.space.orders * 2, True)
    written = Sequences(twice, one.labels, one.offsets, space)
    ids = twice.copy()
    ids[:, 3:] = 12
    values = np.full(ids.shape, 2.0)
    return written, Sequences(ids, one.labels, one.offsets, space, values)


def numbers_of(trace):
    """Return a trace without the hashes of its sentences, which see how they differ."""
    has_hash = "fingerprint" in trace._fields
    return trace._replace(fingerprint=None) if has_hash else trace


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_a_value_of_two_is_a_feature_in_two_columns(name):
    found = [run(name, task) for task in doubled()]
    traces = [jax.tree.leaves(numbers_of(trace)) for _, trace in found]
    for one, other in zip(*traces, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)
    models = [LEARNERS[name][0].final_params(state) for state, _ in found]
    for one, other in zip(*map(jax.tree.leaves, models), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_values_of_one_change_nothing(name):
    plain = random_task(ORDERS, has_transitions=True, shared=True)
    ones = dataclasses.replace(plain, values=np.ones(plain.feature_ids.shape))
    (state, trace), (other, seen) = run(name, plain), run(name, ones)
    traces = numbers_of(trace), numbers_of(seen)
    for one, two in zip(*map(jax.tree.leaves, traces), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-12)
    for one, two in zip(*map(jax.tree.leaves, (state, other)), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["sp", "block", "exact"])
def test_values_times_a_number_scale_the_dual_and_keep_the_predictions(name):
    sequences = valued(shared=True)
    scaled = dataclasses.replace(sequences, values=4 * sequences.values)
    (_, trace), (_, other) = run(name, sequences), run(name, scaled)
    np.testing.assert_array_equal(trace.predicted, other.predicted)
    np.testing.assert_allclose(16 * trace.margin, other.margin, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(16 * trace.conjugate, other.conjugate, rtol=1e-9)


@pytest.mark.parametrize("name", ["sp", "block"])
def test_runs_with_values_are_certified(name):
    """DR-B4: a state, trace or value of another run is refused."""
    sequences = valued(has_transitions=True, shared=True)
    stream = streams.sentences.stream(sequences)
    order = np.arange(sequences.num_sentences)
    state, trace = run(name, sequences)
    model = LEARNERS[name][0].final_params(state)
    found = certify.regret(state, trace, stream, model, order=order)
    assert found.holds and found.num_mistakes > 5
    wrong = dataclasses.replace(stream, values=1.1 * stream.values)
    with pytest.raises(InputError, match="met another example"):
        certify.regret(state, trace, wrong, model, order=order)


@pytest.mark.slow
def test_the_crf_counts_a_value_of_two_as_two_columns():
    written, given = doubled()
    one, other = (streams.lanes.lanes(task, num_lanes=4) for task in (written, given))
    rng = np.random.default_rng(0)
    shapes = linear.zeros(written.space, jnp.float64)
    params = jax.tree.map(lambda part: jnp.asarray(rng.normal(size=part.shape)), shapes)
    params = params._replace(zero=params.zero.at[-1].set(0))
    params = params._replace(first=params.first.at[-1].set(0))
    found = [crf.negative_log_likelihood(params, lanes) for lanes in (one, other)]
    for a, b in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_the_gradient_of_the_crf_is_that_of_the_loss():
    lanes = streams.lanes.lanes(valued(has_transitions=True, shared=True), num_lanes=4)
    rng = np.random.default_rng(0)
    zeros = linear.zeros(lanes.space, jnp.float64)
    params = jax.tree.map(lambda part: jnp.asarray(rng.normal(size=part.shape)), zeros)
    way = jax.tree.map(lambda part: jnp.asarray(rng.normal(size=part.shape)), zeros)
    rows = {name: getattr(way, name).at[-1].set(0) for name in ("zero", "first")}
    way = way._replace(**rows)

    def loss(size):
        moved = jax.tree.map(lambda w, d: w + size * d, params, way)
        return crf.negative_log_likelihood(moved, lanes)

    gradient = loss(0.0)[1]
    slope = (loss(1e-6)[0] - loss(-1e-6)[0]) / 2e-6
    expected = inner(jax.tree.leaves(gradient), jax.tree.leaves(way))
    np.testing.assert_allclose(slope, expected, rtol=1e-6)
    assert not gradient.zero[-1].any() and not gradient.first[-1].any()


@pytest.mark.parametrize("name", ["sp", "block"])
def test_a_round_with_values_copies_no_table(name):
    space = Space(40_000, 5, ORDERS, True)
    stream = testing.sentences(space)
    values = jax.ShapeDtypeStruct(stream.feature_ids.shape, jnp.float32)
    stream = dataclasses.replace(stream, values=values)
    module, _ = LEARNERS[name]
    testing.assert_no_copies(module.learner(), stream, num_rows=40_001)


@pytest.mark.slow
def test_values_that_do_not_fit_are_named():
    task = random_task(ORDERS)
    with pytest.raises(InputError, match="in the shape of `feature_ids`"):
        given = dataclasses.replace(task, values=np.ones(3))
        streams.sentences.stream(given)
    values = np.ones(task.feature_ids.shape)
    values[2, 1] = np.nan
    with pytest.raises(InputError, match="nan at row 2, column 1"):
        streams.sentences.stream(dataclasses.replace(task, values=values))
