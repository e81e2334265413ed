"""The trigram CRF: likelihood, gradient and predictions against enumeration."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize
from scipy.special import logsumexp

from experiments.smm.learners import trigram_crf
from lowrank_jax import loops, streams
from lowrank_jax.decode.lattice_paths import paths_to_words
from tests.experiments.smm.learners import test_subpatterns as toy

STRENGTH = 2.0


@functools.lru_cache
def laid_out(has_end):
    return trigram_crf.lettered_lattice(*toy.task(), has_end=has_end)


@functools.lru_cache
def evaluate(has_end):
    """Compile the loss with its gradient, and the prediction."""
    loss = jax.value_and_grad(trigram_crf.negative_log_likelihood)
    data = laid_out(has_end)
    return jax.jit(lambda p: (*loss(p, data), trigram_crf.predict(p, data)))


@pytest.mark.parametrize("has_end", [True, False])
def test_likelihood_gradient_and_predictions_equal_enumeration(has_end):
    _, words = toy.task()
    params = toy.random_params()
    loss, gradient, paths = evaluate(has_end)(params)
    found = paths_to_words(paths, laid_out(has_end).lattice)
    total, wanted = 0.0, toy.as_params({})
    for i in range(words.num_words):
        candidates = toy.candidate_paths(i)
        counts = [toy.features(path, has_end) for path in candidates]
        scores = np.array([toy.score(params, part) for part in counts])
        true = candidates.index(toy.true_path(i))
        total += logsumexp(scores) - scores[true]
        chances = np.exp(scores - logsumexp(scores))
        chances[true] -= 1
        for chance, part in zip(chances, counts, strict=True):
            for (pattern, shown), times in part.items():
                getattr(wanted, pattern)[shown] += chance * times
        best = candidates[int(np.argmax(scores))]
        assert tuple(found[i, : words.lengths[i]]) == best
    np.testing.assert_allclose(loss, total, rtol=1e-10)
    for one, other in zip(gradient, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_the_gradient_equals_finite_differences():
    params, along = toy.random_params(), toy.random_params(1)
    move = lambda h: jax.tree.map(lambda p, d: p + h * d, params, along)  # noqa: E731
    losses = [float(evaluate(True)(move(h))[0]) for h in (1e-5, -1e-5)]
    slope = sum(
        float((g * d).sum())
        for g, d in zip(evaluate(True)(params)[1], along, strict=True)
    )
    np.testing.assert_allclose((losses[0] - losses[1]) / 2e-5, slope, rtol=1e-6)


@pytest.mark.parametrize("max_evaluations", [1, 20])
def test_iterations_go_down_to_the_minimum_another_solver_finds(max_evaluations):
    learner = trigram_crf.learner(
        strength=STRENGTH,
        max_evaluations=max_evaluations,
        tolerance=1e-13,
        dtype=jnp.float64,
    )
    trace = [
        done.trace
        for done in loops.passes(
            learner,
            streams.Whole(laid_out(True)),
            key=jax.random.key(0),
            num_passes=200,
        )
    ]
    objectives = np.array([info.objective for info in trace])
    assert (np.diff(objectives) <= 0).all()
    assert trace[-1].converged and not trace[0].converged
    if max_evaluations == 1:  # a search that has failed is gone on from
        assert any(info.step_size == 0 for info in trace[1:-1])
    start, unravel = ravel_pytree(toy.as_params({}))

    def objective(flat):
        loss, gradient, _ = evaluate(True)(unravel(jnp.asarray(flat)))
        ridge = flat @ flat / (2 * STRENGTH)
        return float(loss) + ridge, ravel_pytree(gradient)[0] + flat / STRENGTH

    options = {"ftol": 1e-14, "gtol": 1e-9, "maxiter": 500}
    wanted = minimize(
        objective, np.asarray(start), jac=True, method="L-BFGS-B", options=options
    )
    np.testing.assert_allclose(objectives[-1], wanted.fun, rtol=1e-8)
