"""The CRF against enumeration, SciPy's optimisers and the conditions of a minimum."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from lowrank_jax import loops, streams
from lowrank_jax.batch import crf
from lowrank_jax.batch.crf import quasi_newton
from lowrank_jax.batch.crf.expectations import expectations
from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.decode import safe_spread
from lowrank_jax.models import linear
from tests.batch.references import Likelihood, parts, used, vector
from tests.online.tasks import random_task

TASKS = {
    "0-order": {"orders": ("0", "0"), "has_transitions": True},
    "no transitions": {"orders": ("0",)},
    "first order": {"orders": ("1", "1")},
    "mixed": {"orders": ("01", "0", "1"), "has_transitions": True, "shared": True},
}
each_task = pytest.mark.parametrize("name", TASKS)


def short_task(name) -> Sequences:
    """A random task whose sentences can be enumerated; one of them is empty."""
    task = random_task(**TASKS[name])
    offsets = np.asarray(task.offsets)
    is_kept = np.ones(task.num_tokens, bool)
    bounds = [0]
    for a, b in zip(offsets[:-1], offsets[1:], strict=True):
        is_kept[a + 5 : b] = False
        bounds.append(bounds[-1] + min(5, b - a))
    bounds.insert(4, bounds[3])
    return dataclasses.replace(
        task,
        feature_ids=task.feature_ids[is_kept],
        labels=task.labels[is_kept],
        offsets=np.array(bounds, np.int32),
    )


@functools.cache
def likelihood_of(name) -> Likelihood:
    return Likelihood(short_task(name))


def to_params(space, flat, dtype=jnp.float64) -> linear.Params:
    """Lay a vector of the twin out as parameters: row K is zero."""
    zero, first, transitions = parts(space, flat)

    def table(part):
        return jnp.asarray(np.concatenate([part, 0 * part[:1]]), dtype)

    return linear.Params(
        table(zero) if space.zero_order else None,
        table(first) if space.first_order else None,
        jnp.asarray(transitions, dtype) if space.has_transitions else None,
    )


def to_vector(space, params) -> np.ndarray:
    """Undo `to_params`; unused parts are zero."""
    zero, first, transitions = parts(space, np.zeros(used(space).size))
    if params.zero is not None:
        assert not np.any(params.zero[-1])
        zero = params.zero[:-1]
    if params.first is not None:
        assert not np.any(params.first[-1])
        first = params.first[:-1]
    if params.transitions is not None:
        transitions = params.transitions
    return vector([zero, first, transitions])


def random_vector(space, scale=0.7, seed=3):
    flat = scale * np.random.default_rng(seed).normal(size=used(space).size)
    return flat * used(space)


evaluate = jax.jit(crf.negative_log_likelihood)  # one program for all tests of a task


def assert_likelihood_equals_enumeration(name, flat, num_lanes):
    task = short_task(name)
    value, gradient = evaluate(
        to_params(task.space, flat), streams.lanes.lanes(task, num_lanes=num_lanes)
    )
    expected, expected_gradient = likelihood_of(name)(flat)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    np.testing.assert_allclose(
        to_vector(task.space, gradient),
        expected_gradient * used(task.space),
        rtol=1e-10,
        atol=1e-11,
    )


@each_task
def test_likelihood_and_gradient_equal_enumeration(name):
    task = short_task(name)
    assert_likelihood_equals_enumeration(name, random_vector(task.space), 3)


def test_the_number_of_lanes_changes_nothing():
    flat = random_vector(short_task("mixed").space)
    assert_likelihood_equals_enumeration("mixed", flat, 1)


@pytest.mark.parametrize("name", ["0-order", "mixed"])
def test_pairwise_scores_of_any_spread_are_right(name):
    """Beyond a spread of some 330 the recursion goes by logarithms."""
    task = short_task(name)
    for spread in (100.0, 500.0):
        zero, first, transitions = parts(task.space, random_vector(task.space))
        transitions[1, 0] += spread
        flat = vector([zero, first, transitions])
        assert_likelihood_equals_enumeration(name, flat, 3)


@pytest.mark.parametrize("factor", [0.999, 1.001])
def test_at_the_limit_of_the_spread_either_form_is_precise(factor):
    """Single precision is compared with double precision, which has room enough."""
    lanes = streams.lanes.lanes(short_task("mixed"), num_lanes=3)
    num_labels, rng = int(lanes.previous.max()), np.random.default_rng(1)
    spread = factor * safe_spread(num_labels, jnp.float32)
    # Whole and zero unary scores, pairs at both ends: what the proof calls the worst.
    unary = rng.choice([-spread, 0.0], (*lanes.labels.shape, num_labels))
    pairwise = rng.choice([-spread, 0.0], (num_labels, num_labels + 1))
    pairwise[:, :2] = [[0.0, -spread], [-spread, 0.0], [-spread, -spread]]
    given = (unary.astype("float32"), pairwise.astype("float32"))
    run = jax.jit(expectations)
    found = run(*given, lanes)
    exact = run(*(part.astype("float64") for part in given), lanes)
    assert found.loss.dtype == jnp.float32
    np.testing.assert_allclose(found.loss, exact.loss, rtol=1e-5)
    for one, other in zip(found[1:], exact[1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@each_task
def test_gradient_equals_finite_differences(name):
    task = short_task(name)
    flat, lanes = random_vector(task.space), streams.lanes.lanes(task, num_lanes=3)
    gradient = evaluate(to_params(task.space, flat), lanes)[1]
    rng, step = np.random.default_rng(0), 1e-5
    for _ in range(5):
        way = rng.normal(size=flat.size) * used(task.space)
        ends = [
            float(evaluate(to_params(task.space, flat + sign * step * way), lanes)[0])
            for sign in (1, -1)
        ]
        np.testing.assert_allclose(
            (ends[0] - ends[1]) / (2 * step),
            to_vector(task.space, gradient) @ way,
            rtol=1e-6,
        )


STRENGTH = 1.5


@functools.cache
def lanes_and_update(penalty):
    """Compile an update with a traced strength; return the corpus and the start too."""
    lanes = streams.lanes.lanes(short_task("mixed"), num_lanes=3)

    def learner(strength):
        return crf.learner(
            penalty=penalty, strength=strength, tolerance=1e-13, dtype=jnp.float64
        )

    update = jax.jit(lambda state, lanes, c: learner(c).update(state, lanes))
    return lanes, learner(1.0).init(jax.random.key(0), lanes), update


def go_on(penalty, state):
    """Iterate until convergence; return the weights and the trace."""
    lanes, _, update = lanes_and_update(penalty)
    infos = []
    while len(infos) < 300 and not (infos and infos[-1].converged):
        state, info = update(state, lanes, STRENGTH)
        infos.append(jax.device_get(info))
    return to_vector(lanes.space, crf.final_params(state)), infos


@functools.cache
def minimise(penalty):
    return go_on(penalty, lanes_and_update(penalty)[1])


def test_l2_minimum_equals_that_of_scipy_on_the_enumerated_objective():
    task, likelihood = short_task("mixed"), likelihood_of("mixed")

    def objective(flat):
        value, gradient = likelihood(flat)
        value += flat @ flat / (2 * STRENGTH)
        return value, (gradient + flat / STRENGTH) * used(task.space)

    found = minimize(
        objective,
        np.zeros(used(task.space).size),
        jac=True,
        method="L-BFGS-B",
        options={"gtol": 1e-9, "ftol": 1e-15, "maxiter": 500},
    )
    weights, infos = minimise("l2")
    np.testing.assert_allclose(infos[-1].objective, found.fun, rtol=1e-10)
    # Near a minimum an objective right to 1e-12 leaves the weights right to 1e-6.
    np.testing.assert_allclose(weights, found.x, atol=1e-5)
    np.testing.assert_allclose(infos[-1].gradient_norm, 0, atol=1e-5)


def test_l1_minimum_satisfies_the_conditions_of_a_minimum():
    r"""|g_i| <= 1/c where w_i = 0, and g_i = -sign(w_i)/c elsewhere."""
    task = short_task("mixed")
    weights, infos = minimise("l1")
    value, gradient = likelihood_of("mixed")(weights)
    gradient = gradient * used(task.space)
    is_zero = weights == 0
    assert 0 < (~is_zero).sum() < used(task.space).sum()
    # The objective is right to 1e-13, the gradient to about its root.
    assert np.abs(gradient[is_zero]).max() <= 1 / STRENGTH + 1e-5
    np.testing.assert_allclose(
        gradient[~is_zero], -np.sign(weights[~is_zero]) / STRENGTH, atol=1e-5
    )
    objective = value + np.abs(weights).sum() / STRENGTH
    np.testing.assert_allclose(infos[-1].objective, objective, rtol=1e-10)
    assert int(infos[-1].num_nonzero) == (~is_zero).sum()


def test_l1_minimum_equals_that_of_scipy_with_split_signs():
    """|w|_1 is linear on w = p - m with p, m >= 0: L-BFGS-B takes the bounds."""
    task, likelihood = short_task("mixed"), likelihood_of("mixed")
    size = used(task.space).size

    def objective(both):
        value, gradient = likelihood(both[:size] - both[size:])
        gradient = gradient * used(task.space)
        both_ways = np.concatenate([gradient, -gradient]) + 1 / STRENGTH
        return value + both.sum() / STRENGTH, both_ways

    found = minimize(
        objective,
        np.zeros(2 * size),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * (2 * size),
        options={"gtol": 1e-10, "ftol": 1e-15, "maxiter": 1000},
    )
    infos = minimise("l1")[1]
    np.testing.assert_allclose(infos[-1].objective, found.fun, rtol=1e-8)


@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_objective_never_rises_and_convergence_is_reported(penalty):
    infos = minimise(penalty)[1]
    objectives = np.array([info.objective for info in infos])
    # The line search of optax accepts a rise by rounding.
    assert (np.diff(objectives) <= 1e-13 * objectives[:-1]).all()
    assert [bool(info.converged) for info in infos[-2:]] == [False, True]
    changes = -np.diff(objectives) / np.maximum(objectives[:-1], 1)
    reported = [info.relative_change for info in infos[1:]]
    np.testing.assert_allclose(reported, changes, rtol=1e-8, atol=1e-15)
    assert all(int(info.num_evaluations) >= 1 for info in infos)


@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_a_failed_search_is_no_convergence_and_is_gone_on_from(penalty):
    """One trial a search: some find no lower point, far from the minimum."""
    learner = crf.learner(
        penalty=penalty,
        strength=STRENGTH,
        max_evaluations=1,
        tolerance=1e-10,
        dtype=jnp.float64,
    )
    lanes, key = lanes_and_update(penalty)[0], jax.random.key(0)
    infos = []
    for done in loops.passes(learner, streams.Whole(lanes), key=key, num_passes=150):
        infos.append(done.trace)
    objectives = np.array([info.objective for info in infos])
    assert (np.diff(objectives) <= 1e-13 * objectives[:-1]).all()
    first = [info.step_size == 0 for info in infos[1:]].index(True) + 1
    assert objectives[first] == objectives[first - 1]
    assert objectives[first] > minimise(penalty)[1][-1].objective * (1 + 1e-9)
    assert not infos[first].converged
    if penalty == "l2":  # optax does not halve on from search to search
        assert not infos[-1].converged
        assert done.state.search[0].count == 0  # no pair is left
        infos = go_on(penalty, done.state)[1]
    assert infos[-1].converged
    expected = minimise(penalty)[1][-1].objective
    np.testing.assert_allclose(infos[-1].objective, expected, rtol=1e-8)


def test_pseudo_gradient_is_zero_exactly_in_the_subdifferential():
    weights = jnp.array([0.0, 0.0, 0.0, 2.0, -2.0])
    gradient = jnp.array([0.5, -1.0, 1.5, -1.0, 0.5])
    found = quasi_newton.pseudo_gradient(weights, gradient, 1.0)
    np.testing.assert_allclose(found, [0, 0, 0.5, 0, -0.5])


@pytest.mark.parametrize("penalty", ["l1", "l2"])
@pytest.mark.parametrize("x64", [True, False])
def test_types_are_kept_so_that_one_program_serves_all_iterations(penalty, x64):
    with jax.enable_x64(x64):
        lanes = streams.lanes.lanes(random_task(**TASKS["mixed"]))
        learner = crf.learner(penalty=penalty, memory_size=3)
        state = jax.eval_shape(learner.init, jax.random.key(0), lanes)
        new, info = jax.eval_shape(learner.update, state, lanes)
        for old, updated in zip(*map(jax.tree.leaves, (state, new)), strict=True):
            assert (old.shape, old.dtype) == (updated.shape, updated.dtype)
            assert not old.weak_type and not updated.weak_type
        assert jnp.dtype("float64") not in [x.dtype for x in jax.tree.leaves(new)]
        assert all(number.shape == () for number in info)


@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_float32_with_x64_off_comes_to_the_minimum_of_float64(penalty):
    with jax.enable_x64(False):
        learner = crf.learner(penalty=penalty, strength=STRENGTH, tolerance=1e-6)
        lanes = streams.lanes.lanes(short_task("mixed"))
        runs = loops.passes(
            learner, streams.Whole(lanes), key=jax.random.key(0), num_passes=100
        )
        objective = [done.trace.objective for done in runs][-1]
    expected = minimise(penalty)[1][-1].objective
    np.testing.assert_allclose(objective, expected, rtol=1e-4)  # 100 x the tolerance


def test_bad_input_is_refused():
    task = random_task(("0",))
    with pytest.raises(InputError, match="penalty"):
        crf.learner(penalty="l3")
    with pytest.raises(InputError, match="strength"):
        crf.learner(strength=0.0)
    with pytest.raises(InputError, match="no token has a known one"):
        labels = np.full_like(task.labels, -1)
        streams.lanes.lanes(dataclasses.replace(task, labels=labels))
    with pytest.raises(InputError, match="no token"):
        streams.lanes.lanes(
            dataclasses.replace(
                task,
                feature_ids=task.feature_ids[:0],
                labels=task.labels[:0],
                offsets=np.zeros(2, np.int32),
            )
        )
