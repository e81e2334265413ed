"""Rounds on padded batches, in the form of each platform, against NumPy twins."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import loops, online, streams
from lowrank_jax.checks import InputError
from lowrank_jax.linalg.forms import forced
from lowrank_jax.models import bilinear
from lowrank_jax.online import bol, padded
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
