"""Constants of the step sizes against the gradient they bound, in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.models.lipschitz import (
    curvature,
    lemma_constant,
    tight_constant,
    trace_constant,
)

# (n, size, m, r): more matrices than features, and fewer.
TWO_CLASSES, MANY_CLASSES = (30, 6, 1, 2), (9, 6, 3, 2)


@jax.jit
def constants(features, weights):
    features = features.transpose(2, 0, 3, 1)  # (m, n, r, size)
    return (
        lemma_constant(features, weights),
        trace_constant(features, weights),
        tight_constant(features, weights),
    )


def task(shape):
    rng = np.random.default_rng(0)
    features, weights = rng.normal(size=shape) + 0.3, rng.uniform(size=shape[0])
    weights[0] = 0.0
    weights /= weights.sum()
    n, size, num_classes, rank = shape
    rows = features.transpose(0, 2, 1, 3).reshape(n, num_classes, size * rank)
    rows = np.concatenate([rows, np.ones((n, num_classes, 1))], axis=2)
    return features, weights, rows


def gradients(rows, weights, points):
    """Return the gradients at (number, m, size r + 1), less a constant."""
    scores = np.einsum("nck,pck->pnc", rows, points)
    shares = np.exp(scores) / (1 + np.exp(scores).sum(-1, keepdims=True))
    return np.einsum("n,pnc,nck->pck", weights, shares, rows)


def largest_ratio(rows, weights, one, two):
    change = gradients(rows, weights, one) - gradients(rows, weights, two)
    lengths = np.linalg.norm(change.reshape(len(one), -1), axis=1)
    return (lengths / np.linalg.norm((one - two).reshape(len(one), -1), axis=1)).max()


def test_tight_constant_is_the_supremum_of_gradient_ratios_of_two_classes():
    features, weights, rows = task(TWO_CLASSES)
    tight = float(constants(features, weights)[2])
    moment = np.einsum("n,ni,nj->ij", weights, rows[:, 0], rows[:, 0])
    direction = 1e-3 * np.linalg.eigh(moment)[1][:, -1][None, None]
    ratio = largest_ratio(rows, weights, direction, -direction)  # about 0
    np.testing.assert_allclose(ratio, tight, rtol=1e-4)  # attained, to four digits
    assert ratio <= tight * (1 + 1e-9)


@pytest.mark.parametrize("shape", [TWO_CLASSES, MANY_CLASSES])
def test_no_pair_of_points_exceeds_the_constants_and_these_are_in_order(shape):
    features, weights, rows = task(shape)
    lemma, trace, tight = (float(part) for part in constants(features, weights))
    rng = np.random.default_rng(1)
    scales = 10.0 ** rng.uniform(-3, 0, size=(2, 2000, 1, 1))
    one, two = scales * rng.normal(size=(2, 2000, *rows.shape[1:]))
    assert largest_ratio(rows, weights, one, two) <= tight
    assert tight <= trace <= lemma


@pytest.mark.parametrize("shape", [TWO_CLASSES, MANY_CLASSES])
def test_constants_equal_their_formulas(shape):
    features, weights, rows = task(shape)
    num_classes = shape[2]
    bend = 0.25 if num_classes == 1 else 0.5
    moments = np.einsum("n,nci,ncj->cij", weights, rows, rows)
    lengths = np.linalg.norm(rows[..., :-1], axis=2) + 1
    lemma = sum(
        np.sqrt(2) * num_classes * weights[i] * lengths[i, c] * lengths[i].max()
        for i in range(shape[0])
        for c in range(num_classes)
    )
    trace = bend * max(np.trace(moment) for moment in moments)
    tight = bend * np.linalg.eigvalsh(moments).max()
    found = constants(features, weights)
    np.testing.assert_allclose(found, (lemma, trace, tight), rtol=1e-10)
    assert curvature(num_classes) == bend


def test_dtype_is_kept():
    features = jax.ShapeDtypeStruct(MANY_CLASSES, jnp.float32)
    weights = jax.ShapeDtypeStruct(MANY_CLASSES[:1], jnp.float32)
    found = jax.eval_shape(constants, features, weights)
    assert {part.dtype.name for part in found} == {"float32"}
