"""What a round records for DR-B3, against every feature vector written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import loops, streams
from lowrank_jax.checks import InputError
from lowrank_jax.linalg.segments import remainder_bound
from lowrank_jax.online import bol, perceptron
from tests.online import twins
from tests.online.tasks import random_task

RECORD = ("predicted", "squared_norm", "curvature")


def moves(sequences, trace):
    """Yield dPhi of each round of one pass in order."""
    sentences = list(twins.sentences(sequences))
    for (ids, labels), guess in zip(sentences, trace.predicted, strict=True):
        right = twins.features(sequences.space, ids, labels)
        wrong = twins.features(sequences.space, ids, guess[: len(labels)])
        yield twins.combine(right, wrong, -1.0)


def trained(module, sequences, **settings):
    learner = module.learner(record=RECORD, dtype=jnp.float64, **settings)
    stream = streams.sentences.stream(sequences)
    state = learner.init(jax.random.key(0), stream.example(0))
    order = jnp.arange(stream.num_examples, dtype=jnp.int32)
    run = jax.jit(lambda *given: loops.run(learner, *given))
    return jax.device_get(run(state, stream, order))


@pytest.mark.slow
@pytest.mark.parametrize("start", [0.0, 0.7])
def test_curvature_of_a_round_is_the_sum_over_its_blocks(start):
    """Each touched block once, with the round's whole push; the rest by squares."""
    step = 0.5
    sequences = random_task(("01", "0", "1"), has_transitions=True, shared=True)
    _, trace = trained(bol, sequences, step_size=step, start=start, num_power_steps=200)
    theta = np.full_like(twins.empty(sequences.space).first, start)
    bound = jax.jit(jax.vmap(remainder_bound))
    energy = (np.linalg.svd(theta, compute_uv=False)[:, 0] ** 2).sum() / 2
    flat = twins.empty(sequences.space)
    num_moved = 0
    for t, delta in enumerate(moves(sequences, trace)):
        others = (delta.zero**2).sum() + (delta.transitions**2).sum()
        squares = others + (delta.first**2).sum()
        assert trace.squared_norm[t] == squares
        push = step * delta.first
        blocks = float(bound(theta, push).sum())
        expected = others + 2 * blocks / step**2
        np.testing.assert_allclose(trace.curvature[t], expected, rtol=1e-8)
        theta = theta + push
        after = (np.linalg.svd(theta, compute_uv=False)[:, 0] ** 2).sum() / 2
        growth = after - energy + step**2 * others / 2
        growth += step * (flat.zero * delta.zero).sum()
        growth += step * (flat.transitions * delta.transitions).sum()
        flat, energy = twins.combine(flat, delta, step), after
        remainder = growth - step * trace.margin[t]  # B_t, exact
        assert remainder <= step**2 / 2 * trace.curvature[t] * (1 + 1e-6) + 1e-9
        num_moved += squares > 0
    assert num_moved > 8


def test_curvature_of_the_perceptron_is_the_squared_norm():
    sequences = random_task(("01", "0"), has_transitions=True)
    _, trace = trained(perceptron, sequences, step_size=0.5)
    squares = [
        sum((part**2).sum() for part in delta) for delta in moves(sequences, trace)
    ]
    np.testing.assert_array_equal(trace.squared_norm, squares)
    np.testing.assert_array_equal(trace.curvature, squares)
    np.testing.assert_allclose(trace.bregman, 0.125 * np.array(squares), atol=1e-12)


@pytest.mark.parametrize("settings", [{"rank": 2}, {"variant": "exact"}])
def test_curvature_is_of_blocks_of_rank_1(settings):
    with pytest.raises(InputError, match="`record='curvature'` needs variant='block'"):
        bol.learner(record=("curvature",), **settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{}, {"variant": "paper"}, {"variant": "paper", "divisor": "global"}]
)
def test_a_run_makes_no_nan(settings):
    """`jax_debug_nans` stops a program at the first one."""
    sequences = random_task(("01", "0", "1"), has_transitions=True)
    with jax.debug_nans(True):
        loops.train(
            bol.learner(**settings), sequences, key=jax.random.key(0), num_passes=1
        )
