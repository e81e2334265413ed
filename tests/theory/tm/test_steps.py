"""Steps of Tensor-MIRA on sub-problems by hand, and against any other vector."""

import functools

import hypothesis
import jax
import numpy as np
from hypothesis import strategies as st

from lowrank_jax.theory.tm import steps as pa
from lowrank_jax.theory.tm.steps import Subproblem

settings = hypothesis.settings(max_examples=25, deadline=None)
powers = st.integers(-8, 8)


@functools.lru_cache
def program(name):
    return jax.jit(getattr(pa, name))


def exact(problem):
    """The step of DR-T1."""
    centre, phi, residual, weight, limit = problem
    square = phi @ phi
    short = max(residual - centre @ phi, 0)
    size = min(limit / weight, short / square) if square > 0 else 0.0
    return centre + size * phi, size


def drawn(seed, power, kind):
    rng = np.random.default_rng(seed)
    scale = 10.0**power
    centre, phi = scale * rng.normal(size=3), rng.normal(size=3) / scale
    if kind == "zero":
        phi = np.zeros(3)
    short = rng.uniform(0.1, 2) * (-1 if kind == "kept" else 1)
    weight = 10 ** rng.uniform(-1, 2)
    limit = scale**2 * 10 ** rng.uniform(-2, 2)
    numbers = (centre @ phi + short, weight, limit)
    return Subproblem(centre, phi, *map(np.float64, numbers))


@settings
@hypothesis.given(
    st.integers(0, 10**6), powers, st.sampled_from(["broken", "kept", "zero"])
)
def test_only_the_exact_step_solves_its_problem(seed, power, kind):
    problem = drawn(seed, power, kind)
    after, size = exact(problem)
    assert bool(program("solution_certificate")(problem, after).holds)
    assert bool(program("descent_certificate")(problem, problem.centre, after).holds)
    noise = 10.0**power * np.random.default_rng(seed).normal(size=3)
    assert bool(program("comparison_certificate")(problem, after, after + noise).holds)
    if kind == "broken":
        for other in (0.9 * size, 1.1 * size):
            wrong = problem.centre + other * problem.direction
            assert not bool(program("solution_certificate")(problem, wrong).holds)
    assert not bool(program("solution_certificate")(problem, after + noise).holds)
    assert not bool(
        program("comparison_certificate")(problem, after + noise, after).holds
    )


def unit(weight, limit, short):
    """The centre is 0 and phi is e_1: J(a) = B a^2 / 2 + C [short - a]_+."""
    numbers = map(np.float64, (short, weight, limit))
    return Subproblem(np.zeros(3), np.array([1.0, 0, 0]), *numbers)


def test_the_printed_step_raises_the_objective_where_b_exceeds_two():
    problem = unit(weight=4.0, limit=0.5, short=3.0)  # Eq6: a = .5; exact: a = .125
    after = np.array([0.5, 0, 0])
    found = program("descent_certificate")(problem, problem.centre, after)
    # 4 / 2 / 4 + .5 2.5 = 1.75 > 1.5
    np.testing.assert_allclose([found.observed, found.bound], [1.75, 1.5])
    assert not bool(found.holds)
    assert bool(
        program("descent_certificate")(unit(2.0, 0.5, 3.0), problem.centre, after).holds
    )
    found = program("solution_certificate")(problem, np.array([0.125, 0, 0]))
    np.testing.assert_allclose([found.observed, found.bound], 1.5 - 0.5**2 / 8)


@settings
@hypothesis.given(st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0.01, 100))
def test_a_step_rises_just_where_it_is_longer_than_twice_the_exact(
    weight, limit, short
):
    problem = unit(weight, limit, short)
    step = np.float64(min(limit, short))
    assert bool(program("rise_certificate")(problem, step).holds)
    assert bool(program("rise_value_certificate")(problem, step).holds)
    beyond = program("rise_value_certificate")(problem, np.float64(2 * short))
    assert not bool(beyond.assumptions_met)  # past the kink nothing is said


def test_the_rule_of_rises_by_hand():
    step = np.float64(0.5)
    for weight, wanted in ((4.0, 1.0), (1.0, 0.0)):
        found = program("rise_certificate")(unit(weight, 0.5, 3.0), step)
        assert bool(found.assumptions_met) and bool(found.holds)
        assert float(found.observed) == float(found.bound) == wanted
        # The terms of J: C r of the hinge, J before and after.
        terms = 1.5 + 1.5 + (weight / 8 + 0.5 * 2.5)
        found = program("rise_value_certificate")(unit(weight, 0.5, 3.0), step)
        np.testing.assert_allclose(found.scale, terms, rtol=1e-12)
    longer = unit(4.0, 0.5, 3.0)._replace(direction=np.array([2.0, 0, 0]))
    found = program("rise_value_certificate")(longer, step)  # 4 / 2 + .5 1 - .5 3
    assert bool(found.assumptions_met) and bool(found.holds)
    even = program("rise_certificate")(unit(2.0, 0.5, 3.0), step)
    assert not bool(even.assumptions_met)  # B = 2: J stays, and is not decided
    for share, is_seen in ((0.9, False), (1.1, True)):  # J rises by its rounding
        rise = share * 1e6 * np.finfo(float).eps * 4.5
        near = program("rise_certificate")(unit(2 + 8 * rise, 0.5, 3.0), step)
        assert bool(near.assumptions_met) == is_seen


def test_objectives_that_rise_are_seen():
    objectives = np.array([[1.0, 0.5, 0.5], [1.0, 1.1, 0.2]])
    found = program("objective_certificate")(objectives)
    np.testing.assert_array_equal(found.holds, [[True, True], [False, True]])


def test_a_vector_other_than_the_first_must_not_move():
    before = np.random.default_rng(0).normal(size=(2, 2, 3))
    first, last = before.copy(), before.copy()
    first[0, 0] += 1
    last[1, 0] += 1
    check = program("only_first_certificate")
    is_clipped = np.array(False)
    assert bool(check(before, first, is_clipped).holds)
    assert not bool(check(before, last, is_clipped).holds)
    assert bool(check(before, last, ~is_clipped).holds)  # clipped: nothing is said
    check, is_met = program("all_move_certificate"), np.array(True)
    assert not bool(check(before, first, is_met).holds)
    assert bool(check(before, before + 1, is_met).holds)


def test_components_that_part_are_seen():
    same = np.broadcast_to(np.arange(6.0).reshape(2, 1, 3), (2, 2, 3))
    apart = same + np.array([0, 1e-6]).reshape(1, 2, 1)
    check = program("components_certificate")
    is_clipped = np.array(True)
    assert bool(check(same, is_clipped).holds)
    assert not bool(check(apart, is_clipped).holds)
    assert bool(check(apart, ~is_clipped).holds)
