"""Sums by segment against plain additions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.linalg.gather_sum import plan_sums, sum_rows


def random_case(seed, num_pairs, num_segments, num_rows):
    """Segments of very different sizes, some of them empty; rows may repeat."""
    rng = np.random.default_rng(seed)
    segments = (num_segments * rng.random(num_pairs) ** 4).astype(int)
    return segments, rng.integers(0, num_rows, num_pairs)


@pytest.mark.parametrize(
    ("num_pairs", "num_segments"), [(0, 3), (1, 1), (40, 7), (3000, 50), (5000, 2)]
)
def test_sums_equal_plain_additions(num_pairs, num_segments):
    num_rows, width = 30, 3
    segments, rows = random_case(num_pairs, num_pairs, num_segments, num_rows)
    values = np.random.default_rng(1).normal(size=(num_rows, width))
    expected = np.zeros((num_segments, width))
    np.add.at(expected, segments, values[rows])
    plan = plan_sums(segments, rows, num_segments=num_segments, num_rows=num_rows)
    found = jax.jit(sum_rows)(plan, jnp.asarray(values))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_no_piece_is_lost_with_float32_and_whole_numbers():
    segments, rows = random_case(5, 4000, 9, 30)
    plan = plan_sums(segments, rows, num_segments=9, num_rows=30)
    assert len(plan.levels) > 2  # so that pieces of pieces occur
    found = jax.jit(sum_rows)(plan, jnp.ones((30, 1), jnp.float32))
    assert found.dtype == jnp.float32
    np.testing.assert_array_equal(found[:, 0], np.bincount(segments, minlength=9))
