import functools

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import decode
from lowrank_jax.checks import InputError
from lowrank_jax.decode import Scores, trees, viterbi_batch
from lowrank_jax.linalg.forms import forced
from tests import references
from tests.decode.examples import (
    KINDS,
    LENGTHS,
    jax_scores,
    random_batch,
    random_scores,
)


@jax.jit
def run(unary, pairwise, lengths=None, allowed=None):
    return decode.best_path_batch(Scores(unary, pairwise), lengths, allowed=allowed)


def check(unary, pairwise, lengths, dtype="float64", allowed=None):
    """Compare with the enumeration, one sentence after the other."""
    scores = jax_scores(unary, pairwise, dtype)
    found = run(*scores, lengths, allowed=allowed)
    assert found.score.dtype == jnp.dtype(dtype) and found.labels.dtype == jnp.int32
    for i, length in enumerate(lengths):
        own = pairwise if pairwise.ndim == 2 else pairwise[i]
        mask = None if allowed is None else allowed[i]
        labels, score = references.best_path(unary[i], own, length, mask)
        np.testing.assert_array_equal(found.labels[i], labels)
        assert float(found.score[i]) == score


@pytest.mark.parametrize(("num_labels", "is_shared"), KINDS)
def test_batch_equals_enumeration_ties_included(num_labels, is_shared):
    check(*random_batch(num_labels, is_shared=is_shared), LENGTHS)


@pytest.mark.parametrize("is_shared", [True, False])
def test_forced_labels_equal_enumeration_of_permitted_paths(is_shared):
    unary, pairwise = random_batch(3, is_shared=is_shared)
    allowed = np.random.default_rng(0).random(unary.shape) < 0.7
    allowed |= ~allowed.any(2, keepdims=True)
    check(unary, pairwise, LENGTHS, allowed=allowed)


def test_batch_equals_vmap_on_real_scores():
    scores = jax_scores(*random_batch(3, is_shared=True, spread=1.0))
    found = run(*scores, LENGTHS)
    over = jax.jit(jax.vmap(decode.best_path, in_axes=(Scores(0, None), 0)))
    expected = over(scores, LENGTHS)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.score, expected.score)


def test_batch_equals_one_sentence_after_the_other_on_long_sentences():
    unary, pairwise = random_scores(11, 7, is_shared=True, num_positions=90)
    lengths = np.array([0, 1, 63, 64, 65, 90])
    scores = jax_scores(np.broadcast_to(unary, (6, *unary.shape)), pairwise)
    found = run(*scores, lengths)
    one = jax.jit(decode.best_path)
    for i, length in enumerate(lengths):
        expected = one(jax_scores(unary, pairwise), jnp.int32(length))
        np.testing.assert_array_equal(found.labels[i], expected.labels)
        assert found.score[i] == expected.score


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_dtype_is_kept(dtype):
    check(*random_batch(3, is_shared=True), LENGTHS, dtype)


@pytest.mark.parametrize("num_sentences", [128, 129, 300])
def test_groups_of_sentences_lose_none(num_sentences):
    rng = np.random.default_rng(num_sentences)
    unary = rng.integers(-2, 3, (num_sentences, 3, 2)).astype(float)
    pairwise = rng.integers(-2, 3, (2, 3)).astype(float)
    check(unary, pairwise, rng.integers(0, 4, num_sentences), "float32")


@pytest.mark.parametrize("is_shared", [True, False])
def test_many_labels_give_the_same_by_reductions(is_shared, monkeypatch):
    scores = jax_scores(*random_batch(3, is_shared=is_shared))
    unrolled = run(*scores, LENGTHS)
    monkeypatch.setattr(viterbi_batch, "MOST", 2)
    monkeypatch.setattr(trees, "MOST", 2)
    reduced = jax.jit(functools.partial(decode.best_path_batch))(scores, LENGTHS)
    np.testing.assert_array_equal(reduced.labels, unrolled.labels)
    np.testing.assert_array_equal(reduced.score, unrolled.score)


@pytest.mark.parametrize("is_shared", [True, False])
def test_what_the_padding_holds_changes_nothing(is_shared):
    unary, pairwise = random_batch(3, is_shared=is_shared)
    clean = run(*jax_scores(unary, pairwise), LENGTHS)
    for i, length in enumerate(LENGTHS):
        unary[i, length:] = np.nan
        if not is_shared:
            pairwise[i, length:] = np.nan
    dirty = run(*jax_scores(unary, pairwise), LENGTHS)
    np.testing.assert_array_equal(dirty.labels, clean.labels)
    np.testing.assert_array_equal(dirty.score, clean.score)


def test_no_lengths_means_all_positions_also_with_x64_off():
    unary, pairwise = random_batch(3, is_shared=True)
    labels, _ = references.best_path(unary[0], pairwise, 5)
    with jax.enable_x64(False):
        found = run(*jax_scores(unary, pairwise, "float32"))
        np.testing.assert_array_equal(found.labels[0], labels)
        assert found.score.dtype == jnp.float32


@pytest.mark.parametrize("pairwise_shape", [(5, 6), (300, 8, 5, 6)])
def test_batch_lowers_for_cpu_cuda_and_tpu(pairwise_shape):
    arguments = (
        jax.ShapeDtypeStruct((300, 8, 5), "float32"),
        jax.ShapeDtypeStruct(pairwise_shape, "float32"),
        jax.ShapeDtypeStruct((300,), "int32"),
    )
    platforms = ("cpu", "cuda", "tpu")
    exported = jax.export.export(run, platforms=platforms)(*arguments)
    assert exported.platforms == platforms


@pytest.mark.parametrize("form", ["gpu", "tpu"])
@pytest.mark.parametrize(("num_labels", "is_shared"), KINDS)
def test_forms_of_accelerators_equal_enumeration(num_labels, is_shared, form):
    unary, pairwise = random_batch(num_labels, is_shared=is_shared)
    allowed = np.random.default_rng(0).random(unary.shape) < 0.8
    allowed |= ~allowed.any(2, keepdims=True)
    with forced(form):
        decoder = jax.jit(
            lambda *given: decode.best_path_batch(*given[:2], allowed=given[2])
        )
        found = decoder(jax_scores(unary, pairwise), LENGTHS, allowed)
    for i, length in enumerate(LENGTHS):
        own = pairwise if pairwise.ndim == 2 else pairwise[i]
        labels, score = references.best_path(unary[i], own, length, allowed[i])
        assert float(found.score[i]) == score
        np.testing.assert_array_equal(found.labels[i], labels)


@pytest.mark.parametrize("form", ["gpu", "tpu"])
def test_padding_changes_nothing_in_the_forms_of_accelerators(form):
    unary, pairwise = random_batch(3, is_shared=False)
    clean = run(*jax_scores(unary, pairwise), LENGTHS)
    for i, length in enumerate(LENGTHS):
        unary[i, length:], pairwise[i, length:] = np.nan, np.nan
    with forced(form):
        dirty = jax.jit(lambda *given: decode.best_path_batch(*given))(
            jax_scores(unary, pairwise), LENGTHS
        )
    np.testing.assert_array_equal(dirty.labels, clean.labels)
    np.testing.assert_array_equal(dirty.score, clean.score)


def test_bad_shapes_are_named():
    with pytest.raises(InputError, match="unary.*shape"):
        decode.best_path_batch(Scores(jnp.zeros((4, 3)), jnp.zeros((3, 4))))
    with pytest.raises(InputError, match="pairwise.*shape"):
        decode.best_path_batch(Scores(jnp.zeros((2, 4, 3)), jnp.zeros((4, 3, 4))))
