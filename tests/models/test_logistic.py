"""The logistic loss of classes against plain formulas in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from lowrank_jax import streams
from lowrank_jax.checks import InputError
from lowrank_jax.models import logistic


def plain_loss(scores, targets, weights):
    with_reference = np.concatenate([scores, np.zeros((len(scores), 1))], axis=1)
    each = logsumexp(with_reference, axis=1) - (targets * scores).sum(1)
    return weights @ each


@pytest.mark.parametrize("num_classes", [1, 3])
def test_loss_residuals_and_probabilities_are_those_of_the_soft_maximum(num_classes):
    """SBLR-Eq28..30, and Eq3 for one class beside the reference."""
    rng = np.random.default_rng(0)
    scores = 3 * rng.standard_normal((7, num_classes))
    targets = np.eye(num_classes + 1)[rng.integers(num_classes + 1, size=7)][:, :-1]
    weights = rng.dirichlet(np.ones(7))
    loss = plain_loss(scores, targets, weights)
    np.testing.assert_allclose(
        logistic.loss(scores, targets, weights), loss, rtol=1e-12
    )
    slope = jax.grad(logistic.loss)(jnp.asarray(scores), targets, weights)
    np.testing.assert_allclose(
        logistic.residuals(scores, targets, weights), slope, rtol=1e-10, atol=1e-14
    )
    shares = logistic.probabilities(scores)
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-12)
    reference = 0 if num_classes == 1 else num_classes
    np.testing.assert_allclose(
        shares[:, reference], 1 / (1 + np.exp(scores).sum(1)), rtol=1e-12
    )
    if num_classes == 1:
        signs = 2 * targets[:, 0] - 1
        margins = np.log1p(np.exp(-signs * scores[:, 0]))
        np.testing.assert_allclose(loss, weights @ margins, rtol=1e-12)


@pytest.mark.parametrize("num_classes", [1, 3])
@pytest.mark.parametrize("size", [1e-3, 0.1, 3.0, 500.0])
def test_divergence_keeps_its_digits_in_single_precision(num_classes, size):
    """The error is in proportion to the moves, not to the loss; nothing overflows."""
    rng = np.random.default_rng(1)
    scores = rng.standard_normal((9, num_classes)) * np.linspace(0.1, 120, 9)[:, None]
    moves = size * rng.standard_normal((9, num_classes))
    weights = rng.dirichlet(np.ones(9))
    zero = np.zeros_like(scores)
    slope = np.asarray(logistic.residuals(scores, zero, weights))
    exact = plain_loss(scores + moves, zero, weights) - plain_loss(
        scores, zero, weights
    )
    exact -= (slope * moves).sum()
    single = [np.asarray(part, np.float32) for part in (scores, moves, weights)]
    found = logistic.divergence(*(jnp.asarray(part) for part in single))
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=2e-5 * size)


def test_labels_of_any_kind_become_targets_in_the_order_of_the_classes():
    x = np.ones((4, 2, 2), np.float32)
    labelled, classes = streams.matrices.label_matrices(
        x, np.array(["b", "a", "b", "a"])
    )
    assert list(classes) == ["a", "b"]
    np.testing.assert_array_equal(labelled.targets[:, 0], [1, 0, 1, 0])
    labelled, classes = streams.matrices.label_matrices(x, np.array([5, 3, 9, 3]))
    np.testing.assert_array_equal(labelled.targets, [[0, 1], [1, 0], [0, 0], [1, 0]])
    np.testing.assert_allclose(labelled.weights, 0.25)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"x": np.ones((3, 2))}, "`x` must have three dimensions"),
        ({"x": np.full((2, 1, 1), np.nan)}, r"got nan at \(0, 0, 0\)"),
        ({"x": np.zeros((2, 1, 1))}, "zero throughout"),
        ({"y": np.array([1, 1])}, "at least two classes, got only 1"),
        ({"y": np.array([1, 2, 3])}, r"`y` must have shape \(2,\)"),
        ({"weights": np.array([-1.0, 2.0])}, "`weights` must be 2 numbers"),
    ],
)
def test_bad_matrices_are_named_in_one_sentence(change, sentence):
    given = {"x": np.ones((2, 1, 1)), "y": np.array([0, 1])} | change
    with pytest.raises(InputError, match=sentence):
        streams.matrices.label_matrices(given.pop("x"), given.pop("y"), **given)
