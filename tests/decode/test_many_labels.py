"""Viterbi for many labels against enumeration, and against a plain recursion."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import decode
from lowrank_jax.checks import InputError
from lowrank_jax.decode import LowRankScores, Scores
from tests import references

compiled = jax.jit(
    lambda scores, length, allowed: decode.best_path(scores, length, allowed=allowed)
)


def random_factors(seed, num_positions, num_labels, num_factors):
    """Small whole numbers, so that sums are exact and paths tie."""
    rng = np.random.default_rng(seed)
    width = -(-(num_labels + 1) // 8) * 8
    unary = rng.integers(-2, 3, (num_positions, num_labels)).astype(np.float32)
    left = rng.integers(-1, 2, (num_positions, num_factors, width))
    right = rng.integers(-1, 2, (num_positions, num_factors, width))
    left[:, :, num_labels:], right[:, :, num_labels + 1 :] = 0, 0
    factors = LowRankScores(unary, left.astype("f4"), right.astype("f4"))
    pairwise = np.einsum("ifs,ifr->isr", left, right).astype(np.float32)
    return factors, pairwise[:, :num_labels, : num_labels + 1]


def recursion(unary, pairwise, length, allowed):
    """Return the best labels, with the smallest label first among equals."""
    num_labels = unary.shape[1]
    unary = np.where(allowed, unary, -np.inf)
    best = [unary[0] + pairwise[0, :, num_labels]]
    for i in range(1, length):
        best.append(unary[i] + (pairwise[i, :, :num_labels] + best[-1]).max(axis=1))
    labels = np.zeros(len(unary), int)
    label = labels[length - 1] = best[length - 1].argmax()
    for i in range(length - 1, 0, -1):
        label = (best[i - 1] + pairwise[i, label, :num_labels]).argmax()
        labels[i - 1] = label
    return labels, best[length - 1].max()


@pytest.mark.parametrize("seed", range(12))
def test_factors_equal_enumeration_ties_included(seed):
    factors, pairwise = random_factors(seed, 4, 3, 2)
    rng, length = np.random.default_rng(seed), seed % 5
    allowed = rng.random((4, 3)) < 0.7
    allowed[:, seed % 3] = True
    labels, score = references.best_path(factors.unary, pairwise, length, allowed)
    found = compiled(factors, jnp.int32(length), allowed)
    np.testing.assert_array_equal(found.labels, labels)
    assert float(found.score) == score


@pytest.mark.parametrize("seed", range(4))
def test_many_labels_equal_the_recursion(seed):
    factors, pairwise = random_factors(seed, 6, 75, 3)
    allowed = np.random.default_rng(seed).random((6, 75)) < 0.9
    for scores in (factors, Scores(factors.unary, pairwise)):
        for length in (1, 6):
            labels, score = recursion(factors.unary, pairwise, length, allowed)
            found = compiled(scores, jnp.int32(length), allowed)
            np.testing.assert_array_equal(found.labels, labels)
            assert float(found.score) == score


def test_the_score_of_pairs_is_their_product():
    factors, pairwise = random_factors(0, 4, 3, 2)
    factors = jax.tree.map(jnp.asarray, factors)
    found = factors.pairs(jnp.int32(1), jnp.array([0, 2]), jnp.array([3, 1]))
    np.testing.assert_array_equal(found, pairwise[1, [0, 2], [3, 1]])


def test_wrong_shapes_are_one_sentence():
    factors, _ = random_factors(0, 4, 3, 2)
    with pytest.raises(InputError, match="multiple of 8 above 3, got"):
        decode.best_path(factors._replace(left=factors.left[:, :, :7]))
