"""The inner loop of a block against plain NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.batch.sblr import block_step
from lowrank_jax.linalg import penalties

L1, L2 = 0.05, 0.1


@functools.cache
def block():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2, 9, 2, 3))  # (m, n, r, size)
    factors, bias = rng.normal(size=(2, 3, 2)), rng.normal(size=2)
    targets = np.eye(3)[np.arange(9) % 3][:, :2]
    parts = features, factors, bias, targets, rng.uniform(0.5, 1.5, 9)
    return block_step.Block(*map(jnp.asarray, parts))


def accelerated(constant, tolerance, max_steps):
    """FISTA that starts anew when its last move points against the gradient."""
    features, factors, bias, targets, weights = map(np.asarray, block())
    before = (factors, bias)
    ahead, momentum, steps, restarts = before, 1.0, 0, 0
    while steps < max_steps:
        scores = np.einsum("mnrs,msr->nm", features, ahead[0]) + ahead[1]
        shares = np.exp(scores) / (1 + np.exp(scores).sum(1, keepdims=True))
        residuals = weights[:, None] * (shares - targets)
        moved = ahead[0] - np.einsum("mnrs,nm->msr", features, residuals) / constant
        shrunk = np.sign(moved) * np.maximum(np.abs(moved) - L1 / constant, 0)
        now = shrunk / (1 + L2 / constant), ahead[1] - residuals.sum(0) / constant
        back = [a - b for a, b in zip(ahead, now, strict=True)]
        last = [a - b for a, b in zip(now, before, strict=True)]
        turn = sum((a * b).sum() for a, b in zip(back, last, strict=True))
        momentum = 1.0 if turn > 0 else momentum
        further = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        pull = 0 if turn > 0 else (momentum - 1) / further
        ahead = tuple(a + pull * b for a, b in zip(now, last, strict=True))
        before, momentum, steps, restarts = (
            now,
            further,
            steps + 1,
            restarts + (turn > 0),
        )
        if constant * np.sqrt(sum((part**2).sum() for part in back)) <= tolerance:
            break
    return before, steps, restarts


@pytest.mark.parametrize(("tolerance", "most"), [(0.0, 40), (0.3, 200), (1e-6, 400)])
def test_steps_of_a_block_are_those_of_accelerated_descent(tolerance, most):
    penalty = penalties.elastic_net(l1=L1, l2=L2)
    solve = functools.partial(block_step.minimise, penalty=penalty, max_steps=most)
    found = jax.jit(solve)(block(), tolerance=tolerance)
    wanted, steps, restarts = accelerated(float(found.constant), tolerance, most)
    assert int(found.num_trials) == steps
    assert restarts > 0 or tolerance == 0.3
    np.testing.assert_allclose(found.factors, wanted[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.bias, wanted[1], rtol=1e-9, atol=1e-12)
    features = np.asarray(block().features)
    scores = np.einsum("mnrs,msr->nm", features, wanted[0]) + wanted[1]
    np.testing.assert_allclose(found.scores, scores, rtol=1e-9, atol=1e-12)
