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
