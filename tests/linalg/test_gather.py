"""Reading at places that are inside the table."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.linalg.gather import read


@pytest.mark.parametrize("dtype", [jnp.int32, jnp.uint32, jnp.int64])
@pytest.mark.parametrize("shape", [(7,), (7, 3), (7, 2, 3)])
def test_reads_are_entries_of_the_table(shape, dtype):
    rng = np.random.default_rng(0)
    table = rng.normal(size=shape)
    for of_places in ((), (5,), (4, 6)):
        places = rng.integers(7, size=of_places)
        found = jax.jit(read)(table, jnp.asarray(places, dtype))
        np.testing.assert_array_equal(found, table[places])


def test_reads_can_be_mapped_and_differentiated():
    table = jnp.arange(6.0)
    places = jnp.asarray([[0, 5, 5], [1, 1, 1]], jnp.int32)
    found = jax.vmap(read, in_axes=(None, 0))(table, places)
    np.testing.assert_array_equal(found, table[places])
    slope = jax.grad(lambda t: read(t, places).sum())(table)
    np.testing.assert_array_equal(slope, [1, 3, 0, 0, 0, 2])
