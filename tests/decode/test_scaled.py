import functools

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import decode
from lowrank_jax.checks import InputError
from lowrank_jax.decode import Scores
from tests.decode.examples import LENGTHS, NUM_POSITIONS, jax_scores, random_batch


@jax.jit
def run(unary, pairwise, lengths):
    return decode.marginals_batch(Scores(unary, pairwise), lengths)


@jax.jit
def gradients(unary, pairwise, lengths, weights):
    def total(unary, pairwise):
        each = decode.log_partition_batch(Scores(unary, pairwise), lengths)
        return jnp.vdot(each, weights)

    return jax.value_and_grad(total, argnums=(0, 1))(unary, pairwise)


@functools.partial(jax.jit, static_argnames="is_shared")
def logarithmic(unary, pairwise, lengths, *, is_shared):
    axes = (Scores(0, None if is_shared else 0), 0)
    over = jax.vmap(decode.marginals, in_axes=axes)
    return over(Scores(unary, pairwise), lengths)


def check(unary, pairwise, dtype="float64", tolerance=1e-10):
    """Compare `marginals_batch` with the logarithmic form in float64."""
    is_shared = np.ndim(pairwise) == 2
    scores = jax_scores(unary, pairwise, dtype)
    found = run(*scores, LENGTHS)
    exact = Scores(*(array.astype("float64") for array in scores))
    expected = logarithmic(*exact, LENGTHS, is_shared=is_shared)
    pairs = expected.pairwise.sum((0, 1)) if is_shared else expected.pairwise
    assert all(field.dtype == jnp.dtype(dtype) for field in found)
    near = functools.partial(np.testing.assert_allclose, rtol=tolerance, atol=tolerance)
    near(found.unary, expected.unary)
    near(found.pairwise, pairs)
    near(found.log_partition, expected.log_partition)
    return found


@pytest.mark.parametrize(("num_labels", "is_shared"), [(3, True), (2, False)])
@pytest.mark.parametrize("spread", [0.0, 1.0, 10.0])
def test_scaled_equals_logarithmic_form(num_labels, is_shared, spread):
    check(*random_batch(num_labels, is_shared=is_shared, spread=spread))


def test_float32_equals_logarithmic_form():
    check(*random_batch(3, is_shared=True, spread=3.0), "float32", 1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_scores_from_minus_to_plus_fifty_are_safe_in_float64(seed):
    rng = np.random.default_rng(seed)
    unary = rng.choice([-50.0, 50.0], (len(LENGTHS), NUM_POSITIONS, 3))
    pairwise = rng.choice([-50.0, 50.0], (3, 4))
    assert np.ptp(pairwise) < decode.safe_spread(3, "float64")
    check(unary, pairwise)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("factor", [0.999, 1.001])
def test_at_the_limit_of_the_spread_either_form_is_precise(dtype, factor):
    limit = factor * decode.safe_spread(3, dtype)
    rng = np.random.default_rng(0)
    # Whole and zero unary scores, pairs at both ends: what the proof calls the worst.
    unary = rng.choice([-limit, 0.0], (len(LENGTHS), NUM_POSITIONS, 3))
    pairwise = rng.choice([-limit, 0.0], (3, 4))
    pairwise[:, :2] = [[0.0, -limit], [-limit, 0.0], [-limit, -limit]]
    check(unary, pairwise, dtype, {"float32": 1e-5, "float64": 1e-10}[dtype])


def test_scores_known_to_be_safe_need_no_logarithmic_form():
    scores = jax_scores(*random_batch(3, is_shared=True, spread=1.0))
    run_safe = jax.jit(
        lambda *args: (
            decode.marginals_batch(*args, is_safe=True),
            decode.log_partition_batch(*args, is_safe=True),
        )
    )
    found, total = run_safe(scores, LENGTHS)
    expected = run(*scores, LENGTHS)
    near = functools.partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-10)
    jax.tree.map(near, found, expected)
    near(total, expected.log_partition)
    assert "cond" not in str(jax.make_jaxpr(run_safe)(scores, LENGTHS))


@pytest.mark.parametrize(("num_labels", "is_shared"), [(3, True), (2, False)])
def test_forbidden_labels_and_pairs_are_taken(num_labels, is_shared):
    unary, pairwise = random_batch(num_labels, is_shared=is_shared, spread=1.0)
    unary[:, 1, 0] = unary[:, 3, 1] = -np.inf
    check(unary, pairwise)  # labels: the scaled form
    pairwise[..., 0, 1] = -np.inf
    check(unary, pairwise)  # pairs: the logarithmic form


def test_no_permitted_path_gives_zeros_and_no_nan():
    unary, pairwise = random_batch(3, is_shared=True)
    unary[:, 2] = -np.inf
    found = check(unary, pairwise)
    assert (np.asarray(found.log_partition)[LENGTHS > 2] == -np.inf).all()
    value, gradient = gradients(unary, pairwise, LENGTHS, np.ones(len(LENGTHS)))
    assert all(np.isfinite(field).all() for field in gradient)


@pytest.mark.parametrize(("num_labels", "is_shared"), [(3, True), (2, False)])
def test_what_the_padding_holds_changes_nothing(num_labels, is_shared):
    unary, pairwise = random_batch(num_labels, is_shared=is_shared)
    clean = run(*jax_scores(unary, pairwise), LENGTHS)
    for i, length in enumerate(LENGTHS):
        unary[i, length:] = np.nan
        if not is_shared:
            pairwise[i, length:] = np.nan
    dirty = run(*jax_scores(unary, pairwise), LENGTHS)
    for one, other in zip(clean, dirty, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("num_labels", "is_shared"), [(3, True), (2, False)])
def test_gradients_of_the_log_partition_are_the_marginals(num_labels, is_shared):
    unary, pairwise = random_batch(num_labels, is_shared=is_shared, spread=1.0)
    weights = np.ones(len(LENGTHS))
    scores = jax_scores(unary, pairwise)
    value, (of_unary, of_pairs) = gradients(*scores, LENGTHS, weights)
    found = run(*scores, LENGTHS)
    near = functools.partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-10)
    near(value, found.log_partition.sum())
    near(of_unary, found.unary)
    near(of_pairs[..., : num_labels + 1], found.pairwise)


def test_gradients_take_a_weight_for_each_sentence():
    unary, pairwise = random_batch(3, is_shared=True, spread=1.0)
    weights = np.random.default_rng(0).random(len(LENGTHS))
    _, (of_unary, of_pairs) = gradients(unary, pairwise, LENGTHS, weights)
    expected = logarithmic(unary, pairwise, LENGTHS, is_shared=True)
    near = functools.partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-10)
    near(of_unary, weights[:, None, None] * expected.unary)
    near(of_pairs, np.einsum("b,bisr->sr", weights, expected.pairwise))


def test_a_thousand_positions_with_x64_off():
    with jax.enable_x64(False):
        unary, pairwise = jnp.full((2, 1000, 3), -40.0), jnp.zeros((3, 4))
        found = run(unary, pairwise, jnp.array([1000, 500]))
        expected = np.array([1000, 500]) * (np.log(3) - 40)
        np.testing.assert_allclose(found.log_partition, expected, rtol=1e-5)
        labels = np.asarray(found.unary)
        np.testing.assert_allclose(labels[0], 1 / 3, rtol=1e-5)
        np.testing.assert_allclose(labels[1, :500], 1 / 3, rtol=1e-5)
        # 1500 equal terms, added one after the other: 1500 * 6e-8
        np.testing.assert_allclose(found.pairwise.sum(), 1500, rtol=9e-5)


def test_scaled_form_lowers_for_cpu_cuda_and_tpu():
    arguments = (
        jax.ShapeDtypeStruct((8, 6, 5), "float32"),
        jax.ShapeDtypeStruct((5, 6), "float32"),
        jax.ShapeDtypeStruct((8,), "int32"),
    )
    platforms = ("cpu", "cuda", "tpu")
    exported = jax.export.export(run, platforms=platforms)(*arguments)
    assert exported.platforms == platforms


def test_bad_shapes_are_named():
    with pytest.raises(InputError, match="unary.*shape"):
        decode.marginals_batch(Scores(jnp.zeros((4, 3)), jnp.zeros((3, 4))), LENGTHS)
    with pytest.raises(InputError, match="pairwise.*shape"):
        scores = Scores(jnp.zeros((7, 4, 3)), jnp.zeros((4, 3, 4)))
        decode.log_partition_batch(scores, LENGTHS)
