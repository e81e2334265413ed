"""Margins: hand-computed numbers, and attempts to break the bounds."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lowrank_jax.theory.bol import margin


def test_numbers_of_a_pool_by_hand():
    """diag(2, 1/2) and diag(1, 0), W = 3 e11: gamma = 1, M_1 = 2, M_2 = 5/2."""
    deltas = np.array([[[2.0, 0.0], [0.0, 0.5]], [[1.0, 0.0], [0.0, 0.0]]])
    weights = np.array([[3.0, 0.0], [0.0, 0.0]])

    @jax.jit
    def numbers(weights, deltas):
        found = margin.separation(weights, deltas)
        alone = margin.separation(weights, deltas[:1])
        one = jnp.array(1)
        return (
            found,
            margin.mistake_bound(jnp.array(100), found),
            alone,
            margin.ratio_bound(deltas[:1], alone),
            margin.ratio_bound(deltas[:1], alone._replace(margin=1.05 * alone.margin)),
            margin.mistake_bound(one, alone),
            margin.conjugate_above(one, jnp.array(2.0), alone),
            margin.conjugate_below(one, jnp.array(2.0), alone),
            margin.corollary(
                jnp.array(3.0),
                alone,
                step_size=0.5,
                num_rounds=jnp.array(4),
                num_values=2,
                comparator_energy=1.0,
            ),
            margin.separation(0 * weights, deltas),
        )

    found, silent, alone, ratio, strict, mistakes, above, below, mean, zero = numbers(
        weights, deltas
    )
    np.testing.assert_allclose(found[:5], [1.0, 2.0, 2.5, 4.25, 1.0])
    assert not found.is_met and not silent.assumptions_met  # 1 < 5/4
    assert alone.is_met  # gamma = 2 > 5/4
    np.testing.assert_allclose([ratio.observed, ratio.bound], [[0.25], [0.25]])
    assert ratio.holds.all() and not strict.holds.any()  # attained: 5 % are noticed
    np.testing.assert_allclose(mistakes.bound, 4.25 / (2 * (4 - 2.5)))
    np.testing.assert_allclose(above.bound, 4.25 / 2 * 2 / 1.5)
    np.testing.assert_allclose([below.observed, below.bound], [2.0, 2.0])
    # 1 / (C N) = 1/2, and 2 C l^2 M_1^2 gamma / (2 gamma - M_2) = 16 * 2 / 1.5.
    np.testing.assert_allclose([mean.observed, mean.bound], [0.75, 0.5 + 32 / 1.5])
    assert zero.margin == 0 and not zero.is_met


def test_threshold_is_two_over_the_pair_norm():
    """The 1x1 matrix 1/10: W = 10 < 2 / M_2 = 20, but not < M_2 / 2 = 1/20."""

    @jax.jit
    def both(weights, deltas):
        corrected = margin.threshold(weights, deltas)
        return corrected, margin.threshold(weights, deltas, is_printed=True)

    corrected, printed = both(np.ones((1, 1)), np.full((1, 1, 1), 0.1))
    assert corrected.holds and not printed.holds


def test_two_equal_blocks_leave_no_margin():
    """Two templates that fire at the wrong position alone; W the best there is."""
    block = np.array([[1.0, -1.0], [0.0, 0.0]])
    delta = np.kron(np.eye(2), block)[None]
    tied = jax.jit(margin.tied_features)
    for weights in (delta[0], np.kron(np.diag([1.0, 0.0]), block)):
        found = tied(weights, delta)
        assert found.assumptions_met and found.holds
        np.testing.assert_allclose(found.observed, found.bound)
    separate = np.kron(np.diag([1.0, 0.5]), block)[None]
    assert not tied(delta[0], separate).assumptions_met


@functools.lru_cache
def all_of():
    def one(weights, deltas, shares):
        separated = margin.separation(weights, deltas)
        points = jnp.einsum("pj,jmn->pmn", shares, deltas)
        return separated, (
            margin.ratio_bound(points, separated),
            margin.margin_within_least_norm(separated),
            margin.tied_features(weights, deltas),
            margin.gap_is_enough(deltas),
            margin.margin_of_scaled(weights, deltas),
            margin.threshold(weights, deltas),
        )

    return jax.jit(one)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([(2, 3), (1, 4)]),
    st.sampled_from([1e-8, 1.0, 1e8]),
    st.sampled_from([0.0, 0.1, 0.5, 3.0]),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_no_pool_breaks_the_bounds(shape, scale, spread, is_whole, seed):
    """Weights not negative on differences near a planted matrix, or anywhere."""
    rng = np.random.default_rng(seed)
    planted = np.outer(rng.standard_normal(shape[0]), rng.standard_normal(shape[1]))
    deltas = planted + spread * rng.standard_normal((5, *shape))
    if is_whole:
        deltas = np.round(deltas)
    shares = rng.exponential(size=(6, 5)) * (rng.random((6, 5)) < 0.5)
    given_arrays = (planted, scale * deltas, shares)
    separated, found = all_of()(*map(jnp.asarray, given_arrays))
    for certificate in found:
        assert np.asarray(certificate.holds).all()
    norm = np.linalg.svd(planted, compute_uv=False).sum()
    expected = (planted * deltas).sum((1, 2)).min() * scale / norm
    np.testing.assert_allclose(
        separated.margin, expected, rtol=1e-9, atol=1e-12 * scale
    )
    if spread == 0 and not is_whole:
        assert separated.is_met
