"""FISTA against scikit-learn, a conic solver and its own guarantee."""

import functools

import cvxpy
import jax
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from lowrank_jax import loops, streams
from lowrank_jax.batch.sblr import fista
from lowrank_jax.checks import InputError
from lowrank_jax.linalg import penalties
from lowrank_jax.models import matrix_logit
from lowrank_jax.theory import fista_certificate

MOST = 3000
NUCLEAR = penalties.nuclear_norm(strength=0.15)
LASSO = penalties.elastic_net(l1=0.02)
certificate = jax.jit(fista_certificate)
distance = jax.jit(fista.stationarity, static_argnums=2)


def task(num_classes=2, n=40, shape=(3, 4)):
    rng = np.random.default_rng(0)
    y = np.arange(n) % num_classes
    centers = rng.normal(size=(num_classes, *shape))
    x = 2.0 * rng.normal(size=(n, *shape)) + centers[y] + 0.5
    return x, y, streams.matrices.label_matrices(x, y)[0]


@functools.lru_cache
def program(step="tight", restart=True, penalty=None, tolerance=1e-13):
    """Compile a whole run; the strengths of the elastic net are traced."""

    @jax.jit
    def run(labelled, l1, l2):
        chosen = {"penalty": penalty} if penalty is not None else {"l1": l1, "l2": l2}
        learner = fista.learner(
            step=step, restart=restart, tolerance=tolerance, **chosen
        )
        state = learner.init(jax.random.key(0), labelled)
        return loops.converge(learner, state, labelled, max_iterations=MOST)

    return run


def trimmed(trace, number):
    return jax.tree.map(lambda part: np.asarray(part)[: int(number)], trace)


def loss_and_gradient(params, labelled):
    """Return the loss and its gradients, written out in NumPy."""
    w, b = (np.asarray(part) for part in params)
    x, targets, weights = (np.asarray(part) for part in labelled[:3])
    scores = np.einsum("nst,cst->nc", x, w) + b
    partition = 1 + np.exp(scores).sum(1)
    loss = (weights * (np.log(partition) - (targets * scores).sum(1))).sum()
    rest = weights[:, None] * (np.exp(scores) / partition[:, None] - targets)
    return loss, np.einsum("nc,nst->cst", rest, x), rest.sum(0)


@pytest.mark.parametrize("l1, l2", [(0.05, 0.0), (0.0, 0.1), (0.02, 0.03)])
def test_weights_equal_those_of_scikit_learn_with_a_free_intercept(l1, l2):
    x, y, labelled = task()
    state, trace, number = program()(labelled, l1, l2)
    peer = LogisticRegression(
        solver="saga",
        C=1 / (len(y) * (l1 + l2)),
        l1_ratio=l1 / (l1 + l2),
        tol=1e-12,
        max_iter=100_000,
        random_state=0,
    ).fit(x.reshape(len(y), -1), y)
    params = fista.final_params(state)
    np.testing.assert_allclose(params.weights.ravel(), peer.coef_[0], atol=1e-8)
    np.testing.assert_allclose(params.bias, peer.intercept_, atol=1e-8)
    trace = trimmed(trace, number)
    assert trace.converged[-1] and not trace.converged[:-1].any()
    assert trace.restarted.any()
    loss, _, _ = loss_and_gradient(params, labelled)
    w = peer.coef_[0]
    objective = loss + l1 * np.abs(w).sum() + l2 / 2 * (w**2).sum()
    np.testing.assert_allclose(trace.objective[-1], objective, rtol=1e-10)
    np.testing.assert_allclose(trace.loss[-1], loss, rtol=1e-10)
    assert trace.support[-1] == (np.abs(peer.coef_) > 1e-9).sum()
    squared_norm = (w**2).sum() + peer.intercept_[0] ** 2
    np.testing.assert_allclose(trace.squared_norm[-1], squared_norm, rtol=1e-7)


def test_many_classes_end_where_the_subgradient_is_zero():
    _, _, labelled = task(num_classes=4)
    l1, l2 = 0.02, 0.01
    state, trace, number = program()(labelled, l1, l2)
    w, b = (np.asarray(part) for part in state.params)
    loss, in_weights, in_bias = loss_and_gradient(state.params, labelled)
    smooth = in_weights + l2 * w
    np.testing.assert_allclose(smooth[w != 0], -l1 * np.sign(w[w != 0]), atol=1e-9)
    assert np.abs(smooth[w == 0]).max() <= l1
    np.testing.assert_allclose(in_bias, 0, atol=1e-9)
    assert 0 < (w == 0).sum() < w.size
    objective = loss + l1 * np.abs(w).sum() + l2 / 2 * (w**2).sum()
    np.testing.assert_allclose(state.objective, objective, rtol=1e-10)


def test_nuclear_norm_equals_a_conic_solver():
    x, y, labelled = task(n=14)
    state, trace, number = program(penalty=NUCLEAR)(labelled, 0.0, 0.0)
    w, b = cvxpy.Variable((3, 4)), cvxpy.Variable()
    signs = 2 * y - 1
    scores = [cvxpy.sum(cvxpy.multiply(w, part)) + b for part in x]
    margins = cvxpy.hstack([s * z for s, z in zip(signs, scores, strict=True)])
    objective = cvxpy.sum(cvxpy.logistic(-margins)) / len(y) + 0.15 * cvxpy.normNuc(w)
    problem = cvxpy.Problem(cvxpy.Minimize(objective))
    problem.solve("CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    np.testing.assert_allclose(state.objective, problem.value, rtol=1e-8)
    np.testing.assert_allclose(state.params.weights[0], w.value, atol=1e-5)
    assert np.linalg.matrix_rank(np.asarray(state.params.weights[0]), tol=1e-9) < 3
    assert distance(state.params, labelled, NUCLEAR) <= 1e-9


@pytest.mark.parametrize("step", ["tight", "backtracking"])
def test_guarantee_and_bound_of_the_distance_hold_on_a_run(step):
    _, _, labelled = task()
    l1 = 0.02
    best, _, _ = program()(labelled, l1, 0.0)
    state, trace, number = program(step, False, tolerance=1e-9)(labelled, l1, 0.0)
    trace = trimmed(trace, number)
    squares = sum(float((part**2).sum()) for part in best.params)
    held = certificate(trace.objective, trace.constant, squares, best.objective)
    assert held.observed.shape == trace.objective.shape
    assert held.slack.min() >= -1e-12
    assert held.observed[0] > held.bound[-1]  # there was something to gain
    k = 4  # by hand
    bound = 2 * trace.constant[k - 1] * squares / (k + 1) ** 2
    np.testing.assert_allclose(held.bound[k - 1], bound, rtol=1e-12)
    assert (np.diff(trace.constant) >= 0).all()
    assert (trace.num_trials > 1).any() == (step == "backtracking")
    assert not trace.restarted.any()
    # The bound of the distance is one, and not far off.
    far = distance(state.params, labelled, LASSO)
    assert far <= trace.stationarity[-1] <= 1e-4


def test_steps_backtrack_as_in_plain_numpy():
    """The first two steps, which have no momentum."""
    _, _, labelled = task()
    learner = fista.learner(step="backtracking", l1=0.02, growth=1.5)
    state, update = learner.init(jax.random.key(0), labelled), jax.jit(learner.update)
    squares = (labelled.x**2).sum((1, 2)) + 1
    trace = labelled.weights @ squares / 4
    np.testing.assert_allclose(state.constant, trace / 13, rtol=1e-12)  # 13 variables
    state = state._replace(constant=state.constant / 8)
    for _ in range(2):
        constant, num_trials = float(state.constant), 1
        point = [np.asarray(part) for part in state.params]
        loss, *slope = loss_and_gradient(point, labelled)
        while True:
            both = zip(point, slope, strict=True)
            moved = [part - rate / constant for part, rate in both]
            least = 0.02 / constant
            moved[0] = np.sign(moved[0]) * np.maximum(abs(moved[0]) - least, 0)
            moves = [m - part for m, part in zip(moved, point, strict=True)]
            inner = sum((g * m).sum() for g, m in zip(slope, moves, strict=True))
            squares = sum((m**2).sum() for m in moves)
            rise = loss_and_gradient(moved, labelled)[0] - loss - inner
            if rise <= constant / 2 * squares:
                break
            constant, num_trials = constant * 1.5, num_trials + 1
        assert constant < state.ceiling
        state, info = update(state, labelled)
        assert info.num_trials == num_trials
        np.testing.assert_allclose(info.constant, constant, rtol=1e-12)
        for found, wanted in zip(state.params, moved, strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert constant > learner.init(jax.random.key(0), labelled).constant / 8


def test_objectives_are_those_of_the_recipe():
    _, _, labelled = task()
    l1 = 0.02
    _, trace, _ = program("tight", False, tolerance=1e-9)(labelled, l1, 0.0)
    trace = trimmed(trace, 20)
    constant = float(trace.constant[0])
    t, old = 1.0, [np.zeros((1, 3, 4)), np.zeros(1)]
    point = old
    for k in range(20):
        _, in_weights, in_bias = loss_and_gradient(point, labelled)
        moved = point[0] - in_weights / constant
        shrunk = np.sign(moved) * np.maximum(np.abs(moved) - l1 / constant, 0)
        new = [shrunk, point[1] - in_bias / constant]
        further = (1 + np.sqrt(1 + 4 * t * t)) / 2
        pull = (t - 1) / further
        point = [n + pull * (n - o) for n, o in zip(new, old, strict=True)]
        t, old = further, new
        objective = loss_and_gradient(new, labelled)[0] + l1 * np.abs(new[0]).sum()
        np.testing.assert_allclose(trace.objective[k], objective, rtol=1e-10)


def test_matrices_are_neither_copied_nor_transposed():
    _, _, labelled = task(n=100, shape=(6, 8))
    learner = fista.learner(l1=0.1)
    state = jax.eval_shape(learner.init, jax.random.key(0), labelled)
    compiled = jax.jit(learner.update).lower(state, labelled).compile()
    room = compiled.memory_analysis().temp_size_in_bytes
    assert room < labelled.x.nbytes / 2


def test_scores_are_inner_products():
    x, _, _ = task()
    rng = np.random.default_rng(1)
    params = matrix_logit.Params(rng.normal(size=(2, 3, 4)), rng.normal(size=2))
    wanted = np.einsum("nst,cst->nc", x, params.weights) + params.bias
    found = jax.jit(matrix_logit.scores)(params, x)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_bad_settings_are_refused():
    with pytest.raises(InputError, match="either `penalty`, or `l1` and `l2`"):
        fista.learner(penalty=NUCLEAR, l1=0.1)
    with pytest.raises(InputError, match="`growth` must be above 1, got 1.0"):
        fista.learner(growth=1.0)
