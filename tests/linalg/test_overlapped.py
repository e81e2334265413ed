"""Thresholding both unfoldings of one tensor."""

import functools

import cvxpy
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.linalg.overlapped import overlapped_prox


@functools.lru_cache
def prox():
    return jax.jit(functools.partial(overlapped_prox, svt_method="svd", tolerance=1e-9))


def target(seed):
    return np.random.default_rng(seed).normal(size=(3, 2, 3))


def nuclear(matrix):
    return np.linalg.svd(matrix, compute_uv=False).sum()


def objective(tensor, given, thresholds):
    first, last = tensor.reshape(3, -1), tensor.reshape(-1, 3)
    penalty = thresholds[0] * nuclear(first) + thresholds[1] * nuclear(last)
    return ((tensor - given) ** 2).sum() / 2 + penalty


@pytest.mark.parametrize("seed, thresholds", [(0, (0.5, 0.5)), (1, (0.9, 0.4))])
def test_it_equals_the_convex_solver(seed, thresholds):
    given = target(seed)
    x = cvxpy.Variable((3, 6))
    # (ab|c) of the matrix (a|bc): its blocks of columns, b by b, below one another.
    last = cvxpy.vstack([x[:, :3], x[:, 3:]])
    value = cvxpy.sum_squares(x - given.reshape(3, 6)) / 2
    value += thresholds[0] * cvxpy.normNuc(x) + thresholds[1] * cvxpy.normNuc(last)
    problem = cvxpy.Problem(cvxpy.Minimize(value))
    problem.solve(solver="CLARABEL")
    found = prox()(given, thresholds)
    assert found.converged
    # An objective right to 1e-8 leaves the variables right to its root.
    np.testing.assert_allclose(found.tensor, x.value.reshape(given.shape), atol=1e-4)
    np.testing.assert_allclose(found.objective, problem.value, rtol=1e-7)


def test_the_lower_bound_meets_the_objective_and_multipliers_are_feasible():
    for seed in range(10):
        given, thresholds = target(seed), (0.3 + 0.1 * seed, 0.6)
        found = jax.device_get(prox()(given, thresholds))
        wanted = objective(found.tensor, given, thresholds)
        np.testing.assert_allclose(found.objective, wanted, rtol=1e-12)
        assert found.converged
        assert -1e-12 < found.objective - found.lower_bound < 1e-6 * found.objective
        first, last = found.multipliers
        assert np.linalg.norm(first.reshape(3, -1), 2) < thresholds[0] + 1e-12
        assert np.linalg.norm(last.reshape(-1, 3), 2) < thresholds[1] + 1e-12
        for shape, rank in zip(((3, -1), (-1, 3)), found.ranks, strict=True):
            matrix = found.tensor.reshape(shape)
            assert np.linalg.matrix_rank(matrix, tol=1e-7) == rank
        # From its own multiplier it is there at once.
        again = prox()(given, thresholds, start=last)
        assert again.num_steps <= 2
        np.testing.assert_allclose(again.tensor, found.tensor, atol=1e-8)


def test_one_threshold_is_the_plain_map_and_large_ones_leave_nothing():
    given = target(3)
    left, values, right = np.linalg.svd(given.reshape(-1, 3), full_matrices=False)
    wanted = (left * np.maximum(values - 0.7, 0)) @ right
    found = prox()(given, (0.0, 0.7))
    np.testing.assert_allclose(found.tensor, wanted.reshape(given.shape), atol=1e-10)
    assert not prox()(given, (50.0, 50.0)).tensor.any()
    zero = prox()(np.zeros((3, 2, 3)), (0.5, 0.5))
    assert zero.converged and not zero.tensor.any() and zero.objective == 0


def test_single_precision_is_kept_and_too_few_steps_are_told():
    given = target(2).astype(np.float32)
    once = functools.partial(overlapped_prox, tolerance=1e-12, max_steps=1)
    with jax.enable_x64(False):
        found = jax.device_get(jax.jit(once)(given, (0.7, 0.7)))
    assert found.tensor.dtype == found.lower_bound.dtype == jnp.float32
    assert not found.converged and found.num_steps == 1
    assert found.lower_bound < found.objective
    wanted = objective(found.tensor, given, (0.7, 0.7))
    np.testing.assert_allclose(found.objective, wanted, rtol=1e-5)


def test_the_first_steps_are_those_of_plain_numpy():
    given, thresholds = target(1), (0.5, 0.4)

    def rest(matrix, threshold):
        """What thresholding takes away."""
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
        return ((left * np.minimum(values, threshold)) @ right).reshape(given.shape)

    last, ahead, momentum = np.zeros_like(given), np.zeros_like(given), 1.0
    for _ in range(4):
        first = rest((given - ahead).reshape(3, -1), thresholds[0])
        second = rest((given - first).reshape(-1, 3), thresholds[1])
        assert ((second - ahead) * (second - last)).sum() >= 0  # no restart so far
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = second + (momentum - 1) / following * (second - last)
        last, momentum = second, following
    short = functools.partial(overlapped_prox, svt_method="svd", max_steps=4)
    found = jax.jit(short)(given, thresholds)
    np.testing.assert_allclose(found.multipliers, (first, second), atol=1e-12)


def test_wrong_settings_are_named():
    with pytest.raises(InputError, match="`second_threshold` must be zero or more"):
        overlapped_prox(target(0), (0.5, -1.0))
