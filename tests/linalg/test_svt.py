"""Singular value thresholding: three ways, one result."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.linalg.svt import svt, truncated_svt


def matrix(shape, rank=None, seed=0):
    generator = np.random.default_rng(seed)
    rank = min(shape) if rank is None else rank
    return generator.normal(size=(shape[0], rank)) @ generator.normal(
        size=(rank, shape[1])
    )


def expected(given, threshold):
    left, values, right = np.linalg.svd(given, full_matrices=False)
    kept = np.maximum(values - threshold, 0)
    return (left * kept) @ right, kept


SHAPES = [(30, 6), (5, 9), (1, 7)]


@pytest.mark.parametrize("method", ["gram", "svd"])
@pytest.mark.parametrize("shape", SHAPES)
def test_full_equals_the_definition(shape, method):
    given = matrix(shape)
    threshold = 0.6 * np.linalg.svd(given, compute_uv=False)[0]
    found = jax.jit(svt, static_argnames="method")(given, threshold, method=method)
    wanted, kept = expected(given, threshold)
    np.testing.assert_allclose(found.matrix, wanted, rtol=1e-9, atol=1e-9)
    assert int(found.rank) == (kept > 0).sum() >= 1
    np.testing.assert_allclose(found.nuclear_norm, kept.sum(), rtol=1e-9)
    np.testing.assert_allclose(found.sigma_1, kept[0], rtol=1e-9)
    size = min(shape)
    assert found.right.shape == (shape[1], size)
    np.testing.assert_allclose(found.right.T @ found.right, np.eye(size), atol=1e-7)


def test_it_is_the_minimum_of_the_proximal_problem():
    given, threshold = matrix((8, 5)), 1.3
    found = np.asarray(svt(jnp.asarray(given), threshold).matrix)

    def value(x):
        nuclear = np.linalg.svd(x, compute_uv=False).sum()
        return threshold * nuclear + ((x - given) ** 2).sum() / 2

    generator = np.random.default_rng(1)
    for scale in (1e-3, 1e-1):
        for _ in range(20):
            assert value(found) <= value(found + scale * generator.normal(size=(8, 5)))


def test_truncated_equals_full_and_tells_when_it_has_too_little_room():
    given = matrix((60, 20), rank=6) + 1e-3 * matrix((60, 20), seed=1)
    start = np.random.default_rng(2).normal(size=(20, 8))
    truncated = jax.jit(truncated_svt, static_argnames="num_steps")
    found = truncated(jnp.asarray(given), 2.0, jnp.asarray(start), num_steps=6)
    wanted, kept = expected(given, 2.0)
    # gap (sigma_9 / sigma_6)^(2 * 6): below 1e-12 here
    np.testing.assert_allclose(found.matrix, wanted, rtol=1e-8, atol=1e-8)
    assert int(found.rank) == (kept > 0).sum() == 6
    np.testing.assert_allclose(found.nuclear_norm, kept.sum(), rtol=1e-9)
    assert bool(found.is_complete)
    small = truncated(jnp.asarray(given), 2.0, jnp.asarray(start[:, :4]), num_steps=6)
    assert not bool(small.is_complete)
    nothing = jnp.zeros(given.shape)  # no value is above the threshold 0
    assert bool(truncated(nothing, 0.0, jnp.asarray(start), num_steps=6).is_complete)
    whole = np.random.default_rng(2).normal(size=(20, 20))  # every value is there
    every = truncated(jnp.asarray(given), 1e-6, jnp.asarray(whole), num_steps=6)
    assert bool(every.is_complete) and int(every.rank) == 20
    # A warm start on a matrix nearby needs one step.
    near = given + 1e-4 * matrix((60, 20), rank=2, seed=3)
    found = truncated(jnp.asarray(near), 2.0, found.right, num_steps=1)
    np.testing.assert_allclose(found.matrix, expected(near, 2.0)[0], atol=1e-6)


def test_truncated_keeps_small_values_beside_large_ones():
    """Single precision: the Gram matrix of Z loses what is 1e-3 of the largest."""
    generator = np.random.default_rng(0)
    left, _ = np.linalg.qr(generator.normal(size=(200, 5)))
    right, _ = np.linalg.qr(generator.normal(size=(12, 5)))
    values = np.array([3000.0, 30.0, 1.0, 0.9, 0.1])
    given = jnp.asarray((left * values) @ right.T, jnp.float32)
    near = jnp.asarray(right + 1e-4 * generator.normal(size=right.shape), jnp.float32)

    def error(found):
        block = left[:, 2:4].T @ np.asarray(found.matrix, np.float64) @ right[:, 2:4]
        return np.abs(block - np.diag([0.5, 0.4])).max()

    truncated = truncated_svt(given, 0.5, near, num_steps=1)
    assert int(truncated.rank) == 4 and bool(truncated.is_complete)
    assert error(truncated) < 1e-3 < 1e-2 < error(svt(given, 0.5))


def test_truncated_lives_with_a_start_and_a_matrix_of_lower_rank():
    given = matrix((40, 7), rank=2)
    start = np.random.default_rng(4).normal(size=(7, 2)) @ np.ones((2, 5))
    start[:, 1:3] = np.random.default_rng(5).normal(size=(7, 2))
    start[:, 4] = 0
    found = truncated_svt(jnp.asarray(given), 0.3, jnp.asarray(start), num_steps=3)
    np.testing.assert_allclose(found.matrix, expected(given, 0.3)[0], atol=1e-9)
    assert int(found.rank) == 2


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_zero_matrices_stay_zero_and_dtypes_are_kept(dtype):
    @jax.jit
    def both(zero):
        start = jnp.eye(3, 2, dtype=dtype)
        return svt(zero, 0.0), truncated_svt(zero, 1.0, start, num_steps=1)

    for found in both(jnp.zeros((6, 3), dtype)):
        assert found.matrix.dtype == found.right.dtype == dtype
        assert not np.asarray(found.matrix).any()
        assert int(found.rank) == 0 and float(found.nuclear_norm) == 0.0
