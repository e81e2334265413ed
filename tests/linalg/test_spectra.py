"""Forms of the singular value decomposition, all on one machine."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.linalg import spectra
from lowrank_jax.linalg.forms import forced

SHAPES = [(7, 4), (4, 7), (1, 3), (5, 1), (6, 5, 6), (40, 33)]


def both(matrix):
    with forced("tpu"):
        return jax.jit(lambda x: (spectra.svd(x), spectra.singular_values(x)))(matrix)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-13), ("float32", 3e-6)])
def test_jacobi_rotations_equal_the_library(shape, dtype, rtol):
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=shape).astype(dtype)
    (left, values, right), alone = both(matrix)
    expected = np.linalg.svd(matrix, compute_uv=False)
    room = rtol * expected.max()
    np.testing.assert_allclose(values, expected, atol=room, rtol=rtol)
    np.testing.assert_allclose(alone, expected, atol=room, rtol=rtol)
    np.testing.assert_allclose((left * values[..., None, :]) @ right, matrix, atol=room)
    for vectors in (left.mT @ left, right @ right.mT):
        unit = np.broadcast_to(np.eye(vectors.shape[-1]), vectors.shape)
        np.testing.assert_allclose(vectors, unit, atol=10 * rtol)


def test_small_values_keep_their_digits_beside_large_ones():
    # Columns of very different length: the Gram matrix would lose the small ones.
    rng = np.random.default_rng(1)
    basis, _ = np.linalg.qr(rng.normal(size=(9, 5)))
    expected = np.array([1e6, 1e3, 1.0, 1e-3, 1e-6])
    (_, values, _), alone = both((basis * expected).astype("float32"))
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    np.testing.assert_allclose(alone, expected, rtol=1e-5)


def test_a_deficient_matrix_has_zero_vectors_and_no_nan():
    matrix = np.zeros((3, 6, 4))
    matrix[1, :, 2] = 1
    (left, values, right), _ = both(matrix)
    np.testing.assert_allclose(
        (left * values[..., None, :]) @ right, matrix, atol=1e-15
    )
    np.testing.assert_array_equal(values[1, 1:], 0)
    np.testing.assert_array_equal(values[::2], 0)


def test_the_library_is_what_a_cpu_runs_and_what_is_differentiated():
    matrix = jnp.asarray(np.random.default_rng(2).normal(size=(4, 3)))
    found = jax.jit(spectra.svd)(matrix)
    for one, two in zip(
        found, jnp.linalg.svd(matrix, full_matrices=False), strict=True
    ):
        np.testing.assert_array_equal(one, two)
    slope = jax.jit(jax.grad(lambda x: spectra.singular_values(x).sum()))(matrix)
    np.testing.assert_allclose(slope, found[0] @ found[2], rtol=1e-12, atol=1e-14)


def test_an_unknown_form_is_named():
    with pytest.raises(InputError, match="form"), forced("fpga"):
        pass
