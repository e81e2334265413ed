"""The largest ratio along a segment, against a fine grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.linalg.segments import remainder_bound, segment_ratio


def on_a_grid(theta, push, num_points=4001):
    at = np.linspace(0, 1, num_points)
    values = np.linalg.svd(theta + at[:, None, None] * push, compute_uv=False)
    return (values[:, 1] / values[:, 0]).max()


@pytest.mark.parametrize("seed", range(6))
def test_the_ratio_bounds_the_grid_and_tends_to_it(seed):
    rng = np.random.default_rng(seed)
    theta, push = rng.normal(size=(2, 4, 3))
    theta[:, 0] += 4.0  # sigma_1 stays apart from sigma_2
    true = on_a_grid(theta, push)
    found = [
        float(segment_ratio(jnp.asarray(theta), jnp.asarray(push), num_cells=cells))
        for cells in (1, 4, 64)
    ]
    assert min(found) >= true - 1e-9 and max(found) <= 1
    assert found[2] - true < 2e-3 and found[1] - true < 0.2


def test_the_bound_of_the_remainder_is_attained_at_a_tie_and_from_zero():
    """The slope at a tie is any of its singular pairs: here the one that shrinks."""
    thetas, push = np.stack([np.eye(2), np.zeros((2, 2))]), np.diag([-0.5, 0.5])
    found = jax.jit(jax.vmap(remainder_bound, (0, None)))(thetas, push)
    exact = [1.5**2 / 2 - 1 / 2 + 0.5, 0.5**2 / 2]
    np.testing.assert_allclose(found, exact, rtol=1e-12)
