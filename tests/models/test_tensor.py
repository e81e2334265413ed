"""Tensor models: sizes and orders by enumeration, scores by dense tensors."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.models import tensor
from lowrank_jax.models.tensor import Shape


def test_mode_sizes_are_those_of_the_paper():
    sizes = {2: (1155, 1155), 3: (110, 110, 111), 4: (34, 34, 34, 34)}
    for order, expected in sizes.items():
        for num_features in (1_332_871, 1_334_025):
            assert tensor.mode_sizes(num_features, order) == expected
    # One feature fewer or more, and one of the three differs.
    for num_features in (1_332_870, 1_334_026):
        found = {order: tensor.mode_sizes(num_features, order) for order in sizes}
        assert found != sizes
    parameters = [tensor.num_parameters(Shape(found)) for found in sizes.values()]
    assert parameters == [2310, 331, 136]
    assert tensor.num_parameters(Shape((1000, 1000), 3)) == 6000


def test_mode_sizes_have_the_least_padding_of_all_floors_and_ceilings():
    for num_features, order in itertools.product(range(1, 200), range(1, 5)):
        found = tensor.mode_sizes(num_features, order)
        low = max(n for n in range(1, 200) if n**order <= num_features)
        choices = itertools.product((low, low + 1), repeat=order)
        products = [math.prod(c) for c in choices if math.prod(c) >= num_features]
        assert math.prod(found) == min(products)
        assert set(found) <= {low, low + 1}
        assert len(found) == order
    assert tensor.mode_sizes(10**9, 3) == (1000, 1000, 1000)  # no error of a root
    assert tensor.mode_sizes(12, 2) == (3, 4)
    with pytest.raises(InputError, match=r"less than 2\*\*31"):
        tensor.mode_sizes(2**31, 2)
    tensor.check_shape(tensor.Shape((2**31 - 1,)))  # the largest there is


def test_best_order_is_the_minimum_over_all_orders():
    assert tensor.best_order(1_334_025) == 13
    assert sum(tensor.mode_sizes(1_334_025, 13)) == 39
    assert sum(tensor.mode_sizes(1_334_025, 14)) == 39
    for num_features in [*range(1, 60), 1000, 123_456, 1_334_025]:
        real = tensor.best_order(num_features, integer=False)
        costs = [d * num_features ** (1 / d) for d in range(1, 40)]
        assert real * num_features ** (1 / real) == pytest.approx(min(costs))
        costs = [sum(tensor.mode_sizes(num_features, d)) for d in range(1, 40)]
        assert sum(tensor.mode_sizes(num_features, tensor.best_order(num_features)))
        assert costs[tensor.best_order(num_features) - 1] == min(costs)


@pytest.mark.parametrize("sizes", [(7,), (3, 4), (2, 3, 4)])
def test_weights_of_cells_are_entries_of_the_dense_tensor(sizes):
    shape = Shape(sizes, 3)

    @jax.jit
    def both(key):
        cells = jnp.arange(shape.num_cells + 1, dtype=jnp.int32).reshape(-1, 1)
        starts = (
            tensor.random(key, shape, jnp.float64),
            tensor.constant(shape, jnp.float64),
        )
        weights = [tensor.weights(params, cells, sizes)[:-1, 0] for params in starts]
        return starts, weights, tensor.gram(starts[0], starts[0])

    (params, ones), (found, whole), products = jax.device_get(both(jax.random.key(0)))
    dense = np.zeros(sizes)
    for h in range(3):
        part = np.ones(())
        for factor in params:
            part = np.multiply.outer(part, factor[h])
        dense += part
    np.testing.assert_allclose(found, dense.ravel(order="F"), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(dense), 1, rtol=1e-12)
    np.testing.assert_allclose(products.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(whole, shape.num_cells**-0.5, rtol=1e-12)
    np.testing.assert_allclose(
        [np.linalg.norm(factor[0]) for factor in ones], 3 ** (-1 / len(sizes))
    )


def test_a_positive_start_has_positive_distinct_vectors_and_norm_one():
    """TM-I1."""
    shape = Shape((5, 6, 7), 3)
    params = tensor.random(jax.random.key(0), shape, jnp.float64, lowest=0.0)
    for factor in params:
        assert (factor > 0).all()
        lengths = np.linalg.norm(factor, axis=1)
        np.testing.assert_allclose(lengths, lengths[0], rtol=1e-12)
        assert np.abs(np.diff(factor, axis=0)).max(axis=1).min() > 0.1
    np.testing.assert_allclose(tensor.gram(params, params).sum(), 1, rtol=1e-12)


def test_components_that_cancel_out_leave_finite_vectors():
    keys = jax.random.split(jax.random.key(0), 8)
    draw = jax.jit(lambda key: tensor.random(key, Shape((1, 1), 2), jnp.float64))
    params = jax.vmap(draw)(keys)
    assert all(np.isfinite(factor).all() for factor in params)
