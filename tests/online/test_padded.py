"""Rounds on padded batches, in the form of each platform, against NumPy twins."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import loops, online, streams
from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Space
from lowrank_jax.linalg.forms import forced
from lowrank_jax.models import bilinear
from lowrank_jax.online import bol, padded
from lowrank_jax.online.padded import rows
from tests.online import twins
from tests.online.tasks import random_task

FORMS = ("cpu", "gpu", "tpu")


def step_of(number):
    return max(round(256 / np.sqrt(number)), 1) / 256 if number else 0.0


def twin(sequences, rounds, nudge=None, num_steps=2):
    """Run wide rounds on dense features; each touched block is mapped once a round."""
    space, pairs = sequences.space, list(twins.sentences(sequences))
    w, theta, rows = twins.empty(space), twins.empty(space), []
    total = twins.empty(space)
    rank = 0 if nudge is None else nudge.shape[0]
    right = np.zeros((space.num_features, rank, space.num_labels + 1))
    for batch in rounds:
        found = []
        for i in batch:
            ids, labels = pairs[i]
            guess = twins.viterbi(space, w, ids)
            phi = twins.features(space, ids, labels)
            delta = twins.combine(phi, twins.features(space, ids, guess), -1)
            found.append((delta, (guess != labels).sum(), twins.dot(w, delta)))
        eta = step_of(sum(wrong > 0 for _, wrong, _ in found))
        touched = np.zeros(space.num_features, bool)
        for (delta, wrong, margin), i in zip(found, batch, strict=True):
            theta = twins.combine(theta, delta, eta)
            rows.append((wrong, margin, eta))
            touched |= of_differences(
                space, *pairs[i], twins.viterbi(space, w, pairs[i][0])
            )
        total = twins.combine(total, theta, len(batch))
        first = w.first.copy() if rank else theta.first
        for k in np.flatnonzero(touched) if rank else []:
            start = right[k] + 0.1 * nudge
            left, right[k] = twins.power(theta.first[k], start, num_steps)
            first[k] = left.T @ right[k]
        w = theta._replace(first=first)
    mean = twins.Weights(*(part / len(rows) for part in total))
    return w, theta, mean, rows


def of_differences(space, ids, labels, guess):
    """Features of positions where the pairs of labels differ."""
    is_wrong = labels != guess
    is_here = is_wrong | np.concatenate([[False], is_wrong[:-1]])
    columns = [c for c, order in enumerate(space.orders) if "1" in order]
    touched = np.zeros(space.num_features + 1, bool)
    touched[ids[is_here][:, columns]] = True
    return touched[:-1]


def run(learner, sequences, batch_size=4, num_passes=2):
    corpus = streams.sentences.stream(sequences)
    order = np.arange(sequences.num_sentences)
    plan = padded.batches(corpus, np.tile(order, num_passes), batch_size, has_ramp=True)
    state = learner.init(jax.random.key(3), plan.example(0))
    rounds = jnp.arange(plan.num_examples, dtype=jnp.int32)
    state, infos = jax.jit(lambda *given: loops.run(learner, *given))(
        state, plan, rounds
    )
    return state, infos, [[i for i in row if i >= 0] for row in plan.plan.tolist()]


def check_rows(infos, rounds, rows):
    infos, sizes = jax.device_get(infos), np.array([len(one) for one in rounds])
    wrong, margins, steps = (np.array(part) for part in zip(*rows, strict=True))
    is_sentence = np.arange(infos.margin.shape[1]) < sizes[:, None]
    np.testing.assert_array_equal(infos.num_wrong[is_sentence], wrong)
    np.testing.assert_array_equal(infos.is_mistake[is_sentence], wrong > 0)
    np.testing.assert_allclose(
        infos.margin[is_sentence], margins, rtol=1e-10, atol=1e-12
    )
    is_moved = infos.is_mistake.any(axis=1).repeat(sizes)
    found = infos.step_size.repeat(sizes)
    np.testing.assert_array_equal(found[is_moved], steps[is_moved])


@pytest.mark.parametrize("form", FORMS)
def test_the_perceptron_equals_its_twin(form):
    sequences = random_task(("0", "0"), has_transitions=True, shared=True)
    learner = padded.perceptron(dtype=jnp.float64, num_positions=7)
    with forced(form):
        state, infos, rounds = run(learner, sequences)
    w, _, mean, rows = twin(sequences, rounds)
    check_rows(infos, rounds, rows)
    labels = sequences.space.num_labels
    np.testing.assert_array_equal(state.table[:-1, :labels], w.zero)
    np.testing.assert_array_equal(state.transitions, w.transitions)
    np.testing.assert_array_equal(state.table[-1], 0)
    found = padded.final_params(state, sequences.space)
    np.testing.assert_allclose(found.zero[:-1], mean.zero, atol=1e-12)
    np.testing.assert_allclose(found.transitions, mean.transitions, atol=1e-12)


def test_a_round_of_bol_in_turns_is_the_round_in_one():
    sequences = random_task(("1",), num_sentences=4)
    plan = padded.batches(streams.sentences.stream(sequences), np.arange(4), 4)
    found = []
    for num_positions in (2, 256):
        learner = padded.bol(dtype=jnp.float64, num_positions=num_positions)
        state = learner.init(jax.random.key(3), plan.example(0))
        found.append(jax.jit(learner.update)(state, plan.example(0))[0].table)
    assert np.asarray(found[0]).any()
    np.testing.assert_allclose(*found, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "num_positions", "rank"),
    [("cpu", 256, 1), ("gpu", 5, 1), ("tpu", 5, 2), ("tpu", 256, 1)],
)
def test_bol_equals_its_twin_however_many_positions_go_at_a_time(
    form, num_positions, rank
):
    # DR-B6 in wide rounds, 0-order features and transitions beside (BOL-X1).
    sequences = random_task(("01", "1", "0"), has_transitions=True, shared=True)
    learner = padded.bol(dtype=jnp.float64, num_positions=num_positions, rank=rank)
    with forced(form):
        state, infos, rounds = run(learner, sequences)
    w, theta, mean, rows = twin(sequences, rounds, np.asarray(state.nudge))
    check_rows(infos, rounds, rows)
    space = sequences.space
    size = space.num_labels * (space.num_labels + 1)
    np.testing.assert_array_equal(
        state.dual[:-1, :size], theta.first.reshape(space.num_features, size)
    )
    np.testing.assert_array_equal(state.table[:-1, : space.num_labels], w.zero)
    np.testing.assert_array_equal(state.dual[-1], 0)
    found = padded.final_params(state, space, num_power_steps=300)
    left, values, right = np.linalg.svd(mean.first, full_matrices=False)
    leading = (left[..., :rank] * values[:, None, :rank]) @ right[:, :rank]
    parts = bilinear.split(found.table[:-1], space.num_labels)
    product = np.einsum("kjs,kjr->ksr", parts.left, parts.right)
    np.testing.assert_allclose(product, leading, atol=1e-6)  # ties converge slowly


@pytest.mark.slow
@pytest.mark.parametrize("name", ["perceptron", "bol"])
def test_padded_rounds_are_the_wide_rounds_of_the_learner(name):
    # DR-B6 and BOL-B1 in wide rounds; `online.wide` packs sentences, we pad them.
    orders = ("01", "1") if name == "bol" else ("0", "0")
    sequences = random_task(orders, has_transitions=True, shared=True)
    corpus, key = streams.sentences.stream(sequences), jax.random.key(7)
    wide = getattr(online, name).learner(dtype=jnp.float64)
    start = wide.init(key, corpus.example(0))
    (done,) = loops.passes(
        wide, sequences, key=key, state=start, num_passes=1, batch_size=4
    )
    order = np.asarray(loops.pass_order(key, 0, sequences.num_sentences))
    plan = padded.batches(corpus, order, 4, has_ramp=True)
    learner = getattr(padded, name)(dtype=jnp.float64)
    state = learner.init(key, plan.example(0))
    rounds = jnp.arange(plan.num_examples, dtype=jnp.int32)
    state, infos = jax.jit(lambda *given: loops.run(learner, *given))(
        state, plan, rounds
    )
    is_sentence = np.asarray(plan.plan) >= 0
    np.testing.assert_array_equal(
        np.asarray(infos.num_wrong)[is_sentence], done.trace.num_wrong
    )
    np.testing.assert_allclose(
        np.asarray(infos.margin)[is_sentence], done.trace.margin, atol=1e-10
    )
    labels, last = sequences.space.num_labels, done.state
    if name == "perceptron":
        np.testing.assert_array_equal(state.table[:, :labels], last.params.zero)
    else:
        size = labels * (labels + 1)
        theta = np.asarray(bol.theta(last))[:-1].reshape(-1, size)
        np.testing.assert_array_equal(state.dual[:-1, :size], theta)
    np.testing.assert_array_equal(state.transitions, last.params.transitions)
    assert int(state.num_rounds) == int(last.num_rounds) == 14


def test_bad_batches_and_spaces_are_named():
    sequences = random_task(("01",))
    corpus = streams.sentences.stream(sequences)
    with pytest.raises(InputError, match="batch_size"):
        padded.batches(corpus, np.arange(14), 15)
    plan = padded.batches(corpus, np.arange(14), 4)
    with pytest.raises(InputError, match="first-order"):
        padded.perceptron().init(jax.random.key(0), plan.example(0))


@pytest.mark.parametrize("size", [2, 4])
def test_moved_and_mapped_rows_equal_plain_sums(size):
    # Feature 3 takes part by its 0-order template alone: its block is not mapped.
    space = Space(num_features=5, num_labels=2, orders=("01", "0"))
    columns, labels = rows.Columns(2, 1), 2
    ids = np.array([[0, 3], [1, 3], [0, 2], [4, 4]], np.int32)
    pairs = np.array([[0, 4, 5, 1], [3, 1, 1, 1]], np.int32)
    random = np.random.default_rng(5)
    table = np.zeros((6, columns.lanes))
    table[:-1, : columns.at("start").stop] = random.integers(-2, 3, (5, 40))
    dual = np.zeros((6, 128))
    dual[:-1, :6] = random.integers(-3, 4, (5, 6))
    nudge = np.array([[0.6, 0.0, 0.8]])
    state = rows.State(table, dual, dual, None, None, nudge, np.int32(3))
    state = jax.tree.map(jnp.asarray, state)
    moves = rows.Moves(ids, pairs, np.array([1, 1, 1, 0], bool), 0.5, 1.5)
    moves = jax.tree.map(jnp.asarray, moves)
    moved = jax.jit(rows.moved, static_argnums=(2, 3, 4, 5))
    found = jax.device_get(moved(state, moves, space, columns, size, 2))
    more = np.zeros((2, 6, 6))  # of first order, of 0-order
    for one, (true, guess) in zip(ids[:3], pairs.T, strict=False):
        for order, k in [(0, one[0]), (1, one[0]), (1, one[1])]:
            more[order, k, true] += 1
            more[order, k, guess] -= 1
    theta = dual[:, :6] + 0.5 * more[0]
    np.testing.assert_array_equal(found.dual[:, :6], theta)
    np.testing.assert_array_equal(found.sums[:, :6], dual[:, :6] + 1.5 * more[0])
    zero = more[1].reshape(6, labels, labels + 1).sum(axis=2)
    for part, factor in (("zero", 0.5), ("sums", 1.5)):
        at = columns.at(part).start
        expected = table[:, at : at + labels] + factor * zero
        np.testing.assert_array_equal(found.table[:, at : at + labels], expected)
    for part in ("left", "right"):
        at = columns.at(part)
        np.testing.assert_array_equal(found.table[2:, at], table[2:, at])
    for k in (0, 1):
        start = columns.factors(table[k], "right")[:, :3] + 0.1 * nudge
        left, right = twins.power(theta[k].reshape(2, 3), start, 2)
        np.testing.assert_allclose(
            columns.factors(found.table[k], "left")[:, :2], left, atol=1e-12
        )
        np.testing.assert_allclose(
            columns.factors(found.table[k], "right")[:, :3], right, atol=1e-12
        )
