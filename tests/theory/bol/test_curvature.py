"""Hessians of BOL's conjugate, and the bounds of second order."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pytest

from lowrank_jax.theory.bol import blocks, curvature, smoothness
from tests.theory.bol.test_spectral import jitted, problems, quickly


def height(theta, rank=1):
    return (np.linalg.svd(theta, compute_uv=False)[:rank] ** 2).sum() / 2


def differences(theta, rank=1, width=1e-4):
    """Return the Hessian by second differences, entry by entry."""
    size = theta.size
    found = np.zeros((size, size))
    eye = np.eye(size).reshape(size, *theta.shape) * width
    for a in range(size):
        for b in range(size):
            moves = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
            found[a, b] = sum(
                i * j * height(theta + i * eye[a] + j * eye[b], rank) for i, j in moves
            )
    return found / (4 * width**2)


@functools.cache
def example():
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(n, 3)))[0] for n in (4, 3))
    return (left * [3.0, 2.0, 1.0]) @ right.T


def test_hessian_equals_second_differences():
    theta = example()
    found = np.asarray(jitted(curvature.hessian, rank=1)(theta))
    np.testing.assert_allclose(found, differences(theta), atol=1e-6)


def test_hand_computed_spectrum_of_the_hessian():
    theta = example()
    # s = 3, 2, 1: 3/(3-2), 3/(3-1), 3/(3+1), 3/(3+2), 1 twice (|m - n| = 1), else 0.
    expected = [3, 1.5, 1, 1, 0.75, 0.6] + 6 * [0]
    found = np.asarray(jitted(curvature.hessian_spectrum)(theta))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(differences(theta))[::-1], expected, atol=1e-6
    )
    # k = 2: 3/(3-1), 2/(2-1), 3/(3+1), 2/(2+1), and 2^2 + 2 ones.
    expected = sorted([1.5, 2, 0.75, 2 / 3, *6 * [1.0], 0, 0])[::-1]
    found = np.asarray(jitted(curvature.hessian_spectrum, rank=2)(theta))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(differences(theta, 2))[::-1], expected, atol=1e-6
    )


def test_hessian_certificates_hold_for_rank_two():
    found = jitted(curvature.hessian_certificates, rank=2)(example())
    assert all(bool(part.holds) for part in found)
    # s = 3, 2, 1, one row more than columns: 6 ones, then 2 s_i^2 / (s_i^2 - s_3^2).
    trace = 6 + 18 / 8 + 8 / 3
    np.testing.assert_allclose(found[2].observed, trace, rtol=1e-10)
    np.testing.assert_allclose(found[2].bound, trace, rtol=1e-10)


def test_printed_forms_of_the_corollary_miss():
    found = jitted(curvature.singular_value_certificates)(example())
    assert bool(found.hessian.holds) and bool(found.trace.holds)
    assert not bool(found.printed_hessian.holds)
    # Tr D = 4 + 13/5 + 10/8; printed with 3 in place of 4.
    assert float(found.trace.observed) == pytest.approx(4 + 13 / 5 + 10 / 8)
    assert float(found.printed_trace.slack) == pytest.approx(-1)
    assert not bool(found.printed_trace.holds)
    large = 1e9 * example()  # and one small entry
    large[0, 0] = 1e-3
    found = jitted(curvature.singular_value_certificates)(large)
    assert bool(found.hessian.assumptions_met) and bool(found.hessian.holds)


def second_statements(theta, step):
    return (
        smoothness.second_order_certificate(theta, step),
        smoothness.second_order_certificate(theta, step, is_printed=True),
        smoothness.neighbourhood_certificate(theta, step),
        smoothness.origin_certificate(step),
        smoothness.schatten_certificate(theta, step, power=3.0),
        curvature.hessian_form_certificate(theta, step),
    )


@quickly
@hypothesis.given(problems(), st.sampled_from([1e-3, 1.0]))
def test_bounds_of_second_order_hold_on_anything(pair, share):
    theta, step = pair
    length = np.linalg.norm(step)
    step = step * (share * np.linalg.norm(theta) / length if length else 1)
    found = jitted(second_statements)(theta, step)
    assert all(bool(part.holds) for part in found), found


def test_a_segment_through_a_tie_is_passed_over():
    theta, step = np.diag([2.0, 1.0]), np.diag([-1.0, 1.0])
    for num_points in (16, 33):  # the tie at 1/2 is not on the grid, or is
        certify = jitted(smoothness.second_order_certificate, num_points=num_points)
        found = certify(theta, step)
        assert not bool(found.assumptions_met)


def test_rounding_is_judged_by_the_gap_at_the_start():
    certify = jitted(smoothness.second_order_certificate, num_points=33)
    found = certify(np.diag([2.0, 1.0]), np.diag([2.0**-6, 0.0]))
    heights, slope, condition = 2 + (2 + 2.0**-6) ** 2 / 2, 2 * 2.0**-6, 2 / 1
    expected = 1e-4 * (heights + slope * condition)
    np.testing.assert_allclose(found.scale, expected, rtol=1e-10)


def test_blocks_left_alone_cost_nothing():
    thetas = np.stack([np.diag([2.0, 1.0]), np.eye(2)])  # the second is tied
    steps = np.stack([np.array([[0, 0.1], [0.1, 0]]), np.zeros((2, 2))])
    both = jitted(blocks.block_second_order_certificate)(thetas, steps)
    certify = jitted(smoothness.second_order_certificate, num_points=33)
    alone = certify(thetas[0], steps[0])
    assert bool(both.assumptions_met) and bool(both.holds)
    assert float(both.bound) == pytest.approx(float(alone.bound))
    assert float(both.observed) == pytest.approx(float(alone.observed))


def test_printed_schatten_gradient_fails_when_the_matrix_is_large():
    theta, step = 100 * np.eye(2), np.eye(2)
    certify = jitted(smoothness.schatten_certificate)
    both = [
        certify(theta, step, power=4.0, is_printed=is_printed)
        for is_printed in (True, False)
    ]
    assert [bool(found.holds) for found in both] == [False, True]
    # Along the matrix itself the square has the curvature 1 of p - 1 = 3.
    assert float(both[1].observed) == pytest.approx(2**0.5 / 2, rel=1e-6)


def test_dtype_is_kept_with_x64_off():
    with jax.enable_x64(False):
        theta = np.diag([3.0, 2.0]).astype(np.float32)
        step = np.full((2, 2), 0.1, np.float32)
        found = jitted(smoothness.second_order_certificate)(theta, step)
        assert found.slack.dtype == np.float32
        assert bool(found.holds)
