"""FOBOS with the nuclear norms of both unfoldings of one table (DR-M3)."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.smm.learners import stochastic
from lowrank_jax.batch.smm import fobos, smoothed
from lowrank_jax.batch.smm.penalties import lower_bound
from lowrank_jax.checks import InputError
from tests.batch.smm.test_fobos import loss_and_subgradient, svt, task

TAU, STEP = 0.6, 0.2


@functools.lru_cache
def run(num_iterations=120):
    _, _, lattice = task()
    learner = fobos.learner(
        regulariser="overlapped", strength=TAU, step_size=STEP, dtype=jnp.float64
    )

    def step(state, _):
        new, info = learner.update(state, lattice)
        return new, (new.params[0], info)

    @jax.jit
    def steps(key):
        start = learner.init(key, lattice)
        return jax.lax.scan(step, start, None, length=num_iterations)

    _, (params, trace) = steps(jax.random.key(0))
    return np.asarray(params), trace


def norms(matrix):
    """Nuclear norms of (ab|c) and (a|bc), added."""
    n = matrix.shape[1]
    parts = (matrix, matrix.reshape(n, n * n))
    return sum(np.linalg.svd(part, compute_uv=False).sum() for part in parts)


def prox(matrix, threshold):
    """Dykstra's method, without momentum."""
    n = matrix.shape[1]
    last = np.zeros_like(matrix)
    for _ in range(300):
        wide = (matrix - last).reshape(n, n * n)
        first = (wide - svt(wide, threshold)).reshape(matrix.shape)
        new = svt(matrix - first, threshold)
        last = matrix - first - new
    return new


def test_iterations_are_those_of_algorithm_1_with_the_overlapped_map():
    n = task()[0].num_symbols
    params, trace = run()
    h = np.zeros((n * n, n))
    for t in range(1, 5):
        total, counts, _ = loss_and_subgradient(h.reshape(n, n, n))
        # The map is solved to 1e-5 of the norm.
        objective = total + TAU * norms(h)
        np.testing.assert_allclose(trace.objective[t - 1], objective, rtol=1e-4)
        eta = STEP / np.sqrt(t)
        h = prox(h - eta * counts.reshape(n * n, n), eta * TAU)
        np.testing.assert_allclose(params[t - 1], h, atol=1e-4)
    assert trace.is_complete.all()
    for t in (5, 50, 119):  # the penalty is of the very matrix
        np.testing.assert_allclose(trace.penalty[t], TAU * norms(params[t - 1]))
        ranks = [
            np.linalg.matrix_rank(params[t - 1].reshape(shape), tol=1e-3)
            for shape in ((n * n, n), (n, n * n))
        ]
        assert sum(ranks) == int(trace.rank[t])


def test_the_gap_closes_and_the_bound_stays_below():
    _, trace = run()
    bound, best = np.asarray(trace.lower_bound), np.asarray(trace.best_objective)
    assert (np.diff(bound) >= 0).all() and bound[-1] <= best[-1]
    assert trace.gap[-1] < 0.25 < trace.gap[20]


def test_a_bound_holds_for_every_matrix():
    n = task()[0].num_symbols
    generator = np.random.default_rng(3)
    points = [s * generator.normal(size=(n * n, n)) for s in (0.01, 0.1, 0.5, 1.0)]
    points += list(run()[0][[0, 10, -1]])
    found = [loss_and_subgradient(point.reshape(n, n, n)) for point in points]
    bound_of = jax.jit(functools.partial(lower_bound, "overlapped"))
    for weights in generator.dirichlet(np.full(len(points), 0.3), size=8):
        pairs = list(zip(weights, found, strict=True))
        gradient = sum(w * f[1].reshape(n * n, n) for w, f in pairs)
        cost = sum(w * float(f[2]) for w, f in pairs)
        for tau in (0.1, TAU, 3.0):
            bound = bound_of((gradient,), jnp.asarray(cost), (jnp.asarray(tau),))
            for point, f in zip(points, found, strict=True):
                assert float(bound) <= f[0] + tau * norms(point) + 1e-9
            # Two balls hold more than one: all on one side is a split, too.
            sigma = np.linalg.norm(gradient, 2)
            assert float(bound) >= min(1, tau / sigma) * cost * (1 - 1e-9)


@pytest.mark.parametrize("module", [fobos, smoothed, stochastic])
def test_wrong_settings_are_named(module):
    more = {"num_batches": 1} if module is stochastic else {}
    more["regulariser"] = "overlapped"
    for wrong in ({"unfolding": "both"}, {"lower_orders": "stacked"}):
        with pytest.raises(InputError, match="needs one table an order"):
            module.learner(**more, **wrong)
    with pytest.raises(InputError, match="thresholds whole spectra"):
        module.learner(**more, svt="truncated")
    module.learner(**more, lower_orders="separate")
