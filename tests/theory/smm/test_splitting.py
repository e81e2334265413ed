"""Proximal maps, the rate of FOBOS, duality and smoothing, on numbers by hand."""

import functools

import hypothesis
import jax
import numpy as np
from hypothesis import strategies as st

from lowrank_jax.theory.smm import splitting

settings = hypothesis.settings(max_examples=25, deadline=None)
powers = st.integers(-8, 8)


def svt(matrix, threshold):
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    return (left * np.maximum(values - threshold, 0)) @ right


@functools.lru_cache
def program(name, **fixed):
    return jax.jit(functools.partial(getattr(splitting, name), **fixed))


def drawn(seed, power, kind, shape=(4, 3)):
    """Draw a matrix: random, of equal singular values, of rank 1, or zero."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=shape)
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    kinds = {
        "random": matrix,
        "tie": left @ right,
        "rank 1": values[0] * np.outer(left[:, 0], right[0]),
        "zero": np.zeros(shape),
    }
    return 10.0**power * kinds[kind]


kinds = st.sampled_from(["random", "tie", "rank 1", "zero"])
PROX = {
    "nuclear": svt,
    "frobenius": lambda h, t: h * max(0, 1 - t / max(np.linalg.norm(h), 1e-300)),
    "squared_frobenius": lambda h, t: h / (1 + t),
}


@settings
@hypothesis.given(
    st.integers(0, 10**6), powers, kinds, st.sampled_from([0, 0.1, 0.9, 1, 3])
)
def test_only_the_solution_of_a_proximal_problem_closes_the_gap(
    seed, power, kind, share
):
    matrix = drawn(seed, power, kind)
    threshold = share * np.linalg.norm(matrix, 2)
    for penalty, prox in PROX.items():
        check = program("prox_certificate", penalty=penalty)
        assert bool(check(matrix, prox(matrix, threshold), threshold).holds), penalty
        if kind != "zero":
            wrong = prox(matrix, threshold) + 0.01 * matrix
            assert not bool(check(matrix, wrong, threshold).holds), penalty


@settings
@hypothesis.given(st.integers(0, 10**6), powers, kinds, st.integers(-3, 1))
def test_growth_and_contraction_hold_for_any_two_matrices(seed, power, kind, spread):
    matrix, noise = drawn(seed, power, kind), drawn(seed + 1, power + spread, "random")
    threshold = 0.4 * 10.0**power
    found, other = svt(matrix, threshold), svt(noise, threshold)
    growth = program("prox_growth_certificate")
    assert bool(growth(matrix, found, found + noise, threshold).holds)
    non_expansive = program("non_expansive_certificate")
    assert bool(non_expansive(matrix, noise, found, other).holds)
    if kind == "random":
        assert not bool(non_expansive(matrix, noise, 2 * matrix, 2 * noise).holds)
        worse = found + 0.1 * matrix
        assert not bool(growth(matrix, worse, found, threshold).holds)


def test_the_printed_problem_has_half_the_threshold():
    matrix, one = np.array([[3.0]]), np.array([[2.2]])  # eta tau = .8
    printed = program("prox_certificate", quadratic=1.0)
    assert not bool(printed(matrix, one, 0.8).holds)
    found = printed(matrix, np.array([[2.6]]), 0.8)
    # (.16 + .8 2.6) / 2 = 1.12 = .4 3 - .16 / 2
    np.testing.assert_allclose([found.observed, found.bound], 1.12, rtol=1e-12)
    assert bool(program("prox_certificate")(matrix, one, 0.8).holds)


def descent(slope, distance, c, num_steps):
    """Minimise slope |h - distance| from 0 with steps c / sqrt(t)."""
    h, points = 0.0, []
    for t in range(1, num_steps + 1):
        points.append(h)
        h -= c / np.sqrt(t) * slope * np.sign(h - distance)
    points = np.array(points)
    steps = c / np.sqrt(np.arange(1, num_steps + 1))
    return steps, slope * np.abs(points - distance)


@settings
@hypothesis.given(st.floats(0.1, 10), st.floats(0.01, 10), st.floats(0.01, 10), powers)
def test_the_best_iterate_keeps_the_bound_of_the_mean(slope, distance, c, power):
    distance, c = 10.0**power * distance, 10.0**power * c
    steps, gaps = descent(slope, distance, c, 30)
    best = np.minimum.accumulate(gaps)
    squares = np.full(30, slope**2)
    found = program("splitting_certificate")(best, steps, squares, distance**2)
    assert found.holds.all()
    rate = program("rate_certificate")(best, c, slope**2, distance**2)
    assert rate.holds.all() and (rate.bound >= found.bound * (1 - 1e-12)).all()


def test_the_first_step_attains_the_bound():
    steps, gaps = descent(3.0, 2.0, 2.0 / 3.0, 1)
    found = program("splitting_certificate")(gaps, steps, np.array([9.0]), 4.0)
    np.testing.assert_allclose([found.observed[0], found.bound[0]], 6, rtol=1e-12)
    tighter = program("splitting_certificate")(1.05 * gaps, steps, np.array([9.0]), 4.0)
    assert not tighter.holds.any()


def test_an_objective_that_rises_once_is_not_monotone():
    found = program("monotone_certificate")(np.array([3.0, 2.0, 2.5, 1.0]))
    np.testing.assert_array_equal(found.holds, [True, False, True])


def test_one_letter_attains_the_dual_bound():
    gradient, cost = np.array([[0.0, 1.0, -1.0]]), 1.0
    for tau, optimum in ((0.5, 0.5 / np.sqrt(2)), (1.0, 1 / np.sqrt(2)), (2.0, 1.0)):
        found = program("duality_certificate")(gradient, cost, tau, optimum)
        np.testing.assert_allclose(found.observed, optimum, rtol=1e-12)
        assert bool(found.holds)
        low = program("duality_certificate")(gradient, cost, tau, 0.99 * optimum)
        assert not bool(low.holds)


@settings
@hypothesis.given(
    st.lists(st.floats(-5, 5), min_size=4, max_size=4), st.floats(0.01, 9)
)
def test_log_sum_exp_lies_within_its_bound_and_is_as_smooth_as_said(scores, mu):
    scores = np.array(scores)
    top = scores.max()
    smooth = top + mu * np.log(np.exp((scores - top) / mu).sum())
    found = program("smoothing_certificate")(top, smooth, mu, 2.0, 2.0)
    assert found.holds.all()  # four paths: two letters of two outputs
    too_far = program("smoothing_certificate")(top, top + 1.5 * mu, mu, 2.0, 2.0)
    np.testing.assert_array_equal(too_far.holds, [True, False])

    def slope(w):  # of two paths with counts +1 and -1, true the first
        return np.array([[np.tanh(w / mu) - 1]])

    one, other = scores[0], scores[1]
    found = program("smoothness_certificate")(
        np.array([[one]]), np.array([[other]]), slope(one), slope(other), mu, np.ones(1)
    )
    assert bool(found.holds)


def test_half_the_smoothness_constant_is_too_small():
    small, mu = 1e-3, 0.5
    parts = np.zeros((1, 1)), np.full((1, 1), small)
    slopes = np.zeros((1, 1)), np.full((1, 1), np.tanh(small / mu))
    check = program("smoothness_certificate")
    assert bool(check(*parts, *slopes, mu, np.ones(1)).holds)
    assert not bool(check(*parts, *slopes, mu, 0.95 * np.ones(1)).holds)


def test_a_tied_matrix_is_optimal_only_at_its_lower_bound():
    check = program("tied_certificate", tolerance=1e-4)
    assert bool(check(2.0, 2.0).holds) and not bool(check(2.02, 2.0).holds)
