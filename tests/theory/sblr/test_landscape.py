"""What the objective looks like: numbers by hand, and points at all scales."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.theory.sblr import landscape
from lowrank_jax.theory.sblr.landscape import Strengths

WHOLE = st.integers(-3, 3).map(float)
NUM, HEIGHT, WIDTH, RANK = 3, 2, 2, 2
STRENGTHS = st.sampled_from([0.0, 1e-8, 1e-2, 1.0, 1e4])


@jax.jit
def certificates(labelled, strengths, params, weights):
    ridge = strengths._replace(mu1=0.0, nu1=0.0)
    bias = params.bias
    return {
        "zero": landscape.zero_certificate(params, labelled),
        "level": landscape.level_set_certificate(params, labelled, strengths),
        "norm": landscape.loss_norm_certificate(params, labelled),
        "balance": landscape.balance_bound_certificate(params, labelled, strengths),
        "identity": landscape.balance_certificate(params, labelled, strengths),
        "factored": landscape.factored_certificate(params, labelled, ridge),
        "steep": landscape.steepness_certificate(params, labelled, ridge, 0.0),
        "global": landscape.global_minimum_certificate(
            params, labelled, ridge, weights, bias
        ),
        "start": landscape.start_certificate(params, labelled),
        "minimum": landscape.minimum_certificate(
            params, params._replace(bias=bias + 1), labelled, strengths
        ),
    }


def task(x=None, y=(1, 0, 1)):
    x = np.zeros((NUM, HEIGHT, WIDTH)) if x is None else x
    return Labelled(x, np.array(y, float)[:, None], np.full(NUM, 1 / NUM))


def factors(left, right, bias=0.0):
    shape = (1, HEIGHT, RANK)
    left = np.broadcast_to(np.asarray(left, float), shape[1:])[None]
    right = np.broadcast_to(np.asarray(right, float), shape[1:])[None]
    return Params(np.array(left), np.array(right), np.array([bias]))


@settings(max_examples=25, deadline=None)
@given(
    arrays.arrays(float, (NUM, HEIGHT, WIDTH), elements=WHOLE),
    arrays.arrays(float, (2, HEIGHT, RANK), elements=WHOLE),
    st.tuples(*[STRENGTHS] * 4),
    st.tuples(st.integers(-8, 8), st.integers(-8, 4), st.integers(-8, 4), WHOLE),
)
def test_no_point_breaks_what_holds_everywhere(x, pair, strengths, sizes):
    scale, one, two, bias = sizes
    params = factors(10.0**one * pair[0], 10.0**two * pair[1], bias)
    given = task(10.0**scale * x), Strengths(*strengths), params
    found = certificates(*given, x[:1])
    for name in ("zero", "level", "norm", "balance", "factored", "steep", "global"):
        assert found[name].holds.all(), (name, found[name])


def test_numbers_of_one_factor_are_those_computed_by_hand():
    strengths = Strengths(0.5, 2.0, 0.25, 1.0)
    params = factors([[3, 0], [0, 0]], 0)
    found = certificates(task(), strengths, params, np.zeros((1, 2, 2)))
    value = np.log(2) + 1.5 + 9  # |U|_1 = |U|_F = 3
    level = found["level"]
    np.testing.assert_allclose(level.observed, [3, 0, 0], atol=1e-12)
    radii = [min(value / 0.5, np.sqrt(value)), np.sqrt(2 * value)]
    np.testing.assert_allclose(level.bound[:2], radii, rtol=1e-12)
    np.testing.assert_allclose(level.bound[2], 3 * value, rtol=1e-12)  # a third is rare
    np.testing.assert_allclose(found["balance"].observed, [[19.5, 0]], rtol=1e-12)
    steep = np.hypot(6.5, 1 / 6)  # of 3 mu_2 + mu_1, and of the offset
    np.testing.assert_allclose(found["balance"].bound, [[3 * steep, 0]], rtol=1e-12)
    assert not found["identity"].assumptions_met.any()
    assert found["minimum"].observed == pytest.approx(value)
    pair = factors([[3, 0], [0, 1]], [[1, 0], [0, 2]])  # U V^T has values 3 and 2
    found = certificates(task(), strengths, pair, np.zeros((1, 2, 2)))["factored"]
    np.testing.assert_allclose(found.observed, np.log(2) + 5 * np.sqrt(2), rtol=1e-12)


def test_level_sets_are_bounded_by_nothing_where_a_condition_is_missing():
    params = factors(1.0, 1.0)
    weights = np.zeros((1, 2, 2))
    for strengths, y in (
        ((0, 0, 1, 1), (1, 0, 1)),
        ((1, 1, 0, 0), (1, 0, 1)),
        ((1, 1, 1, 1), (1, 1, 1)),
    ):
        given = Strengths(*map(float, strengths)), params, weights
        found = certificates(task(y=y), *given)
        assert not found["level"].assumptions_met.any()
    found = certificates(task(y=(1, 1, 1)), *given)
    assert not found["minimum"].holds  # one label: the offset rises for ever


def test_starts_and_sizes_of_one_matrix():
    x = np.zeros((NUM, HEIGHT, WIDTH))
    x[:] = np.diag([3.0, 1.0])
    none, nothing = Strengths(0.0, 0.0, 0.0, 0.0), np.zeros((1, 2, 2))
    # M = (1 - 1 + 1) / 3 X: the best decrease is its nuclear norm, 4/3.
    found = certificates(task(x), none, factors(np.eye(2), np.eye(2)), nothing)
    np.testing.assert_allclose(found["start"].observed, 4 / 3, rtol=1e-12)
    assert found["start"].holds
    found = certificates(task(x), none, factors(-np.eye(2), np.eye(2)), nothing)
    np.testing.assert_allclose(found["start"].bound, -4 / 3, rtol=1e-12)
    assert not found["start"].holds
    # All labels alike, factors along the matrix: loss and gradient are attained.
    along = factors([[2, 0], [0, 0]], [[1, 0], [0, 0]], 0.5)
    found = certificates(task(x, (1, 1, 1)), none, along, nothing)
    np.testing.assert_allclose(found["norm"].observed, 6.5, rtol=1e-9)
    np.testing.assert_allclose(found["norm"].bound, 6.5, rtol=1e-12)
    pull = 3 / (1 + np.exp(6.5))
    wanted = [[pull], [2 * pull]]
    np.testing.assert_allclose(found["zero"].bound, wanted, rtol=1e-9)
    np.testing.assert_allclose(found["zero"].observed, wanted, rtol=1e-9)
    origin = factors(0, 0, 0.5)
    found = certificates(task(x), none, origin, nothing)
    assert (found["zero"].observed == 0).all()


def test_steepness_is_silent_below_the_minimum_and_with_absolute_values():
    certify = jax.jit(landscape.steepness_certificate)
    given = factors(0, 0, 0.01), task(y=(1, 0, 1))
    smooth, rough = Strengths(0.0, 1.0, 0.0, 1.0), Strengths(0.1, 1.0, 0.0, 1.0)
    least = np.log(3) - 2 / 3 * np.log(2)  # at b = log 2
    found = certify(*given, smooth, least)
    assert found.assumptions_met and found.holds
    slope = 1 / (1 + np.exp(-0.01)) - 2 / 3
    np.testing.assert_allclose(found.observed, slope**2, rtol=1e-9)
    value = np.log1p(np.exp(0.01)) - 0.02 / 3
    np.testing.assert_allclose(found.bound, 2.5 * (value - least), rtol=1e-9)
    assert not certify(*given, smooth, 0.69).assumptions_met
    assert not certify(*given, rough, least).assumptions_met
