"""Where runs of SBLR end, and how fast (SBLR-T4.3, R4.3, DR-S4 to DR-S7)."""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.theory.sblr import descent, landscape, rates
from lowrank_jax.verify.sblr import runs
from lowrank_jax.verify.sblr.ends import (
    End,
    Near,
    Tail,
    on_ends,
    on_limits,
    on_tails,
)
from lowrank_jax.verify.sblr.points import Trial, on_points
from lowrank_jax.verify.statement import (
    Certify,
    Effort,
    Found,
    cheaply,
    checked,
    fails,
    proved,
    tried,
)

__all__: list[str] = []
__dir__ = __all__.copy


@fails(
    "SBLR-T4.3: proof, printed",
    "S_N <= S_{N-1} - S_N + K phi_N / 2",
    rates.length_certificate,
    share=0.5,
)
@proved(
    "SBLR-T4.3: proof, corrected",
    "S_N <= S_{N-1} - S_N + K phi_N",
    rates.length_certificate,
    share=1.0,
)
def _lengths(certify: Certify, effort: Effort, *, share: float) -> Iterator[Found]:
    """Yield trials of the sum over the steps, on sequences that attain it."""
    number, rng = effort.trials(200, 5000), effort.generator(52)
    certify = jax.jit(jax.vmap(certify, in_axes=(0, 0, 0, None)))
    constants = 10.0 ** rng.uniform(-4, 4, number)
    # Steps of one length d, each for d / K of the potential; and steps that fall.
    sizes = 10.0 ** rng.uniform(-6, 6, number)
    even = np.repeat(sizes[:, None], 60, axis=1)
    falling = sizes[:, None] * rng.uniform(0.5, 1, (number, 60)).cumprod(1)
    for steps, case in ((even, "steps of one length"), (falling, "falling steps")):
        falls = steps[:, 1:] ** 2 / (constants[:, None] * steps[:, :-1])
        rest = falls[:, ::-1].cumsum(1)[:, ::-1]
        potentials = np.concatenate([rest, np.zeros_like(rest[:, :1])], axis=1)
        yield Found(certify(steps, potentials, constants, share), case)


@functools.lru_cache(maxsize=2)
def _recursion(effort: Effort) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sequences which attain SBLR-Eq27, their constants and exponents."""
    rng = effort.generator(33)
    number = effort.trials(200, 4000)
    exponents = rng.uniform(0.05, 0.95, number)
    exponents[:20] = 0.5
    constants = 10.0 ** rng.uniform(-2, 2, number)
    last = rng.uniform(0.1, 1, number)
    lengths = [last]
    powers = (1 - exponents) / exponents
    for _ in range(60):  # S + S = S' + C (S' - S)^power, by bisection over S' - S
        low, high = np.zeros(number), lengths[-1]
        for _ in range(60):
            fall = (low + high) / 2
            is_short = lengths[-1] - fall > fall + constants * fall**powers
            low, high = np.where(is_short, fall, low), np.where(is_short, high, fall)
        lengths.append(lengths[-1] - high)
    return np.stack(lengths, axis=1), constants, exponents


@proved(
    "SBLR-T4.3: linear",
    "exponent up to 1/2: S_N <= ((1 + C) / (2 + C))^N S_0 from Eq27",
    rates.linear_recursion_certificate,
)
@proved(
    "SBLR-T4.3: sublinear",
    "exponent above 1/2: S_N is O(N^(-(1 - t) / (2 t - 1))) from Eq27",
    rates.power_recursion_certificate,
    is_tight=False,
)
def _recursions(certify: Certify, effort: Effort) -> Iterator[Found]:
    found = cheaply(jax.vmap(certify))(*_recursion(effort))
    yield Found(found, "sequences that attain Eq27")


@proved(
    "SBLR-T4.3: runs",
    "runs contract by (1 + C) / (2 + C) or faster, C from the run",
    rates.linear_rate_certificate,
    is_tight=False,
)
@tried(on_tails)
def _linear(certify: Certify, tail: Tail) -> Certificate:
    return certify(*tail)


@fails(
    "SBLR-R4.3: printed",
    "the contraction is what the distance to the last iterate shows",
    rates.superlinear_certificate,
)
@tried(on_limits)
def _superlinear(certify: Certify, near: Near) -> Certificate:
    return certify(near.seen, near.limit)


@fails(
    "SBLR-R4.3: exponent, printed",
    "the exponent is below 1/2",
    rates.kurdyka_certificate,
)
@tried(on_tails)
def _exponent(certify: Certify, tail: Tail) -> Certificate:
    exponent = 0.25
    constant = tail.gaps[0] ** exponent / tail.stationarity[0]
    return certify(tail.gaps, tail.stationarity, exponent, constant)


@checked(
    "SBLR-R4.3: corrected",
    "the contraction against the true limit is constant: a linear rate",
    rates.steady_rate_certificate,
)
@tried(on_limits)
def _steady(certify: Certify, near: Near) -> Certificate:
    return certify(near.seen, near.limit)


@proved(
    "DR-S4: identity",
    "mu_1 |u|_1 + mu_2 |u|^2 = nu_1 |v|_1 + nu_2 |v|^2 at a stationary point",
    landscape.balance_certificate,
)
@tried(on_ends)
def _balance(certify: Certify, end: End) -> Certificate:
    return certify(end.params, end.problem.labelled, end.problem.strengths)


@proved(
    "DR-S4: bound",
    "its residual is at most dist(0, dF) |(u, v)| at any point",
    landscape.balance_bound_certificate,
)
@tried(on_points)
def _balance_bound(certify: Certify, trial: Trial) -> Certificate:
    return certify(trial.params, trial.labelled, trial.strengths)


@proved(
    "DR-S5",
    "|grad F|^2 <= 2 L (F - F*) near a minimum",
    landscape.steepness_certificate,
)
@tried(on_ends)
def _steep(certify: Certify, end: End) -> Certificate:
    near = jax.tree.map(jnp.add, end.params, end.noise)
    labelled, strengths, *_ = end.problem
    return certify(near, labelled, strengths, end.objective)


@proved(
    "DR-S6",
    "the contraction is the spectral radius of a sweep's Jacobian",
    rates.rate_certificate,
)
@tried(on_limits)
def _rate(certify: Certify, near: Near) -> Certificate:
    return certify(near.points, near.limit, near.jacobian)


@proved(
    "DR-S7: lower bound",
    "loss + sqrt(mu_2 nu_2) |U V^T|_* <= F(U, V, b)",
    landscape.factored_certificate,
)
@tried(on_points)
def _factored(certify: Certify, trial: Trial) -> Certificate:
    mu1, mu2, nu1, nu2 = trial.strengths
    ridge = landscape.Strengths(mu1 * 0, mu2, nu1 * 0, nu2)
    return certify(trial.params, trial.labelled, ridge)


@proved(
    "DR-S7: global",
    "stationary and sigma_1(grad_W) <= sqrt(mu_2 nu_2): a global minimum",
    landscape.global_minimum_certificate,
)
@proved(
    "DR-S7: gap",
    "at any (U, V, b): F - gap <= loss + sqrt(mu_2 nu_2) |W'|_* at any (W', b')",
    landscape.gap_certificate,
    is_moved=True,
)
def _certified(
    certify: Certify, effort: Effort, *, is_moved: bool = False
) -> Iterator[Found]:
    """Compare the ends with what FISTA has found, and with points near by.

    If `is_moved`, the ends are moved too, every other one.
    """

    @cheaply
    @jax.vmap
    def program(
        problem: runs.Problems, end: runs.Params, weights: jax.Array, bias: jax.Array
    ) -> Certificate:
        return certify(end, problem.labelled, problem.strengths, weights, bias)

    _, problems, *_ = runs.runs(effort)
    places, _, _, solved = runs.convex(effort)
    rng, number = effort.generator(42), effort.trials(5, 20)
    many = np.repeat(np.arange(len(places)), number)
    weights, bias = (np.array(part[many]) for part in solved)
    sizes = 10.0 ** rng.uniform(-5, 0, len(many))
    sizes[::number] = 0  # FISTA's own
    weights += sizes[:, None, None, None] * rng.normal(size=weights.shape)
    bias += sizes[:, None] * rng.normal(size=bias.shape)
    given = runs.select((problems, runs.ends(effort).params), places[many])
    if is_moved:
        away = 10.0 ** rng.uniform(-5, 1, len(many)) * (np.arange(len(many)) % 2)
        ends = [
            part
            + away.reshape(-1, *(1,) * (part.ndim - 1)) * rng.normal(size=part.shape)
            for part in given[1]
        ]
        given = given[0], type(given[1])(*ends)
    yield Found(program(*given, weights, bias), "ridges, against FISTA's and others")


@proved(
    "SBLR-B2",
    "FISTA: F(w_k) - F* <= 2 L |w_0 - w*|^2 / (k + 1)^2",
    descent.fista_certificate,
    is_tight=False,
)
def _fista(certify: Certify, effort: Effort) -> Iterator[Found]:
    places, objectives, constants, _ = runs.convex(effort)
    ends = runs.ends(effort)
    params = runs.select(ends.params, places)
    weights = np.einsum("kmsr,kmtr->kst", params.left, params.right)
    squares = (weights**2).sum((1, 2)) + (params.bias**2).sum(1)
    given = objectives, constants, squares, ends.objective[places]
    found = jax.jit(jax.vmap(certify))(*given)
    yield Found(found, "nuclear norm, against the factored end")
