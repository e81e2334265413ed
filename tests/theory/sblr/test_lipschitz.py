"""Lipschitz constants of the logistic loss: by hand, and tried at all scales."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.theory.certificate import ratio
from lowrank_jax.theory.sblr import lipschitz
from lowrank_jax.theory.sblr.lipschitz import Point

CLASSES, NUM, RANK, SIZE = 2, 3, 1, 2
RULES = ("lemma", "trace", "tight")
#: Small whole numbers: zeros and ties abound.
WHOLE = st.integers(-3, 3).map(float)


@jax.jit
def certificates(features, weights, point, move):
    given = features, weights, point, move
    each = [lipschitz.gradient_certificate(*given, rule=rule) for rule in RULES]
    return (
        *each,
        lipschitz.lemma_excess_certificate(features, weights),
    )


@jax.jit
def on_scores(scores, moves):
    return (
        lipschitz.share_change(scores, moves),
        lipschitz.share_certificate(scores, moves, lipschitz.SOFTMAX_CONSTANT),
        lipschitz.boehning_certificate(scores, moves),
    )


def shares(scores):
    both = np.concatenate([scores, np.zeros((len(scores), 1))], axis=1)
    powers = np.exp(both - both.max(1, keepdims=True))
    return (powers / powers.sum(1, keepdims=True))[:, :-1]


def test_change_of_shares_keeps_its_digits_from_small_moves_to_large():
    rng = np.random.default_rng(0)
    scores, moves = 3 * rng.normal(size=(2, 20, CLASSES))
    for size in (1.0, 30.0):
        wanted = shares(scores + size * moves) - shares(scores)
        found = on_scores(scores, size * moves)[0]
        np.testing.assert_allclose(found, wanted, atol=1e-14)
    # Of tiny moves the derivative is left: (diag p - p p^T) d.
    p = shares(scores)
    wanted = p * (moves - (p * moves).sum(1, keepdims=True))
    found = on_scores(scores, 1e-12 * moves)[0] / 1e-12
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


def test_gradient_change_is_that_of_the_loss():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(CLASSES, NUM, RANK, SIZE))
    weights = np.array([0.5, 0.25, 0.25])
    one, two = (
        Point(rng.normal(size=(CLASSES, SIZE, RANK)), rng.normal(size=CLASSES))
        for _ in range(2)
    )

    def gradient(point):
        scores = np.einsum("mnrs,msr->nm", features, point.factors) + point.bias
        change = weights[:, None] * shares(scores)
        in_factors = np.einsum("nm,mnrs->msr", change, features)
        return np.concatenate([in_factors.ravel(), change.sum(0)])

    move = Point(two.factors - one.factors, two.bias - one.bias)
    lemma, trace, tight, _ = certificates(features, weights, one, move)
    wanted = np.linalg.norm(gradient(two) - gradient(one))
    for found in (lemma, trace, tight):
        np.testing.assert_allclose(found.observed, wanted, rtol=1e-10)
    assert tight.bound <= trace.bound <= lemma.bound


def test_constants_of_nothing_to_see_are_those_of_the_offset():
    features, weights = np.zeros((CLASSES, NUM, RANK, SIZE)), np.full(NUM, 1 / NUM)
    move = Point(np.zeros((CLASSES, SIZE, RANK)), np.array([1e-6, -1e-6]))
    point = Point(0 * move.factors, np.array([40.0, 40.0]))
    lemma, trace, tight, excess = certificates(features, weights, point, move)
    length = np.sqrt(2) * 1e-6
    np.testing.assert_allclose(tight.bound, length / 2, rtol=1e-9)
    np.testing.assert_allclose(trace.bound, length / 2, rtol=1e-9)
    np.testing.assert_allclose(lemma.bound, 4 * np.sqrt(2) * length, rtol=1e-9)
    np.testing.assert_allclose(ratio(tight), 1, rtol=1e-9)  # two halves: attained
    np.testing.assert_allclose(excess.observed, 2 * np.sqrt(2), rtol=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    arrays.arrays(float, (CLASSES, NUM, RANK, SIZE), elements=WHOLE),
    arrays.arrays(float, (2, CLASSES, SIZE + 1), elements=WHOLE),
    st.tuples(*[st.integers(-8, 8)] * 3),
)
def test_no_scale_and_no_tie_exceeds_the_constants(features, places, powers):
    scale, far, step = (10.0**power for power in powers)
    features = features * scale
    weights = np.array([0.0, 0.5, 0.5])
    sizes = np.array([far, step])[:, None, None]
    places = places * sizes
    point, move = (Point(each[:, :-1, None] / scale, each[:, -1]) for each in places)
    for found in certificates(features, weights, point, move):
        assert found.holds
    for found in on_scores(places[0, :, :CLASSES], places[1, :, :CLASSES])[1:]:
        assert found.holds.all()


def test_joint_constant_by_hand():
    x = np.array([[[3.0]]])
    labelled = Labelled(x, np.ones((1, 1)), np.ones(1))
    one = Params(np.full((1, 1, 1), 2.0), np.full((1, 1, 1), 1.0), np.zeros(1))
    two = one._replace(left=one.left / 2)
    found = jax.jit(lipschitz.joint_constant)(labelled, one, two)
    assert found == pytest.approx((9 + 36 + 1) / 4 + 3)
    found = jax.jit(lipschitz.joint_certificate)(labelled, one, two)
    # The scores are 6 and 3: minus the loss's slopes are 1 / (1 + e^z) times a = 3.
    slopes = [
        -np.array([3 * right, 3 * left, 1.0]) / (1 + np.exp(3 * left * right))
        for left, right in ((2.0, 1.0), (1.0, 1.0))
    ]
    wanted = np.linalg.norm(slopes[0] - slopes[1])
    np.testing.assert_allclose(found.observed, wanted, rtol=1e-10)
    assert found.holds
