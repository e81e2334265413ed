"""Many blocks moved at once, against each block solved by itself (SBLR-Eq6)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.batch.sblr import side_by_side
from lowrank_jax.batch.sblr.block_step import Block, minimise
from lowrank_jax.linalg import penalties
from lowrank_jax.models import bilinear_logit, logistic
from lowrank_jax.streams.matrices import Labelled

STRENGTHS = np.array([[1e-3, 1e-2], [3e-2, 0.0], [0.0, 0.3]])


def problem(num_classes):
    """Return matrices, targets, weights of three fits, and their factors."""
    rng = np.random.default_rng(num_classes)
    x = rng.normal(size=(30, 4, 5))
    marks = rng.integers(0, num_classes + 1, 30)
    targets = (marks == np.arange(num_classes)[:, None]).astype(float)
    weights = np.ones((3, 30))
    weights[1, :9] = 0  # a fold
    weights /= weights.sum(1, keepdims=True)
    factors = [rng.normal(size=(3, num_classes, size, 2)) for size in (5, 4)]
    for part in factors:
        part[2, ..., 1] = 0  # a fit of rank 1
    return x, targets, weights, *factors


@pytest.mark.slow
@pytest.mark.parametrize("num_classes", [1, 3])
def test_steps_lead_to_the_minimum_of_each_block(num_classes):
    x, targets, weights, fixed, factors = problem(num_classes)
    step = jax.jit(side_by_side.newton_step)
    bias, last = np.zeros((3, num_classes)), np.inf
    for _ in range(60 if num_classes == 1 else 200):  # H is a bound for more classes
        found = step(
            x, targets, weights, fixed, factors, bias, STRENGTHS, np.full(3, 1e-8)
        )
        factors, bias = found.factors, found.bias
        objective = np.asarray(found.loss + found.penalty)
        assert (objective <= last + 1e-12).all()  # never up
        last = objective
    assert not np.asarray(factors)[2, ..., 1].any()  # a zero column stays zero
    for i, (l1, l2) in enumerate(STRENGTHS):  # a bound of H is slow: 1e-2
        part = Labelled(jnp.asarray(x), jnp.asarray(targets.T), jnp.asarray(weights[i]))
        features = bilinear_logit.left_features(part, jnp.asarray(fixed[i]))
        start = jnp.zeros(factors.shape[1:]), jnp.zeros(num_classes)
        block = Block(features, *start, part.targets, part.weights)
        net = penalties.elastic_net(l1=l1, l2=l2)
        best = minimise(block, net, tolerance=1e-8, max_steps=5000)
        loss = logistic.loss(best.scores, part.targets, part.weights)
        np.testing.assert_allclose(last[i], loss + net.value(best.factors), rtol=1e-6)
        np.testing.assert_allclose(factors[i], best.factors, atol=1e-2)
        np.testing.assert_allclose(found.scores[i].T, best.scores, atol=1e-2)


def test_steps_of_two_classes_end_where_the_subgradient_is_zero():
    x, targets, weights, fixed, factors = problem(1)
    step, bias = jax.jit(side_by_side.newton_step), np.zeros((3, 1))
    for _ in range(10):
        found = step(
            x, targets, weights, fixed, factors, bias, STRENGTHS, np.full(3, 1e-9)
        )
        factors, bias = found.factors, found.bias
    for i, (l1, l2) in enumerate(STRENGTHS):
        w, features = np.asarray(factors[i, 0]), x @ fixed[i, 0]
        scores = (features * w).sum((1, 2)) + bias[i]
        gaps = weights[i] * (1 / (1 + np.exp(-scores)) - targets[0])
        slope = np.einsum("n,nsr->sr", gaps, features) + l2 * w
        np.testing.assert_allclose(slope[w != 0], -l1 * np.sign(w[w != 0]), atol=1e-6)
        assert np.abs(slope).max() <= l1 + 1e-6 and abs(gaps.sum()) < 1e-6
