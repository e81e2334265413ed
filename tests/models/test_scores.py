"""Scores of a sentence against a plain sum over features (BOL-Eq2, Eq5, X1)."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from lowrank_jax import streams
from lowrank_jax.data.made.lists import reranking_task
from lowrank_jax.data.sequences import Space
from lowrank_jax.linalg import forms
from lowrank_jax.models import bilinear, candidates, linear, tensor
from lowrank_jax.streams import sentences
from tests.online.tasks import random_task

ORDERS = [("0", "0"), ("1", "1"), ("01", "0", "1")]


def plain_scores(space, ids, zero, first, transitions):
    """Return unary (n, S) and pairwise (n, S, S+1) by loops."""
    n, s = len(ids), space.num_labels
    unary, pairwise = np.zeros((n, s)), np.zeros((n, s, s + 1)) + transitions
    for i, row in enumerate(ids):
        for column, k in enumerate(row):
            if k == space.num_features:
                continue
            if "0" in space.orders[column]:
                unary[i] += zero[k]
            if "1" in space.orders[column]:
                pairwise[i] += first[k]
    return unary, pairwise


def total(scores, n, s):
    """Return unary + pairwise (n, S, S+1): what a decoder adds up."""
    pairwise = np.asarray(scores.pairwise)
    if pairwise.ndim == 2:
        pairwise = np.broadcast_to(pairwise, (n, *pairwise.shape))
    return np.asarray(scores.unary)[:n, :, None] + pairwise[:n, :, : s + 1]


@pytest.mark.slow
@pytest.mark.parametrize("has_transitions", [False, True])
@pytest.mark.parametrize("orders", ORDERS)
def test_linear_scores_equal_a_plain_sum(orders, has_transitions):
    sequences = random_task(orders, has_transitions=has_transitions)
    space, rng = sequences.space, np.random.default_rng(0)
    params = linear.zeros(space, jnp.float64)
    k, s = space.num_features, space.num_labels
    zero, first = rng.normal(size=(k, s)), rng.normal(size=(k, s, s + 1))
    transitions = rng.normal(size=(s, s + 1)) * has_transitions
    if params.zero is not None:
        params = params._replace(zero=params.zero.at[:-1].set(zero))
    if params.first is not None:
        params = params._replace(first=params.first.at[:-1].set(first))
    if has_transitions:
        params = params._replace(transitions=jnp.asarray(transitions))
    corpus = streams.sentences.stream(sequences)
    for i in range(sequences.num_sentences):
        a, b = sequences.offsets[i : i + 2]
        expected = plain_scores(
            space, sequences.feature_ids[a:b], zero, first, transitions
        )
        ours = linear.scores(params, corpus.example(i))
        np.testing.assert_allclose(
            total(ours, b - a, s), expected[0][:, :, None] + expected[1], rtol=1e-10
        )


@pytest.mark.parametrize("model", [linear, bilinear])
def test_many_templates_are_a_loop_with_the_same_scores(model, monkeypatch):
    num, rng = 130, np.random.default_rng(0)
    space = Space(num_features=9, num_labels=3, orders=("01",) * num)
    params = model.zeros(space, *[2] * (model is bilinear), jnp.dtype("float64"))
    params = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), params)
    ids = rng.integers(0, space.num_features, (5, num), np.int32)

    def positions(params, ids):
        return model.positions(params, ids, space)

    def program():
        return str(jax.make_jaxpr(positions)(params, ids))

    looped, short = jax.jit(positions)(params, ids), program()
    monkeypatch.setattr(forms, "_MOST_SPELT_OUT", num)
    jax.clear_caches()
    spelt_out = jax.jit(positions)(params, ids)
    for one, two in zip(looped, spelt_out, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-12)
    assert len(program()) > 5 * len(short)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("orders", ORDERS[1:])
def test_bilinear_scores_equal_a_plain_sum(orders, rank):
    sequences = random_task(orders, has_transitions=True)
    space, rng = sequences.space, np.random.default_rng(0)
    k, s = space.num_features, space.num_labels
    zero, transitions = rng.normal(size=(k, s)), rng.normal(size=(s, s + 1))
    left, right = rng.normal(size=(k, rank, s)), rng.normal(size=(k, rank, s + 1))
    columns = jnp.concatenate(
        [jnp.asarray(zero), bilinear.join(jnp.asarray(left), jnp.asarray(right))],
        axis=1,
    )
    params = bilinear.zeros(space, rank, jnp.float64)
    params = bilinear.Params(
        params.table.at[:-1].set(columns), jnp.asarray(transitions), jnp.asarray(0.7)
    )
    assert bilinear.rank_of(params.table, s) == rank
    rows = bilinear.split(params.table[:-1], s)
    np.testing.assert_array_equal(rows.zero, zero)
    np.testing.assert_array_equal(rows.left, left)
    np.testing.assert_array_equal(rows.right, right)
    first = 0.7 * np.einsum("kru,krv->kuv", left, right)
    corpus = streams.sentences.stream(sequences)
    for i in range(sequences.num_sentences):
        a, b = sequences.offsets[i : i + 2]
        expected = plain_scores(
            space, sequences.feature_ids[a:b], zero, first, transitions
        )
        ours = bilinear.scores(params, corpus.example(i))
        np.testing.assert_allclose(
            total(ours, b - a, s), expected[0][:, :, None] + expected[1], rtol=1e-10
        )


def test_packed_bilinear_scores_equal_a_plain_sum():
    space = Space(6, 3, ("01", "0", "1"), has_transitions=True)
    rng = np.random.default_rng(4)
    params = random_bilinear(space, rng)
    ids = rng.integers(0, space.num_features, (5, 3)).astype(np.int32)
    found = jax.jit(lambda params: bilinear.packed(params, ids, space))(params)
    parts = bilinear.split(params.table, space.num_labels)
    more = np.asarray(params.transitions)
    first = params.scale * np.einsum("kru,krv->kuv", parts.left, parts.right)
    unary, pairs = plain_scores(space, ids, parts.zero, first, more)
    np.testing.assert_allclose(found[0][:, :3], unary, rtol=1e-10)
    np.testing.assert_allclose(found[1][:, :, :3], pairs.swapaxes(1, 2), rtol=1e-10)


def test_a_window_holds_its_sentence_in_whole_groups():
    for length in range(1, 40):
        window = sentences.window_of(length)
        assert window >= length
        assert window % sentences.POSITIONS == 0
        assert window - length < sentences.POSITIONS


def random_linear(space, rng):
    return jax.tree.map(
        lambda part: jnp.asarray(rng.normal(size=part.shape)),
        linear.zeros(space, jnp.float64),
    )


def random_bilinear(space, rng):
    drawn = bilinear.random(jax.random.key(1), space, 2, jnp.float64, spread=1.0)
    return jax.tree.map(lambda part: part + 0.3 * rng.normal(size=part.shape), drawn)


@pytest.mark.slow
@pytest.mark.parametrize("length", [None, 3])
@pytest.mark.parametrize("make", [random_linear, random_bilinear])
def test_gradients_of_scores_equal_finite_differences(make, length):
    """Backward, forward, backward twice; a mask keeps what is scored of padding."""
    sequences = random_task(("01", "0", "1"), has_transitions=True, max_length=18)
    longest = int(np.diff(sequences.offsets).argmax())
    sentence = streams.sentences.stream(sequences).example(longest)
    if length is not None:  # some groups of the window are not scored
        sentence = dataclasses.replace(sentence, length=jnp.asarray(length, jnp.int32))
    model = linear if make is random_linear else bilinear
    rng = np.random.default_rng(2)
    params = make(sequences.space, rng)
    assert sentence.labels.shape[0] > 8 + sentences.POSITIONS
    shapes = jax.eval_shape(model.scores, params, sentence)
    coefficients = jax.tree.map(
        lambda part: jnp.asarray(rng.normal(size=part.shape)), shapes
    )

    def number(params):
        found = model.scores(params, sentence)
        parts = jax.tree.map(
            lambda c, part: (c * jnp.sin(part)).sum(), coefficients, found
        )
        return sum(jax.tree.leaves(parts))

    order = 1 if length is None else 2  # the second takes long to compile
    check_grads(jax.jit(number), (params,), order=order, rtol=1e-6, atol=1e-6, eps=1e-5)
    forward = jax.jacfwd(number)(params)
    chex.assert_trees_all_close(jax.grad(number)(params), forward, rtol=1e-10)


@pytest.mark.slow
def test_gradients_of_candidate_scores_equal_finite_differences():
    lists, _, _ = reranking_task(6, 1, seed=0, sizes=(4, 5), num_active=(2, 12))
    corpus = streams.lists.stream(lists, width=4)  # lists of several rows
    table = jnp.asarray(np.random.default_rng(0).normal(size=corpus.num_features + 1))
    factors = tensor.random(jax.random.key(0), tensor.Shape((4, 5), 2), jnp.float64)

    def number(score, index, params):
        found = score(jax.tree.map(jnp.asarray, params), corpus.example(index))
        weights = jnp.arange(1, found.size + 1, dtype=found.dtype)
        is_there = jnp.isfinite(found)
        return (weights * jnp.sin(jnp.where(is_there, found, 0))).sum()

    for score, params in ((candidates.linear_scores, table), (tensor.scores, factors)):
        of = jax.jit(functools.partial(number, score))  # one program for all lists
        rounds = jnp.arange(lists.num_lists, dtype=jnp.int32)
        each = [jax.grad(of, argnums=1)(i, params) for i in rounds]
        for i in (0, 3, 5):
            check_grads(
                functools.partial(of, rounds[i]),
                (params,),
                order=2,
                rtol=1e-6,
                eps=1e-5,
            )
        many = jax.jit(jax.vmap(jax.grad(of, argnums=1), in_axes=(0, None)))
        for i, one in enumerate(each):
            together = jax.tree.map(lambda part, i=i: part[i], many(rounds, params))
            chex.assert_trees_all_close(together, one, rtol=1e-10, atol=1e-12)


def test_random_bilinear_model_has_the_shape_of_the_zero_model_and_leaves_row_k_zero():
    space = random_task(("01", "0", "1"), has_transitions=True).space
    drawn = bilinear.random(jax.random.key(0), space, 2, spread=0.5)
    chex.assert_trees_all_equal_shapes_and_dtypes(
        drawn, bilinear.zeros(space, 2, jnp.float32)
    )
    rows = bilinear.split(drawn.table, space.num_labels)
    assert not np.asarray(drawn.table[-1]).any() and not np.asarray(rows.zero).any()
    for factor in (rows.left[:-1], rows.right[:-1]):
        assert 0.3 < float(factor.std()) < 0.7


@pytest.mark.parametrize("model", [linear, bilinear])
def test_id_k_scores_0_whatever_its_row_holds(model):
    """And its row has gradient 0, so a model learned by gradients keeps it."""
    sequences = random_task(("01", "0", "1"), has_transitions=True)
    assert (sequences.feature_ids == sequences.space.num_features).any()
    corpus = streams.sentences.stream(sequences)
    make = random_linear if model is linear else random_bilinear
    params = make(sequences.space, np.random.default_rng(0))
    full = jax.tree.map(lambda part: part + 1.0, params)  # row K is not 0

    def cleared(part):
        is_table = part.shape[:1] == (sequences.space.num_features + 1,)
        return part.at[-1].set(0) if is_table else part

    score = jax.jit(model.scores, static_argnames="has_zero_row")
    for index in range(sequences.num_sentences):
        sentence = corpus.example(index)
        clean = jax.tree.map(cleared, full)
        right = score(clean, sentence, has_zero_row=True)
        chex.assert_trees_all_close(score(full, sentence), right, rtol=1e-12)
    slope = jax.grad(lambda given: model.scores(given, sentence).unary.sum())(full)
    chex.assert_trees_all_equal(slope, jax.tree.map(cleared, slope))
