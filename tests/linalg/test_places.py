import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.linalg import places
from lowrank_jax.linalg.forms import forced

FORMS = ("cpu", "gpu", "tpu")


def table_and_places(shape=(9, 5), seed=0):
    generator = np.random.default_rng(seed)
    table = generator.normal(size=shape)
    # Rows in a column, columns in a table, as the entries of a record; some are equal.
    row = np.array([[3], [0], [3], [8]], np.int32)
    column = np.array([[4, 0], [1, 1], [4, 2], [0, 3]], np.int32)
    return table, (row, column), generator.normal(size=(4, 2))


@pytest.mark.parametrize("form", FORMS)
def test_entries_are_read(form):
    table, where, _ = table_and_places()
    with forced(form):
        found = places.read(jnp.asarray(table), tuple(map(jnp.asarray, where)))
    np.testing.assert_array_equal(found, table[where])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_entries_are_added_to_however_often_they_occur(form, dtype):
    table, where, values = table_and_places()
    table, values = (100 * table).astype(dtype), (100 * values).astype(dtype)
    with forced(form):
        at = tuple(map(jnp.asarray, where))
        found = places.add(jnp.asarray(table), at, jnp.asarray(values))
    np.add.at(table, where, values)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, table, rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_a_table_of_three_axes_is_read_and_added_to(form):
    table = np.random.default_rng(1).normal(size=(6, 3, 4))
    where = tuple(np.array(part, np.int32) for part in ([5, 0], [2, 1], [3, 0]))
    with forced(form):
        given = jnp.asarray(table), tuple(map(jnp.asarray, where))
        read, added = places.read(*given), places.add(*given, jnp.ones(2))
    np.testing.assert_array_equal(read, table[where])
    np.add.at(table, where, 1)
    np.testing.assert_array_equal(added, table)


@pytest.mark.parametrize("form", FORMS)
def test_the_last_columns_of_rows_are_written(form):
    table, _, _ = table_and_places()
    row = np.array([7, 2, 7], np.int32)
    new = np.arange(9.0).reshape(3, 3)
    new[2] = new[0]
    with forced(form):
        given = table, row, table[row], new
        found = places.put(*map(jnp.asarray, given))
    table[row, 2:] = new
    np.testing.assert_array_equal(found, table)
