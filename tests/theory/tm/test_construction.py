"""Merging, orders, mode sizes, norms and mappings of tensor models."""

import functools
import itertools
import math

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from lowrank_jax.models import tensor as models
from lowrank_jax.theory.tm import construction

settings = hypothesis.settings(max_examples=20, deadline=None)
powers = st.integers(-8, 8)


@functools.lru_cache
def checks():
    return jax.jit(
        lambda params, vector: (
            construction.merge_certificate(params, 1),
            construction.norm_certificate(params),
            construction.change_certificate(params, 0, vector),
        )
    )


@settings
@hypothesis.given(st.integers(0, 10**6), powers, st.booleans())
def test_merging_norm_and_change_hold_for_any_tensor(seed, power, has_equal):
    rng = np.random.default_rng(seed)
    params = [rng.normal(size=(2, n)) for n in (2, 3, 2)]
    params[0] = 10.0**power * params[0]
    if has_equal:  # the components cancel out
        params = [np.stack([part[0], part[0]]) for part in params]
        params[0][1] = -params[0][1]
    for found in checks()(tuple(params), params[0][0] + rng.normal(size=2)):
        assert bool(found.holds)


def test_merged_modes_are_the_outer_product_with_the_first_index_fastest():
    params = (jnp.array([[2.0, 3.0]]), jnp.array([[1.0, 10.0, 100.0]]))
    (merged,) = construction.merge_modes(params, 0)
    np.testing.assert_array_equal(merged, [[2, 3, 20, 30, 200, 300]])


def table(numbers, sizes):
    orders = np.array(list(itertools.permutations(range(len(numbers)))))
    check = jax.jit(construction.arrangement_certificate, static_argnums=2)
    return check(np.array(numbers, float), orders, sizes)


def test_four_primes_fit_no_table_of_two_by_two():
    found = table([2, 3, 5, 7], (2, 2))
    # Of 2 7 = 14 and 3 5 = 15 the logarithms differ least: by half of it in the fit.
    np.testing.assert_allclose(found.observed, math.log(15 / 14) / 2, rtol=1e-10)
    assert not bool(found.holds)
    assert bool(table([2, 3, 4, 6], (2, 2)).holds)
    assert bool(table([2, 3, 7], (2, 2)).holds)  # one cell is free
    assert bool(table([2, 3, 5, 4, 6, 10], (3, 2)).holds)  # more rows than columns
    assert not bool(table([2, 3, 5, 4, 6, 11], (3, 2)).holds)


def test_integer_modes_need_not_have_their_best_order_next_to_the_logarithm():
    def certificate(volume):
        counts = [sum(models.mode_sizes(volume, d)) for d in range(1, 25)]
        check = jax.jit(construction.order_certificate)
        return check(np.array([float(volume)]), np.array([counts], float))

    found = certificate(3**11)
    assert (float(found.observed[0]), float(found.bound[0])) == (34, 33)
    assert not found.holds.any()
    assert certificate(1_334_025).holds.all()  # D = 13 too, but not D = 13 alone


@settings
@hypothesis.given(st.lists(st.integers(1, 10**12), min_size=8, max_size=8))
def test_real_modes_have_theirs_there(volumes):
    check = real_order()
    assert check(np.array(volumes, float)).holds.all()


@functools.lru_cache
def real_order():
    return jax.jit(
        lambda v: construction.order_certificate(v, construction.real_parameters(v, 64))
    )


@functools.lru_cache
def padding():
    return jax.jit(construction.padding_certificate, static_argnums=1)


@settings
@hypothesis.given(st.lists(st.integers(1, 10**9), min_size=8, max_size=8))
def test_least_padding_has_the_least_sum(volumes):
    for order in (2, 3):
        found = padding()(np.array(volumes, float), order)
        assert found.holds.all()
        sums = [sum(models.mode_sizes(v, order)) for v in volumes]
        np.testing.assert_array_equal(found.bound, sums)


@pytest.mark.parametrize(
    "place, is_fine",
    [([0, 2, 1], True), ([0, 2, 2], False), ([0, 1, 4], False), ([0, 1, -1], False)],
)
def test_a_mapping_is_fine_if_each_feature_has_a_cell_of_its_own(place, is_fine):
    check = jax.jit(construction.mapping_certificate, static_argnums=1)
    assert bool(check(np.array(place, np.int32), 4).holds) == is_fine


def test_energies_are_compared_as_they_stand():
    energies = np.array([0.2, 0.9])
    found = jax.jit(construction.energy_certificate)(energies, energies[::-1])
    np.testing.assert_array_equal(found.holds, [True, False])
