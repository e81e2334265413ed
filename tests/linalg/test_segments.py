"""The largest ratio along a segment, against a fine grid."""

import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.linalg.segments import segment_ratio


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
