"""The CRF against enumeration, SciPy's optimisers and the conditions of a minimum."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from lowrank_jax import loops
from lowrank_jax.batch import crf, owlqn
from lowrank_jax.batch.expectations import expectations
from lowrank_jax.checks import InputError
from lowrank_jax.decode import marginals_batch
from lowrank_jax.models import linear
from lowrank_jax.types import Sequences
from tests.batch.references import likelihood, parts, used, vector
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


@pytest.mark.parametrize("num_lanes", [1, 3, 256])
@each_task
def test_likelihood_and_gradient_equal_enumeration(name, num_lanes):
    task = short_task(name)
    flat = random_vector(task.space)
    lanes = crf.lay_out(task, num_lanes=num_lanes)
    value, gradient = jax.jit(crf.negative_log_likelihood)(
        to_params(task.space, flat), lanes
    )
    expected, expected_gradient = likelihood(task, flat)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    np.testing.assert_allclose(
        to_vector(task.space, gradient),
        expected_gradient * used(task.space),
        rtol=1e-10,
        atol=1e-11,
    )


@each_task
def test_gradient_equals_finite_differences(name):
    task = random_task(**TASKS[name])
    flat, lanes = random_vector(task.space), crf.lay_out(task)
    evaluate = jax.jit(crf.negative_log_likelihood)
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


@pytest.mark.parametrize("is_shared", [True, False])
def test_the_logarithmic_form_equals_the_scaled_one(is_shared):
    """Scores beyond the safe spread of float32 are within that of float64."""
    task = random_task(("0", "1"))
    lanes, labels = crf.lay_out(task, num_lanes=4), task.space.num_labels
    rng = np.random.default_rng(0)
    lead = () if is_shared else lanes.labels.shape
    unary = rng.normal(size=(*lanes.labels.shape, labels))
    pairwise = rng.normal(size=(*lead, labels, labels + 1))
    pairwise[..., 1, 0] += 50.0
    wide = expectations(jnp.asarray(unary), jnp.asarray(pairwise), lanes)
    narrow = expectations(
        jnp.asarray(unary, jnp.float32), jnp.asarray(pairwise, jnp.float32), lanes
    )
    for a, b in zip(wide, narrow, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-4)  # sums of 1e3 in f32


def test_marginals_equal_those_of_the_decoder():
    """One sentence a lane: the corpus in lanes is a padded batch."""
    task = random_task(("0",), has_transitions=True)
    lengths = np.diff(task.offsets)
    rng, labels = np.random.default_rng(1), task.space.num_labels
    unary = rng.normal(size=(task.num_tokens, labels))
    pairwise = jnp.asarray(rng.normal(size=(labels, labels + 1)))
    padded = np.zeros((len(lengths), lengths.max(), labels))
    for i, n in enumerate(lengths):
        padded[i, :n] = unary[task.offsets[i] : task.offsets[i + 1]]
    expected = marginals_batch(jnp.asarray(padded), pairwise, jnp.asarray(lengths))

    alone = [
        dataclasses.replace(
            task,
            feature_ids=task.feature_ids[a:b],
            labels=task.labels[a:b],
            offsets=np.array([0, b - a], np.int32),
        )
        for a, b in zip(task.offsets[:-1], task.offsets[1:], strict=True)
    ]
    for i, (one, n) in enumerate(zip(alone, lengths, strict=True)):
        lanes = crf.lay_out(one)
        found = expectations(jnp.asarray(padded[i, :n, None]), pairwise, lanes)
        true = np.eye(labels)[one.labels]
        np.testing.assert_allclose(
            found.unary[:, 0] + true, expected.unary[i, :n], rtol=1e-10, atol=1e-12
        )


def minimise(task, num_iterations=200, **settings):
    """Run the learner; return its weights as a vector and the trace."""
    learner = crf.learner(dtype=jnp.float64, tolerance=0.0, **settings)
    runs = loops.iterations(
        learner,
        crf.lay_out(task, num_lanes=4),
        key=jax.random.key(0),
        num_iterations=num_iterations,
    )
    infos = []
    for done in runs:
        infos.append(done.trace)
    return to_vector(task.space, crf.final_params(done.state)), infos


@each_task
def test_l2_minimum_equals_that_of_scipy_on_the_enumerated_objective(name):
    task, strength = short_task(name), 2.0

    def objective(flat):
        value, gradient = likelihood(task, flat)
        value += flat @ flat / (2 * strength)
        return value, (gradient + flat / strength) * used(task.space)

    found = minimize(
        objective,
        np.zeros(used(task.space).size),
        jac=True,
        method="L-BFGS-B",
        options={"gtol": 1e-9, "ftol": 1e-15, "maxiter": 500},
    )
    weights, infos = minimise(task, strength=strength)
    np.testing.assert_allclose(infos[-1].objective, found.fun, rtol=1e-10)
    # Near a minimum an objective right to 1e-12 leaves the weights right to 1e-6.
    np.testing.assert_allclose(weights, found.x, atol=1e-5)


@each_task
def test_l1_minimum_satisfies_the_conditions_of_a_minimum(name):
    r"""|g_i| <= 1/c where w_i = 0, and g_i = -sign(w_i)/c elsewhere."""
    task, strength = short_task(name), 2.0
    weights, infos = minimise(task, penalty="l1", strength=strength)
    value, gradient = likelihood(task, weights)
    gradient = gradient * used(task.space)
    is_zero = weights == 0
    assert 0 < (~is_zero).sum() < used(task.space).sum()
    assert np.abs(gradient[is_zero]).max() <= 1 / strength + 1e-6
    np.testing.assert_allclose(
        gradient[~is_zero], -np.sign(weights[~is_zero]) / strength, atol=1e-6
    )
    objective = value + np.abs(weights).sum() / strength
    np.testing.assert_allclose(infos[-1].objective, objective, rtol=1e-10)
    assert int(infos[-1].num_nonzero) == (~is_zero).sum()


def test_l1_minimum_equals_that_of_scipy_with_split_signs():
    """|w|_1 is linear on w = p - m with p, m >= 0: L-BFGS-B takes the bounds."""
    task, strength = short_task("0-order"), 1.5
    size = used(task.space).size

    def objective(both):
        value, gradient = likelihood(task, both[:size] - both[size:])
        gradient = gradient * used(task.space)
        both_ways = np.concatenate([gradient, -gradient]) + 1 / strength
        return value + both.sum() / strength, both_ways

    found = minimize(
        objective,
        np.zeros(2 * size),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * (2 * size),
        options={"gtol": 1e-10, "ftol": 1e-15, "maxiter": 1000},
    )
    _, infos = minimise(task, penalty="l1", strength=strength)
    np.testing.assert_allclose(infos[-1].objective, found.fun, rtol=1e-8)


@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_objective_never_rises_and_convergence_is_reported(penalty):
    task = random_task(("0", "1"))
    learner = crf.learner(penalty=penalty, tolerance=1e-4, dtype=jnp.float64)
    lanes = crf.lay_out(task)
    runs = list(
        loops.iterations(learner, lanes, key=jax.random.key(0), num_iterations=100)
    )
    objectives = np.array([done.trace.objective for done in runs])
    assert (np.diff(objectives) <= 0).all()
    assert [bool(done.trace.converged) for done in runs[-2:]] == [False, True]
    assert len(runs) < 100
    changes = -np.diff(objectives) / np.maximum(objectives[:-1], 1)
    np.testing.assert_allclose(
        [done.trace.relative_change for done in runs[1:]], changes, rtol=1e-8
    )
    assert all(int(done.trace.num_evaluations) >= 1 for done in runs)


def test_pseudo_gradient_is_zero_exactly_in_the_subdifferential():
    weights = jnp.array([0.0, 0.0, 0.0, 2.0, -2.0])
    gradient = jnp.array([0.5, -1.0, 1.5, -1.0, 0.5])
    found = owlqn.pseudo_gradient(weights, gradient, 1.0)
    np.testing.assert_allclose(found, [0, 0, 0.5, 0, -0.5])


@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_dtype_is_kept_and_one_program_serves_all_iterations(penalty):
    task = random_task(**TASKS["mixed"])
    for x64 in (True, False):
        with jax.enable_x64(x64):
            lanes = crf.lay_out(task)
            learner = crf.learner(penalty=penalty, memory_size=3)
            state = learner.init(jax.random.key(0), lanes)
            update = jax.jit(learner.update)
            for _ in range(4):
                new, info = update(state, lanes)
                before, after = (
                    [(x.shape, x.dtype) for x in jax.tree.leaves(s)]
                    for s in (state, new)
                )
                assert before == after
                state = new
            floats = [x.dtype for x in jax.tree.leaves((state, info))]
            assert jnp.dtype("float64") not in floats
            assert update._cache_size() == 1


@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_strength_may_be_traced(penalty):
    lanes = crf.lay_out(random_task(("0",), has_transitions=True))

    def run(strength):
        learner = crf.learner(penalty=penalty, strength=strength, dtype=jnp.float64)
        state = learner.init(jax.random.key(0), lanes)
        step = lambda state, _: learner.update(state, lanes)  # noqa: E731
        return jax.lax.scan(step, state, None, length=4)[1].objective

    values = jnp.array([0.5, 4.0])
    together = jax.vmap(run)(values)
    for value, found in zip(values, together, strict=True):
        np.testing.assert_allclose(found, run(value), rtol=1e-10)
    assert together[0, -1] > together[1, -1]  # a stronger penalty costs more


def test_bad_input_is_refused():
    task = random_task(("0",))
    with pytest.raises(InputError, match="penalty"):
        crf.learner(penalty="l3")
    with pytest.raises(InputError, match="strength"):
        crf.learner(strength=0.0)
    with pytest.raises(InputError, match="token 2 is not known"):
        labels = np.array(task.labels)
        labels[2] = -1
        crf.lay_out(dataclasses.replace(task, labels=labels))
    with pytest.raises(InputError, match="no token"):
        crf.lay_out(
            dataclasses.replace(
                task,
                feature_ids=task.feature_ids[:0],
                labels=task.labels[:0],
                offsets=np.zeros(2, np.int32),
            )
        )
