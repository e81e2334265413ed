"""Operator models: recovered from their own scores, built from trigrams."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.models import hankel, operators
from lowrank_jax.models.operators import Operators

M = 4  # symbols

# One program each, in place of one for every operation in them.
recover = jax.jit(operators.recover, static_argnames="rank")
from_trigrams = jax.jit(operators.from_trigrams, static_argnames="ranks")
trigram_table = jax.jit(operators.trigram_table, static_argnames="lower_orders")


def random_model(num_states, seed, num_symbols=M):
    generator = np.random.default_rng(seed)
    return Operators(
        generator.normal(size=num_states),
        generator.normal(size=num_states),
        generator.normal(size=(num_symbols, num_states, num_states)) / num_states,
    )


def product(model, string):
    """F by the definition."""
    state = np.asarray(model.alpha)
    for symbol in string:
        state = state @ np.asarray(model.matrices)[symbol]
    return float(state @ np.asarray(model.beta))


def strings(longest, shortest=0, num_symbols=M):
    return [
        string
        for length in range(shortest, longest + 1)
        for string in itertools.product(range(num_symbols), repeat=length)
    ]


def hankel_blocks(score, prefixes, suffixes, num_symbols=M):
    def values(middle):
        return np.array([[score(u + middle + v) for v in suffixes] for u in prefixes])

    return hankel.SubBlocks(
        values(()),
        np.stack([values((a,)) for a in range(num_symbols)]),
        np.array([score(u) for u in prefixes]),
        np.array([score(v) for v in suffixes]),
    )


def printed_form(blocks, rank):
    """Recover as the paper prints it: h_P and h_S interchanged."""
    return recover(
        blocks._replace(prefixes=blocks.suffixes, suffixes=blocks.prefixes), rank
    )


def largest_error(model, wanted):
    """Over all strings of up to four symbols, relative to the largest score."""
    model = Operators(*(np.asarray(part) for part in model))
    scores = np.array([product(wanted, s) for s in strings(4)])
    found = np.array([product(model, s) for s in strings(4)])
    return np.abs(found - scores).max() / np.abs(scores).max()


P_SHORT = strings(1)  # five strings each
P_OTHER = [(0, 0), (1, 2), (2, 1), (3, 3), (0, 1)]


@pytest.mark.parametrize("seed", range(3))
def test_random_models_are_recovered_from_their_scores(seed):
    model = random_model(3, seed)
    score = lambda s: product(model, s)  # noqa: E731
    # |P| = |S| with P = S; P != S; |P| != |S|, both ways round.
    for prefixes, suffixes in (
        (P_SHORT, P_SHORT),
        (P_OTHER, P_SHORT),
        (P_SHORT, [*P_SHORT, (1, 2)]),
        ([*P_SHORT, (1, 2)], P_SHORT),
    ):
        blocks = hankel_blocks(score, prefixes, suffixes)
        assert largest_error(recover(blocks, 3), model) < 1e-10
    # The printed form is right only where P = S ...
    same = hankel_blocks(score, P_SHORT, P_SHORT)
    assert largest_error(printed_form(same, 3), model) < 1e-10
    # ... wrong for another P, and not even of the right shapes for |P| != |S|.
    other = hankel_blocks(score, P_OTHER, P_SHORT)
    assert largest_error(printed_form(other, 3), model) > 0.1
    with pytest.raises(InputError, match="`blocks` must have prefixes"):
        printed_form(hankel_blocks(score, [*P_SHORT, (1, 2)], P_SHORT), 3)


def test_states_beyond_the_rank_of_the_model_change_nothing():
    model = random_model(2, 0)
    blocks = hankel_blocks(lambda s: product(model, s), P_SHORT, P_SHORT)
    found = recover(blocks, 5)
    assert found.alpha.shape == (5,)
    assert largest_error(found, model) < 1e-10
    # A direction within rounding of zero is left out, one beyond it is not.
    eps = np.finfo(float).eps
    for value, kept in ((eps, 0), (8 * eps, 1 / (8 * eps))):
        two = hankel.SubBlocks(
            np.diag([1, value]), np.ones((1, 2, 2)), np.ones(2), np.ones(2)
        )
        np.testing.assert_allclose(np.abs(recover(two, 2).beta), [1, kept])
    with pytest.raises(InputError, match="`rank` must be at most 5 .*got 6"):
        recover(blocks, 6)


def test_score_is_the_product_whatever_the_padding():
    model = jax.tree.map(jnp.asarray, random_model(3, 1))
    score = jax.jit(operators.score)
    padded = np.array([2, 0, 3, 1, 1])
    for length in range(6):
        wanted = product(model, padded[:length])
        np.testing.assert_allclose(score(model, padded, length), wanted, rtol=1e-10)
    np.testing.assert_allclose(operators.score(model, padded), wanted, rtol=1e-10)


def test_the_table_holds_the_piecewise_scores():
    model = jax.tree.map(jnp.asarray, random_model(3, 2))
    alone = np.asarray(trigram_table(model))
    summed = np.asarray(trigram_table(model, lower_orders=True))
    for a, b, c in strings(3, 3):
        three = product(model, (a, b, c))
        np.testing.assert_allclose(alone[a, b, c], three, rtol=1e-10, atol=1e-12)
        three += product(model, (b, c)) + product(model, (c,))
        np.testing.assert_allclose(summed[a, b, c], three, rtol=1e-10, atol=1e-12)


def low_rank_tensor(r1, r2, seed=0, size=6):
    generator = np.random.default_rng(seed)
    first, last = generator.normal(size=(2, size, max(r1, r2)))
    middle = generator.normal(size=(size, r1, r2))
    return np.einsum("ai,bij,cj->abc", first[:, :r1], middle, last[:, :r2])


@pytest.mark.parametrize(("r1", "r2"), [(2, 3)])
def test_trigrams_become_a_model_that_is_zero_on_other_lengths(r1, r2):
    tensor = low_rank_tensor(r1, r2)
    model = operators.from_trigrams(jnp.asarray(tensor))
    assert model.alpha.shape == (2 + r1 + r2,)
    table = trigram_table(model)
    np.testing.assert_allclose(table, tensor, atol=1e-10 * np.abs(tensor).max())
    for string in strings(2, num_symbols=6) + [(0, 1, 2, 3), (5,) * 4, (1, 2) * 3]:
        assert product(model, string) == 0
    assert operators.num_weights(model) == 2 + 6 * (r1 + r1 * r2 + r2)


def test_a_tensor_of_rank_one_one_way_needs_all_states_the_other_way():
    tensor = np.einsum("ab,c->abc", np.eye(6), np.arange(1.0, 7.0))  # errata SMM-Eq7
    model = from_trigrams(tensor, ranks=(6, 1))
    assert model.alpha.shape == (2 + 6 + 1,)
    np.testing.assert_allclose(trigram_table(model), tensor, atol=1e-12)


def test_fewer_states_lose_no_more_than_the_singular_values_left_out():
    tensor = np.random.default_rng(1).normal(size=(6, 6, 6))
    first = np.linalg.svd(tensor.reshape(6, 36), compute_uv=False)
    last = np.linalg.svd(tensor.reshape(36, 6), compute_uv=False)
    losses = []
    for ranks in [(1, 1), (6, 1), (6, 6)]:
        model = from_trigrams(jnp.asarray(tensor), ranks=ranks)
        assert model.alpha.shape == (2 + sum(ranks),)
        losses.append(np.sum((np.asarray(trigram_table(model)) - tensor) ** 2))
        bound = (first[ranks[0] :] ** 2).sum() + (last[ranks[1] :] ** 2).sum()
        assert losses[-1] <= bound + 1e-9
    assert losses == sorted(losses, reverse=True) and losses[-1] < 1e-20


def test_one_state_more_than_symbols_gives_every_order_up_to_three_back():
    blocks = hankel.basis(3, lower_orders="stacked")
    generator = np.random.default_rng(3)
    tables = tuple(generator.normal(size=(M,) * order) for order in (1, 2, 3))

    @jax.jit
    def run(tables):
        params = (jnp.concatenate([part.reshape(-1, M) for part in tables]),)
        matrix = operators.tied_matrix(tables, 0.7)
        model = operators.recover(hankel.sub_blocks(matrix), 1 + M)
        found = operators.trigram_table(model, lower_orders=True)
        return model, found, hankel.score_table(blocks, params)

    model, found, wanted = jax.device_get(run(jax.tree.map(jnp.asarray, tables)))
    for string in strings(3, 1):
        value = tables[len(string) - 1][string]
        np.testing.assert_allclose(product(model, string), value, atol=1e-10)
    np.testing.assert_allclose(product(model, ()), 0.7, atol=1e-10)
    # So the piecewise score of the model is that of the matrix it comes from.
    np.testing.assert_allclose(found, wanted, atol=1e-10)


def test_wrong_shapes_are_named():
    with pytest.raises(InputError, match="`tensor` must have shape"):
        from_trigrams(jnp.zeros((2, 2, 3)))
    with pytest.raises(InputError, match="`tables` must hold scores of orders 1, 2"):
        operators.tied_matrix((jnp.zeros(2), jnp.zeros((2, 2))))


def test_single_precision_is_kept():
    @jax.jit
    def run(tensor):
        model = operators.from_trigrams(tensor, ranks=(2, 2))
        tables = (tensor[0, 0], tensor[0], tensor)
        blocks = hankel.sub_blocks(operators.tied_matrix(tables))
        values = operators.score(model, np.array([1, 2, 3], np.int32))
        table = operators.trigram_table(model, lower_orders=True)
        return table, model, values, operators.recover(blocks, 3)

    with jax.enable_x64(False):
        tensor = low_rank_tensor(2, 2).astype(np.float32)
        found = run(tensor)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(found)} == {"float32"}
    np.testing.assert_allclose(found[0], tensor, atol=1e-4)
