import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.theory.certificate import at_most, equal, ratio


def test_at_most_decides_element_by_element():
    found = at_most(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.5, 2.0, 2.5]))
    np.testing.assert_array_equal(found.slack, [0.5, 0.0, -0.5])
    np.testing.assert_array_equal(found.holds, [True, True, False])
    np.testing.assert_array_equal(found.assumptions_met, True)
    np.testing.assert_array_equal(ratio(found), [1 / 1.5, 1.0, 1.2])


def test_rounding_is_a_share_of_the_larger_side_and_the_scale():
    assert at_most(1e8 + 0.05, 1e8).holds  # 5e-10 of the larger side
    assert not at_most(1e8 + 1.0, 1e8).holds
    assert not at_most(1e-12, 0.0).holds  # beside nothing, it is not rounding
    assert at_most(1e-12, 0.0, scale=1.0).holds
    assert not at_most(1e-12, 0.0, scale=1.0, tolerance=0.0).holds
    assert at_most(1.04, 1.0, tolerance=0.05).holds


def test_where_the_assumptions_fail_a_statement_is_silent():
    met = jnp.array([True, False])
    found = at_most(jnp.array([2.0, 2.0]), 1.0, assumptions_met=met)
    np.testing.assert_array_equal(found.holds, [False, True])
    np.testing.assert_array_equal(found.assumptions_met, met)
    np.testing.assert_array_equal(found.bound, [1.0, 1.0])


def test_what_is_not_a_number_never_holds():
    for pair in ((jnp.nan, 1.0), (1.0, jnp.nan), (jnp.inf, jnp.inf)):
        assert not at_most(*pair).holds
        assert not equal(*pair).holds


def test_infinity_is_a_bound_that_says_nothing():
    found = at_most(jnp.array([5.0, jnp.inf]), jnp.array([jnp.inf, 5.0]))
    np.testing.assert_array_equal(found.holds, [True, False])
    assert ratio(found)[0] == 0


def test_equal_compares_numbers_and_whole_matrices():
    np.testing.assert_array_equal(
        equal(jnp.array([1.0, 1.0 + 1e-10, 1.1]), 1.0).holds, [True, True, False]
    )
    ones = jnp.ones((2, 3, 4))
    moved = ones.at[1, 0, 0].add(1e-3)
    found = equal(moved, ones, num_axes=2)
    assert found.slack.shape == (2,)
    np.testing.assert_allclose(found.slack, [0, -1e-3], atol=1e-12)
    np.testing.assert_allclose(found.bound, np.sqrt(12))
    np.testing.assert_array_equal(found.holds, [True, False])


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_the_norm_neither_vanishes_nor_overflows(size):
    matrix = size * jnp.array([[3.0, 0.0], [0.0, 4.0]])
    found = equal(matrix, jnp.zeros((2, 2)), num_axes=2)
    np.testing.assert_allclose(found.observed, 5 * size)
    assert not found.holds


def test_the_ratio_of_zero_bounds():
    found = at_most(jnp.array([0.0, 1.0, -1.0]), 0.0)
    np.testing.assert_array_equal(ratio(found), [0.0, 1.0, -1.0])


def test_single_precision_is_kept_and_judged_as_such():
    one = jnp.float32(1.0)
    found = at_most(jnp.float32(1.00005), one)
    assert found.slack.dtype == jnp.float32 and found.holds
    assert not at_most(jnp.float32(1.001), one).holds
    assert not at_most(jnp.float64(1.00005), jnp.float64(1.0)).holds
    # of two precisions the larger counts, and whole numbers take that of the other
    assert at_most(one, jnp.float64(1.0)).slack.dtype == jnp.float64
    assert at_most(jnp.int32(1), one).slack.dtype == jnp.float32
    with jax.enable_x64(False):
        assert at_most(1.0, 2.0).slack.dtype == jnp.float32


def test_certificates_go_through_jit_and_vmap():
    found = jax.jit(jax.vmap(lambda a, b: at_most(a, b)))(
        jnp.array([0.0, 2.0]), jnp.array([1.0, 1.0])
    )
    np.testing.assert_array_equal(found.holds, [True, False])
