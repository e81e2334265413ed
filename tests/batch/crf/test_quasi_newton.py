"""OWL-QN without the l1 norm: L-BFGS with halving on a small convex function."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.batch.crf import quasi_newton

NUM_STEPS = 60


def function(params):
    """Strictly convex, ill-conditioned, not quadratic; its least value is 2 log 2."""
    scales = jnp.array([1.0, 10.0, 100.0])
    squares = (scales * (params["left"] - 1) ** 2).sum()
    right = params["right"]
    return squares + jnp.logaddexp(right, -right).sum() * 2


@functools.lru_cache
def run(max_evaluations):
    evaluate = jax.value_and_grad(function)

    def again(carry, _):
        done = quasi_newton.step(
            evaluate, None, *carry, max_evaluations=max_evaluations
        )
        return (done.params, done.search), done._replace(search=None)

    start = {"left": jnp.zeros(3), "right": jnp.full(1, 3.0)}
    carry = (start, quasi_newton.init(start, 4))
    return start, jax.jit(lambda c: jax.lax.scan(again, c, None, length=NUM_STEPS))(
        carry
    )


def test_the_first_step_evaluates_the_start_and_the_others_go_down_to_the_minimum():
    start, ((params, search), trace) = run(20)
    assert trace.num_evaluations[0] == 1 and np.isinf(trace.objective_before[0])
    np.testing.assert_array_equal(trace.params["right"][0], start["right"])
    np.testing.assert_allclose(trace.objective[0], function(start), rtol=1e-12)
    assert (np.diff(trace.objective) <= 0).all()
    # Each evaluation after the first of a search halves its step from 1.
    halvings = np.asarray(trace.num_evaluations[2:20]) - 1.0
    np.testing.assert_array_equal(trace.step_size[2:20], 0.5**halvings)
    assert halvings.max() > 1
    np.testing.assert_allclose(params["left"], 1, rtol=1e-7)
    np.testing.assert_allclose(params["right"], 0, atol=1e-7)
    np.testing.assert_allclose(trace.objective[-1], 2 * np.log(2), rtol=1e-12)
    for key, gradient in jax.grad(function)(params).items():
        np.testing.assert_allclose(search.gradient[key], gradient, atol=1e-12)


def test_a_search_without_a_good_point_stays_where_it_was():
    _, (_, trace) = run(1)
    failed = np.flatnonzero(trace.step_size[1:] == 0) + 1
    assert failed.size > 0
    for k in failed:
        assert trace.objective[k] == trace.objective[k - 1]
        np.testing.assert_array_equal(
            trace.params["left"][k], trace.params["left"][k - 1]
        )
    assert (np.diff(trace.objective) <= 0).all()
    # Yet it comes to the minimum: the next ones halve on along the gradient.
    np.testing.assert_allclose(trace.objective[-1], 2 * np.log(2), rtol=1e-3)


def test_progress_tells_a_failed_search_from_the_end():
    _, (_, trace) = run(1)
    change, is_last = quasi_newton.progress(trace, jnp.array(1e-5))
    failed = np.flatnonzero(trace.step_size[1:] == 0) + 1
    assert not is_last[0] and np.isinf(change[0])
    assert (change[failed] == 0).all() and not is_last[failed[0]]
    # Right after a step the search had pairs: nothing is promised.
    after_step = [k for k in failed if k > 1 and trace.step_size[k - 1] > 0]
    assert np.isinf(trace.promise[np.array(after_step)]).all()
    assert not is_last[np.array(after_step)].any()
    # At the minimum no step goes down, and none is promised to.
    start = {"left": jnp.ones(3), "right": jnp.zeros(1)}
    search = quasi_newton.init(start, 4)
    evaluate = jax.value_and_grad(function)
    for wanted in (False, True):
        done = quasi_newton.step(evaluate, None, start, search, max_evaluations=3)
        assert bool(quasi_newton.progress(done, jnp.array(1e-5))[1]) == wanted
        search = done.search


def test_the_smooth_step_promises_the_slope_while_there_are_no_pairs():
    solver = quasi_newton.smooth_solver(4, 20)

    def again(carry, is_first):
        done = quasi_newton.smooth_step(solver, function, *carry, is_first=is_first)
        return (done.params, done.search), done._replace(search=None)

    @jax.jit
    def two(params):
        carry = params, quasi_newton.smooth_init(solver, params)
        return jax.lax.scan(again, carry, jnp.array([True, False]))[1]

    start = {"left": np.array([1.2, 1, 1]), "right": np.array([0.1])}
    trace = jax.device_get(two(start))
    square = 0.4**2 + 4 * np.tanh(0.1) ** 2  # of the gradient, below 1
    promises = trace.step_size[0] * square, np.inf
    np.testing.assert_allclose(trace.promise, promises, rtol=1e-12)
    assert trace.objective[1] < trace.objective[0] == trace.objective_before[1]
