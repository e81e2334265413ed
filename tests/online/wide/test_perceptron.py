"""Wide rounds of the perceptron against plain loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import loops, streams
from lowrank_jax.checks import InputError
from lowrank_jax.online import perceptron, touched
from tests.online.tasks import random_task
from tests.online.wide import twins

KEY = np.array([0, 3], np.uint32)  # computes nothing at import


def orders_of(sequences, num_passes):
    size = sequences.num_sentences
    return [np.asarray(loops.pass_order(KEY, i, size)) for i in range(num_passes)]


@pytest.mark.parametrize(
    ("batch_size", "orders", "has_transitions"),
    [(5, "0 0", True), ("2,9", "0 0", True), (14, "0 0", False), (5, "01 1", True)],
)
def test_wide_rounds_equal_plain_loops(batch_size, orders, has_transitions):
    """BOL-B2 with eta = C m^-1/2, the ramp, and averages over sentences."""
    task = random_task(orders.split(), has_transitions=has_transitions, shared=True)
    room = perceptron.Capacity(5, 3, 2)  # first-order tables grow
    learner = perceptron.learner(step_size=0.5, capacity=room, dtype=jnp.float64)
    state, trace = loops.train(
        learner, task, key=KEY, num_passes=3, batch_size=batch_size
    )
    schedule = streams.packs.check_schedule(batch_size)
    sizes = [schedule[min(i, len(schedule) - 1)] for i in range(3)]
    last, mean, rows = twins.perceptron(task, orders_of(task, 3), sizes, 0.5)
    wrong, margin, eta = (np.array(part) for part in zip(*rows, strict=True))
    np.testing.assert_array_equal(trace.num_wrong, wrong)
    np.testing.assert_array_equal(trace.is_mistake, wrong > 0)
    np.testing.assert_allclose(trace.margin, margin, rtol=1e-10, atol=1e-12)
    loss = np.where(wrong > 0, np.maximum(1 - margin, 0), 0)
    np.testing.assert_allclose(trace.loss, loss, rtol=1e-10, atol=1e-12)
    moved = wrong > 0
    np.testing.assert_array_equal(trace.step_size[moved], eta[moved])
    found = touched.by_feature(perceptron.final_params(state))
    held = touched.by_feature(state.params)
    np.testing.assert_allclose(held.zero[:-1], last.zero, rtol=1e-10)
    if "1" in orders:
        np.testing.assert_allclose(held.first[:-1], last.first, rtol=1e-10)
        np.testing.assert_allclose(found.first[:-1], mean.first, atol=1e-12)
    np.testing.assert_allclose(found.zero[:-1], mean.zero, rtol=1e-10, atol=1e-12)
    if has_transitions:
        np.testing.assert_allclose(
            found.transitions, mean.transitions, rtol=1e-10, atol=1e-12
        )
    squares = sum((part**2).sum() for part in last) / 2
    np.testing.assert_allclose(state.conjugate, squares, rtol=1e-10)
    assert int(state.num_rounds) == 3 * task.num_sentences


def test_a_batch_of_one_is_the_learner_itself():
    task = random_task(("0", "0"), has_transitions=True)
    learner = perceptron.learner()
    results = [
        loops.train(learner, task, key=KEY, num_passes=2, **more)
        for more in ({}, {"batch_size": 1}, {"batch_size": "1"})
    ]
    for other in results[1:]:
        for a, b in zip(*map(jax.tree.leaves, (results[0], other)), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("batch_size", "words"),
    [
        (99, "at most 14, the number of training sentences, got 99"),
        (0, "`batch_size` must be a whole number of at least 1"),
        ("8,x", "numbers with commas such as 8,16,64, got '8,x'"),
        ("8,4", "must not fall from pass to pass, got '8,4'"),
    ],
)
def test_a_bad_batch_size_is_named(batch_size, words):
    task = random_task(("0", "0"))
    with pytest.raises(InputError, match=words):
        loops.train(
            perceptron.learner(), task, key=KEY, num_passes=1, batch_size=batch_size
        )
