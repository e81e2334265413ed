"""Attempts to break the rates of SBLR's Theorem 4.3 and the guarantees of FOBOS."""

import hypothesis
import numpy as np
from hypothesis import strategies as st

from lowrank_jax.theory.sblr import rates
from lowrank_jax.theory.smm import splitting
from tests.theory.properties import (
    is_attained,
    is_sound,
    kinds,
    powers,
    program,
    seeds,
    settings,
)


@settings
@hypothesis.given(seeds, kinds, powers, powers)
def test_parabolas_have_the_exponent_one_half_and_none_below(seed, kind, power, size):
    """(F - F*)^(1/2) <= |slope| / sqrt(2 l), l the least eigenvalue other than 0."""
    rng = np.random.default_rng(seed)
    curves = {"random": np.sort(rng.uniform(0.1, 1, 3)), "ties": np.ones(3)}
    curves = 10.0**power * curves.get(kind, np.array([1.0, 0, 0]))
    points = 10.0**size * rng.normal(size=(6, 3)) * (kind != "zero")
    points[:3] = points[0, 0] * np.array([1, 1e-2, 1e-4])[:, None] * [1, 0, 0]
    gaps = (curves * points**2).sum(1) / 2
    slopes = np.linalg.norm(curves * points, axis=1)
    check, constant = program(rates.kurdyka_certificate), (2 * curves[0]) ** -0.5
    found = check(gaps, slopes, 0.5, constant)
    assert is_sound(found)
    if kind != "zero":
        assert is_attained(found)[:3].all()
        assert not check(gaps, slopes, 0.5, 0.95 * constant).holds[:3].any()
        # The printed exponents: with the C of the first point they fail at the next.
        printed = check(gaps, slopes, 0.4, gaps[0] ** 0.4 / slopes[0])
        assert printed.holds[:3].tolist() == [True, False, False]


@settings
@hypothesis.given(seeds, powers, powers, powers, st.booleans())
def test_any_falling_sequence_keeps_the_rate_of_its_own_constants(
    seed, power, gap_power, slope_power, is_even
):
    rng = np.random.default_rng(seed)
    steps = 10.0**power * 10.0 ** rng.uniform(-2, 0, 8)
    if is_even:
        steps = np.full(8, steps[0])
    moves = steps**2 * rng.uniform(0.5, 1, 8)  # of two parts: between d^2 / 2 and d^2
    gaps = 10.0**gap_power * rng.uniform(0.01, 1, 8)[::-1].cumsum()[::-1]
    slopes = 10.0**slope_power * 10.0 ** rng.uniform(-2, 0, 8)
    check = program(rates.linear_rate_certificate)
    found = check(steps, moves, gaps, slopes)
    assert found.assumptions_met.all() and is_sound(found)
    assert not check(steps, moves, gaps[::-1], slopes).assumptions_met.any()
    assert not check(steps, moves, 0 * gaps, slopes).assumptions_met.any()
    # Steps of one length with moves too small for them are found out.
    even, root = np.full(8, steps[0]), np.sqrt(gaps)
    assert not check(even, 1e-9 * even**2, gaps, root).holds.all()


def recursive(rng, start, constant, exponent, is_slowest):
    """Return lengths that keep SBLR-Eq27, as slow as it allows or any."""
    lengths, power = [start], (1 - exponent) / exponent
    for _ in range(8):
        least, most = 0.0, lengths[-1]
        for _ in range(200):  # the least fall f with S' - f <= f + C f^power
            f = (least + most) / 2
            is_enough = lengths[-1] - f <= f + constant * f**power
            least, most = (least, f) if is_enough else (f, most)
        share = 0 if is_slowest else rng.uniform(0, 0.9)
        highest = min(1.0, lengths[-1])
        lengths.append(lengths[-1] - most - share * max(highest - most, 0))
    return np.array(lengths)


@settings
@hypothesis.given(
    seeds,
    powers,
    powers,
    st.sampled_from([0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.99]),
    st.booleans(),
)
def test_no_sequence_breaks_the_rates_of_its_recursion(
    seed, power, start_power, exponent, is_slowest
):
    rng = np.random.default_rng(seed)
    start, constant = 10.0**start_power, 10.0**power
    lengths = recursive(rng, start, constant, exponent, is_slowest)
    linear = program(rates.linear_recursion_certificate)
    power = program(rates.power_recursion_certificate)
    own, other = (linear, power) if exponent <= 0.5 else (power, linear)
    found = own(lengths, constant, exponent)
    assert is_sound(found)
    if start <= 1 and -np.diff(lengths).max() > 1e-5 * start:  # falls are seen
        assert found.assumptions_met.all()
        assert not other(lengths, constant, exponent).assumptions_met.any()
        assert is_sound(own(0 * lengths, constant, exponent))
        still = np.full(9, start)
        assert not own(still, constant, exponent).assumptions_met.any()
    if exponent == 0.5 and is_slowest and start <= 1:
        np.testing.assert_allclose(found.observed, found.bound, 1e-6)
        assert not linear(lengths, 0.9 * constant, exponent).assumptions_met.any()


def test_steps_a_little_beyond_the_recursion_are_not_met_or_within_the_rate():
    for excess in (0, 1e-12, 1e-10, 9e-10, 1e-8):
        rate = (1 + excess) / (2 + excess)
        found = program(rates.linear_recursion_certificate)(
            0.5 * rate ** np.arange(9.0), 0.0, 0.5
        )
        assert is_sound(found)


@settings
@hypothesis.given(seeds, powers, st.floats(0.5, 0.95), st.sampled_from([0.0, 1.0]))
def test_linear_runs_are_steady_and_refute_the_last_iterate(seed, power, rate, limit):
    rng = np.random.default_rng(seed)
    scale, num = 10.0**power, min(200, int(np.log(1e-8) / np.log(rate)))
    limit = limit * scale * rng.normal(size=3)
    # One rate, a tie of two, and a second one that has died away.
    for others in (np.zeros(2), np.array([rate, 0]), np.array([rate / 3, rate / 4])):
        values = np.append(rate, others) ** np.arange(num)[:, None]
        points = limit + scale * values * rng.choice([-1, 1], 3)
        steady = rates.steady_rate_certificate(points, limit)
        np.testing.assert_allclose(steady.observed, rate, rtol=1e-4)
        assert is_sound(steady)
        printed = rates.superlinear_certificate(points, limit)
        np.testing.assert_allclose(printed.observed, rate, rtol=1e-4)
        assert not printed.holds
    fast = scale * np.exp(-0.02 * np.arange(40.0) ** 2)[:, None] * np.ones(3)
    assert not rates.steady_rate_certificate(fast, np.zeros(3)).holds


@settings
@hypothesis.given(seeds, powers, st.floats(0.1, 10), st.floats(2.1, 50))
def test_objectives_are_monotone_only_if_no_step_goes_too_far(seed, power, slope, far):
    """FOBOS on slope |h - 1| from 0: a first step beyond 2 raises the objective."""
    drawn = np.random.default_rng(seed).uniform(0.1, 1, 30)
    drawn[1::3] = drawn[::3]  # ties
    check = program(splitting.monotone_certificate)
    falling = 10.0**power * np.sort(drawn)[::-1]
    for objectives in (falling, 0 * falling, -falling[::-1]):
        assert is_sound(check(objectives))
    falling[10] = 1.05 * falling[9]
    assert check(falling).holds.tolist() == [k != 9 for k in range(29)]
    points, c = [0.0], far / slope
    for t in range(1, 30):
        points.append(points[-1] - c / t**0.5 * slope * np.sign(points[-1] - 1))
    printed = check(10.0**power * slope * np.abs(np.array(points) - 1))
    assert not printed.holds[0]


@settings
@hypothesis.given(
    seeds, kinds, powers, powers, st.sampled_from([0.0, 1e-3, 0.5, 1.0, 3.0])
)
def test_no_mean_of_subgradients_exceeds_an_objective(seed, kind, power, size, share):
    """Hinges over three wrong outputs and the true one, of cost and slope 0."""
    rng = np.random.default_rng(seed)
    slopes, costs = rng.normal(size=(4, 3, 2)), rng.uniform(0.1, 2, 4)
    if kind == "ties":
        slopes[1:] = np.linalg.qr(slopes[1:])[0]
    elif kind == "rank one":
        slopes = slopes[:, :, :1] * slopes[:, :1]
    slopes, costs = 10.0**power * slopes * (kind != "zero"), 10.0**size * costs
    slopes[0], costs[0] = 0, 0
    weights = rng.dirichlet(np.ones(4))
    mean, cost = np.tensordot(weights, slopes, 1), weights @ costs
    check = program(splitting.duality_certificate)

    def objective(matrix, slopes, costs, tau):
        hinge = (costs + (slopes * matrix).sum((1, 2))).max()
        return hinge + tau * np.linalg.svd(matrix, compute_uv=False).sum()

    tau = share * np.linalg.norm(mean, 2)
    for length in (0, 1e-3, 1, 1e3):
        matrix = length * 10.0 ** (size - power) * rng.normal(size=(3, 2))
        assert is_sound(check(mean, cost, tau, objective(matrix, slopes, costs, tau)))
    # One output alone: H = 0, or along the leading pair to where the hinge ends.
    one, both = slopes[1], np.stack([slopes[0], slopes[1]])
    u, sigma, vt = np.linalg.svd(one)
    tau = share * sigma[0]
    matrix = np.zeros((3, 2))
    if share < 1 and sigma[0] > 0:
        matrix = -costs[1] / sigma[0] * np.outer(u[:, 0], vt[0])
    least = share * costs[1] if sigma[0] > 0 and share < 1 else costs[1]
    value = objective(matrix, both, costs[:2], tau)
    np.testing.assert_allclose(value, least, rtol=1e-9, atol=1e-12 * costs[1])
    assert is_attained(check(one, costs[1], tau, least))
    if least > 0:
        assert not check(one, costs[1], tau, 0.95 * least).holds


@settings
@hypothesis.given(seeds, kinds, powers, st.sampled_from([0.0, 0.1, 1.0, 4.0]))
def test_matrices_of_equal_entries_have_one_optimum(seed, kind, power, share):
    """With all entries tied, X = a 1 1^T and a is the mean, brought nearer to 0."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(2, 2))
    matrix = {"ties": np.eye(2), "zero": 0 * matrix}.get(kind, matrix)
    if kind == "rank one":
        matrix = np.outer(matrix[0], matrix[1])
    matrix, tau = 10.0**power * matrix, 10.0**power * share

    def objective(matrix, a, tau):
        return ((matrix - a) ** 2).sum() / 2 + 2 * tau * abs(a)

    def solved(matrix, tau):
        mean = matrix.mean()
        return np.sign(mean) * max(abs(mean) - tau / 2, 0)

    check = program(splitting.tied_certificate)
    least = objective(matrix, solved(matrix, tau), tau)
    for a in 10.0**power * np.append(rng.normal(size=5), 0):
        assert is_sound(check(least, objective(matrix, a, tau)))
    if least > 0:
        assert not check(1.05 * least, least).holds
    # SVT and then the mean: diag(2, 0) and 1 go to 1/4, but the optimum is 0.
    matrix, tau = 10.0**power * np.diag([2.0, 0.0]), 10.0**power
    found = check(objective(matrix, tau / 4, tau), objective(matrix, 0.0, tau))
    assert solved(matrix, tau) == 0 and not found.holds
