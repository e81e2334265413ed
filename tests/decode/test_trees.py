"""Trees of comparisons against NumPy, ties and numbers that are no number included."""

import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.decode import trees


@pytest.mark.parametrize("num_terms", [1, 2, 3, 7, 22, 129])
@pytest.mark.parametrize("axis", [0, 1])
def test_first_argmax_equals_that_of_numpy(num_terms, axis):
    rng = np.random.default_rng(num_terms)
    values = rng.integers(0, 3, (40, num_terms)).astype(float)  # many ties
    values[rng.random(values.shape) < 0.1] = -np.inf
    values[:5, rng.integers(num_terms)] = np.nan
    given = values if axis else values.T
    found = trees.first_argmax(jnp.asarray(given), axis)
    assert found.dtype == jnp.int32
    np.testing.assert_array_equal(found, given.argmax(axis))


@pytest.mark.parametrize("num_terms", [1, 2, 5, 8])
def test_terms_are_joined_in_order(num_terms):
    terms = [f"{number}" for number in range(num_terms)]
    assert trees.joined(terms, lambda a, b: a + b) == "".join(terms)
