"""Scores of a sentence against a plain sum over features (BOL-Eq2, Eq5, X1)."""

import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import streams
from lowrank_jax.models import bilinear, linear
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


def test_a_window_holds_its_sentence_in_whole_groups():
    for length in range(1, 40):
        window = sentences.window_of(length)
        assert window >= length
        assert window % sentences.POSITIONS == 0
        assert window - length < sentences.POSITIONS
