"""Trials of SBLR's statements on the runs of `sblr_runs`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.theory.sblr import descent, landscape, rates
from lowrank_jax.theory.sblr.descent import Sweeps
from lowrank_jax.verify.sblr import runs
from lowrank_jax.verify.sblr.runs import CHEAP, Ends, Problems, select
from lowrank_jax.verify.statement import Effort

__all__ = ["at_ends", "certified", "fista", "local", "sweeps", "tails"]

#: Sweeps whose gradients are looked at, from the start of a run.
NUM_LOOKED_AT = 30
#: Iterates of a run near its limit.
NUM_TAIL = 15

Found = dict[str, Certificate]


@functools.partial(jax.jit, compiler_options=CHEAP)
@jax.vmap
def _sweeps(problem: Problems, sweeps: Sweeps, stationarity: jax.Array) -> Found:
    least = problem.least
    moduli = problem.strengths.mu2, problem.strengths.nu2
    few = jax.tree.map(lambda part: part[:NUM_LOOKED_AT], sweeps)
    few = few._replace(
        params=jax.tree.map(lambda part: part[: NUM_LOOKED_AT + 1], sweeps.params),
        objectives=sweeps.objectives[: NUM_LOOKED_AT + 1],
    )
    given = few, problem.labelled, stationarity[:NUM_LOOKED_AT]
    level = sweeps.objectives[0]

    def bounded(params: Params) -> Certificate:
        return landscape.level_set_certificate(
            params, problem.labelled, problem.strengths, level=level
        )

    return {
        "decrease": descent.decrease_certificate(sweeps, least),
        "tight decrease": descent.tight_decrease_certificate(sweeps, *moduli),
        "move": descent.move_decrease_certificate(sweeps, least),
        "sum, printed": descent.square_sum_certificate(sweeps, 1.0),
        "sum": descent.square_sum_certificate(sweeps, least / 2),
        "optimality": descent.optimality_certificate(*given),
        "subgradient": descent.subgradient_certificate(*given),
        "bounded": jax.vmap(bounded)(few.params),
    }


@functools.lru_cache(maxsize=2)
def sweeps(effort: Effort) -> Found:
    """Return the certificates of all sweeps: (number, num_sweeps, ...)."""
    _, problems, found, stationarity = runs.runs(effort)
    return jax.device_get(_sweeps(problems, found, stationarity))


@functools.partial(jax.jit, compiler_options=CHEAP)
@jax.vmap
def _ends(problem: Problems, end: Ends, noise: Params, rise: jax.Array) -> Found:
    """Return certificates at the ends, and at points near them."""
    labelled, strengths, *_ = problem
    near = jax.tree.map(jnp.add, end.params, noise)
    left, right, bias = end.params
    moved = {
        "larger": Params(1.5 * left, 1.5 * right, 2.25 * bias),
        "shifted": Params(left / 2, 2 * right, bias),
        "raised": Params(left, right, bias + rise),
    }
    of_one = labelled._replace(weights=labelled.weights * labelled.targets[:, 0])
    data = {"raised": of_one}
    found = {
        name: landscape.minimum_certificate(
            end.params, other, data.get(name, labelled), strengths
        )
        for name, other in moved.items()
    }
    return found | {
        "balance": landscape.balance_certificate(end.params, labelled, strengths),
        "steep": landscape.steepness_certificate(
            near, labelled, strengths, end.objective
        ),
        "loss": landscape.loss_norm_certificate(end.params, labelled),
    }


@functools.lru_cache(maxsize=2)
def at_ends(effort: Effort) -> tuple[np.ndarray, Found]:
    """Return the kinds of all problems, and the certificates where they end."""
    kinds, problems, *_ = runs.runs(effort)
    end = runs.ends(effort)
    rng = effort.generator(41)
    # An offset about its minimum, where F bends by its constant and no less.
    is_plain = kinds == "offset alone"
    sizes = np.where(is_plain, 0.01, 10.0 ** rng.uniform(-4, -1, len(kinds)))

    def noise(part: np.ndarray) -> np.ndarray:
        shape = (-1,) + (1,) * (part.ndim - 1)
        is_moved = ~is_plain if part.ndim > 2 else np.ones(len(kinds))
        drawn = rng.normal(size=part.shape)
        return drawn * (sizes * is_moved).reshape(shape)

    return kinds, jax.device_get(
        _ends(problems, end, jax.tree.map(noise, end.params), np.ones((len(kinds), 1)))
    )


@functools.partial(jax.jit, compiler_options=CHEAP)
@jax.vmap
def _tail(
    steps: jax.Array, moves: jax.Array, gaps: jax.Array, stationarity: jax.Array
) -> Found:
    exponent = 0.25
    constant = gaps[0] ** exponent / stationarity[0]
    return {
        "rate": rates.linear_rate_certificate(steps, moves, gaps, stationarity),
        "exponent": rates.kurdyka_certificate(gaps, stationarity, exponent, constant),
    }


@functools.lru_cache(maxsize=2)
def tails(effort: Effort) -> Found:
    """Return the certificates of consecutive iterates near the limits."""
    kinds, _, found, stationarity = runs.runs(effort)
    ends = runs.ends(effort)
    bias = found.params.bias
    parts = [np.diff(part, axis=1) for part in found.params]
    squares = [(part**2).reshape(*part.shape[:2], -1).sum(2) for part in parts]
    second = ((bias[:, 1:] - found.half_bias) ** 2).sum(2)
    whole = squares[0] + squares[1] + squares[2]
    gaps = found.objectives[:, 1:] - ends.objective[:, None]
    series = np.sqrt(whole) + np.sqrt(second), whole + second, gaps, stationarity
    windows = []
    for k in np.flatnonzero(ends.stationarity < 1e-13):
        first = int((gaps[k] < 1e-4).argmax())
        window = slice(first, first + NUM_TAIL)
        is_long = gaps[k, window].shape == (NUM_TAIL,)
        if is_long and gaps[k, window].min() > 1e-12 and kinds[k] != "offset alone":
            windows.append([part[k, window] for part in series])
    return jax.device_get(_tail(*np.stack(windows, axis=1)))


@functools.lru_cache(maxsize=2)
def local(effort: Effort) -> dict[str, list[Certificate]]:
    """Return the certificates of runs with fixed constants near their limits."""
    found: dict[str, list[Certificate]] = {"rate": [], "superlinear": [], "steady": []}
    for points, limit, jacobian in zip(*runs.local(effort), strict=True):
        distances = np.linalg.norm(points - limit, axis=1)
        is_low = distances < 1e-9 * distances[0]
        stop = int(is_low.argmax()) if is_low.any() else len(points)
        if stop < 60 or distances[stop - 1] > 1e-3 * distances[0]:
            continue  # too fast to be seen, or not yet near
        seen = points[:stop]
        found["rate"].append(rates.rate_certificate(points, limit, jacobian))
        found["superlinear"].append(rates.superlinear_certificate(seen, limit))
        found["steady"].append(rates.steady_rate_certificate(seen, limit))
    return found


@functools.partial(jax.jit, compiler_options=CHEAP)
@jax.vmap
def _certified(
    problem: Problems, end: Params, weights: jax.Array, bias: jax.Array
) -> Certificate:
    return landscape.global_minimum_certificate(
        end, problem.labelled, problem.strengths, weights, bias
    )


@functools.lru_cache(maxsize=2)
def certified(effort: Effort) -> Certificate:
    """Compare the ends with what FISTA has found, and with points near by."""
    _, problems, *_ = runs.runs(effort)
    places, _, _, solved = runs.convex(effort)
    problems, ends = select((problems, runs.ends(effort).params), places)
    rng = effort.generator(42)
    number = effort.trials(5, 20)
    many = np.repeat(np.arange(len(places)), number)
    weights, bias = (np.array(part[many]) for part in solved)
    sizes = 10.0 ** rng.uniform(-5, 0, len(many))
    sizes[::number] = 0  # FISTA's own
    weights += sizes[:, None, None, None] * rng.normal(size=weights.shape)
    bias += sizes[:, None] * rng.normal(size=bias.shape)
    problems, ends = select((problems, ends), many)
    return jax.device_get(_certified(problems, ends, weights, bias))


@functools.lru_cache(maxsize=2)
def fista(effort: Effort) -> Certificate:
    """Compare FISTA's objectives with its guarantee, against the factored ends."""
    places, objectives, constants, _ = runs.convex(effort)
    ends = runs.ends(effort)
    params = select(ends.params, places)
    weights = np.einsum("kmsr,kmtr->kst", params.left, params.right)
    squares = (weights**2).sum((1, 2)) + (params.bias**2).sum(1)
    return jax.jit(jax.vmap(descent.fista_certificate))(
        objectives, constants, squares, ends.objective[places]
    )
