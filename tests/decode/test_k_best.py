import functools

import hypothesis
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import decode
from lowrank_jax.checks import InputError
from lowrank_jax.decode import Scores
from tests import references
from tests.decode.examples import (
    LENGTHS,
    NUM_POSITIONS,
    few_examples,
    jax_scores,
    random_batch,
    random_scores,
    seeds,
    sentences,
)


@functools.cache
def compiled(k):
    return jax.jit(
        lambda scores, length, allowed: decode.k_best_paths(
            scores, k, length, allowed=allowed
        )
    )


def check(found, unary, pairwise, length, allowed=None):
    """Compare with the head of the sorted enumeration, and what lies behind it."""
    k = found.scores.shape[0]
    every = references.enumerate_paths(unary, pairwise, length, allowed)
    count = min(k, len(every.scores))
    np.testing.assert_array_equal(found.is_valid, np.arange(k) < count)
    np.testing.assert_array_equal(found.scores[:count], every.scores[:count])
    assert (np.asarray(found.scores[count:]) == -np.inf).all()
    labels = np.zeros(found.labels.shape, int)
    labels[:count, :length] = every.labels[:count]
    np.testing.assert_array_equal(found.labels, labels)


@few_examples
@hypothesis.given(example=sentences(), seed=seeds, is_masked=hypothesis.infer)
def test_k_best_equals_sorted_enumeration_ties_included(example, seed, is_masked: bool):
    unary, pairwise, length = example
    allowed = np.ones(unary.shape, bool)
    if is_masked:
        allowed = np.random.default_rng(seed).random(unary.shape) < 0.7
    found = compiled(10)(jax_scores(unary, pairwise), jnp.int32(length), allowed)
    check(found, unary, pairwise, length, allowed)


def test_all_paths_are_found_in_order_when_k_is_their_number():
    unary, pairwise = random_scores(3, 3, is_shared=True)
    allowed = np.ones(unary.shape, bool)
    found = compiled(3**4 + 2)(jax_scores(unary, pairwise), jnp.int32(4), allowed)
    assert found.is_valid.sum() == 3**4
    check(found, unary, pairwise, 4)


@pytest.mark.parametrize("k", [1, 4])
def test_vmap_over_ragged_lengths_with_x64_off_keeps_the_dtype(k):
    unary, pairwise = random_batch(3, is_shared=True)
    over = jax.vmap(
        lambda scores, length: decode.k_best_paths(scores, k, length),
        in_axes=(Scores(0, None), 0),
    )
    with jax.enable_x64(False):
        found = jax.jit(over)(jax_scores(unary, pairwise, "float32"), LENGTHS)
    assert found.scores.dtype == jnp.float32 and found.labels.dtype == jnp.int32
    for i, length in enumerate(LENGTHS):
        one = decode.Paths(*(np.asarray(field[i]) for field in found))
        check(one, unary[i], pairwise, length)


def test_forbidden_pairs_count_as_missing_paths():
    unary, pairwise = np.zeros((NUM_POSITIONS, 3)), np.full((3, 4), -np.inf)
    pairwise[1, 0] = pairwise[0, 1] = 0  # 0 and 1 alternate, 2 is never reached
    pairwise[:2, 3] = 0
    allowed = np.ones(unary.shape, bool)
    found = compiled(10)(jax_scores(unary, pairwise), jnp.int32(5), allowed)
    check(found, unary, pairwise, 5)
    assert found.is_valid.sum() == 2


def test_k_best_lowers_for_cpu_cuda_and_tpu():
    scores = Scores(
        jax.ShapeDtypeStruct((8, 5), "float32"), jax.ShapeDtypeStruct((5, 6), "float32")
    )
    platforms = ("cpu", "cuda", "tpu")
    run = jax.jit(lambda scores, length: decode.k_best_paths(scores, 3, length))
    exported = jax.export.export(run, platforms=platforms)(
        scores, jax.ShapeDtypeStruct((), "int32")
    )
    assert exported.platforms == platforms


@pytest.mark.parametrize("k", [0, -1, 2.0, True])
def test_k_must_be_a_whole_number_of_at_least_one(k):
    with pytest.raises(InputError, match="`k`"):
        decode.k_best_paths(jax_scores(*random_scores(0, 3, is_shared=True)), k)
