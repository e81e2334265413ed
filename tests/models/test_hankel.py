"""Hankel bases: scores are sums of entries, ties are equal strings."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.models import hankel

N = 3


def random_params(blocks):
    generator = np.random.default_rng(0)
    return tuple(jnp.asarray(generator.normal(size=b.shape(N))) for b in blocks)


def entry(block, matrix, string):
    """F(string) looked up in a block: row = all but one symbol, column = that one."""
    row, column = (string[:-1], string[-1])
    if block.columns == "first":
        row, column = string[1:], string[0]
    if len(row) not in block.lengths:
        return 0.0
    begin = sum(N**length for length in block.lengths if length < len(row))
    number = sum(s * N**k for k, s in enumerate(reversed(row)))
    return float(matrix[begin + number, column])


SETTINGS = [
    (3, "none", "last", [(9, 3)]),
    (3, "none", "both", [(9, 3), (9, 3)]),
    (3, "stacked", "last", [(13, 3)]),
    (3, "stacked", "first", [(13, 3)]),
    (3, "separate", "both", [(1, 3), (3, 3), (9, 3), (9, 3)]),
    (2, "stacked", "last", [(4, 3)]),
    (2, "none", "first", [(3, 3)]),
    (1, "none", "last", [(1, 3)]),
]


@pytest.mark.parametrize("has_boundary", [True, False])
@pytest.mark.parametrize(("order", "lower", "unfolding", "shapes"), SETTINGS)
def test_the_table_is_the_sum_of_all_entries(
    order, lower, unfolding, shapes, has_boundary
):
    blocks = hankel.basis(order, lower_orders=lower, unfolding=unfolding)
    assert [block.shape(N) for block in blocks] == shapes
    assert hankel.order_of(blocks) == order
    assert hankel.num_entries(blocks, N) == sum(a * b for a, b in shapes)
    params = random_params(blocks)
    table = hankel.score_table(blocks, params, has_boundary=has_boundary)
    assert table.shape == (N,) * max(order, 2)
    for cell in itertools.product(range(N), repeat=table.ndim):
        strings = [cell[k:] for k in range(len(cell))]
        wanted = sum(
            entry(block, matrix, string)
            for block, matrix in zip(blocks, params, strict=True)
            for string in strings
            if has_boundary or 0 not in string
        )
        np.testing.assert_allclose(table[cell], wanted, rtol=1e-12, atol=1e-12)
    zeros = hankel.zeros(blocks, N, jnp.float32)
    assert [part.shape for part in zeros] == shapes and zeros[0].dtype == jnp.float32


@pytest.mark.parametrize("order", [2, 3])
def test_mixing_is_applied_to_each_axis_of_the_table(order):
    blocks = hankel.basis(order, lower_orders="stacked", unfolding="first")
    params = random_params(blocks)
    generator = np.random.default_rng(5)
    half = generator.normal(size=(N, N))
    mixing = half + half.T
    plain = np.asarray(hankel.score_table(blocks, params))
    spec = {2: "ab,ia,jb->ij", 3: "abc,ia,jb,kc->ijk"}[order]
    wanted = np.einsum(spec, plain, *[mixing] * order)
    found = hankel.score_table(blocks, params, mixing=jnp.asarray(mixing))
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


def test_wrong_settings_are_named():
    with pytest.raises(InputError, match="`order` must be 1, 2 or 3, got 4"):
        hankel.basis(4)
    with pytest.raises(InputError, match="`unfolding` must be one of"):
        hankel.basis(3, unfolding="middle")
    with pytest.raises(InputError, match="`matrix` must have shape"):
        hankel.sub_blocks(jnp.zeros((4, 4)))


def all_strings(longest):
    return [
        string
        for length in range(longest + 1)
        for string in itertools.product(range(N), repeat=length)
    ]


def test_ties_join_just_the_equal_strings():
    groups = hankel.tie_groups(N)
    rows, columns, strings = all_strings(2), all_strings(1), all_strings(3)
    assert groups.shape == (len(rows), len(columns))
    for i, u in enumerate(rows):
        for j, v in enumerate(columns):
            assert strings[groups[i, j]] == u + v
    assert set(groups.reshape(-1)) == set(range(len(strings)))


def test_sub_blocks_of_a_function_are_its_values():
    strings = all_strings(3)
    values = dict(zip(strings, np.random.default_rng(0).normal(size=40), strict=True))
    matrix = np.array([values[s] for s in strings])[hankel.tie_groups(N)]
    found = hankel.sub_blocks(jnp.asarray(matrix))
    short = all_strings(1)
    for i, u in enumerate(short):
        assert found.prefixes[i] == values[u] == found.suffixes[i]
        for j, v in enumerate(short):
            assert found.empty[i, j] == values[u + v]
            for a in range(N):
                assert found.symbols[a, i, j] == values[(*u, a, *v)]
