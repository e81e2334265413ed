"""Regret and duality: hand-computed numbers, and attempts to break the bounds."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lowrank_jax.theory.bol import duality, regret

ROUNDS = 12


def leading(theta):
    u, sigma, vt = np.linalg.svd(theta)
    return sigma[0] * np.outer(u[:, 0], vt[0])


def descend(pushes, step):
    """BOL-Eq8 by plain loops; each round's mistake is decided by the margin's sign."""
    theta = np.zeros(pushes.shape[1:])
    trace = {name: [] for name in ("margin", "is_mistake", "conjugate", "ratio")}
    thetas = [theta]
    for delta in pushes:
        weights = leading(theta)
        margin = (weights * delta).sum()
        is_mistake = margin <= 0
        trace["margin"].append(margin if is_mistake else 0.0)
        trace["is_mistake"].append(is_mistake)
        new = theta + step * delta if is_mistake else theta
        ratio = ratios()(jnp.asarray(theta), jnp.asarray(new - theta))
        trace["ratio"].append(float(ratio))
        theta = new
        thetas.append(theta)
        trace["conjugate"].append(np.linalg.norm(theta, 2) ** 2 / 2)
    trace = {name: np.array(values) for name, values in trace.items()}
    growth = np.diff(trace["conjugate"], prepend=0.0)
    trace["dual_increment"] = step * trace["is_mistake"] - growth
    trace["bregman"] = growth - step * trace["margin"]
    trace["deltas"] = pushes * trace["is_mistake"][:, None, None]
    trace["weights"], trace["thetas"] = leading(theta), np.array(thetas)
    return trace


@functools.lru_cache
def ratios():
    return jax.jit(regret.segment_ratio)


@functools.lru_cache
def bounds():
    def all_of(trace, ratio, squared_norm, step, losses, penalty, energy, low):
        along = regret.along_rounds(
            trace,
            step_size=step,
            comparator_losses=losses,
            comparator_penalty=penalty,
            comparator_energy=energy,
            squared_norm=squared_norm,
            ratio=ratio,
            num_values=low,
        )
        whole = regret.regret_certificate(
            trace,
            step_size=step,
            comparator_losses=losses,
            comparator_penalty=penalty,
        )
        found = (
            regret.within_certificate(along),
            regret.certificate_within_tight(along),
            regret.tight_bound(along),
            regret.paper_bound(along),
            regret.sharpened_paper_bound(
                along, step_size=step, comparator_energy=energy
            ),
        )
        return along, whole, found

    return jax.jit(all_of)


def compare(trace, u, step):
    losses = np.maximum(0, 1 - (u * trace["deltas"]).sum((1, 2)))
    sigma = np.linalg.svd(u, compute_uv=False)
    return bounds()(
        regret.Rounds(*(trace[name] for name in regret.Rounds._fields[:5])),
        trace["ratio"],
        (trace["deltas"] ** 2).sum((1, 2)),
        step,
        losses,
        sigma.sum() ** 2 / 2,
        (sigma**2).sum() / 2,
        float(min(u.shape)),
    )


KINDS = ("noisy", "whole numbers", "zeros", "one matrix", "blocks")


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([(2, 3), (3, 3)]),
    st.sampled_from(KINDS),
    st.sampled_from([1e-8, 1e-2, 1.0, 1e8]),
    st.sampled_from([1e-3, 1.0, 50.0]),
    st.integers(0, 10**6),
)
def test_no_run_breaks_the_bounds(shape, kind, scale, step, seed):
    rng = np.random.default_rng(seed)
    deltas = rng.standard_normal((ROUNDS, *shape))
    if kind == "whole numbers":
        deltas = np.round(deltas)
    elif kind == "zeros":
        deltas = deltas * (rng.random((ROUNDS, 1, 1)) < 0.5)
    elif kind == "one matrix":
        deltas = np.repeat(deltas[:1], ROUNDS, 0) * rng.choice([-1, 1], (ROUNDS, 1, 1))
    elif kind == "blocks":
        deltas = deltas * np.eye(*shape)
    deltas = deltas * scale
    trace = descend(deltas, step)
    us = [np.zeros(shape), trace["weights"], rng.standard_normal(shape) / scale]
    us += [np.eye(*shape) / scale, leading(rng.standard_normal(shape)) / scale]
    for u in us:
        along, whole, found = compare(trace, u, step)
        for certificate in found:
            assert np.asarray(certificate.holds).all()
        assert whole.holds
        np.testing.assert_allclose(whole.bound, along.certificate[-1], rtol=1e-9)


def test_numbers_of_two_mistakes_by_hand():
    """2 e11, then e22, C = 1/2: Theta = diag(1, 1/2) and W stays at e11.

    The rounds after them have zero matrices: losses of 1 on both sides.
    """
    deltas = np.zeros((ROUNDS, 2, 3))
    deltas[0, 0, 0], deltas[1, 1, 1] = 2.0, 1.0
    trace = descend(deltas, 0.5)
    rest = [1] * (ROUNDS - 2)
    np.testing.assert_allclose(trace["conjugate"], 0.5)
    np.testing.assert_allclose(trace["ratio"], [0.0, 0.5, *np.zeros(ROUNDS - 2)])
    u = np.array([[0.25, 0.0, 0.0], [0.0, 1.0, 0.0]])
    along, _, _ = compare(trace, u, 0.5)
    # Losses 1, 1 against 1/2, 0. ||U||_s(1)^2 / 2 = 25/32, ||U||_F^2 / 2 = 17/32.
    np.testing.assert_allclose(along.regret, [0.5, 1.5, *(1.5 * k for k in rest)])
    np.testing.assert_allclose(along.certificate, (25 / 32 + 0.5) * 2)
    # Curvature 4, then 1 / (1 - 1/2) = 2: half of C times the sum is 1, then 3/2.
    tight = np.array([1.0, 1.5, *(1.5 * k for k in rest)])
    np.testing.assert_allclose(along.tight, 25 / 16 + tight)
    # l = 2: four times C times the sum is 8, then 12.
    np.testing.assert_allclose(along.paper, 17 / 16 + 8 * tight)


def two_rounds(margin):
    """Rounds of C = 2: one mistake, by which F* grows to 3, and a right answer."""
    dtype = margin.dtype
    return regret.Rounds(
        margin,
        jnp.array([True, False]),
        dual_increment=jnp.array([2.0 - 3.0, 0.0], dtype),
        conjugate=jnp.array([3.0, 3.0], dtype),
        bregman=jnp.array([3.0, 0.0], dtype) - 2 * margin,
    )


def test_nothing_holds_for_another_step_size():
    """Numbers that are NaN are no silence: every statement on them is False."""
    deltas = np.random.default_rng(0).standard_normal((ROUNDS, 2, 3))
    trace = descend(deltas, 0.5)
    for step, is_own in ((0.5, True), (0.5001, False), (5.0, False)):
        along, whole, found = compare(trace, leading(deltas[0]), step)
        rank_1 = regret.tight_within_paper(along, is_rank_1=True)
        assert all(np.isnan(part).all() != is_own for part in along)
        for certificate in (whole, *found, rank_1):
            assert (np.asarray(certificate.holds) == is_own).all()


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([1e-6, 1e-2, 1.0, 1e3, 1e6]),
    st.sampled_from([1e-3, 1.0, 1e3]),
    st.sampled_from([1, 2, 5000]),
    st.integers(0, 10**6),
)
def test_every_run_has_its_own_step_size(dtype, step, scale, num_rounds, seed):
    """Perceptron of any length of step, each number rounded; one mistake is enough."""
    rng = np.random.default_rng(seed)
    deltas = (rng.standard_normal((num_rounds, 3)) * scale).astype(dtype)
    step, theta = dtype(step), np.zeros(3, dtype)
    kept = []
    before = dtype(0)
    for delta in deltas:
        margin = theta @ delta
        is_mistake = margin <= 0
        theta = theta + step * delta if is_mistake else theta
        value = (theta @ theta) / dtype(2)
        growth = value - before
        increment = (step if is_mistake else dtype(0)) - growth
        bregman = growth - step * margin
        kept.append((margin, is_mistake, increment, value, bregman))
        before = value
    trace = regret.Rounds(*(np.array(part) for part in zip(*kept, strict=True)))
    trace = trace._replace(step_size=np.full(num_rounds, step))
    assert trace.margin.dtype == dtype
    wide = regret.Rounds(
        *(part.astype(float) if part.dtype != bool else part for part in trace)
    )
    assert regret.has_step_size(trace, step)
    tolerance = 1e-4 if dtype is np.float32 else None
    assert regret.has_step_size(wide, float(step), tolerance=tolerance)
    assert not regret.has_step_size(trace, 1.01 * step)
    # Without its name large steps are lost in rounding: then nothing is True.
    unnamed = trace._replace(step_size=None)
    assert not regret.has_step_size(unnamed, 1.01 * step)


def test_bounds_that_need_more_than_the_trace_has_are_infinite():
    @jax.jit
    def without(margin):
        along = regret.along_rounds(
            two_rounds(margin),
            step_size=2.0,
            comparator_losses=jnp.array([0.5, 0.0]),
            comparator_penalty=1.0,
        )
        return along, regret.tight_bound(along)

    along, tight = without(jnp.array([-1.0, 0.0]))
    np.testing.assert_allclose(along.regret, [1.5, 1.5])
    np.testing.assert_allclose(along.certificate, [3.0, 3.0])
    assert np.isinf(along.tight).all() and np.isinf(along.paper).all()
    assert not np.asarray(tight.assumptions_met).any()


def test_single_precision_stays_single():
    @jax.jit
    def single(margin):
        return regret.along_rounds(
            two_rounds(margin),
            step_size=2.0,
            comparator_losses=jnp.array([0.5, 0.0]),
            comparator_penalty=1.0,
            squared_norm=jnp.array([1.0, 0.0]),
            ratio=jnp.array([0.5, 0.0]),
            num_values=3,
        )

    with jax.enable_x64(False):
        along = single(np.array([-1.0, 0.0], np.float32))
    assert {part.dtype for part in along} == {np.dtype("float32")}
    np.testing.assert_allclose(along.tight, [0.5 + 2.0] * 2)
    np.testing.assert_allclose(along.paper, [0.5 + 24.0] * 2)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([(2, 3), (3, 3)]),
    st.sampled_from([1e-8, 1.0, 1e8]),
    st.sampled_from([0.05, 1.0, 4.0]),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_segment_ratio_is_above_every_point(shape, scale, length, is_whole, seed):
    rng = np.random.default_rng(seed)
    theta, push = (
        rng.standard_normal((2, *shape)) * np.array([1, length])[:, None, None]
    )
    if is_whole:
        theta, push = np.round(theta), np.round(2 * push)
    theta, push = scale * theta, scale * push
    found = float(ratios()(jnp.asarray(theta), jnp.asarray(push)))
    points = theta + np.linspace(0, 1, 400)[:, None, None] * push
    sigma = np.linalg.svd(points, compute_uv=False)
    is_there = sigma[:, 0] > 1e-12 * scale
    if not theta.any():
        assert found == 0
    elif is_there.any() and push.any():
        largest = (sigma[is_there, 1] / sigma[is_there, 0]).max()
        assert largest - 1e-9 <= found <= 1
        if length == 0.05 and not is_whole and sigma[:, 0].min() > 0.5 * scale:
            assert found <= largest + 0.02


def test_segment_ratio_of_a_row_is_zero_and_of_a_crossing_is_one():
    row = jnp.array([[1.0, 2.0]])
    assert regret.segment_ratio(row, -2 * row) == 0
    # diag(2, 1) to diag(0, 1): the two values meet half-way.
    theta = np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    push = np.array([[-2.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(ratios()(theta, push), 1)


def test_identities_hold_and_notice_four_per_cent():
    """BOL-N3, BOL-N5, DR-B8, DR-B9 and the rule on C fail on numbers that are off."""
    rng = np.random.default_rng(0)
    pushes = rng.standard_normal((4, 2, 3))
    thetas = np.cumsum(pushes, 0)
    before = thetas - pushes
    after_norm, norm = (np.linalg.norm(x, 2, (1, 2)) for x in (thetas, before))
    increments = 1 - after_norm**2 / 2 + norm**2 / 2  # BOL-N5, C = 1
    f = jnp.asarray(after_norm[-1] ** 2 / 2)
    is_mistake = np.array([True, False, True, False])
    margin = np.array([-1.0, 0.0, -2.0, 0.0])

    @jax.jit
    def identities(factor, pushes, thetas, before, increments):
        losses = factor * jnp.array([2.0, 0.0, 3.0, 0.0])
        dual, every = factor * increments, jnp.ones(4, bool)
        return (
            duality.increment_identity(dual, before, pushes, every, step_size=1.0),
            duality.dual_of_step(dual, jnp.array(4), f, step_size=1.0),
            duality.dual_mean(thetas, factor * pushes),
            duality.same_run(factor * 3.0 * thetas, thetas, step_size=3.0),
            regret.literal_regret(losses, is_mistake, margin, margin / 2),
        )

    for factor in (0.96, 1.0, 1.04):
        for found in identities(factor, pushes, thetas, before, increments):
            assert np.all(found.holds) == (factor == 1.0)


def test_duality_by_hand():
    """M = 3 mistakes, f = 2: C* = 3/4, D = 9/8."""

    @jax.jit
    def numbers(count, f):
        return (
            duality.best_step_size(count, f),
            duality.dual_is_largest_at_best_step(count, f, step_size=1.0),
            duality.weak_duality_at_best_step(
                count, f, comparator_penalty=0.5, comparator_loss=jnp.array(1.0)
            ),
            duality.separable_mistakes(
                count, f, comparator_penalty=1.0, comparator_loss=jnp.array(0.0)
            ),
            duality.weak_duality(
                count,
                f,
                step_size=0.5,
                comparator_penalty=0.25,
                comparator_loss=jnp.array(1.0),
            ),
            duality.growth_bound(
                jnp.array([-1.0]),
                jnp.array([True]),
                step_size=1.0,
                conjugate=jnp.array([2.0]),
                squared_norm=jnp.array([2.0]),
                ratio=jnp.array([0.5]),
            ),
        )

    best, *found = numbers(jnp.array(3), jnp.array(2.0))
    np.testing.assert_allclose(best, [0.75, 1.125])
    sides = [(float(one.observed.sum()), float(one.bound.sum())) for one in found]
    expected = [(1.0, 1.125), (1.125, 1.25), (9.0, 8.0), (-0.5, 0.75), (2.0, 2.0)]
    np.testing.assert_allclose(sides, expected)
    assert not found[2].holds  # no such U can be without loss
    assert all(one.holds for one in found[:2] + found[3:])
    none = numbers(jnp.array(0), jnp.array(0.0))[1]
    assert not none.assumptions_met  # without a mistake no step is the best
