"""BOL on dense matrices: the mirror map, Eq. (9)-(12), and the certificate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.data import dense_task
from lowrank_jax.online.bol import dense
from lowrank_jax.theory import best_step_size, regret_certificate


def noisy_task(num_rounds=60, shape=(6, 5), seed=0):
    train, _, _ = dense_task(num_rounds, 1, seed=seed, shape=shape, noise=0.2)
    return np.asarray(train.x, float), np.asarray(train.y, float)


def run(x, y, **settings):
    learner = dense.learner(**settings)
    examples = jax.vmap(dense.binary)(jnp.asarray(x), jnp.asarray(y))
    first = jax.tree.map(lambda part: part[0], examples)
    state = learner.init(jax.random.key(0), first)
    return jax.jit(lambda s: jax.lax.scan(learner.update, s, examples))(state)


def truncated(theta, rank):
    u, sigma, vt = np.linalg.svd(theta)
    return (u[:, :rank] * sigma[:rank]) @ vt[:rank]


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_exact_is_mirror_descent_with_the_truncated_svd(rank):
    """BOL-Eq8 with BOL-P2 and DR-B5."""
    x, y = noisy_task()
    state, trace = run(x, y, rank=rank, step_size=0.5)
    theta, w = np.zeros(x.shape[1:]), np.zeros(x.shape[1:])
    total = np.zeros_like(theta)
    for t, (matrix, label) in enumerate(zip(x, y, strict=True)):
        # Of equal scores the first candidate wins: minus.
        guess = 1.0 if (w * matrix).sum() > 0 else -1.0
        assert bool(trace.is_mistake[t]) == (guess != label)
        if guess != label:
            margin = label * (w * matrix).sum()
            np.testing.assert_allclose(trace.margin[t], margin, atol=1e-10)
            theta = theta + 0.5 * label * matrix
            w = truncated(theta, rank)
        total += theta
    np.testing.assert_allclose(state.theta, theta, atol=1e-10)
    np.testing.assert_allclose(state.params, w, atol=1e-8)
    sigma = np.linalg.svd(theta, compute_uv=False)
    np.testing.assert_allclose(trace.conjugate[-1], (sigma[:rank] ** 2).sum() / 2)
    next_one = sigma[rank] if rank < len(sigma) else 0.0
    np.testing.assert_allclose(trace.ratio[-1], next_one / sigma[rank - 1], atol=1e-12)
    averaged, _ = run(x, y, rank=rank, step_size=0.5, averaging="dual")
    expected = truncated(total / len(x), rank)
    np.testing.assert_allclose(dense.final_params(averaged), expected, atol=1e-8)


@pytest.mark.parametrize("variant", ["exact", "power", "paper"])
def test_every_number_of_a_round_equals_plain_numpy(variant):
    x, y = noisy_task(20)
    learner = dense.learner(variant=variant, step_size=0.5, num_inner_steps=2)
    examples = jax.vmap(dense.binary)(jnp.asarray(x), jnp.asarray(y))

    def update(state, example):
        new, info = learner.update(state, example)
        return new, (info, state.params, new)

    first = jax.tree.map(lambda part: part[0], examples)
    state = learner.init(jax.random.key(0), first)
    scan = jax.jit(lambda s: jax.lax.scan(update, s, examples)[1])
    trace, weights, after = jax.device_get(scan(state))
    theta, conjugate = np.zeros(x.shape[1:]), 0.0
    for t, (matrix, label) in enumerate(zip(x, y, strict=True)):
        score = (weights[t] * matrix).sum()
        is_mistake = (1.0 if score > 0 else -1.0) != label
        delta = label * matrix * is_mistake
        theta, before = theta + 0.5 * delta, conjugate
        u, sigma, _ = np.linalg.svd(theta)
        conjugate, alpha = sigma[0] ** 2 / 2, after.left[t, 0]
        size, margin = np.linalg.norm(alpha), label * score * is_mistake
        cosine = abs(alpha @ u[:, 0]) / size if size else 1.0
        expected = {
            "loss": max(0, 1 - margin) * is_mistake,
            "is_mistake": is_mistake,
            "num_wrong": int(is_mistake),
            "margin": margin,
            "squared_norm": (delta**2).sum(),
            "dual_increment": 0.5 * is_mistake - conjugate + before,  # BOL-N5
            "conjugate": conjugate,
            "bregman": conjugate - before - 0.5 * margin,  # DR-B4
            "sigma_1": sigma[0],
            "ratio": sigma[1] / sigma[0] if sigma[0] else 0.0,
            "residual": 1 - cosine,
            "step_size": 0.5,
        }
        assert expected.keys() == set(trace._fields)
        for name, value in expected.items():
            found = getattr(trace, name)[t]
            np.testing.assert_allclose(found, value, atol=1e-9, err_msg=name)
    assert variant == "exact" or trace.residual.max() > 1e-4


def test_frobenius_is_the_perceptron():
    x, y = noisy_task()
    state, trace = run(x, y, variant="frobenius", averaging="dual")
    w, total = np.zeros(x.shape[1:]), np.zeros(x.shape[1:])
    for matrix, label in zip(x, y, strict=True):
        guess = 1.0 if (w * matrix).sum() > 0 else -1.0
        w = w + (guess != label) * label * matrix
        total += w
    np.testing.assert_allclose(state.params, w, atol=1e-10)
    np.testing.assert_allclose(dense.final_params(state), total / len(x), atol=1e-10)
    np.testing.assert_allclose(trace.bregman, trace.squared_norm / 2, atol=1e-9)


def test_paper_step_is_the_power_iteration_from_the_exact_pair():
    """Errata of BOL-Eq9-12 (a): equal if the pair before is exact, not otherwise."""
    x, y = noisy_task()
    state, _ = run(x, y, variant="exact")
    u, sigma, vt = np.linalg.svd(np.asarray(state.theta))
    label = -np.sign((np.asarray(state.params) * x[0]).sum())  # force a mistake
    example = dense.binary(jnp.asarray(x[0]), jnp.asarray(label))

    def after(variant, alpha, beta):
        learner = dense.learner(variant=variant, num_inner_steps=1)
        begin = state._replace(
            left=jnp.asarray(alpha)[None],
            right=jnp.asarray(beta)[None],
            scale=jnp.asarray(sigma[0]),
        )
        new, info = learner.update(begin, example)
        assert info.is_mistake
        return np.asarray(new.left[0])

    exact = u[:, 0], vt[0]
    np.testing.assert_allclose(after("paper", *exact), after("power", *exact))
    off = u[:, 0] + 0.05 * u[:, 1], vt[0]
    off = off[0] / np.linalg.norm(off[0]), off[1]
    assert np.abs(after("paper", *off) - after("power", *off)).max() > 1e-3


@pytest.mark.parametrize("variant", ["exact", "power", "paper", "frobenius"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_certificate_holds_for_every_variant(variant, seed):
    """DR-B4, for any W_{t-1}; the comparator is the planted matrix at 3 scales."""
    x, y = noisy_task(seed=seed)
    _, trace = run(x, y, variant=variant, step_size=0.5)
    _, _, truth = dense_task(60, 1, seed=seed, shape=(6, 5), noise=0.2)
    planted = np.outer(truth.left, truth.right)
    deltas = y[:, None, None] * x
    for scale in (0.1, 1.0, 10.0):
        u = scale * planted
        trace_norm = np.linalg.svd(u, compute_uv=False).sum()
        penalty = (u**2).sum() / 2 if variant == "frobenius" else trace_norm**2 / 2
        losses = np.maximum(0, 1 - (u * deltas).sum(axis=(1, 2)))
        found = regret_certificate(
            trace,
            step_size=0.5,
            comparator_losses=jnp.asarray(losses),
            comparator_penalty=jnp.asarray(penalty),
        )
        assert found.slack >= -1e-9 * (1 + abs(found.bound))
    assert found.observed > -np.inf
    total = trace.bregman.sum()
    ends = trace.conjugate[-1] - 0.5 * trace.margin.sum()
    np.testing.assert_allclose(total, ends, atol=1e-8)


def test_best_step_size_maximises_the_dual():
    """DR-B8: D(C) = C M - C^2 f."""
    best = best_step_size(jnp.array(7.0), jnp.array(5.0))
    for step in np.linspace(0, 3, 50):
        assert step * 7 - step**2 * 5 <= best.dual_objective + 1e-12
    step = best.step_size
    np.testing.assert_allclose(step * 7 - step**2 * 5, best.dual_objective)
    none = best_step_size(jnp.array(0.0), jnp.array(0.0))
    assert none.step_size == 0 == none.dual_objective


def test_wrong_arguments_are_named():
    with pytest.raises(InputError, match="rank=2 with variant='paper'"):
        dense.learner(variant="paper", rank=2)
    with pytest.raises(InputError, match="say 'dual' or 'none'"):
        dense.learner(variant="frobenius", averaging="factors")
    x, y = noisy_task()
    with pytest.raises(InputError, match="1..5 for a 6x5 matrix, got 6"):
        run(x, y, rank=6)
