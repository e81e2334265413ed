"""Blockwise coordinate descent against plain loops, and what its dual promises."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.bol import tagging
from lowrank_jax import data, loops, streams
from lowrank_jax.checks import InputError
from lowrank_jax.decode import best_path
from lowrank_jax.estimators import labelling
from lowrank_jax.models import bilinear
from lowrank_jax.online import bcd
from tests.batch import references
from tests.online import twins
from tests.online.tasks import planted_task, random_task
from tests.online.test_no_copies import check

TASKS = {
    "first order": {"orders": ("1", "1")},
    "both": {"orders": ("01", "01"), "shared": True},
    "mixed": {"orders": ("01", "0", "1"), "has_transitions": True},
}
each_penalty = pytest.mark.parametrize("penalty", ["product", "sum", "block"])


def random_start(learner, sequences):
    """Return a state with random factors, which leave no ties, and the factors."""
    space, rng = sequences.space, np.random.default_rng(0)
    k, s = space.num_features, space.num_labels
    state = learner.init(
        jax.random.key(0), streams.sentences.stream(sequences).example(0)
    )
    left, right = rng.normal(size=(k, 1, s)), rng.normal(size=(k, 1, s + 1))
    rows = bilinear.join(jnp.asarray(left), jnp.asarray(right))
    table = state.params.table.at[:-1, s:].set(rows)
    growth = [(left**2).sum() - k * s, (right**2).sum() - k * (s + 1)]
    state = state._replace(
        params=state.params._replace(table=table), growth=jnp.array(growth)
    )
    a, b = state.units
    return state, (a * left[:, 0], b * right[:, 0])


def taken_apart(params, units, num_labels):
    """Return alpha, beta, w and transitions of a model, rows of features only."""
    rows = bilinear.split(params.table, num_labels)
    assert not np.any(params.table[-1])
    transitions = params.transitions
    if transitions is None:
        transitions = np.zeros((num_labels, num_labels + 1))
    return (
        units[0] * rows.left[:-1, 0],
        units[1] * rows.right[:-1, 0],
        rows.zero[:-1],
        transitions,
    )


@functools.cache
def run_both(name, penalty):
    """Run the learner and its twin from the same random factors."""
    sequences = random_task(**TASKS[name])
    settings = {"penalty": penalty, "num_rounds_per_block": 9}
    factors = random_start(bcd.learner(dtype=jnp.float64), sequences)[1]
    free = references.bcd(sequences, factors, num_passes=1, largest=1e9, **settings)
    steps = np.array([step for _, _, _, step, _, _ in free[-1]])
    largest = float(np.median(steps[steps > 0]))  # so that both cases occur
    learner = bcd.learner(max_step_size=largest, dtype=jnp.float64, **settings)
    state, factors = random_start(learner, sequences)
    twin = references.bcd(sequences, factors, num_passes=3, largest=largest, **settings)
    order = jnp.tile(jnp.arange(sequences.num_sentences, dtype=jnp.int32), 3)
    run = jax.jit(lambda *given: loops.run(learner, *given))
    final, trace = run(state, streams.sentences.stream(sequences), order)
    return sequences, final, trace, twin


@pytest.mark.parametrize(
    ("name", "penalty"),
    [
        ("first order", "product"),
        ("both", "product"),
        ("both", "sum"),
        ("both", "block"),
        ("mixed", "block"),
    ],
)
def test_every_round_equals_plain_loops(name, penalty):
    sequences, final, trace, twin = run_both(name, penalty)
    factors, w, mean, rounds = twin
    expected = [np.array(column) for column in zip(*rounds, strict=True)]
    is_mistake, loss, margin, step, rise, turn = expected
    np.testing.assert_array_equal(trace.is_mistake, is_mistake)
    np.testing.assert_array_equal(trace.factor, turn)
    assert is_mistake.sum() > 20 and {0, 1} == set(turn)
    for found, number in (
        (trace.loss, loss),
        (trace.margin, margin),
        (trace.step_size, step),
        (trace.dual_increment, rise),
    ):
        np.testing.assert_allclose(found, number, rtol=1e-9, atol=1e-10)
    assert 0.1 < (step[is_mistake] == step.max()).mean() < 0.9  # limited and not

    labels = sequences.space.num_labels
    last = taken_apart(final.params, final.units, labels)
    for found, whole in zip(last, (*factors, w.zero, w.transitions), strict=True):
        np.testing.assert_allclose(found, whole, rtol=1e-9, atol=1e-10)
    averaged = taken_apart(bcd.final_params(final), final.units, labels)
    for found, whole in zip(averaged, _mean_parts(mean, sequences.space), strict=True):
        np.testing.assert_allclose(found, whole, rtol=1e-9, atol=1e-10)


def _mean_parts(mean, space):
    """Take the twin's average apart like `taken_apart`."""
    k, s = space.num_features, space.num_labels
    sizes = [k * s, k * (s + 1), k * s, k * s * (s + 1), s * (s + 1)]
    alpha, beta, zero, _, transitions = np.split(mean, np.cumsum(sizes)[:-1])
    return (
        alpha.reshape(k, s),
        beta.reshape(k, s + 1),
        zero.reshape(k, s),
        transitions.reshape(s, s + 1),
    )


@each_penalty
def test_norms_are_tracked(penalty):
    """||alpha||^2 and ||beta||^2 come from small sums alone, round by round."""
    _, final, _, twin = run_both("both", penalty)
    sizes = np.array([part.size for part in twin[0]], float)
    norms = [(part**2).sum() for part in twin[0]]
    found = final.units**2 * (sizes + np.asarray(final.growth))
    np.testing.assert_allclose(found, norms, rtol=1e-9)
    assert not np.any(final.pending)  # nothing is left over between rounds


@each_penalty
def test_the_dual_of_a_half_problem_never_falls(penalty):
    r"""With beta fixed, D(tau) = sum tau_t l_t(alpha_0) - |sum tau_t z_t|^2 / 2 rho.

    It is evaluated anew after each round from the multipliers alone.
    """
    sequences = random_task(**TASKS["both"])
    space, stream = sequences.space, streams.sentences.stream(sequences)
    learner = bcd.learner(
        penalty=penalty, num_rounds_per_block=10**6, dtype=jnp.float64
    )
    state, (alpha, beta) = random_start(learner, sequences)

    @jax.jit
    def update(state, example):
        scores = bilinear.scores(state.params, example)
        predicted = best_path(scores, example.length).labels
        return predicted, learner.update(state, example)

    start = twins.empty(space)._replace(first=alpha[:, :, None] * beta[:, None, :])
    rho = {
        "product": np.full(len(beta), (beta**2).sum()),
        "sum": np.ones(len(beta)),
        "block": (beta**2).sum(axis=1),
    }[penalty]
    linear, total, seen, duals = 0.0, twins.empty(space), 0.0, [0.0]
    for t in range(2 * sequences.num_sentences):
        index = t % sequences.num_sentences
        example = stream.example(index)
        predicted, (state, info) = update(state, example)
        ids, labels = list(twins.sentences(sequences))[index]
        guess = np.asarray(predicted)[: len(labels)]
        delta = twins.combine(
            twins.features(space, ids, labels), twins.features(space, ids, guess), -1
        )
        tau = float(info.step_size)
        linear += tau * (1 - twins.dot(start, delta))
        total = twins.combine(total, delta, tau)
        z = np.einsum("kuv,kv->ku", total.first, beta)
        square = ((z**2).sum(axis=1) / rho).sum() + (total.zero**2).sum()
        duals.append(linear - square / 2)
        seen += float(info.dual_increment)
        np.testing.assert_allclose(duals[-1], seen, rtol=1e-8, atol=1e-10)
    assert (np.diff(duals) >= -1e-9).all() and duals[-1] > 1e-3


@pytest.mark.parametrize("start", ["unit", "ones"])
def test_the_start_is_that_of_algorithm_1(start):
    sequences = random_task(("01", "0"))
    learner = bcd.learner(start=start, dtype=jnp.float64)
    state = learner.init(
        jax.random.key(0), streams.sentences.stream(sequences).example(0)
    )
    alpha, beta, zero, _ = taken_apart(
        state.params, state.units, sequences.space.num_labels
    )
    for factor in (alpha, beta):
        assert np.ptp(factor) < 1e-15
        norm = 1.0 if start == "unit" else np.sqrt(factor.size)
        np.testing.assert_allclose(np.linalg.norm(factor), norm)
    assert not np.any(zero)
    np.testing.assert_allclose(state.params.scale, state.units.prod())


def test_a_separable_task_is_learnt():
    train, test, _ = planted_task()
    learner = bcd.learner(num_rounds_per_block=30, penalty="block")
    state, trace = loops.train(learner, train, key=jax.random.key(0), num_passes=20)
    mistakes = trace.is_mistake.reshape(20, -1).sum(axis=1)
    assert mistakes[-1] < mistakes[0] / 3
    predict = jax.jit(lambda p, s: labelling.predict(bilinear.scores, p, s))
    labels = predict(bcd.final_params(state), streams.sentences.stream(test))
    assert (np.asarray(labels) == test.labels).mean() > 0.6  # chance is a third


def test_without_averaging_the_last_iterate_is_returned():
    stream = streams.sentences.stream(random_task(("01",), has_transitions=True))
    learner = bcd.learner(averaging="none")
    state = learner.init(jax.random.key(0), stream.example(0))
    assert state.sums is None and bcd.final_params(state) is state.params


@pytest.mark.parametrize("penalty", ["product", "block"])
def test_a_pass_copies_no_large_table(penalty):
    check(bcd.learner(penalty=penalty), ("01", "01"))


def test_an_experiment_alternates_from_pass_to_pass(monkeypatch):
    train, test, _ = data.segmentation_task(12, 4, seed=0)
    task = tagging.make_task(train, test, "segmentation", lambda *_: 0.0)
    turns, passes = [], loops.passes

    def watched(*given, **more):
        for done in passes(*given, **more):
            turns.append(done.trace.factor.tolist())
            yield done

    monkeypatch.setattr(loops, "passes", watched)
    for settings, wanted in (
        ({}, [[0] * 12, [1] * 12, [0] * 12]),
        ({"num_rounds_per_block": 6}, [[0] * 6 + [1] * 6] * 3),
    ):
        method = tagging.Method("bcd", bcd, settings, "both", True)
        tagging.fit(method, task, seed=0, num_passes=3)
        assert turns == wanted
        turns.clear()


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="penalty"):
        bcd.learner(penalty="l1")
    with pytest.raises(InputError, match="num_rounds_per_block"):
        bcd.learner(num_rounds_per_block=0)
    sequences = random_task(("0",))
    with pytest.raises(InputError, match="first-order"):
        loops.train(bcd.learner(), sequences, key=jax.random.key(0), num_passes=1)
