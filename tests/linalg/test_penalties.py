"""Penalties against a numerical minimiser and the inequality that defines a prox."""

import cvxpy
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.linalg import penalties

SHAPE = (6, 4)
CLASSES = (2, *SHAPE)  # whose penalties add up
STEP = 0.7


def frobenius(x):
    return cvxpy.sum_squares(x)


# Name: the penalty, and the same for cvxpy.
CASES = {
    "none": (penalties.none(), lambda x: 0 * cvxpy.sum(x)),
    "elastic net": (
        penalties.elastic_net(l1=0.3, l2=0.5),
        lambda x: 0.3 * cvxpy.sum(cvxpy.abs(x)) + 0.25 * frobenius(x),
    ),
    "group lasso": (
        penalties.group_lasso(strength=0.9, l2=0.5),
        lambda x: 0.9 * cvxpy.sum(cvxpy.norm(x, 2, axis=1)) + 0.25 * frobenius(x),
    ),
    "total variation": (
        penalties.total_variation(strength=0.4, l2=0.5),
        lambda x: 0.4 * cvxpy.sum(cvxpy.abs(x[1:] - x[:-1])) + 0.25 * frobenius(x),
    ),
    "nuclear norm": (
        penalties.nuclear_norm(strength=1.1),
        lambda x: 1.1 * cvxpy.normNuc(x),
    ),
}
each = pytest.mark.parametrize("name", CASES)


def compiled(penalty):
    @jax.jit
    def all_three(z, x, gradient):
        return penalty.prox(z, STEP), penalty.value(x), penalty.distance(x, gradient)

    return all_three


# One program a penalty serves all tests.
PROGRAMS = {name: compiled(penalty) for name, (penalty, _) in CASES.items()}


def prox(name, z):
    return np.asarray(PROGRAMS[name](z, z, z)[0])


def value(name, x):
    return float(PROGRAMS[name](x, x, x)[1])


def distance(name, x, gradient):
    return float(PROGRAMS[name](x, x, gradient)[2])


def random(seed):
    return np.random.default_rng(seed).normal(size=CLASSES)


@each
def test_prox_equals_a_numerical_minimiser(name):
    z = random(0)
    found = prox(name, z)
    for z_class, found_class in zip(z, found, strict=True):
        x = cvxpy.Variable(SHAPE)
        objective = STEP * CASES[name][1](x) + 0.5 * frobenius(x - z_class)
        cvxpy.Problem(cvxpy.Minimize(objective)).solve("CLARABEL")
        np.testing.assert_allclose(found_class, x.value, atol=2e-5)  # its accuracy
        lowest = objective.value
        x.value = found_class
        assert objective.value <= lowest + 1e-10  # and never worse


@each
def test_prox_meets_its_variational_inequality_and_value_is_the_sum(name):
    z = random(1)
    p = prox(name, z).copy()
    total = 0.0
    for part in p:
        constant = cvxpy.Constant(part)
        total += float(CASES[name][1](constant).value)
    np.testing.assert_allclose(value(name, p), total, rtol=1e-10)
    # h(y) >= h(p) + <z - p, y - p> / step + modulus / 2 |y - p|^2 for all y.
    modulus = float(CASES[name][0].modulus)
    for seed in range(20):
        move = 10.0 ** (seed % 5 - 3) * random(seed)
        slope = ((z - p) * move).sum() / STEP
        strong = modulus / 2 * (move**2).sum()
        assert value(name, p + move) >= total + slope + strong - 1e-11


@each
def test_distance_is_zero_after_a_prox_and_equals_the_nearest_subgradient(name):
    z = random(2)
    p = prox(name, z).copy()
    assert distance(name, p, (p - z) / STEP) <= 1e-12
    p[1] = 0.0  # where all of them have a corner
    gradient = (p - z) / STEP + 0.5 * random(3)
    wanted = [nearest(name, *parts) for parts in zip(p, gradient, strict=True)]
    found = distance(name, p, gradient)
    np.testing.assert_allclose(found, np.linalg.norm(wanted), atol=1e-6)


def nearest(name, x, gradient):
    """Return the distance by a conic programme over the subgradients, written out."""
    free = cvxpy.Variable(SHAPE)
    constraints = []
    if name == "none":
        subgradient = np.zeros(SHAPE)
    elif name == "elastic net":
        subgradient = 0.3 * free + 0.5 * x
        constraints = [cvxpy.abs(free) <= 1]
        constraints += fixed(free, np.sign(x))
    elif name == "group lasso":
        subgradient = 0.9 * free + 0.5 * x
        for i, row in enumerate(x):
            length = np.linalg.norm(row)
            inside = cvxpy.norm(free[i]) <= 1
            constraints.append(inside if length == 0 else free[i] == row / length)
    elif name == "total variation":
        edges, border = cvxpy.Variable((5, 4)), np.zeros((1, 4))
        ends = cvxpy.vstack([border, edges, border])
        subgradient = 0.5 * x - 0.4 * cvxpy.diff(ends)
        constraints = [cvxpy.abs(edges) <= 1]
        constraints += fixed(edges, np.sign(np.diff(x, axis=0)))
    else:
        # U V' and anything of norm 1 at most that is orthogonal to both.
        left, values, right = np.linalg.svd(x)
        rank = (values > 1e-12).sum()
        rest = cvxpy.Variable((SHAPE[0] - rank, SHAPE[1] - rank))
        constraints = [cvxpy.sigma_max(rest) <= 1]
        common = left[:, :rank] @ right[:rank]
        subgradient = 1.1 * (common + left[:, rank:] @ rest @ right[rank:])
    objective = cvxpy.norm(cvxpy.vec(gradient + subgradient, order="C"))
    return cvxpy.Problem(cvxpy.Minimize(objective), constraints).solve("CLARABEL")


def fixed(variable, signs):
    return [variable[signs != 0] == signs[signs != 0]] if signs.any() else []


@each
def test_dtype_is_kept(name):
    part = jax.ShapeDtypeStruct(CLASSES, jnp.float32)
    found = jax.eval_shape(PROGRAMS[name], part, part, part)
    assert {part.dtype.name for part in found} == {"float32"}


def test_strengths_may_be_traced():
    z = jnp.asarray(random(6)[0])

    @jax.vmap
    def every_function(strength):
        built = (
            penalties.elastic_net(l1=strength, l2=strength),
            penalties.group_lasso(strength=strength, l2=strength),
            penalties.total_variation(strength=strength, l2=strength),
            penalties.nuclear_norm(strength=strength),
        )
        return [h.prox(z, strength) for h in built]

    found = jax.eval_shape(every_function, jnp.array([0.0, 1e3]))
    assert {part.shape for part in found} == {(2, *SHAPE)}


def test_negative_strengths_are_refused():
    with pytest.raises(InputError, match="`strength` must be zero or more"):
        penalties.total_variation(strength=-1.0)


def test_strengths_are_zero_by_default_and_a_row_of_length_one_counts():
    x = jnp.array([[1.0, 0.0], [0.0, 0.0]])
    assert penalties.elastic_net().value(x) == 0
    group = penalties.group_lasso(strength=0.5)
    assert group.value(x) == 0.5
    np.testing.assert_array_equal(group.prox(x, 1.0), x / 2)
