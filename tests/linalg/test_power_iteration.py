"""Subspace iteration against a dense SVD, through projectors."""

import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import linalg


def with_spectrum(rng, num_blocks, shape, sigma):
    """Return blocks with the given singular values and random vectors."""
    rank = len(sigma)
    u = np.linalg.qr(rng.standard_normal((num_blocks, shape[0], rank)))[0]
    v = np.linalg.qr(rng.standard_normal((num_blocks, shape[1], rank)))[0]
    return np.einsum("kur,r,kvr->kuv", u, sigma, v)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("shape", [(4, 5), (6, 3)])
def test_subspace_equals_that_of_the_svd(shape, rank):
    rng = np.random.default_rng(0)
    sigma = np.array([4.0, 2.0, 1.0])
    blocks = with_spectrum(rng, 7, shape, sigma)
    start = rng.standard_normal((7, rank, shape[1]))
    # The gap sets the count: (1/2)^(2 k) < 1e-12 needs k = 20 steps.
    found = linalg.leading_subspace(
        jnp.asarray(blocks), jnp.asarray(start), num_steps=24
    )
    u, values, vt = np.linalg.svd(blocks)
    best = np.einsum("kur,kr,krv->kuv", u[..., :rank], values[:, :rank], vt[:, :rank])
    ours = np.einsum("kru,krv->kuv", found.left, found.right)
    np.testing.assert_allclose(ours, best, atol=1e-9)
    gram = np.einsum("kru,ksu->krs", found.right, found.right)
    np.testing.assert_allclose(
        gram, np.broadcast_to(np.eye(rank), gram.shape), atol=1e-12
    )
    assert (found.residual < 1e-9).all()


def test_residual_tells_that_it_has_not_converged():
    rng = np.random.default_rng(1)
    blocks = with_spectrum(rng, 5, (4, 4), np.array([1.0, 0.95]))
    start = rng.standard_normal((5, 1, 4))
    few = linalg.leading_subspace(jnp.asarray(blocks), jnp.asarray(start), num_steps=2)
    assert (few.residual > 1e-3).all()


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("num_steps", [1, 3])
def test_residual_is_the_largest_move_of_the_last_step(num_steps, rank):
    """The start has any length; what is reported is a distance of unit vectors."""
    rng = np.random.default_rng(2)
    blocks = rng.standard_normal((2, 4, 3))
    start = 5 * rng.standard_normal((2, rank, 3))
    found = linalg.leading_subspace(
        jnp.asarray(blocks), jnp.asarray(start), num_steps=num_steps
    )
    for block, vectors, residual in zip(blocks, start, found.residual, strict=True):
        for _ in range(num_steps):
            before = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = vectors @ block.T @ block
            for j, vector in enumerate(vectors):  # Gram and Schmidt
                vector = vector - vectors[:j].T @ (vectors[:j] @ vector)
                vectors[j] = vector / np.linalg.norm(vector)
        moves = np.linalg.norm(vectors - before, axis=1)
        np.testing.assert_allclose(residual, moves.max(), rtol=1e-10)


def test_nearly_dependent_vectors_become_orthogonal():
    """One projection leaves rounding over the distance; the second removes it."""
    rng = np.random.default_rng(3)
    one, other = rng.standard_normal((2, 1, 6))
    vectors = np.stack([one, one + 1e-5 * other], axis=1)
    found = np.asarray(linalg.power_iteration.orthonormalise(jnp.asarray(vectors)))[0]
    np.testing.assert_allclose(found @ found.T, np.eye(2), atol=1e-14)


def test_zero_and_deficient_blocks_give_zero_vectors():
    blocks = np.zeros((2, 3, 4))
    blocks[1, 0, 1] = 2.0
    start = np.ones((2, 2, 4)) + np.arange(8).reshape(2, 4)[None]
    found = linalg.leading_subspace(
        jnp.asarray(blocks), jnp.asarray(start), num_steps=3
    )
    assert not np.asarray(found.left)[0].any()
    ours = np.einsum("kru,krv->kuv", found.left, found.right)
    np.testing.assert_allclose(ours, blocks, atol=1e-12)
    assert np.isfinite(np.asarray(found.right)).all()


def test_dependent_vectors_are_dropped_not_made_of_noise():
    vectors = np.array([[[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 0.0, 1.0]]])
    basis = np.asarray(linalg.orthonormalise(jnp.asarray(vectors)))[0]
    assert not basis[1].any()
    np.testing.assert_allclose(basis[[0, 2]] @ basis[[0, 2]].T, np.eye(2), atol=1e-12)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("shape", [(4, 5), (6, 3)])
def test_no_steps_take_the_exact_subspace(shape, rank):
    """Whatever the start; the gap of 2 % would need hundreds of steps."""
    rng = np.random.default_rng(0)
    blocks = with_spectrum(rng, 7, shape, np.array([4.0, 3.92, 3.84]))
    found = linalg.leading_subspace(
        jnp.asarray(blocks), jnp.zeros((7, rank, shape[1])), num_steps=0
    )
    u, values, vt = np.linalg.svd(blocks)
    best = np.einsum("kur,kr,krv->kuv", u[..., :rank], values[:, :rank], vt[:, :rank])
    ours = np.einsum("kru,krv->kuv", found.left, found.right)
    np.testing.assert_allclose(ours, best, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_energy_of_small_integers(dtype):
    """Zero blocks, ties and blocks of low rank are the rule in a dual of counts."""
    rng = np.random.default_rng(0)
    blocks = rng.integers(-2, 3, size=(2000, 4, 5)) * (rng.random((2000, 1, 1)) < 0.9)
    blocks[:500] *= rng.random((500, 4, 5)) < 0.3
    start = jnp.zeros((2000, 1, 5), dtype)
    found = linalg.leading_subspace(jnp.asarray(blocks, dtype), start, num_steps=0)
    length = np.linalg.norm(found.left[:, 0], axis=1)
    sigma = np.linalg.svd(blocks, compute_uv=False)
    np.testing.assert_allclose(length, sigma[:, 0], rtol=2e-5, atol=1e-6)
    assert (sigma[:, 0] - sigma[:, 1] < 1e-9).sum() > 200  # zeros and ties are there
