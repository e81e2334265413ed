"""Attempts to break the guarantees of descent: Algorithm 2 of SBLR and FISTA."""

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from lowrank_jax.models import bilinear_logit, logistic
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.theory.sblr import descent, landscape
from lowrank_jax.theory.sblr.descent import Sweeps
from lowrank_jax.theory.sblr.landscape import Strengths
from tests.theory.properties import (
    is_attained,
    is_sound,
    kinds,
    powers,
    program,
    seeds,
    settings,
)

ROWS, COLUMNS, NUM, SWEEPS = 3, 2, 6, 6
STRENGTHS = {
    "none": (0.0, 0.0, 0.0, 0.0),
    "ridge": (0.0, 0.1, 0.0, 0.2),
    "absolute values": (0.05, 0.0, 0.1, 0.0),
    "elastic net": (0.1, 0.1, 0.01, 0.3),
}


@jax.jit
def run(labelled, strengths, start):
    """Make sweeps of Algorithm 2 with constants that are large enough (DR-S1)."""

    def slopes(params):
        def loss(params):
            scores = bilinear_logit.scores(params, labelled.x)
            return logistic.loss(scores, labelled.targets, labelled.weights)

        return jax.grad(loss)(params)

    def constant(features):
        return labelled.weights @ ((features * features).sum((1, 2)) + 1) / 4

    def sweep(params, _):
        left, right, bias = params
        in_u, slope = constant(labelled.x @ right[0]), slopes(params)
        left = strengths.left().prox(left - slope.left / in_u, 1 / in_u)
        half = bias - slope.bias / in_u
        in_v, slope = (
            constant(labelled.x.mT @ left[0]),
            slopes(Params(left, right, half)),
        )
        right = strengths.right().prox(right - slope.right / in_v, 1 / in_v)
        new = Params(left, right, half - slope.bias / in_v)
        return new, (new, half, in_u, in_v)

    _, (rest, half, in_u, in_v) = jax.lax.scan(sweep, start, length=SWEEPS)
    params = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, rest)

    def at(function):
        return jax.vmap(lambda point: function(point, labelled, strengths))

    objectives = at(landscape.objective)(params)
    sweeps = Sweeps(params, half, in_u, in_v, objectives)
    return sweeps, at(landscape.stationarity)(rest)


@jax.jit
def decreases(sweeps, least, strengths, factor):
    """Return what is said of falls, with constants a factor larger."""
    large = sweeps._replace(
        left_constant=factor * sweeps.left_constant,
        right_constant=factor * sweeps.right_constant,
    )
    moduli = factor * strengths.mu2, factor * strengths.nu2
    return {
        "decrease": descent.decrease_certificate(sweeps, factor * least),
        "tight": descent.tight_decrease_certificate(large, *moduli),
        "move": descent.move_decrease_certificate(sweeps, factor * least),
        "sum": descent.square_sum_certificate(sweeps, factor * least / 2),
    }


def problem(seed, kind, power, left_power, is_balanced):
    """Draw data and a start; balanced ones have scores of about 1 at every scale."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(NUM, ROWS, COLUMNS))
    if kind == "ties":
        x = np.round(x)
        x[1::2] = x[::2]
    elif kind == "rank one":
        x = x[:, :, :1] * x[:, :1]
    elif kind == "zero":
        x = 0 * x
    weights = rng.uniform(0.5, 1.5, NUM)
    targets = (np.arange(NUM) % 2.0)[:, None]
    labelled = Labelled(10.0**power * x, targets, weights / weights.sum())
    right_power = -power - left_power if is_balanced else 0
    left = 10.0**left_power * rng.normal(size=(1, ROWS, 1))
    right = 10.0**right_power * rng.normal(size=(1, COLUMNS, 1))
    return labelled, Params(left, right, rng.normal(size=1))


@settings
@hypothesis.given(
    seeds,
    kinds,
    powers,
    st.integers(-3, 3),
    st.booleans(),
    st.sampled_from([*STRENGTHS]),
)
def test_no_run_breaks_the_decrease_or_the_optimality(
    seed, kind, power, left_power, is_balanced, penalty
):
    labelled, start = problem(seed, kind, power, left_power, is_balanced)
    strengths = Strengths(*STRENGTHS[penalty])
    sweeps, stationarity = run(labelled, strengths, start)
    least = min(sweeps.left_constant.min(), sweeps.right_constant.min())
    found = decreases(sweeps, least, strengths, 1.0)
    for name, one in found.items():
        assert is_sound(one), name
    check = program(descent.optimality_certificate)
    found = check(sweeps, labelled, stationarity)
    assert is_sound(found)
    if penalty in ("none", "ridge"):  # smooth: the subgradient is the gradient
        strict = check(sweeps, labelled, 1.05 * stationarity)
        assert not (strict.holds & strict.assumptions_met).any()
        # Larger starts saturate: the slope sinks into rounding, which is silent.
        if abs(power) <= 1 and power + max(left_power, 0) <= 1:
            assert found.assumptions_met.any()


@settings
@hypothesis.given(seeds, powers, st.integers(-2, 2))
def test_runs_of_a_parabola_attain_the_decrease(seed, power, spread):
    """F falls by just what the constants of each sweep say; 5 % more are refuted."""
    rng = np.random.default_rng(seed)
    scale = 10.0**power * rng.uniform(0.5, 1, SWEEPS)
    steps = scale[:, None] * rng.choice([-1, 1], (SWEEPS, 4)) * rng.uniform(1, 2, 4)
    constants = 10.0**spread * rng.uniform(0.5, 2, (SWEEPS, 2))
    strengths = Strengths(0.0, 10.0**spread, 0.0, 0.5)

    def made(steps, constants, strengths):
        (u, v, p, q), (in_u, in_v) = steps.T, constants.T
        mu, nu = strengths.mu2, strengths.nu2
        falls = (in_u + mu) * u**2 + (in_v + nu) * v**2 + in_u * p**2 + in_v * q**2
        points = [np.append(0, part.cumsum()) for part in (u, v, p + q)]
        left, right = (part[:, None, None, None] for part in points[:2])
        bias = points[2][:, None]
        objectives = np.append(falls[::-1].cumsum()[::-1], 0) / 2
        params = Params(left, right, bias)
        return Sweeps(params, bias[:-1] + p[:, None], in_u, in_v, objectives)

    def both(sweeps, strengths, names):
        least = sweeps.left_constant[0]
        found = decreases(sweeps, least, strengths, 1.0)
        strict = decreases(sweeps, least, strengths, 1.05)
        for name in names:
            assert found[name].assumptions_met.all() and is_sound(found[name]), name
            np.testing.assert_allclose(found[name].observed, found[name].bound, 1e-6)
            assert not strict[name].holds.any(), name

    both(made(steps, constants, strengths), strengths, ["tight"])
    one, none = np.full_like(constants, 10.0**spread), Strengths(0.0, 0.0, 0.0, 0.0)
    sweeps = made(steps, one, none)
    both(sweeps, none, ["tight", "decrease", "sum"])
    printed = program(descent.square_sum_certificate)(sweeps, 1.0)
    assert printed.holds.any() == (spread > 0)  # true for L of 2 or more
    golden = steps[:, :1] * [0, 0, 1, (1 + 5**0.5) / 2]
    both(made(golden, one, none), none, ["tight", "decrease", "sum", "move"])


@settings
@hypothesis.given(seeds, kinds, powers, powers, st.sampled_from([0.0, 0.01, 0.5]))
def test_no_run_of_fista_breaks_its_guarantee(seed, kind, power, y_power, share):
    """Least squares and absolute values, against any point and the last iterate."""
    rng = np.random.default_rng(seed)
    a, y = rng.normal(size=(5, 3)), rng.normal(size=5)
    if kind == "ties":
        a = np.linalg.qr(a)[0]
    elif kind == "rank one":
        a = np.outer(a[:, 0], a[0])
    elif kind == "zero":  # nothing to be explained: the start is the minimum
        y = y - a @ np.linalg.lstsq(a, y)[0]
    a, y = 10.0**power * a, 10.0**y_power * y
    constant = np.linalg.norm(a, 2) ** 2
    strength = share * np.abs(a.T @ y).max()

    def objective(w):
        return ((a @ w - y) ** 2).sum() / 2 + strength * np.abs(w).sum()

    w = ahead = start = np.zeros(3)
    t, found = 1.0, []
    for _ in range(40):
        new = ahead - a.T @ (a @ ahead - y) / constant
        new = np.sign(new) * np.maximum(np.abs(new) - strength / constant, 0)
        later = (1 + np.sqrt(1 + 4 * t * t)) / 2
        ahead, w, t = new + (t - 1) / later * (new - w), new, later
        found.append(objective(w))
    size = np.linalg.norm(w)
    check = program(descent.fista_certificate)
    for point in (start, w, w + size * rng.normal(size=3)):
        distance = ((point - start) ** 2).sum()
        one = check(np.array(found), constant, distance, objective(point))
        assert is_sound(one)
    # A run that stands still on a parabola attains the first bound alone.
    still = constant * np.ones(40) / 2
    one = check(still, constant, 1.0, 0.0)
    assert is_attained(one)[0] and one.holds.tolist() == [True] + 39 * [False]
    assert not check(still, 0.95 * constant, 1.0, 0.0).holds[0]
