"""Proximal Newton on a working set against FISTA, NumPy and its own gap."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.sblr.learners import sparse_newton
from lowrank_jax import loops, streams
from lowrank_jax.batch.sblr import fista
from lowrank_jax.checks import InputError
from lowrank_jax.models import logistic, matrix_logit

SHAPE = (4, 6)
MOST = 4000


def task(num_used=40, dtype=np.float64):
    """Make matrices of correlated entries, one of them the same throughout."""
    n, rng = 40, np.random.default_rng(0)
    y = (np.arange(n) % 3 == 0).astype(int)
    mixed = rng.normal(size=(n, *SHAPE)) @ rng.normal(size=(SHAPE[1], SHAPE[1]))
    x = mixed + 0.7 * y[:, None, None] * rng.normal(size=SHAPE) + 0.5
    x[:, 1, 2] = 3.0
    is_left_out = (np.arange(n) % 5 == 0) | (np.arange(n) >= num_used)  # a fold
    weights = np.where(is_left_out, 0.0, 1.0)
    return streams.matrices.label_matrices(x.astype(dtype), y, weights=weights)[0]


def build(working_set, l1, l2, tolerance):
    return sparse_newton.learner(
        l1=l1, l2=l2, working_set=working_set, tolerance=tolerance
    )


def descend(working_set, state, labelled, *given):
    learner = build(working_set, *given)
    return loops.converge(learner, state, labelled, max_iterations=MOST)


#: Strengths and tolerance are traced.
program = jax.jit(descend, static_argnums=0)
begin = jax.jit(
    lambda labelled, *given: build(1, *given).init(jax.random.key(0), labelled)
)


@jax.jit
def bound(sides, labelled, l1, l2):
    weights = labelled.weights
    parts = matrix_logit.gradients(weights[:, None] * sides, labelled.x)
    return sparse_newton._lower_bound(sides, parts, weights, l1, l2)


@functools.lru_cache
def reference():
    @jax.jit
    def run(labelled, l1, l2):
        learner = fista.learner(l1=l1, l2=l2, restart=True, tolerance=1e-15)
        state = learner.init(jax.random.key(0), labelled)
        return loops.converge(learner, state, labelled, max_iterations=30_000)[0]

    return lambda labelled, *strengths: run(labelled, *map(jnp.float64, strengths))


def solve(labelled, l1, l2=0.0, tolerance=1e-12, working_set=24, state=None):
    given = [jnp.asarray(value, labelled.x.dtype) for value in (l1, l2, tolerance)]
    state = begin(labelled, *given) if state is None else state
    state, trace, number = program(working_set, state, labelled, *given)
    trace = jax.tree.map(lambda part: np.asarray(part)[: int(number)], trace)
    return state, trace


def strength_of_nothing(labelled):
    """Return the strength from which on all weights are 0."""
    x, targets, weights = (np.asarray(part, np.float64) for part in labelled[:3])
    rest = weights * ((weights * targets[:, 0]).sum() - targets[:, 0])
    return np.abs(np.einsum("n,nst->st", rest, x)).max()


def objective_and_violation(params, labelled, l1, l2):
    """Return F and the max-norm of its least subgradient, written out in NumPy."""
    w, b = np.asarray(params.weights[0], np.float64), float(params.bias[0])
    x, targets, weights = (np.asarray(part, np.float64) for part in labelled[:3])
    signs = 2 * targets[:, 0] - 1
    margins = signs * (np.einsum("nst,st->n", x, w) + b)
    loss = (weights * np.logaddexp(0, -margins)).sum()
    rest = -weights * signs / (1 + np.exp(margins))
    smooth = np.einsum("n,nst->st", rest, x) + l2 * w
    at_zero = np.maximum(np.abs(smooth) - l1, 0)
    each = np.where(w == 0, at_zero, np.abs(smooth + l1 * np.sign(w)))
    objective = loss + l1 * np.abs(w).sum() + l2 / 2 * (w**2).sum()
    return objective, loss, max(each.max(), abs(rest.sum()))


@pytest.mark.parametrize("share, l2", [(0.2, 0.0), (0.05, 0.0), (0.1, 0.05)])
@pytest.mark.parametrize("working_set", [24, 5])
def test_run_ends_at_the_optimum_of_fista_with_a_gap_that_bounds_its_error(
    share, l2, working_set
):
    labelled = task()
    l1 = share * strength_of_nothing(labelled)
    best = reference()(labelled, l1, l2)
    state, trace = solve(labelled, l1, l2, working_set=working_set)
    assert trace.converged[-1] and not trace.converged[:-1].any()
    assert trace.gap[-1] <= 1e-12 * trace.objective[-1] or trace.step_size[-1] == 0
    np.testing.assert_allclose(trace.objective[-1], best.objective, rtol=1e-11)
    near = 1e-7 if working_set == 24 else 1e-5  # the gap goes with its square
    np.testing.assert_allclose(state.params.weights, best.params.weights, atol=near)
    # Never up, and the gap is above the error all along, and not for nothing.
    rises = np.diff(trace.objective)
    assert rises.max() <= 1e-14
    error = trace.objective - float(best.objective)
    assert (trace.gap >= error - 1e-13).all()
    assert trace.gap[0] > 1e3 * trace.gap[-1]
    # What is reported is so.
    objective, loss, violation = objective_and_violation(
        sparse_newton.final_params(state), labelled, l1, l2
    )
    np.testing.assert_allclose(trace.objective[-1], objective, rtol=1e-12)
    np.testing.assert_allclose(trace.loss[-1], loss, rtol=1e-12)
    np.testing.assert_allclose(trace.violation[-1], violation, atol=1e-13)
    assert violation < near
    support = int((np.asarray(best.params.weights) != 0).sum())
    assert trace.support[-1] == support
    assert state.params.weights[0, 1, 2] == 0  # the constant entry
    if working_set == 5:
        assert support > 5  # the set had to rotate
    else:
        assert len(trace.objective) <= 12


@pytest.mark.parametrize("share, l2", [(0.1, 0.0), (0.1, 0.05), (3.0, 0.0)])
def test_bound_from_below_is_one_wherever_it_is_taken(share, l2):
    labelled = task()
    l1 = share * strength_of_nothing(labelled)
    best, _ = solve(labelled, l1, l2)
    rng = np.random.default_rng(1)
    u = 1 / (1 + np.exp(-np.asarray(best.scores[:, 0])))
    bounds = []
    for size in (0.0, 1e-3, 0.1, 0.5):
        for offset in (-0.3, 0.0, 0.3):  # the sums of the two classes differ
            noise = size * rng.uniform(-1, 1, size=u.shape)
            p = np.clip(u + noise + offset, 0, 1)
            rest = p - np.asarray(labelled.targets[:, 0])
            sides = np.stack([np.maximum(rest, 0), np.maximum(-rest, 0)], axis=1)
            bounds.append(float(bound(sides, labelled, l1, l2)))
    assert max(bounds) <= float(best.objective) * (1 + 1e-11)
    # At the optimum, and only there, it is the objective.
    np.testing.assert_allclose(bounds[1], best.objective, rtol=1e-9)
    assert sorted(bounds)[-2] < float(best.objective) - 1e-8


def test_no_weights_from_the_largest_strength_on_and_one_below_it():
    labelled = task()
    most = strength_of_nothing(labelled)
    state, trace = solve(labelled, 1.0001 * most)
    assert len(trace.objective) == 1 and trace.converged[0]
    assert trace.support[0] == 0 and trace.gap[0] <= 1e-13
    _, trace = solve(labelled, 0.99 * most)
    assert trace.support[-1] == 1 and trace.gap[-1] <= 1e-12


def test_fewer_matrices_than_entries_and_separable_still_have_a_minimum():
    labelled = task(num_used=15)
    l1 = 1e-3 * strength_of_nothing(labelled)
    state, trace = solve(labelled, l1)
    assert trace.gap[-1] <= 1e-11 * trace.objective[-1]
    scores = np.asarray(state.scores[:, 0])
    signs = 2 * np.asarray(labelled.targets[:, 0]) - 1
    assert (signs * scores)[np.asarray(labelled.weights) > 0].min() > 0
    assert trace.support[-1] <= 12  # matrices in use


def test_start_where_the_model_is_far_off_is_left_by_shorter_steps():
    labelled = task()
    l1 = 0.1 * strength_of_nothing(labelled)
    best, _ = solve(labelled, l1)
    # An offset of 6: the loss is nearly flat, and the minimum of the model too far.
    bias = jnp.full(1, 6.0)
    scores = jnp.full_like(labelled.targets, 6.0)
    rest = logistic.residuals(scores, *labelled[1:3])
    slope = matrix_logit.gradients(rest, labelled.x)
    state = sparse_newton.State(
        params=matrix_logit.Params(jnp.zeros_like(slope.weights), bias),
        scores=scores,
        slope=slope,
        objective=logistic.loss(scores, *labelled[1:3]),
        bound=jnp.zeros(()),
    )
    first = float(state.objective)
    _, trace = solve(labelled, l1, state=state)
    assert trace.gap[-1] <= 1e-12 and 0 < trace.step_size.min() < 1
    assert np.diff(trace.objective, prepend=first).max() <= 1e-14
    np.testing.assert_allclose(trace.objective[-1], best.objective, rtol=1e-11)


@pytest.mark.parametrize("share", [0.3, 0.003])
def test_single_precision_ends_by_itself_near_the_optimum(share):
    labelled, exact = task(dtype=np.float32), task()
    l1 = share * strength_of_nothing(exact)
    best, _ = solve(exact, l1)
    state, trace = solve(labelled, l1, tolerance=0.0)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(state)} == {"float32"}
    assert trace.converged[-1] and len(trace.objective) < 60
    objective, _, _ = objective_and_violation(state.params, exact, l1, 0.0)
    assert objective <= (1 + 1e-6) * float(best.objective)
    assert np.diff(trace.objective).max() <= 16 * np.finfo(np.float32).eps
    assert trace.gap[-1] <= 1e-4 * trace.objective[-1]


def test_strengths_side_by_side_equal_single_runs():
    labelled = task()
    strengths = jnp.asarray([0.5, 0.1, 2.0]) * strength_of_nothing(labelled)
    given = jnp.zeros(()), jnp.asarray(1e-9)

    @jax.jit
    @jax.vmap
    def many(l1):
        state = build(24, l1, *given).init(jax.random.key(0), labelled)
        return descend(24, state, labelled, l1, *given)

    states, _, numbers = many(strengths)
    for i, l1 in enumerate(strengths):
        state, trace = solve(labelled, float(l1), tolerance=1e-9)
        assert numbers[i] == len(trace.objective)
        alone, beside = state.params.weights, states.params.weights[i]
        np.testing.assert_allclose(beside, alone, atol=1e-9)


def test_bad_settings_are_refused():
    x, y = np.ones((6, 2, 2)), np.arange(6) % 3
    labelled, _ = streams.matrices.label_matrices(x, y)
    learner = sparse_newton.learner(l1=0.1)
    with pytest.raises(InputError, match="takes two classes, got 3; use `batch.fista`"):
        learner.init(jax.random.key(0), labelled)
    with pytest.raises(InputError, match="`working_set` must be a whole number"):
        sparse_newton.learner(l1=0.1, working_set=0)
    with pytest.raises(InputError, match="`l1` must be zero or more"):
        sparse_newton.learner(l1=-1.0)
