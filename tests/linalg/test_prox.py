"""Proximal maps against a numerical minimiser of what they minimise."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from lowrank_jax.linalg import prox

STRENGTHS = [0.0, 0.3, 2.0]


def numerical_prox(penalty, z):
    """Minimise penalty(x) + |x - z|^2 / 2 over one number x."""
    found = minimize_scalar(
        lambda x: penalty(x) + (x - z) ** 2 / 2,
        bounds=(-abs(z) - 1, abs(z) + 1),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return found.x


@hypothesis.given(
    st.floats(-3, 3), st.sampled_from(STRENGTHS), st.sampled_from(STRENGTHS)
)
@hypothesis.settings(max_examples=60, deadline=None)
def test_entrywise_maps_equal_a_numerical_minimiser(z, one, two):
    x = jnp.array([z])
    expected = numerical_prox(lambda x: one * abs(x) + two / 2 * x**2, z)
    # A bounded search finds the argument to the square root of the precision.
    np.testing.assert_allclose(prox.elastic_net(x, one, two)[0], expected, atol=1e-6)
    expected = numerical_prox(lambda x: one * abs(x), z)
    np.testing.assert_allclose(prox.soft_threshold(x, one)[0], expected, atol=1e-6)
    expected = numerical_prox(lambda x: two / 2 * x**2, z)
    np.testing.assert_allclose(prox.squared_l2(x, two)[0], expected, atol=1e-6)


@pytest.mark.parametrize("strength", STRENGTHS)
def test_l2_norm_equals_a_numerical_minimiser(strength):
    for seed in range(5):
        z = np.random.default_rng(seed).normal(size=6)
        found = minimize(
            lambda x, z=z: strength * np.linalg.norm(x) + ((x - z) ** 2).sum() / 2,
            0.9 * z,
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 20000, "maxfev": 20000},
        )
        result = prox.l2_norm(jnp.asarray(z.reshape(2, 3)), strength)
        np.testing.assert_allclose(result.ravel(), found.x, atol=1e-5)  # no gradient


@pytest.mark.parametrize("strength", [1.0, 2.0])
def test_l2_norm_maps_what_is_short_to_zero_and_zero_to_zero(strength):
    values = jnp.array([0.6, -0.8])  # of norm 1
    np.testing.assert_array_equal(prox.l2_norm(values, strength), 0)
    np.testing.assert_array_equal(prox.l2_norm(0 * values, 0.0), 0)


@pytest.mark.parametrize("strengths", [(0.1, 0.5), (0.0, 0.0)])
def test_dtype_is_kept_and_strengths_may_be_traced(strengths):
    values = jnp.array([[1.0, -0.05], [0.0, 3.0]], jnp.float32)
    maps = {
        prox.soft_threshold: strengths[:1],
        prox.squared_l2: strengths[:1],
        prox.l2_norm: strengths[:1],
        prox.elastic_net: strengths,
    }
    for function, given in maps.items():
        plain = function(values, *given)
        traced = jax.jit(function)(values, *map(jnp.float64, given))
        assert plain.dtype == traced.dtype == jnp.float32
        np.testing.assert_allclose(plain, traced, rtol=1e-6)
        if strengths == (0.0, 0.0):
            np.testing.assert_array_equal(plain, values)
