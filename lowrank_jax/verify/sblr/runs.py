"""Many small runs of Algorithm 2 side by side, and of what it is compared with.

All problems have the same shape, so that each program compiles once: matrices with one
column, or factors of rank one, are filled up with zeros.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

from lowrank_jax.batch.sblr import bcpd, fista
from lowrank_jax.linalg import penalties
from lowrank_jax.models import bilinear_logit
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.theory.sblr import limits
from lowrank_jax.theory.sblr.descent import Sweeps
from lowrank_jax.theory.sblr.landscape import Strengths
from lowrank_jax.verify.statement import Effort, cheaply

__all__ = [
    "ISOLATED",
    "KINDS",
    "Ends",
    "Local",
    "Problems",
    "Runs",
    "convex",
    "ends",
    "local",
    "runs",
    "select",
]
__dir__ = __all__.copy

SHAPE = NUM, ROWS, COLUMNS, RANK = 30, 6, 5, 2
NUM_SWEEPS = 200
NUM_LOCAL = 300

#: Kind of problem, and its strengths mu_1, mu_2, nu_1, nu_2.
KINDS = {
    "elastic net": (0.01, 0.05, 0.02, 0.03),
    "ridge": (0.0, 0.15, 0.0, 0.15),
    "ridge, rank one": (0.0, 0.1, 0.0, 0.2),
    "absolute values": (0.03, 0.0, 0.02, 0.0),
    "one column": (0.01, 0.02, 0.01, 0.02),
    "large matrices": (0.0, 10.0, 0.0, 10.0),
    "small matrices": (1e-4, 1e-4, 0.0, 1e-4),
    "no penalty": (0.0, 0.0, 0.0, 0.0),
    "separable, no penalty": (0.0, 0.0, 0.0, 0.0),
    "one block": (0.02, 0.02, 0.0, 0.0),
    "offset alone": (0.0, 0.0, 0.0, 0.0),
}
#: Those whose limit is a point by itself, whatever the rank.
ISOLATED = ("elastic net", "ridge, rank one", "absolute values", "one column")


class Problems(NamedTuple):
    """Problems stacked along the first axis of every array."""

    labelled: Labelled
    strengths: Strengths
    start: Params
    least: jax.Array  # L_min


class Runs(NamedTuple):
    """A run of every problem."""

    kinds: np.ndarray  # (number,) str
    problems: Problems
    sweeps: Sweeps
    stationarity: jax.Array  # (number, num_sweeps)


class Ends(NamedTuple):
    """Where the runs end once they have gone on."""

    params: Params
    objective: jax.Array  # (number,)
    stationarity: jax.Array  # (number,)


class Local(NamedTuple):
    """Runs with fixed constants that begin near their limit."""

    points: np.ndarray  # (number, num_sweeps, size)
    limits: np.ndarray  # (number, size)
    jacobians: np.ndarray  # (number, size, size)


def _problem(rng: np.random.Generator, kind: str) -> Problems:
    """Return one problem, in NumPy."""
    y = rng.permutation(NUM) % 2
    signs = (2.0 * y - 1)[:, None, None]
    weights: Any = rng.uniform(0.5, 1.5, NUM)
    u, values, v = np.linalg.svd(rng.normal(size=(ROWS, COLUMNS)))
    pattern = u[:, :RANK] * values[:RANK] @ v[:RANK]
    x: Any = rng.normal(size=(NUM, ROWS, COLUMNS)) + 0.3 * signs * pattern
    left: Any = 0.5 * rng.normal(size=(1, ROWS, RANK))
    right: Any = 0.5 * rng.normal(size=(1, COLUMNS, RANK))
    least: Any = 10.0 ** rng.uniform(-6, -1)
    if kind in ("ridge, rank one", "no penalty"):
        left[..., 1], right[..., 1] = 0, 0
    if kind == "one column":
        x[..., 1:], right[:, 1:] = 0, 0
        left[..., 1], right[..., 1] = 0, 0
    if kind == "separable, no penalty":
        x = 0.3 * x + signs * pattern
    x = x * {"large matrices": 1e3, "small matrices": 0.05}.get(kind, 1.0)
    if kind == "offset alone":  # the loss bends by its constant along the way
        x, least = 0 * x, 0.25 if rng.uniform() < 0.5 else 1e-3
        weights = 1 + rng.uniform(0.005, 0.05) * (2 * y - 1)
        weights[y == 1] /= y.sum()
        weights[y == 0] /= (1 - y).sum()
    strengths = np.asarray(KINDS[kind]) * rng.uniform(0.7, 1.4, 4)
    targets: Any = y[:, None].astype(float)
    bias: Any = np.zeros(1)
    labelled = Labelled(x, targets, weights / weights.sum(), x.transpose(0, 2, 1))
    start = Params(left, right, bias)
    return Problems(labelled, Strengths(*strengths), start, least)


@functools.partial(jax.jit, static_argnames="num_sweeps")
@functools.partial(jax.vmap, in_axes=(0, None))
def _run(problem: Problems, num_sweeps: int) -> tuple[Sweeps, jax.Array]:
    """Run Algorithm 2 with the backtracking of the paper."""
    labelled, strengths, start, least = problem
    parts = bcpd.stages(
        bcpd.Settings(
            left_penalty=strengths.left(),
            right_penalty=strengths.right(),
            least_constant=least,
            tolerance=0.0,
        )
    )
    given = labelled.targets, labelled.weights
    features = bilinear_logit.left_features(labelled, start.right)
    state = parts.init(start, features, *given, False)

    def sweep(state: bcpd.State, _: None) -> tuple[bcpd.State, tuple]:
        one = parts.first(state, *given)
        meets = bilinear_logit.right_features(labelled, one.factors)
        two = parts.second(state, one, meets, *given)
        features = bilinear_logit.left_features(labelled, two.factors)
        state, info = parts.finish(state, one, two, meets, features, *given)
        constants = info.left_constant, info.right_constant
        found = Sweeps(state.params, one.bias, *constants, info.objective)
        return state, (found, info.stationarity)

    first = state.params, state.objective
    _, (found, stationarity) = lax.scan(sweep, state, length=num_sweeps)
    params, objectives = jax.tree.map(
        lambda before, rest: jnp.concatenate([before[None], rest]),
        first,
        (found.params, found.objectives),
    )
    return found._replace(params=params, objectives=objectives), stationarity


def select(tree: Any, places: np.ndarray) -> Any:
    """Return the problems at the places given."""
    return jax.tree.map(lambda part: part[places], tree)


@functools.lru_cache(maxsize=2)
def runs(effort: Effort) -> Runs:
    """Run problems of all kinds; the same call again costs nothing."""
    rng = effort.generator(21)
    kinds = np.repeat(list(KINDS), effort.trials(3, 40))
    made = [_problem(rng, kind) for kind in kinds]
    problems = jax.tree.map(lambda *parts: np.stack(parts), *made)
    return Runs(kinds, problems, *jax.device_get(_run(problems, NUM_SWEEPS)))


@functools.lru_cache(maxsize=2)
def ends(effort: Effort) -> Ends:
    """Go on with all runs, twice or more as far again."""
    _, problems, sweeps, _ = runs(effort)
    for _ in range(effort.trials(2, 12)):
        last = jax.tree.map(lambda part: part[:, -1], sweeps.params)
        begun = problems._replace(start=last)
        sweeps, stationarity = jax.device_get(_run(begun, NUM_SWEEPS))
    last = jax.tree.map(lambda part: part[:, -1], sweeps.params)
    return Ends(last, sweeps.objectives[:, -1], stationarity[:, -1])


@cheaply
@jax.vmap
def _local(
    labelled: Labelled,
    strengths: Strengths,
    limit: Params,
    constants: jax.Array,
    shares: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return a run with fixed constants, its limit and the Jacobian of a sweep."""
    flat, restore = ravel_pytree(limit)

    def sweep(vector: jax.Array) -> jax.Array:
        moved = limits.fixed_sweep(
            restore(vector),
            labelled,
            strengths.left(),
            strengths.right(),
            left_constant=constants[0],
            right_constant=constants[1],
        )
        return ravel_pytree(moved)[0]

    begin = flat * (1 + 0.02 * shares)  # zeros stay: near by, the support is the same

    def keep(vector: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        return sweep(vector), vector

    _, points = lax.scan(keep, begin, length=NUM_LOCAL)
    return points, flat, jax.jacfwd(sweep)(flat)


def _constants(
    x: jax.Array,
    _: jax.Array,
    weights: jax.Array,
    left: jax.Array,
    right: jax.Array,
    __: jax.Array,
) -> list[float]:
    """Return a fifth more than the least constants at a point (DR-S1), in NumPy."""
    matrices, roots = np.asarray(x), np.sqrt(np.asarray(weights))[:, None]
    found = []
    for features in (matrices @ right[0], matrices.mT @ left[0]):
        rows = features.reshape(len(roots), -1)
        rows = roots * np.concatenate([rows, np.ones_like(roots)], axis=1)
        found.append(1.2 * float(np.linalg.norm(rows, 2)) ** 2 / 4)
    return found


@functools.lru_cache(maxsize=2)
def local(effort: Effort) -> Local:
    """Run again from near the limits which are isolated and have been reached."""
    kinds, problems, *_ = runs(effort)
    end = ends(effort)
    reached = np.isin(kinds, ISOLATED)
    reached &= end.stationarity < 1e-13
    places = np.flatnonzero(reached)
    size = ROWS * RANK + COLUMNS * RANK + 1
    shares = effort.generator(22).uniform(-1, 1, (len(places), size))
    given = problems.labelled, problems.strengths, end.params
    labelled, strengths, params = select(given, places)
    constants = [_constants(*each) for each in zip(*labelled[:3], *params, strict=True)]
    found = _local(labelled, strengths, params, np.asarray(constants), shares)
    return Local(*jax.device_get(found))


@cheaply
@jax.vmap
def _convex(
    labelled: Labelled, strengths: Strengths
) -> tuple[jax.Array, jax.Array, Any]:
    """Return objectives, constant and end of FISTA with the nuclear norm."""
    penalty = penalties.nuclear_norm(strength=jnp.sqrt(strengths.mu2 * strengths.nu2))
    learner = fista.learner(penalty=penalty, tolerance=0.0)

    def advance(state: fista.State, _: None) -> tuple[fista.State, jax.Array]:
        state, info = learner.update(state, labelled)
        return state, info.objective

    state = learner.init(jax.random.key(0), labelled)
    state, objectives = lax.scan(advance, state, length=NUM_SWEEPS)
    return objectives, state.constant, state.params


@functools.lru_cache(maxsize=2)
def convex(effort: Effort) -> tuple[np.ndarray, jax.Array, jax.Array, Params]:
    """Solve the convex problem of every ridge; return the places of these first."""
    kinds, problems, *_ = runs(effort)
    places = np.flatnonzero(np.char.startswith(kinds, "ridge"))
    labelled, strengths = select((problems.labelled, problems.strengths), places)
    return places, *jax.device_get(_convex(labelled, strengths))
