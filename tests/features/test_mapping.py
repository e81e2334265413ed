"""Mappings: Algorithm 1 by hand, and what they do to singular values."""

import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.features import mapping


def by_the_book(surrogate, sizes):
    """TM-Alg1 with lists and 1-based loops, as printed."""
    volume = int(np.prod(sizes))
    v = [*surrogate, *[0.0] * (volume - len(surrogate))]
    plus = sorted((j for j in range(volume) if v[j] >= 0), key=lambda j: -v[j])
    minus = sorted((j for j in range(volume) if v[j] < 0), key=lambda j: v[j])
    u = volume // sizes[-1]
    e, f = len(plus) - len(plus) % u, len(minus) - len(minus) % u
    x = plus[:e] + minus[:f] + plus[e:] + minus[f:]
    tensor = np.zeros(sizes)
    for index in np.ndindex(*sizes):
        a, length = 1, 1
        for i, n in zip(index, sizes, strict=True):
            a += i * length  # (i_d - 1) l_{d-1} with i_d from 1
            length *= n
        tensor[index] = v[x[a - 1]]
    return tensor


@pytest.mark.parametrize("sizes", [(2, 2, 3), (3, 4), (5, 5), (12,), (3, 3, 2, 2)])
def test_surrogate_mapping_is_algorithm_1(sizes):
    rng = np.random.default_rng(0)
    for _ in range(5):
        surrogate = rng.normal(size=12).round(1) * (rng.random(12) < 0.7)
        place = mapping.surrogate_mapping(surrogate, sizes)
        assert place.dtype == np.int32
        assert len(set(place.tolist())) == 12
        found = mapping.mapped(surrogate, place, sizes)
        np.testing.assert_array_equal(found, by_the_book(surrogate, sizes))


def test_sequential_mapping_has_the_last_index_fastest():
    values = np.arange(1.0, 11.0)
    place = mapping.sequential_mapping(10, (2, 2, 3))
    found = mapping.mapped(values, place, (2, 2, 3))
    expected = np.append(values, [0, 0]).reshape(2, 2, 3)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("draw", ["normal", "laplace"])
def test_surrogate_mapping_brings_a_vector_close_to_rank_one(draw):
    weights = getattr(np.random.default_rng(1), draw)(size=900)
    sizes, ratios = (30, 30), []
    for place in (
        mapping.surrogate_mapping(weights, sizes),
        mapping.sequential_mapping(900, sizes),
    ):
        dense = mapping.mapped(weights, place, sizes)
        values = np.linalg.svd(dense, compute_uv=False)
        found = mapping.leading_singular_values(dense, 20)
        np.testing.assert_allclose(found, values[:20], rtol=1e-10)
        ratios.append(mapping.sigma_ratio(dense))
        assert ratios[-1] == pytest.approx(values[1] / values[0])
        energy = mapping.rank_one_energy(dense)
        assert energy == pytest.approx(values[0] ** 2 / (values**2).sum())
    assert ratios[0] < 0.2 < 0.4 < ratios[1]  # errata: .05-.11 and .90-.92


def test_rank_one_energy_of_higher_orders_finds_the_planted_part():
    rng = np.random.default_rng(2)
    parts = [rng.normal(size=n) for n in (4, 5, 6)]
    dense = np.einsum("i,j,k->ijk", *parts)
    assert mapping.rank_one_energy(dense) == pytest.approx(1)
    assert mapping.sigma_ratio(dense, mode=2) == pytest.approx(0, abs=1e-12)
    noise = rng.normal(size=dense.shape) * 0.1
    bound = mapping.leading_singular_values(dense + noise)[0] ** 2
    energy = mapping.rank_one_energy(dense + noise)
    assert 0.8 < energy <= bound / ((dense + noise) ** 2).sum()
    assert mapping.rank_one_energy(np.ones(3)) == 1
    assert mapping.rank_one_energy(np.zeros((2, 2, 2))) == 1
    assert mapping.sigma_ratio(np.zeros((2, 2))) == 0


def test_bad_arguments_are_named():
    with pytest.raises(InputError, match="hold 6 cells, fewer than the 7"):
        mapping.sequential_mapping(7, (2, 3))
    with pytest.raises(InputError, match="hold 6 cells, fewer than the 7"):
        mapping.surrogate_mapping(np.zeros(7), (2, 3))
    with pytest.raises(InputError, match="got nan at feature 1"):
        mapping.surrogate_mapping(np.array([0, np.nan]), (2, 3))
