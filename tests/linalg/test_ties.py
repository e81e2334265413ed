"""Thresholding under ties: ADMM is exact, the projection only near."""

import functools

import cvxpy
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.linalg.ties import average_ties, tied_prox
from lowrank_jax.models.hankel import tie_groups

GROUPS = tie_groups(2)  # (7, 3)


@functools.lru_cache
def prox(method):
    return jax.jit(
        functools.partial(tied_prox, method=method, svt_method="svd", tolerance=1e-9)
    )


def target(seed):
    return np.random.default_rng(seed).normal(size=GROUPS.shape)


def is_tied(matrix):
    matrix = np.asarray(matrix)
    return all(np.ptp(matrix[GROUPS == g]) < 1e-12 for g in np.unique(GROUPS))


def average(given):
    """Tied entries replaced by their mean."""
    found = given.copy()
    for g in np.unique(GROUPS):
        found[GROUPS == g] = given[GROUPS == g].mean()
    return found


def test_the_average_is_the_nearest_tied_matrix():
    given = target(0)
    found = jax.jit(average_ties)(given, GROUPS)
    assert is_tied(found)
    np.testing.assert_allclose(found, average(given), rtol=1e-12)


@pytest.mark.parametrize("seed", range(2))
def test_admm_equals_the_convex_solver(seed):
    given, threshold = target(seed), 0.4 + 0.3 * seed
    values = cvxpy.Variable(GROUPS.max() + 1)
    places = np.eye(GROUPS.max() + 1)[GROUPS.reshape(-1)]
    x = cvxpy.reshape(places @ values, GROUPS.shape, order="C")
    value = cvxpy.sum_squares(x - given) / 2 + threshold * cvxpy.normNuc(x)
    problem = cvxpy.Problem(cvxpy.Minimize(value))
    problem.solve(solver="CLARABEL")
    found = prox("admm")(given, GROUPS, threshold)
    assert found.converged and is_tied(found.matrix)
    # An objective right to 1e-8 leaves the variables right to its root.
    np.testing.assert_allclose(found.matrix, x.value, atol=1e-4)
    np.testing.assert_allclose(found.objective, problem.value, rtol=1e-7)


def test_the_lower_bound_meets_the_objective_and_the_projection_lies_above():
    excesses = []
    for seed in range(50):
        given, threshold = target(seed), 0.8
        exact = prox("admm")(given, GROUPS, threshold)
        near = prox("projection")(given, GROUPS, threshold)
        assert exact.converged and is_tied(near.matrix)
        assert -1e-12 < exact.objective - exact.lower_bound < 1e-7 * exact.objective
        excesses.append(float(near.objective / exact.objective) - 1)
    assert min(excesses) >= -1e-9
    assert 1e-4 < np.median(excesses) < max(excesses) < 0.1  # errata SMM-X2


def test_without_ties_or_threshold_it_is_the_plain_map():
    given = target(1)
    free = np.arange(given.size, dtype=GROUPS.dtype).reshape(given.shape)
    left, values, right = np.linalg.svd(given, full_matrices=False)
    wanted = (left * np.maximum(values - 0.7, 0)) @ right
    found = prox("admm")(given, free, 0.7)
    np.testing.assert_allclose(found.matrix, wanted, atol=1e-8)
    found = prox("admm")(given, GROUPS, 0.0)
    np.testing.assert_allclose(found.matrix, average(given), atol=1e-8)
    zero = prox("admm")(np.zeros(GROUPS.shape), GROUPS, 0.5)
    assert zero.converged and not zero.matrix.any() and zero.objective == 0


def test_single_precision_is_kept_and_too_few_steps_are_told():
    given = target(2).astype(np.float32)
    twice = functools.partial(tied_prox, num_groups=15, tolerance=1e-12, max_steps=2)
    with jax.enable_x64(False):
        found = jax.device_get(jax.jit(twice)(given, GROUPS, 0.7))
    assert found.matrix.dtype == found.lower_bound.dtype == jnp.float32
    assert not found.converged and found.num_steps == 2
    assert found.lower_bound < found.objective
    nuclear = np.linalg.svd(found.matrix, compute_uv=False).sum()
    value = 0.7 * nuclear + ((found.matrix - given) ** 2).sum() / 2
    np.testing.assert_allclose(found.objective, value, rtol=1e-5)


def test_wrong_settings_are_named():
    with pytest.raises(InputError, match="`method` must be one of"):
        tied_prox(target(0), GROUPS, 0.5, method="exact")
