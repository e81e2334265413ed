import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import decode
from tests import references
from tests.decode.examples import (
    KINDS,
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
def run(scores, length, allowed):
    """Return the marginals, and the log partition with its gradient."""

    def total(scores):
        return decode.log_partition(scores, length, allowed=allowed)

    found = decode.marginals(scores, length, allowed=allowed)
    return found, jax.value_and_grad(total)(scores)


ALL = np.ones((NUM_POSITIONS, 3), bool)


def close(found, expected, dtype="float64"):
    """Same formula, other order of operations."""
    rtol = 1e-10 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


def check(unary, pairwise, length, allowed, dtype="float64"):
    """Compare marginals, log partition and its gradient with the enumeration."""
    scores = jax_scores(unary, pairwise, dtype)
    found, (value, gradient) = run(scores, jnp.int32(length), allowed)
    arrays = [*found, value, *gradient]
    assert all(array.dtype == jnp.dtype(dtype) for array in arrays)
    of_labels, of_pairs = references.marginals(unary, pairwise, length, allowed)
    total = references.log_partition(unary, pairwise, length, allowed)
    close(found.unary, of_labels, dtype)
    close(found.pairwise, of_pairs, dtype)
    close(found.log_partition, total, dtype)
    close(value, total, dtype)
    close(gradient.unary, of_labels, dtype)
    of_pairs = of_pairs if pairwise.ndim == 3 else of_pairs.sum(0)
    close(gradient.pairwise[..., : of_pairs.shape[-1]], of_pairs, dtype)
    assert not gradient.pairwise[..., of_pairs.shape[-1] :].any()


@few_examples
@hypothesis.given(example=sentences(spread=2.0, kinds=KINDS[1:]), seed=seeds)
def test_marginals_and_gradients_equal_enumeration(example, seed):
    unary, pairwise, length = example
    known = np.random.default_rng(seed).integers(-3, unary.shape[1], NUM_POSITIONS)
    allowed = np.asarray(decode.allow_labels(jnp.asarray(known), unary.shape[1]))
    check(unary, pairwise, length, np.ones(unary.shape, bool))
    check(unary, pairwise, length, allowed)


def test_x64_off_and_no_length_give_the_same():
    unary, pairwise = random_scores(0, 3, is_shared=True, spread=2.0)
    with jax.enable_x64(False):
        found = jax.jit(decode.marginals)(jax_scores(unary, pairwise, "float32"))
    assert all(array.dtype == jnp.float32 for array in found)
    of_labels, of_pairs = references.marginals(unary, pairwise, NUM_POSITIONS)
    close(found.unary, of_labels, "float32")
    close(found.pairwise, of_pairs, "float32")
    total = references.log_partition(unary, pairwise, NUM_POSITIONS)
    close(found.log_partition, total, "float32")


def test_vmap_over_ragged_lengths_equals_enumeration():
    unary, pairwise = random_batch(2, is_shared=False, spread=1.0)
    found = jax.jit(jax.vmap(decode.marginals))(jax_scores(unary, pairwise), LENGTHS)
    for i, length in enumerate(LENGTHS):
        of_labels, of_pairs = references.marginals(unary[i], pairwise[i], length)
        close(found.unary[i], of_labels)
        close(found.pairwise[i], of_pairs)


@pytest.mark.parametrize(("num_labels", "is_shared"), [(3, True), (2, False)])
def test_what_the_padding_holds_changes_nothing(num_labels, is_shared):
    unary, pairwise = random_scores(5, num_labels, is_shared=is_shared)
    allowed = np.ones(unary.shape, bool)
    clean = run(jax_scores(unary, pairwise), jnp.int32(3), allowed)
    unary[3:] = np.nan
    if not is_shared:
        pairwise[3:] = np.nan
    dirty = run(jax_scores(unary, pairwise), jnp.int32(3), allowed)
    jax.tree.map(np.testing.assert_array_equal, clean, dirty)


def test_no_permitted_path_gives_zeros_and_no_nan():
    unary, pairwise = random_scores(6, 3, is_shared=True)
    allowed = ALL.copy()
    allowed[2] = False
    scores = jax_scores(unary, pairwise)
    found, (value, gradient) = run(scores, jnp.int32(5), allowed)
    assert value == found.log_partition == -jnp.inf
    assert not found.unary.any() and not found.pairwise.any()
    assert all(np.isfinite(field).all() for field in gradient)


def test_a_thousand_positions_lose_no_precision_in_float32():
    dtype = "float32"
    unary = np.full((1000, 3), -40.0)
    pairwise = np.zeros((3, 4))
    found = jax.jit(decode.marginals)(jax_scores(unary, pairwise, dtype))
    expected = 1000 * (np.log(3) - 40)
    close(found.log_partition, expected, dtype)
    close(found.unary, np.full((1000, 3), 1 / 3), dtype)
    close(found.pairwise[1:, :, :3], np.full((999, 3, 3), 1 / 9), dtype)


def test_entropy_equals_enumeration():
    entropy = jax.jit(lambda scores, length: decode.entropy(scores, length))
    unary, pairwise = random_scores(1, 2, is_shared=False, spread=1.0)
    for length in [0, 1, 4]:
        scores = references.enumerate_paths(unary, pairwise, length).scores
        logs = scores - references.log_partition(unary, pairwise, length)
        found = entropy(jax_scores(unary, pairwise), jnp.int32(length))
        close(found, -(np.exp(logs) * logs).sum())


def test_samples_have_the_frequencies_of_the_distribution():
    num_samples, length = 20_000, 4
    unary, pairwise = random_scores(2, 2, is_shared=False, spread=0.7)
    scores = jax_scores(unary, pairwise)
    keys = jax.random.split(jax.random.key(0), num_samples)
    draw = jax.vmap(lambda key: decode.sample_path(key, scores, length))
    drawn = np.asarray(jax.jit(draw)(keys))
    assert drawn.dtype == np.int32 and not drawn[:, length:].any()
    every = references.enumerate_paths(unary, pairwise, length)
    total = references.log_partition(unary, pairwise, length)
    probability = np.exp(every.scores - total)
    observed = [(drawn[:, :length] == labels).all(1).mean() for labels in every.labels]
    deviation = np.sqrt(probability * (1 - probability) / num_samples)
    assert (np.abs(observed - probability) < 4.5 * deviation + 1e-4).all()


def test_a_sample_does_not_depend_on_the_padding():
    unary, pairwise = random_scores(2, 3, is_shared=True, spread=0.7)
    key = jax.random.key(3)
    draw = jax.jit(lambda scores: decode.sample_path(key, scores, 3))
    padded = draw(jax_scores(unary, pairwise))
    plain = draw(jax_scores(unary[:3], pairwise))
    np.testing.assert_array_equal(padded[:3], plain)


@pytest.mark.parametrize("num_positions", [1, 3])
def test_a_sentence_that_fills_its_window_has_no_pair_after_its_end(num_positions):
    """All labels are as likely, and the transitions are used before the end alone."""
    pairwise = np.zeros((3, 4))
    pairwise[0, 0] = 60.0 if num_positions == 1 else 0.0
    pairwise[0, 1] = 60.0
    scores = jax_scores(np.zeros((num_positions, 3)), pairwise)
    keys = jax.random.split(jax.random.key(0), 100)
    draw = jax.jit(jax.vmap(lambda key: decode.sample_path(key, scores)))
    drawn = np.asarray(draw(keys))
    if num_positions == 1:
        assert set(drawn[:, 0]) == {0, 1, 2}
    else:  # one pair of (0, 1) is in every path that is ever drawn
        pairs = (drawn[:, 1:] == 0) & (drawn[:, :-1] == 1)
        assert pairs.any(axis=1).all()
        assert set(drawn[pairs[:, 0], 2]) == {0, 1, 2}


@pytest.mark.parametrize("is_shared", [True, False])
def test_the_gradient_of_the_entropy_is_finite_where_labels_are_forbidden(is_shared):
    """As with a score so low that its label is never seen."""
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(4, 3))
    pairwise = rng.normal(size=(3, 4) if is_shared else (4, 3, 4))
    unary[1, 2], pairwise[..., 0, 1] = -np.inf, -np.inf

    def slope(unary, pairwise):
        given = decode.Scores(jnp.asarray(unary), jnp.asarray(pairwise))
        return jax.jit(jax.grad(decode.entropy))(given, jnp.int32(3))

    found = slope(unary, pairwise)
    low = slope(np.maximum(unary, -200), np.maximum(pairwise, -200))
    for part, expected in zip(found, low, strict=True):
        assert np.isfinite(part).all() and np.abs(part).max() > 0.01
        np.testing.assert_allclose(part, expected, atol=1e-12)
