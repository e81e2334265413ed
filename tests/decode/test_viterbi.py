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


@jax.jit
def compiled(scores, length, allowed):
    """Decode with a traced length and a mask: one program per shape and dtype."""
    return decode.best_path(scores, length, allowed=allowed)


def run(scores, length, allowed=None):
    if allowed is None:
        allowed = np.ones(scores.unary.shape, bool)
    return compiled(scores, jnp.int32(length), allowed)


@few_examples
@hypothesis.given(example=sentences())
def test_best_path_equals_enumeration_ties_included(example):
    unary, pairwise, length = example
    labels, score = references.best_path(unary, pairwise, length)
    found = run(jax_scores(unary, pairwise), length)
    np.testing.assert_array_equal(found.labels, labels)
    assert found.score == score


@few_examples
@hypothesis.given(example=sentences(), seed=seeds)
def test_forced_labels_equal_enumeration_of_permitted_paths(example, seed):
    unary, pairwise, length = example
    num_labels = unary.shape[1]
    known = np.random.default_rng(seed).integers(-1, num_labels, NUM_POSITIONS)
    allowed = np.asarray(decode.allow_labels(jnp.asarray(known), num_labels))
    labels, score = references.best_path(unary, pairwise, length, allowed)
    found = run(jax_scores(unary, pairwise), length, allowed)
    np.testing.assert_array_equal(found.labels, labels)
    assert found.score == score


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_dtype_is_kept(dtype):
    unary, pairwise = random_scores(7, 3, is_shared=True)
    for length in range(NUM_POSITIONS + 1):
        labels, score = references.best_path(unary, pairwise, length)
        found = run(jax_scores(unary, pairwise, dtype), length)
        np.testing.assert_array_equal(found.labels, labels)
        assert found.score.astype(float) == score
        assert found.labels.dtype == jnp.int32
        assert found.score.dtype == jnp.dtype(dtype)


def test_lengths_known_before_tracing_give_the_same():
    scores = jax_scores(*random_scores(8, 3, is_shared=True))
    lengths = [None, 0, 3]

    @jax.jit
    def each(scores):
        return [decode.best_path(scores, length) for length in lengths]

    for length, found in zip(lengths, each(scores), strict=True):
        same = run(scores, NUM_POSITIONS if length is None else length)
        np.testing.assert_array_equal(found.labels, same.labels)
        assert found.score == same.score


def test_no_jit_and_x64_off_give_the_same():
    unary, pairwise = random_scores(3, 2, is_shared=True, num_positions=2)
    labels, score = references.best_path(unary, pairwise, 2)
    with jax.enable_x64(False):
        found = decode.best_path(jax_scores(unary, pairwise, "float32"), jnp.int32(2))
        np.testing.assert_array_equal(found.labels, labels)
        assert found.score == score and found.score.dtype == jnp.float32


@pytest.mark.parametrize("is_shared", [True, False])
def test_vmap_over_ragged_lengths_equals_enumeration(is_shared):
    unary, pairwise = random_batch(3, is_shared=is_shared)
    over = jax.vmap(decode.best_path, in_axes=(Scores(0, None if is_shared else 0), 0))
    found = jax.jit(over)(jax_scores(unary, pairwise), LENGTHS)
    for i, length in enumerate(LENGTHS):
        own = pairwise if is_shared else pairwise[i]
        labels, score = references.best_path(unary[i], own, length)
        np.testing.assert_array_equal(found.labels[i], labels)
        assert found.score[i] == score


@pytest.mark.parametrize(("num_labels", "is_shared"), [(3, True), (2, False)])
def test_what_the_padding_holds_changes_nothing(num_labels, is_shared):
    unary, pairwise = random_scores(5, num_labels, is_shared=is_shared)
    clean = run(jax_scores(unary, pairwise), 3)
    unary[3:] = np.nan
    if not is_shared:
        pairwise[3:] = np.nan
        pairwise[1:, :, -1] = np.nan  # the start column counts at position 0 alone
    dirty = run(jax_scores(unary, pairwise), 3)
    np.testing.assert_array_equal(dirty.labels, clean.labels)
    assert dirty.score == clean.score


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_masks_that_force_all_labels_give_the_score_of_that_path(dtype):
    unary, pairwise = random_scores(1, 3, is_shared=True)
    scores = jax_scores(1e6 * unary, pairwise, dtype)  # a mask holds at any scale
    labels = jnp.array([2, 0, 1, 1, 2], jnp.int32)
    found = run(scores, 4, decode.allow_labels(labels, 3))
    assert found.labels.tolist() == [2, 0, 1, 1, 0]
    assert found.score == decode.path_score(scores, labels, 4)


def test_no_permitted_path_scores_minus_infinity_without_nan():
    unary, pairwise = random_scores(2, 3, is_shared=True)
    allowed = np.ones((NUM_POSITIONS, 3), bool)
    allowed[2] = False
    assert run(jax_scores(unary, pairwise), 5, allowed).score == -jnp.inf
    pairwise[:, :3] = -np.inf
    assert run(jax_scores(unary, pairwise), 5).score == -jnp.inf
    assert run(jax_scores(unary, pairwise), 1).score > -jnp.inf


def test_forbidden_pairs_are_avoided():
    unary, pairwise = np.zeros((NUM_POSITIONS, 3)), np.full((3, 4), -np.inf)
    pairwise[1, 0] = pairwise[2, 1] = pairwise[0, 2] = 0  # labels go round
    pairwise[1, 3] = 0  # and begin with 1
    found = run(jax_scores(unary, pairwise), 5)
    assert found.labels.tolist() == [1, 2, 0, 1, 2] and found.score == 0


def test_the_score_of_the_best_path_can_be_differentiated():
    unary, pairwise = random_scores(4, 3, is_shared=True, spread=1.0)
    scores = jax_scores(unary, pairwise)
    score_of = jax.jit(jax.grad(lambda scores: decode.best_path(scores).score))
    labels = run(scores, NUM_POSITIONS).labels
    gradient = score_of(scores)
    np.testing.assert_array_equal(gradient.unary, jax.nn.one_hot(labels, 3))
    np.testing.assert_array_equal(gradient.pairwise, decode.pair_counts(labels, 3))


@pytest.mark.parametrize("pairwise_shape", [(5, 6), (16, 5, 6)])
def test_best_path_lowers_for_cpu_cuda_and_tpu(pairwise_shape):
    scores = Scores(
        jax.ShapeDtypeStruct((16, 5), "float32"),
        jax.ShapeDtypeStruct(pairwise_shape, "float32"),
    )
    export = jax.export.export(
        jax.jit(lambda s, n: decode.best_path(s, n)), platforms=["cpu", "cuda", "tpu"]
    )
    exported = export(scores, jax.ShapeDtypeStruct((), "int32"))
    assert exported.platforms == ("cpu", "cuda", "tpu")


def test_bad_shapes_and_lengths_are_named():
    unary, pairwise = jnp.zeros((4, 3)), jnp.zeros((3, 4))
    with pytest.raises(InputError, match="pairwise.*shape"):
        decode.best_path(Scores(unary, pairwise[:, :3]))
    with pytest.raises(InputError, match="unary.*shape"):
        decode.best_path(Scores(unary[0], pairwise))
    with pytest.raises(InputError, match="dtype"):
        decode.best_path(Scores(unary, pairwise.astype("float32")))
    with pytest.raises(InputError, match="allowed"):
        decode.best_path(Scores(unary, pairwise), allowed=jnp.ones((3,), bool))
    with pytest.raises(InputError, match="length.*5"):
        decode.best_path(Scores(unary, pairwise), 5)
