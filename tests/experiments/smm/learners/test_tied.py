"""FOBOS on the tied basis: its iterations, its ties, operators from what it learns."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.smm.learners import tied
from lowrank_jax import loops, streams
from lowrank_jax.checks import InputError
from lowrank_jax.linalg.ties import average_ties
from lowrank_jax.models import hankel, operators
from tests.batch.smm.test_fobos import loss_and_subgradient, svt, task

SETTINGS = {"strength": 1.0, "step_size": 0.3, "dtype": jnp.float64}


@functools.lru_cache
def lattice_of_words():
    alphabet, words, _ = task()
    return streams.words.lattice(alphabet, words, has_end=True)


@functools.lru_cache
def run(ties, num_iterations=8):
    """Return the last state, all states stacked, and the trace."""
    lattice = lattice_of_words()
    more = {"tolerance": 1e-8, "max_prox_steps": 1000} if ties == "exact" else {}
    learner = tied.learner(ties=ties, svt="svd", **more, **SETTINGS)

    def step(state, _):
        new, info = learner.update(state, lattice)
        return new, (new, info)

    @jax.jit
    def steps(key):
        start = learner.init(key, lattice)
        return jax.lax.scan(step, start, None, length=num_iterations)

    last, (states, trace) = steps(jax.random.key(0))
    return last, states, trace


@functools.lru_cache
def groups():
    return hankel.tie_groups(task()[0].num_symbols)


def average(matrix):
    """Tied entries replaced by their mean."""
    flat = groups().reshape(-1)
    sums = np.bincount(flat, matrix.reshape(-1)) / np.bincount(flat)
    return sums[groups()]


def table_of(matrix):
    """F(abc) + F(bc) + F(c), read string by string."""
    n = matrix.shape[1] - 1
    values = np.zeros(groups().max() + 1)
    values[groups()] = matrix
    table = np.zeros((n, n, n))
    for a, b, c in itertools.product(range(n), repeat=3):
        pair, triple = 1 + n + b * n + c, 1 + n + n * n + (a * n + b) * n + c
        table[a, b, c] = values[1 + c] + values[pair] + values[triple]
    return table


def prox_objective(matrix, target, threshold):
    nuclear = np.linalg.svd(matrix, compute_uv=False).sum()
    return ((matrix - target) ** 2).sum() / 2 + threshold * nuclear


def half_way(matrix, eta):
    """Objective at a tied matrix, and where the step of size eta arrives."""
    n = matrix.shape[1] - 1
    total, counts, num_wrong = loss_and_subgradient(table_of(matrix), has_end=True)
    gradient = np.zeros(groups().max() + 1)  # of each string
    gradient[1 : 1 + n] = counts.sum((0, 1))
    gradient[1 + n : 1 + n + n * n] = counts.sum(0).reshape(-1)
    gradient[1 + n + n * n :] = counts.reshape(-1)
    shares = gradient / np.bincount(groups().reshape(-1))
    nuclear = np.linalg.svd(matrix, compute_uv=False).sum()
    objective = total + SETTINGS["strength"] * nuclear
    return objective, num_wrong, matrix - eta * shares[groups()]


def test_projected_iterations_are_those_of_algorithm_1_with_averaging():
    _, words, _ = task()
    last, states, trace = run("projection")
    h, best, weighted, steps = np.zeros(groups().shape), (np.inf, None), 0, 0
    for t in range(1, 9):
        eta = SETTINGS["step_size"] / np.sqrt(t)
        objective, num_wrong, moved = half_way(h, eta)
        np.testing.assert_allclose(trace.objective[t - 1], objective, rtol=1e-9)
        accuracy = 1 - num_wrong / words.num_letters
        np.testing.assert_allclose(trace.accuracy[t - 1], accuracy, rtol=1e-12)
        if objective < best[0]:
            best = (objective, h)
        h = average(svt(moved, eta * SETTINGS["strength"]))
        np.testing.assert_allclose(states.params[t - 1], h, atol=1e-10)
        weighted, steps = weighted + eta * h, steps + eta
    for iterate, wanted in (
        ("last", h),
        ("best", best[1]),
        ("average", weighted / steps),
    ):
        found = tied.final_params(last, iterate)
        np.testing.assert_allclose(found, wanted, atol=1e-9)
        np.testing.assert_array_equal(found, average(np.asarray(found)))
    np.testing.assert_allclose(trace.best_objective[-1], best[0], rtol=1e-9)


def test_exact_steps_lie_below_projected_ones_and_keep_the_rank_low():
    _, states, trace = run("exact")
    assert trace.is_complete.all() and (np.asarray(trace.tie_violation) == 0).all()
    h, excess = np.zeros(groups().shape), []
    for t, new in enumerate(np.asarray(states.params), 1):
        eta = SETTINGS["step_size"] / np.sqrt(t)
        threshold = eta * SETTINGS["strength"]
        _, _, moved = half_way(h, eta)
        near = average(svt(moved, threshold))
        exact = prox_objective(new, moved, threshold)
        excess.append(prox_objective(near, moved, threshold) / exact - 1)
        assert np.linalg.matrix_rank(new, tol=1e-6) == int(states.rank[t - 1])
        h = new
    assert min(excess) > -1e-7 and max(excess) > 1e-3
    _, other, projected = run("projection")
    assert (np.asarray(projected.tie_violation) == 0).all()
    assert not projected.num_prox_steps.any() and projected.is_complete.all()
    assert (np.asarray(states.rank) <= np.asarray(other.rank)).all()
    assert states.rank[-1] < other.rank[-1]
    # The multiplier of the iteration before is a good start.
    num_steps = np.asarray(trace.num_prox_steps)
    assert num_steps[0] > 0 and num_steps.max() < 1000


def test_all_states_give_all_learnt_scores_and_predictions_back():
    matrix = tied.final_params(run("projection")[0])
    blocks = hankel.sub_blocks(matrix)
    n, full = blocks.symbols.shape[0], np.linalg.matrix_rank(np.asarray(blocks.empty))
    assert full == n  # 1 + n less the symbol of unseen letters: nothing is lost
    few, model = (
        jax.device_get(jax.jit(operators.recover, static_argnums=1)(blocks, rank))
        for rank in (2, int(full))
    )
    values = np.zeros(groups().max() + 1)
    values[groups()] = np.asarray(matrix)
    state, scores = model.alpha[None], []  # states after all strings of one length
    for _ in range(4):
        scores.append(state @ model.beta)
        state = np.einsum("si,bij->sbj", state, model.matrices)
        state = state.reshape(-1, state.shape[-1])
    np.testing.assert_allclose(np.concatenate(scores), values, atol=1e-8)

    learnt = hankel.score_table(tied.BLOCKS, tied.table_params(matrix))
    np.testing.assert_allclose(learnt, table_of(np.asarray(matrix)), atol=1e-12)
    table_from = jax.jit(functools.partial(operators.trigram_table, lower_orders=True))
    table = np.asarray(table_from(model))
    np.testing.assert_allclose(table, learnt, atol=1e-8)
    assert np.abs(np.asarray(table_from(few)) - learnt).max() > 0.1
    found, wanted = (
        loss_and_subgradient(part, has_end=True) for part in (table, np.asarray(learnt))
    )
    np.testing.assert_array_equal(found[1], wanted[1])  # the same paths


def test_loops_run_it_like_any_learner_of_a_whole_corpus():
    learner = tied.learner(svt="svd", **SETTINGS)
    runs = loops.passes(
        learner, streams.Whole(lattice_of_words()), key=jax.random.key(0), num_passes=3
    )
    found = [done.trace for done in runs]
    objectives = [info.objective for info in found]
    np.testing.assert_allclose(objectives, run("projection")[2].objective[:3])
    assert not any(info.converged for info in found)


def test_strings_are_averaged_as_their_groups_say():
    matrix = np.random.default_rng(0).normal(size=groups().shape)
    found = tied.average_strings(jnp.asarray(matrix))
    np.testing.assert_allclose(found, average_ties(jnp.asarray(matrix), groups()))


def test_wrong_settings_are_named():
    with pytest.raises(InputError, match="`ties` must be one of"):
        tied.learner(ties="admm")
    with pytest.raises(InputError, match="`tolerance` must be"):
        tied.learner(tolerance=0.0)
    with pytest.raises(InputError, match="`iterate` must be one of"):
        tied.final_params(run("projection")[0], "first")
