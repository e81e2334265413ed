"""The total variation prox against the conditions that only the minimum meets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowrank_jax.linalg.total_variation import edge_prox, total_variation

SIZE = 12
solve = jax.jit(edge_prox)  # one program for each shape
solve_many = jax.jit(jax.vmap(edge_prox))


def violation(z, strengths, x):
    """Return by how much x misses the optimality conditions, summed up in NumPy.

    The dual variables are u_i = sum of x - z up to i: within the strengths, at them
    with the sign of the jump where x jumps, and 0 at the end.
    """
    dual = np.cumsum(np.asarray(x, np.longdouble) - z)
    jumps = np.diff(x)
    outside = np.abs(dual[:-1]) - strengths
    at_jumps = np.abs(dual[:-1] - strengths * np.sign(jumps))[jumps != 0]
    return float(max(outside.max(), at_jumps.max(initial=0), abs(dual[-1])))


numbers = st.one_of(
    st.floats(-10, 10, allow_subnormal=False), st.integers(-2, 2).map(float)
)


@settings(max_examples=60, deadline=None)
@given(
    z=st.lists(numbers, min_size=SIZE, max_size=SIZE),
    strengths=st.lists(
        st.one_of(st.floats(0, 20), st.sampled_from([0.0, 1.0])),
        min_size=SIZE - 1,
        max_size=SIZE - 1,
    ),
)
def test_result_meets_the_optimality_conditions(z, strengths):
    z, strengths = np.array(z), np.array(strengths)
    x = np.asarray(solve(z, strengths))
    scale = 1 + np.abs(z).sum()
    # A jump of rounding size is no jump: neighbours that near are made equal first.
    close = np.abs(np.diff(x)) < 1e-13 * scale
    groups = np.concatenate([[0], np.cumsum(~close)])
    x = np.array([x[groups == group].mean() for group in groups])
    assert violation(z, strengths, x) <= 1e-12 * scale


@pytest.mark.parametrize("kind", ["noise", "waves", "steps"])
def test_long_lines_are_exact_and_their_flat_pieces_flat_to_the_last_bit(kind):
    rng = np.random.default_rng(0)
    size = 400
    z = rng.normal(size=(3, size))
    z += {"noise": 0, "waves": 3 * np.sin(np.arange(size) / 60), "steps": 1e4}[kind]
    strengths = np.array([0.5, 20.0, 300.0])[:, None] * np.ones((1, size - 1))
    x = np.asarray(solve_many(z, strengths))
    scale = np.abs(z).max() * size
    for i in range(3):
        # Any two values that differ at all are jumps here.
        assert violation(z[i], strengths[i], x[i]) <= 1e-14 * scale
    counts = [(np.diff(row) != 0).sum() + 1 for row in x]
    assert counts[0] > 100 > counts[1] >= counts[2]


def test_strengths_without_limit_give_the_mean_even_in_single_precision():
    z = np.random.default_rng(0).normal(size=(3, 400)).astype(np.float32)
    x = solve_many(z, np.full((3, 399), np.inf, np.float32))
    assert x.dtype == jnp.float32
    mean = z.astype(np.float64).mean(1, keepdims=True)
    np.testing.assert_allclose(x, np.broadcast_to(mean, z.shape), atol=1e-6)
    assert all(len(set(row)) == 1 for row in np.asarray(x).tolist())


def test_single_precision_agrees_with_double():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(3, 400)) + np.sin(np.arange(400) / 40)
    strengths = np.full((3, 399), 2.0)
    exact = np.asarray(solve_many(z, strengths))
    single = solve_many(z.astype(np.float32), strengths.astype(np.float32))
    np.testing.assert_allclose(single, exact, atol=1e-5)


def test_zero_strength_changes_nothing_and_two_numbers_meet_in_the_middle():
    z = np.random.default_rng(2).normal(size=SIZE)
    np.testing.assert_allclose(solve(z, np.zeros(SIZE - 1)), z, rtol=1e-12)
    z = np.array([3.0, 1.0])
    pair = jax.jit(total_variation)
    np.testing.assert_allclose(pair(z, 0.4), [2.6, 1.4], rtol=1e-12)
    np.testing.assert_allclose(pair(z, 5.0), [2.0, 2.0], rtol=1e-12)
    np.testing.assert_array_equal(total_variation(jnp.array([3.0]), 5.0), [3.0])
