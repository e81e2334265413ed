"""What is said of a run of bilinear logistic regression after it has ended."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import streams
from lowrank_jax.linalg import penalties
from lowrank_jax.models import bilinear_logit, logistic
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.theory.sblr import limits

SHAPE = (5, 4)


def task(noise=2.0):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    pattern = np.outer([1, 1, 0, 0, 0], [1, -1, 0, 0])
    x = (
        noise * rng.normal(size=(40, *SHAPE))
        + np.where(y, 1, -1)[:, None, None] * pattern
    )
    return streams.matrices.label_matrices(x, y)[0]


@functools.lru_cache
def run(l1, l2, rank):
    """Return a long run of Algorithm 2 with fixed constants, in NumPy."""
    labelled = task()
    x, signs = np.asarray(labelled.x), 2 * np.asarray(labelled.targets)[:, 0] - 1
    turned = x.transpose(0, 2, 1)
    u, _, v = np.linalg.svd((signs @ x.reshape(len(x), -1)).reshape(SHAPE))
    left, right, bias = u[:, :rank].copy(), v[:rank].T.copy(), 0.0
    constants = []
    for features in (x @ right, turned @ left):
        rows = np.concatenate([features.reshape(40, -1), np.ones((40, 1))], axis=1)
        constants.append(2 * np.linalg.norm(rows, 2) ** 2 / 160)  # twice DR-S1

    def moved(features, factors, bias, size):
        scores = (features * factors).sum((1, 2)) + bias
        rest = -signs / (1 + np.exp(signs * scores)) / len(signs)
        z = factors - size * np.tensordot(rest, features, 1)
        shrunk = np.sign(z) * np.maximum(np.abs(z) - size * l1, 0)
        return shrunk / (1 + size * l2), bias - size * rest.sum()

    points = []
    for _ in range(1500 * rank):
        left, bias = moved(x @ right, left, bias, 1 / constants[0])
        right, bias = moved(turned @ left, right, bias, 1 / constants[1])
        points.append(np.concatenate([left.ravel(), right.ravel(), [bias]]))
    params = Params(
        jnp.asarray(left)[None], jnp.asarray(right)[None], jnp.asarray([bias])
    )
    return labelled, constants, params, np.stack(points)


@jax.jit
def certified(params, labelled, left_l2, right_l2):
    return limits.global_certificate(params, labelled, left_l2, right_l2)


def test_predicted_rate_equals_the_observed_one():
    l1, l2 = 0.02, 0.05
    labelled, constants, params, points = run(l1, l2, 1)
    penalty = penalties.elastic_net(l1=l1, l2=l2)
    sweep, limit = limits.support_sweep(
        params,
        labelled,
        penalty,
        penalty,
        left_constant=constants[0],
        right_constant=constants[1],
    )
    assert limit.size == (points[-1, :-1] != 0).sum() + 1
    assert limit.size < 10
    predicted = limits.sweep_jacobian_rate(sweep, limit)
    observed = limits.observed_rate(np.linalg.norm(points - points[-1], axis=1))
    assert 0.5 < predicted < 1
    np.testing.assert_allclose(observed, predicted, rtol=1e-3)  # as in DR-S6


def test_a_sweep_contracts_all_but_the_rotations():
    """Two columns and ridges alone: one rotation, and one eigenvalue 1 (DR-S6)."""
    l2 = 0.05
    labelled, constants, params, points = run(0.0, l2, 2)
    penalty = penalties.elastic_net(l1=0.0, l2=l2)
    sweep, limit = limits.support_sweep(
        params,
        labelled,
        penalty,
        penalty,
        left_constant=constants[0],
        right_constant=constants[1],
    )

    def objective(vector):
        left, right, bias = jnp.split(vector, (10, 18))
        shaped = Params(left.reshape(1, 5, 2), right.reshape(1, 4, 2), bias)
        scores = bilinear_logit.scores(shaped, labelled.x)
        loss = logistic.loss(scores, labelled.targets, labelled.weights)
        return loss + l2 / 2 * (vector[:-1] ** 2).sum()

    curved = np.linalg.eigvalsh(jax.hessian(objective)(limit))
    assert abs(curved[0]) < 1e-7 < 1e-4 < curved[1]
    moduli = np.sort(np.abs(np.linalg.eigvals(jax.jacobian(sweep)(limit))))[::-1]
    np.testing.assert_allclose(moduli[0], 1, atol=1e-7)
    rate = limits.sweep_jacobian_rate(sweep, limit, num_symmetries=1)
    assert rate == pytest.approx(moduli[1]) and rate < 0.9999
    observed = limits.observed_rate(np.linalg.norm(points - points[-1], axis=1))
    np.testing.assert_allclose(observed, rate, rtol=1e-3)  # as in DR-S6


def test_rate_is_the_spectral_radius_with_symmetries_left_out():
    matrix = jnp.asarray([[1.0, 2.0, 0.0], [0.0, -0.7, 0.0], [0.0, 1.0, 0.3]])
    sweep, limit = (lambda v: matrix @ v), jnp.zeros(3)
    assert limits.sweep_jacobian_rate(sweep, limit) == pytest.approx(1)
    rate = limits.sweep_jacobian_rate(sweep, limit, num_symmetries=1)
    assert rate == pytest.approx(0.7)
    # Three steps of Arnoldi's iteration are the whole space.
    rate = limits.sweep_jacobian_rate(sweep, limit, num_symmetries=1, max_dense=0)
    assert rate == pytest.approx(0.7)
    rate = limits.sweep_jacobian_rate(sweep, limit, num_symmetries=1, max_dense=0)
    assert rate == pytest.approx(0.7)  # Arnoldi's iteration, all steps of it


@pytest.mark.slow
def test_rate_of_a_large_support_is_that_of_all_eigenvalues():
    matrix = np.random.default_rng(0).uniform(size=(400, 400)) / 400
    matrix += np.diag(np.linspace(0, 0.4, 400))
    sweep, limit = (lambda v: jnp.asarray(matrix) @ v), jnp.zeros(400)
    wanted = np.abs(np.linalg.eigvals(matrix)).max()
    rate = limits.sweep_jacobian_rate(sweep, limit, num_steps=40)
    assert rate == pytest.approx(wanted, rel=1e-9)
    # A space that closes before the steps are done: one eigenvalue, twenty times.
    scaled = limits.sweep_jacobian_rate(lambda v: 0.3 * v, jnp.zeros(20), max_dense=0)
    assert scaled == pytest.approx(0.3)


def test_observed_rate_ignores_the_start_and_the_floor_of_rounding():
    k = np.arange(200)
    distances = 0.8**k + 5 * 0.3**k + 1e-16
    assert limits.observed_rate(distances) == pytest.approx(0.8, rel=1e-6)
    ended = np.append(0.5 ** np.arange(3), 0)  # a value at the floor is left out
    assert limits.observed_rate(ended, floor=0.0) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="at least two values above the floor"):
        limits.observed_rate(distances, floor=10.0)


def test_global_certificate_holds_at_full_rank_and_fails_at_rank_one():
    l2 = 0.1
    labelled, _, params, _ = run(0.0, l2, 4)
    found = certified(params, labelled, l2, l2)
    assert found.is_stationary and found.is_global
    np.testing.assert_allclose(found.certificate.observed, l2, rtol=1e-6)
    # And so it is: the convex problem has the same minimum.
    objective = _objective(params, labelled, l2)
    np.testing.assert_allclose(objective, convex_minimum(labelled, l2), rtol=1e-8)

    _, _, small, _ = run(0.0, l2, 1)
    found = certified(small, labelled, l2, l2)
    assert found.is_stationary and not found.is_global
    assert found.certificate.slack < 0
    assert _objective(small, labelled, l2) > objective + 1e-4
    moved = small._replace(bias=small.bias + 0.1)
    assert not certified(moved, labelled, l2, l2).is_stationary


def convex_minimum(labelled, strength):
    """Return the least loss plus nuclear norm, by plain proximal steps in NumPy."""
    x, signs = np.asarray(labelled.x), 2 * np.asarray(labelled.targets)[:, 0] - 1
    rows = np.concatenate([x.reshape(40, -1), np.ones((40, 1))], axis=1)
    size = 160 / np.linalg.norm(rows, 2) ** 2
    point = np.zeros(21)
    for _ in range(2000):
        rest = -signs / (1 + np.exp(signs * (rows @ point))) / 40
        point = point - size * (rest @ rows)
        u, values, v = np.linalg.svd(point[:-1].reshape(SHAPE), full_matrices=False)
        values = np.maximum(values - size * strength, 0)
        point[:-1] = (u * values @ v).ravel()
    margins = signs * (rows @ point)
    return np.log1p(np.exp(-margins)).mean() + strength * values.sum()


def _objective(params, labelled, l2):
    left, right, bias = (np.asarray(part[0]) for part in params)
    x, signs = np.asarray(labelled.x), 2 * np.asarray(labelled.targets)[:, 0] - 1
    margins = signs * (np.einsum("nst,sr,tr->n", x, left, right) + bias)
    penalty = l2 / 2 * ((left**2).sum() + (right**2).sum())
    return np.log1p(np.exp(-margins)).mean() + penalty


def test_global_certificate_has_the_gradient_and_the_distance_of_the_definition():
    labelled, _, params, _ = run(0.0, 0.1, 1)
    params = jax.tree.map(lambda part: part + 0.1, params)
    found = certified(params, labelled, 0.1, 0.3)
    left, right, bias = (np.asarray(part[0]) for part in params)
    x, signs = np.asarray(labelled.x), 2 * np.asarray(labelled.targets)[:, 0] - 1
    margins = signs * (np.einsum("nst,sr,tr->n", x, left, right) + bias)
    rest = -signs / (1 + np.exp(margins)) / len(signs)
    slope = np.einsum("n,nst->st", rest, x)
    np.testing.assert_allclose(found.sigma_1, [np.linalg.norm(slope, 2)], rtol=1e-10)
    np.testing.assert_allclose(found.certificate.bound, np.sqrt(0.03), rtol=1e-10)
    parts = [slope @ right + 0.1 * left, slope.T @ left + 0.3 * right, rest.sum()]
    far = np.sqrt(sum((part**2).sum() for part in parts))
    np.testing.assert_allclose(found.stationarity, far, rtol=1e-10)


def test_assumptions_of_the_theorems_are_decided_by_penalties_classes_and_margins():
    labelled = task(noise=0.1)
    pattern = Params(
        jnp.array([[1.0, 1.0, 0.0, 0.0, 0.0]])[..., None],
        jnp.array([[1.0, -1.0, 0.0, 0.0]])[..., None],
        jnp.zeros(1),
    )
    check = functools.partial(limits.assumptions, left_strength=0.0)
    found = check(pattern, labelled, right_strength=1.0)
    assert found[:4] == (False, True, True, False)
    assert "say nothing" in found.words
    opposite = pattern._replace(left=-pattern.left)
    assert check(opposite, labelled, right_strength=1.0)[:4] == (
        False,
        True,
        False,
        None,
    )
    found = limits.assumptions(
        opposite, labelled, left_strength=0.1, right_strength=0.1
    )
    assert found[:4] == (True, True, False, True)
    of_one_class = labelled._replace(weights=labelled.targets[:, 0] / 20)
    found = limits.assumptions(
        pattern, of_one_class, left_strength=0.1, right_strength=0.1
    )
    assert found[:4] == (True, False, True, False)
    many = labelled._replace(
        targets=jnp.concatenate([labelled.targets, 0 * labelled.targets], axis=1)
    )
    pair = jax.tree.map(lambda part: jnp.concatenate([part, 0 * part]), pattern)
    found = check(pair, many, right_strength=0.0)
    assert not found.has_all_classes  # the second has none
    assert not found.is_separated  # its score ties with the reference's


def test_the_lower_bound_is_below_every_point_and_reaches_the_minimum():
    """DR-S7 with a gap: near a stationary point, and far from one."""
    l2 = 0.1
    labelled, _, params, _ = run(0.0, l2, 4)
    least = convex_minimum(labelled, l2)
    found = certified(params, labelled, l2, l2)
    objective = _objective(params, labelled, l2)
    np.testing.assert_allclose(found.objective, objective, rtol=1e-10)
    assert found.lower_bound <= least + 1e-10
    assert 0 <= found.gap + 1e-12 < 1e-6
    rng = np.random.default_rng(0)
    for size in (1e-6, 1e-3, 0.1, 3.0):
        noise = [size * rng.normal(size=part.shape) for part in params]
        moved = jax.tree.map(lambda a, b: a + b, params, type(params)(*noise))
        found = certified(moved, labelled, l2, l2)
        assert 0 <= found.lower_bound <= least + 1e-10
        assert found.gap >= found.objective - least - 1e-10
        if size <= 1e-3:  # where `is_global` says no more than no
            assert not found.is_stationary or size == 1e-6
            assert found.gap < 20 * size
    _, _, small, _ = run(0.0, l2, 1)
    found = certified(small, labelled, l2, l2)
    assert found.lower_bound <= least < found.objective
    assert found.gap > 1e-4


def test_the_lower_bound_holds_for_three_classes_and_without_one_of_them():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 4, 3)), rng.integers(0, 3, 30)
    targets = (y[:, None] == np.arange(2)[None]).astype(float)
    bound = jax.jit(limits.dual_bound)
    for missing in (None, 0):
        chosen = y != missing
        labelled = Labelled(
            jnp.asarray(x[chosen]),
            jnp.asarray(targets[chosen]),
            jnp.full(chosen.sum(), 1 / chosen.sum()),
        )
        scores = jnp.asarray(rng.normal(size=(chosen.sum(), 2)))
        lower = float(bound(scores, labelled, jnp.asarray(0.05)))
        twice = labelled._replace(weights=2 * labelled.weights)
        assert bound(scores, twice, jnp.asarray(0.1)) == pytest.approx(2 * lower)
        for _ in range(50):
            size = 10.0 ** rng.uniform(-3, 1)
            weights = size * rng.normal(size=(2, 4, 3))
            found = np.einsum("nst,cst->nc", x[chosen], weights) + rng.normal(size=2)
            loss = logistic.loss(jnp.asarray(found), *labelled[1:3])
            norms = np.linalg.svd(weights, compute_uv=False).sum()
            assert lower <= float(loss) + 0.05 * norms
        assert lower == 0 if missing == 0 else lower > 0.1
