"""How SBLR's statements are tried along the runs of `runs`, and where they end."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.theory.sblr.descent import Sweeps
from lowrank_jax.verify.sblr import runs
from lowrank_jax.verify.sblr.runs import KINDS, Problems, select
from lowrank_jax.verify.statement import Effort, Found, cheaply

__all__ = [
    "End",
    "Near",
    "Run",
    "Tail",
    "on_ends",
    "on_limits",
    "on_sweeps",
    "on_tails",
]
__dir__ = __all__.copy

#: Sweeps whose gradients are looked at, from the start of a run.
NUM_LOOKED_AT = 30
#: Iterates of a run near its limit.
NUM_TAIL = 15


class Run(NamedTuple):
    """A run of one problem."""

    problem: Problems
    sweeps: Sweeps
    stationarity: Any  # (num_sweeps,)

    @property
    def few(self) -> Sweeps:
        """The first sweeps."""
        few = jax.tree.map(lambda part: part[:NUM_LOOKED_AT], self.sweeps)
        end, whole = NUM_LOOKED_AT + 1, self.sweeps
        params = jax.tree.map(lambda part: part[:end], whole.params)
        return few._replace(params=params, objectives=whole.objectives[:end])


def on_sweeps(one: Callable[[Run], Certificate], effort: Effort) -> Iterator[Found]:
    """Yield the certificates of a function of one run, over all runs by kind."""
    made = runs.runs(effort)
    run = Run(made.problems, made.sweeps, made.stationarity)
    found = jax.device_get(cheaply(jax.vmap(one))(run))
    for kind in KINDS:
        yield Found(select(found, made.kinds == kind), kind)


class End(NamedTuple):
    """Where a run ends, and a step away from there."""

    problem: Problems
    params: Params
    objective: Any  # ()
    noise: Params


@functools.lru_cache(maxsize=2)
def _ends(effort: Effort) -> End:
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

    return End(problems, end.params, end.objective, jax.tree.map(noise, end.params))


def on_ends(
    one: Callable[[End], Certificate], effort: Effort, *, kinds: Iterable[str] = KINDS
) -> Iterator[Found]:
    """Yield the certificates of a function of one end, over all ends of some kinds."""
    of = runs.runs(effort).kinds
    found = jax.device_get(cheaply(jax.vmap(one))(_ends(effort)))
    for kind in kinds:
        yield Found(select(found, of == kind), kind)


class Tail(NamedTuple):
    """Consecutive iterates of a run near its limit: (NUM_TAIL,) each."""

    steps: Any
    moves: Any
    gaps: Any
    stationarity: Any


@functools.lru_cache(maxsize=2)
def _tails(effort: Effort) -> Tail:
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
    return Tail(*np.stack(windows, axis=1))


def on_tails(one: Callable[[Tail], Certificate], effort: Effort) -> Iterator[Found]:
    """Yield the certificates of a function of the iterates near one limit."""
    found = cheaply(jax.vmap(one))(_tails(effort))
    yield Found(found, "iterates near the limit")


class Near(NamedTuple):
    """A run with fixed constants near its limit."""

    points: np.ndarray  # (num_sweeps, size)
    seen: np.ndarray  # those points whose distance is more than rounding
    limit: np.ndarray  # (size,)
    jacobian: np.ndarray  # (size, size)


def on_limits(one: Callable[[Near], Certificate], effort: Effort) -> Iterator[Found]:
    """Yield the certificates of a function of one run near its limit, run by run."""
    number = 0
    for points, limit, jacobian in zip(*runs.local(effort), strict=True):
        distances = np.linalg.norm(points - limit, axis=1)
        is_low = distances < 1e-9 * distances[0]
        stop = int(is_low.argmax()) if is_low.any() else len(points)
        if stop < 60 or distances[stop - 1] > 1e-3 * distances[0]:
            continue  # too fast to be seen, or not yet near
        found = one(Near(points, points[:stop], limit, jacobian))
        yield Found(found, f"run {number} with fixed constants")
        number += 1
