"""Norms against NumPy's, and at scales where squares overflow or vanish."""

import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.linalg import norms

RNG = np.random.default_rng(0)


def test_norm_and_square_take_all_parts_together():
    parts = [jnp.asarray(RNG.normal(size=shape)) for shape in ((3, 2), (4,), ())]
    flat = np.concatenate([np.ravel(part) for part in parts])
    np.testing.assert_allclose(norms.norm(*parts), np.linalg.norm(flat), rtol=1e-12)
    np.testing.assert_allclose(norms.square(*parts), flat @ flat, rtol=1e-12)


def test_rows_and_last_axis():
    left, right = jnp.asarray(RNG.normal(size=(2, 5, 3, 4)))
    expected = np.linalg.norm(np.reshape(left, (5, -1)), axis=1) ** 2
    np.testing.assert_allclose(norms.row_squares(left), expected, rtol=1e-12)
    expected = np.einsum("abc,abc->ab", left, right)
    np.testing.assert_allclose(norms.dot(left, right), expected, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-200, 0.0, 1.0, 1e200])
def test_scaled_norm_neither_overflows_nor_vanishes(scale):
    values = np.arange(1.0, 13).reshape(2, 3, 2)
    found = norms.scaled_norm(jnp.asarray(scale * values), (1, 2))
    expected = scale * np.linalg.norm(values.reshape(2, -1), axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_nonzero_replaces_zeros_alone():
    found = norms.nonzero(jnp.array([0.0, -0.0, 2.0, -1e-300]))
    np.testing.assert_array_equal(found, [1.0, 1.0, 2.0, -1e-300])
