import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import decode
from lowrank_jax.checks import InputError
from tests import references
from tests.decode.examples import (
    NUM_POSITIONS,
    few_examples,
    jax_scores,
    random_scores,
    seeds,
    sentences,
)

augmented = jax.jit(lambda *args: decode.loss_augmented_path(*args))
score_of = jax.jit(lambda *args: decode.path_score(*args))


def test_hamming_cost_is_one_but_for_the_true_label_and_zero_where_unknown():
    cost = decode.hamming_cost(jnp.array([1, -1, 0]), 3)
    np.testing.assert_array_equal(cost, [[1, 0, 1], [0, 0, 0], [0, 1, 1]])


def test_hamming_cost_takes_a_scale_and_keeps_its_dtype():
    labels = jnp.array([1, 0])
    traced = jax.jit(lambda scale: decode.hamming_cost(labels, 2, scale))
    cost = traced(jnp.float32(2.5))
    np.testing.assert_array_equal(cost, [[2.5, 0], [0, 2.5]])
    assert cost.dtype == jnp.float32
    assert decode.hamming_cost(labels, 2, dtype="bfloat16").dtype == jnp.bfloat16
    with jax.enable_x64(False):
        assert decode.hamming_cost(labels, 2).dtype == jnp.float32


@few_examples
@hypothesis.given(example=sentences(), seed=seeds)
def test_loss_augmented_path_maximises_score_plus_hamming_distance(example, seed):
    unary, pairwise, length = example
    truth = np.random.default_rng(seed).integers(0, unary.shape[1], NUM_POSITIONS)
    every = references.enumerate_paths(unary, pairwise, length)
    distance = (every.labels != truth[None, :length]).sum(1)
    found = augmented(jax_scores(unary, pairwise), truth, jnp.int32(length))
    assert found.score == (every.scores + distance).max()
    wrong = (np.asarray(found.labels) != truth)[:length].sum()
    own = references.path_score(unary, pairwise, np.asarray(found.labels)[:length])
    assert own + wrong == found.score


def test_loss_augmented_path_takes_any_cost_of_labels():
    unary, pairwise = random_scores(0, 3, is_shared=True)
    cost = np.random.default_rng(1).integers(0, 4, unary.shape).astype(float)
    labels, score = references.best_path(unary + cost, pairwise, 4)
    run = jax.jit(lambda s, y, n, cost: decode.loss_augmented_path(s, y, n, cost=cost))
    truth = jnp.zeros((NUM_POSITIONS,), jnp.int32)
    found = run(jax_scores(unary, pairwise), truth, jnp.int32(4), cost)
    np.testing.assert_array_equal(found.labels, labels)
    assert found.score == score
    with pytest.raises(InputError, match="cost"):
        run(jax_scores(unary, pairwise), truth, jnp.int32(4), cost[:2])


@few_examples
@hypothesis.given(example=sentences(), seed=seeds)
def test_path_score_equals_the_sum_over_positions(example, seed):
    unary, pairwise, length = example
    labels = np.random.default_rng(seed).integers(0, unary.shape[1], NUM_POSITIONS)
    expected = references.path_score(unary, pairwise, labels[:length])
    unary[length:] = np.nan  # padding is not read
    labels[length:] = -1
    assert score_of(jax_scores(unary, pairwise), labels, jnp.int32(length)) == expected


def test_path_score_keeps_the_dtype_and_takes_vmap():
    unary, pairwise = random_scores(0, 3, is_shared=False)
    labels = np.random.default_rng(0).integers(0, 3, (4, NUM_POSITIONS))
    over = jax.jit(jax.vmap(decode.path_score, in_axes=(None, 0, 0)))
    scores = jax_scores(unary, pairwise, "float32")
    found = over(scores, labels, np.array([0, 1, 4, 5], np.int32))
    assert found.dtype == jnp.float32
    for i, length in enumerate([0, 1, 4, 5]):
        expected = references.path_score(unary, pairwise, labels[i, :length])
        assert found[i] == expected


def test_pair_counts_are_the_gradient_of_the_path_score():
    unary, pairwise = random_scores(0, 3, is_shared=True)
    labels = jnp.array([2, 1, 1, 1, 0], jnp.int32)
    gradient_of = jax.jit(jax.grad(lambda *args: decode.path_score(*args)))
    count = jax.jit(lambda labels, length: decode.pair_counts(labels, 3, length))
    for length in [0, 1, 4, 5]:
        gradient = gradient_of(jax_scores(unary, pairwise), labels, jnp.int32(length))
        counts = count(labels, jnp.int32(length))
        np.testing.assert_array_equal(gradient.pairwise, counts)
        assert counts.dtype == jnp.int32 and counts.sum() == length
