"""Descent of Algorithm 2 and the rates that follow: by hand and on made sequences."""

import functools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowrank_jax.linalg import penalties
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.theory.sblr import descent, landscape, limits, rates
from lowrank_jax.theory.sblr.descent import Sweeps
from lowrank_jax.theory.sblr.landscape import Strengths

SIZES = st.floats(1e-8, 1e8)


def numbers(*values):
    return np.array(values, float)


def by_hand(fall):
    """Return one sweep: dU = 1, dV = 2, p = 3, q = -2."""
    params = Params(
        numbers(0, 1).reshape(2, 1, 1, 1),
        numbers(0, 2).reshape(2, 1, 1, 1),
        numbers(0, 1).reshape(2, 1),
    )
    objectives = numbers(100, 100 - fall)
    return Sweeps(params, numbers(3)[:, None], numbers(2), numbers(4), objectives)


@jax.jit
def decreases(sweeps):
    return (
        descent.decrease_certificate(sweeps, 1.0),
        descent.tight_decrease_certificate(sweeps, 1.0, 2.0),
        descent.move_decrease_certificate(sweeps, 1.0),
        descent.square_sum_certificate(sweeps, 1.0),
    )


def test_decreases_are_those_computed_by_hand():
    found = decreases(by_hand(20.0))
    # (1 + 4 + 9 + 4) / 2; (3 * 1 + 6 * 4 + 2 * 9 + 4 * 4) / 2; (1 + 4 + 1 + 4) / 5.236
    wanted = [9, 30.5, 10 / (3 + np.sqrt(5)), 18]
    np.testing.assert_allclose([part.observed[0] for part in found], wanted, rtol=1e-12)
    assert [bool(part.holds[0]) for part in found] == [True, False, True, True]
    found = decreases(by_hand(30.5))
    assert all(part.holds[0] for part in found)
    assert not decreases(by_hand(17.9))[3].holds[0]
    assert not decreases(by_hand(1e-14))[0].holds[0]  # too small a fall is not silent


@settings(max_examples=25, deadline=None)
@given(SIZES, SIZES, st.sampled_from([-1, 0, 1]), st.sampled_from([-1, 0, 1]))
def test_offset_s_two_steps_add_up_to_no_more(first, second, one, two):
    found = split(numbers(one * first), numbers(two * second))
    assert found.holds.all()


@jax.jit
def split(first, second):
    return descent.split_certificate(first, second, descent.SPLIT_CONSTANT)


def test_printed_constant_of_theorem_4_2_is_refuted_by_equal_steps():
    found = jax.jit(descent.split_certificate)(numbers(3), numbers(3), 2.0)
    assert (found.observed, found.bound, bool(found.holds)) == (45, 36, False)


@functools.cache
def one_sweep():
    """Return a sweep with ridges and one with absolute values, and their distances."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 3, 2))
    labelled = Labelled(x, (np.arange(6) % 2.0)[:, None], np.full(6, 1 / 6))
    start = Params(*(rng.normal(size=shape) for shape in ((1, 3, 1), (1, 2, 1), (1,))))
    constants = np.array([[3.0], [4.0]])

    @jax.jit
    def run(l1, l2):
        penalty = penalties.elastic_net(l1=l1, l2=l2)
        given = labelled, penalty, penalty
        slope = jax.grad(landscape.objective)(start, labelled, Strengths(0, 0, 0, 0))
        half = start.bias - slope.bias / 3
        end = limits.fixed_sweep(start, *given, left_constant=3.0, right_constant=4.0)
        params = jax.tree.map(lambda *parts: jax.numpy.stack(parts), start, end)
        sweeps = Sweeps(params, half[None], *constants, jax.numpy.zeros(2))
        far = landscape.stationarity(end, labelled, Strengths(l1, l2, l1, l2))[None]
        wrong = sweeps._replace(right_constant=constants[0])
        return (
            descent.optimality_certificate(sweeps, labelled, far),
            descent.optimality_certificate(wrong, labelled, far),
            descent.subgradient_certificate(sweeps, labelled, far),
        )

    return run(0.0, 0.1), run(0.3, 0.1)


def test_subgradient_left_by_a_sweep_is_the_gradient_where_that_exists():
    (smooth, wrong, bound), (rough, _, loose) = one_sweep()
    np.testing.assert_allclose(smooth.observed, smooth.bound, rtol=1e-10)
    assert abs(wrong.slack) > 1e-3  # L_b is L_v and not L_u
    assert rough.holds and loose.holds
    assert bound.holds and bound.bound > smooth.bound


@jax.jit
def lengths(steps, potentials, constant, share):
    return rates.length_certificate(steps, potentials, constant, share)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(0.01, 1), min_size=6, max_size=6),
    st.lists(st.sampled_from([0.0, 0.0, 1.0]), min_size=5, max_size=5),
    SIZES,
    SIZES,
)
def test_rest_of_a_run_is_bounded_by_its_potential(steps, extra, scale, constant):
    steps = scale * np.array(steps)
    falls = steps[1:] ** 2 / (constant * steps[:-1]) * (1 + np.array(extra))
    potentials = np.append(falls[::-1].cumsum()[::-1], 0.0)
    found = lengths(steps, potentials, constant, 1.0)
    assert found.assumptions_met.all() and found.holds.all()


def test_steps_of_one_length_refute_half_of_the_potential():
    steps, potentials = np.ones(6), np.arange(5.0, -1, -1)
    found = lengths(steps, potentials, 1.0, 0.5)
    np.testing.assert_array_equal(found.observed, [5, 4, 3, 2, 1])
    np.testing.assert_array_equal(found.bound, [3.5, 3, 2.5, 2, 1.5])
    assert found.holds.tolist() == [False, False, False, True, True]
    # Longer steps than assumed: nothing is said.
    assert not lengths(2 * steps, potentials, 1.0, 1.0).assumptions_met.any()


def test_rate_of_the_proof_by_hand():
    # d = 2^-k, gaps 4^-k, |slope| = 2^-k: C = M = 1, a = 3, so that it is 7/3 / 10/3.
    k = np.arange(8.0)
    steps, gaps = 2.0**-k, 4.0**-k
    found = jax.jit(rates.linear_rate_certificate)(steps, gaps, gaps, steps)
    sums = steps[::-1].cumsum()[::-1]
    np.testing.assert_allclose(found.bound, 0.7 * sums[:-1], rtol=1e-12)
    np.testing.assert_allclose(found.observed, sums[1:], rtol=1e-12)
    assert found.holds.all()


def test_recursions_attain_the_linear_rate_and_keep_the_power_one():
    # S = 2 (S' - S), the recursion with C = 1 at the exponent 1/2, is S = 2/3 S'.
    found = jax.jit(rates.linear_recursion_certificate)(
        0.5 * (2 / 3) ** np.arange(9.0), 1.0, 0.5
    )
    assert found.assumptions_met.all() and found.holds.all()
    np.testing.assert_allclose(found.slack, 0, atol=1e-12)
    power = jax.jit(rates.power_recursion_certificate)
    lengths = 1 / (4 + np.arange(9.0))  # 1/N: the exponent 2/3
    found = power(lengths, 1.0, 2 / 3)
    assert found.assumptions_met.all() and found.holds.all()
    assert not power(lengths, 0.1, 2 / 3).assumptions_met.any()
    assert not power(lengths, 1.0, 0.5).assumptions_met.any()


def test_exponent_below_one_half_fails_on_a_parabola():
    points = 10.0 ** -np.arange(6.0)
    check = jax.jit(rates.kurdyka_certificate)
    assert check(points**2 / 2, points, 0.5, 0.75).holds.all()  # 1 / sqrt 2
    assert check(points**2 / 2, points, 0.4, 0.76).holds.tolist() == [True] + 5 * [
        False
    ]


def test_last_iterate_shows_a_rate_that_is_none():
    matrix = np.array([[0.9, 0.3], [0.0, 0.5]])
    points = np.stack([np.linalg.matrix_power(matrix, k)[:, 1] for k in range(100)])
    limit = np.zeros(2)
    printed = rates.superlinear_certificate(points, limit)
    np.testing.assert_allclose(printed.observed, 0.9, rtol=1e-6)
    assert printed.bound < 0.8 and not printed.holds
    steady = rates.steady_rate_certificate(points, limit)
    np.testing.assert_allclose(steady.observed, 0.9, rtol=1e-6)
    assert steady.holds
    # Squares of distances fall superlinearly, and are found out.
    fast = np.exp(-0.02 * np.arange(60.0) ** 2)[:, None] * np.ones(2)
    assert not rates.steady_rate_certificate(fast, limit).holds
    free = np.ones(2)
    found = rates.rate_certificate(points + free, free, matrix)
    np.testing.assert_allclose(found.bound, 0.9, rtol=1e-12)
    assert found.holds
    assert not rates.rate_certificate(points + free, free, 0.9 * matrix).holds
    # A zero of the limit stays out of the Jacobian.
    zero = np.array([0.0, 1.0])
    found = rates.rate_certificate(points + zero, zero, matrix)
    np.testing.assert_allclose(found.bound, 0.5, rtol=1e-12)


def test_fista_s_guarantee_by_hand():
    certify = jax.jit(descent.fista_certificate)
    found = certify(numbers(3, 2, 1.5), numbers(4), 2.0, 1.0)
    np.testing.assert_allclose(found.bound, [4, 16 / 9, 1], rtol=1e-12)
    np.testing.assert_allclose(found.observed, [2, 1, 0.5], rtol=1e-12)
    assert found.holds.all()
    assert not certify(numbers(6, 2, 1.5), numbers(4), 2.0, 1.0).holds[0]
    assert found.bound[0] == pytest.approx(4)
