"""A class whose weights have fallen to zero is tried again, and told (SBLR Table 4)."""

import numpy as np
import pytest

from lowrank_jax.batch.sblr import bcpd
from lowrank_jax.estimators.classifier import ZeroModel, fit, fitting, solving
from lowrank_jax.models import bilinear_logit, logistic

STRENGTHS = {"mu1": 0.05, "nu1": 0.05, "mu2": 0.1, "nu2": 0.1}


def trials(num_classes=8, num_each=2, shape=(8, 10), seed=1):
    """Return noisy matrices, each class round a matrix of rank 1."""
    rng = np.random.default_rng(seed)
    left = rng.normal(size=(num_classes, shape[0], 1))
    right = rng.normal(size=(num_classes, 1, shape[1]))
    y = np.repeat(np.arange(num_classes), num_each)
    noise = 0.3 * rng.normal(size=(len(y), *shape))
    return ((left @ right)[y] + noise).astype(np.float32), y


@pytest.fixture(scope="module")
def solved():
    """Return a problem of eight one-against-all models, its solution and the end."""
    x, y = trials()
    every = dict(fit.__kwdefaults__) | STRENGTHS | {"multi_class": "one-vs-all"}
    data = fitting.prepare(x, y, multi_class="one-vs-all")
    problem = fitting.problem_of(data, fitting.complete(every))
    found = solving.solve(*problem)
    return problem, found, solving.alive(problem, found)


def objectives(problem, params):
    """Return F of each class, from the definition."""
    labelled, numbers = problem[0], problem[1]
    sides = bcpd.Settings(
        **{name: float(numbers[name]) for name in STRENGTHS}
    ).penalties()
    values = []
    for c, targets in enumerate(labelled.targets):
        one = type(params)(*(part[c] for part in params))
        scores = bilinear_logit.scores(one, labelled.x)
        loss = logistic.loss(scores, targets, labelled.weights)
        values.append(
            float(loss + sides[0].value(one.left) + sides[1].value(one.right))
        )
    return np.array(values)


@pytest.mark.slow
def test_a_class_that_falls_to_zero_is_taken_anew_where_f_is_lower(solved):
    problem, found, ended = solved
    was_zero = solving.is_zero(found[0])[:, 0]
    is_zero = solving.is_zero(ended[0])[:, 0]
    assert was_zero.tolist() == [False, True, True, False, True, False, False, False]
    assert is_zero.tolist() == [False, False, True] + 5 * [False]
    before, after = objectives(problem, found[0]), objectives(problem, ended[0])
    is_new = was_zero & ~is_zero
    assert (after[is_new] < before[is_new] - 1e-4).all()
    for old, new in zip(found[0], ended[0], strict=True):  # the rest is left alone
        np.testing.assert_array_equal(
            np.asarray(old)[~is_new], np.asarray(new)[~is_new]
        )
    last = np.asarray(ended[2]) - 1
    counts = np.asarray(ended[1].num_zero)[np.arange(len(last)), last]
    np.testing.assert_array_equal(counts, is_zero)  # the trace is of the same descent
    ends = np.asarray(ended[1].objective)[np.arange(len(last)), last]
    np.testing.assert_allclose(ends, after, rtol=1e-5)


def test_a_zero_class_is_named_by_a_warning():
    x, y = trials()
    with pytest.warns(ZeroModel, match=r"weights of 1 of 8 classes are zero \(2\)"):
        done = fit(x, y, multi_class="one-vs-all", **STRENGTHS)
    assert done.zero_classes.tolist() == [2] and not done.is_zero


def test_a_problem_without_zero_classes_is_left_alone(solved):
    labelled, numbers, *rest = solved[0]
    weak = numbers | {name: 1e-3 for name in STRENGTHS}
    problem = labelled, weak, *rest
    found = solving.solve(*problem)
    assert solving.alive(problem, found) is found
