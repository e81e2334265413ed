"""Batch forms equal the decoders of one sentence, with and without lengths."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import decode
from lowrank_jax.checks import InputError
from lowrank_jax.decode import Scores
from tests.decode.examples import LENGTHS, NUM_POSITIONS, jax_scores, random_batch


def one_by_one(decoder, scores, lengths):
    for i, length in enumerate(lengths):
        own = scores.pairwise if scores.pairwise.ndim == 2 else scores.pairwise[i]
        yield decoder(i, Scores(scores.unary[i], own), jnp.int32(length))


@pytest.mark.slow
@pytest.mark.parametrize("has_lengths", [True, False])
@pytest.mark.parametrize("is_shared", [True, False])
def test_batch_forms_equal_one_sentence_after_the_other(is_shared, has_lengths):
    scores = jax_scores(*random_batch(3, is_shared=is_shared, spread=1.0))
    lengths = np.asarray(LENGTHS) if has_lengths else None
    true = lengths if has_lengths else np.full(len(scores.unary), NUM_POSITIONS)
    key = jax.random.key(0)
    labels = jax.random.randint(key, scores.unary.shape[:2], 0, 3)
    forms = {
        "entropy": (
            lambda: decode.entropy_batch(scores, lengths),
            jax.jit(lambda i, one, n: decode.entropy(one, n)),
        ),
        "k best": (
            lambda: decode.k_best_paths_batch(scores, 3, lengths),
            jax.jit(lambda i, one, n: decode.k_best_paths(one, 3, n)),
        ),
        "score": (
            lambda: decode.path_score_batch(scores, labels, lengths),
            jax.jit(lambda i, one, n: decode.path_score(one, labels[i], n)),
        ),
        "sample": (
            lambda: decode.sample_path_batch(key, scores, lengths),
            jax.jit(
                lambda i, one, n: decode.sample_path(jax.random.fold_in(key, i), one, n)
            ),
        ),
        "best": (
            lambda: decode.best_path_batch(scores, lengths),
            jax.jit(lambda i, one, n: decode.best_path(one, n)),
        ),
        "log Z": (
            lambda: decode.log_partition_batch(scores, lengths),
            jax.jit(lambda i, one, n: decode.log_partition(one, n)),
        ),
    }
    for batch, one in forms.values():
        expected = list(one_by_one(one, scores, true))
        stacked = jax.tree.map(lambda *parts: np.stack(parts), *expected)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12),
            jax.jit(batch)(),
            stacked,
        )


def test_forbidden_labels_are_in_none_of_the_best():
    scores = jax_scores(*random_batch(3, is_shared=True))
    allowed = np.ones(scores.unary.shape, bool)
    allowed[:, :, 1] = False
    found = decode.k_best_paths_batch(scores, 2, allowed=allowed)
    assert not (np.asarray(found.labels) == 1).any()


def test_lengths_of_another_shape_are_refused():
    scores = jax_scores(*random_batch(3, is_shared=True))
    with pytest.raises(InputError, match="`lengths` must have shape"):
        decode.entropy_batch(scores, np.zeros(2, np.int32))
