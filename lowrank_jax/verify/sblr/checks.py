"""How the statements of SBLR are tried: on points, on runs and on sequences.

Each function returns the check of a statement, or is one.
"""

from collections.abc import Callable, Iterable, Iterator

import jax
import numpy as np

from lowrank_jax.theory.sblr import descent, rates
from lowrank_jax.verify.sblr import paths, points, runs
from lowrank_jax.verify.statement import Effort, Found

__all__ = [
    "at_ends",
    "both",
    "certified",
    "fista",
    "in_tails",
    "lengths",
    "near_limits",
    "on_blocks",
    "on_points",
    "on_sweeps",
    "recursions",
    "runaway",
    "split",
]

Check = Callable[[Effort], Iterable[Found]]


def on_blocks(name: str, *, is_binary: bool) -> Check:
    """Check a statement on moves of one block, of two classes or of more."""

    def check(effort: Effort) -> Iterator[Found]:
        shapes = points.BLOCKS[: effort.trials(2, 4)]
        for shape in shapes:
            if (shape[0] == 1) == is_binary:
                found = points.blocks(effort, shape)[name]
                yield Found(found, "m, n, r, size = " + ", ".join(map(str, shape)))

    return check


def on_points(name: str) -> Check:
    """Check a statement on random points."""

    def check(effort: Effort) -> Iterator[Found]:
        for shape in points.POINTS[: effort.trials(1, 3)]:
            found = points.points(effort, shape)[name]
            yield Found(found, "n, s, t, r = " + ", ".join(map(str, shape)))

    return check


def on_sweeps(name: str, kinds: tuple[str, ...] | None = None) -> Check:
    """Check a statement on the sweeps of runs, of some kinds or of all."""

    def check(effort: Effort) -> Iterator[Found]:
        found, of = paths.sweeps(effort)[name], runs.runs(effort).kinds
        for kind in runs.KINDS if kinds is None else kinds:
            yield Found(runs.select(found, of == kind), kind)

    return check


def at_ends(name: str, kinds: tuple[str, ...] | None = None) -> Check:
    """Check a statement where runs end."""

    def check(effort: Effort) -> Iterator[Found]:
        of, found = paths.at_ends(effort)
        for kind in runs.KINDS if kinds is None else kinds:
            yield Found(runs.select(found[name], of == kind), kind)

    return check


def in_tails(name: str) -> Check:
    """Check a statement on iterates near their limits."""

    def check(effort: Effort) -> Iterator[Found]:
        yield Found(paths.tails(effort)[name], "iterates near the limit")

    return check


def near_limits(name: str) -> Check:
    """Check a statement on runs with fixed constants near their limits."""

    def check(effort: Effort) -> Iterator[Found]:
        for k, found in enumerate(paths.local(effort)[name]):
            yield Found(found, f"run {k} with fixed constants")

    return check


def split(constant: float) -> Check:
    """Check how the offset's two steps add up."""

    def check(effort: Effort) -> Iterator[Found]:
        rng, number = effort.generator(51), effort.trials(2000, 100000)
        drawn = rng.normal(size=(2, number)) * 10.0 ** rng.uniform(-8, 8, (2, number))
        drawn[:, 0] = 1, 1
        drawn[:, 1] = 1, (1 + 5**0.5) / 2
        found = jax.jit(descent.split_certificate)(*drawn, constant)
        yield Found(found, "random, p = q, and q / p the golden ratio")

    return check


def lengths(share: float) -> Check:
    """Check the sum over the steps of a run, on sequences that attain it."""

    def check(effort: Effort) -> Iterator[Found]:
        number, rng = effort.trials(200, 5000), effort.generator(52)
        constants = 10.0 ** rng.uniform(-4, 4, number)
        # Steps of one length d, each for d / K of the potential; and steps that fall.
        sizes = 10.0 ** rng.uniform(-6, 6, number)
        even = np.repeat(sizes[:, None], 60, axis=1)
        falling = sizes[:, None] * rng.uniform(0.5, 1, (number, 60)).cumprod(1)
        for steps, case in ((even, "steps of one length"), (falling, "falling steps")):
            falls = steps[:, 1:] ** 2 / (constants[:, None] * steps[:, :-1])
            rest = falls[:, ::-1].cumsum(1)[:, ::-1]
            potentials = np.concatenate([rest, np.zeros_like(rest[:, :1])], axis=1)
            yield Found(_length(steps, potentials, constants, share), case)

    return check


_length = jax.jit(jax.vmap(rates.length_certificate, in_axes=(0, 0, 0, None)))


def recursions(which: int) -> Check:
    """Check a rate on sequences that attain SBLR-Eq27: 0 linear, 1 sublinear."""

    def check(effort: Effort) -> Iterator[Found]:
        yield Found(points.recursions(effort)[which], "sequences that attain Eq27")

    return check


def runaway(effort: Effort) -> Iterator[Found]:
    """Yield points that have less than the solution which is claimed."""
    of, found = paths.at_ends(effort)
    for name, kind, words in (
        ("larger", "separable, no penalty", "scaled up"),
        ("shifted", "one block", "size shifted to the free block"),
        ("raised", "elastic net", "one label, offset raised"),
    ):
        yield Found(runs.select(found[name], of == kind), f"{kind}: {words}")


def certified(effort: Effort) -> Iterator[Found]:
    """Yield certified ends against points of the convex problem."""
    yield Found(paths.certified(effort), "ridges, against FISTA's and others")


def fista(effort: Effort) -> Iterator[Found]:
    """Yield runs of FISTA against their guarantee."""
    yield Found(paths.fista(effort), "nuclear norm, against the factored end")


def both(*checks: Check) -> Check:
    """Check a statement in one way after the other."""

    def check(effort: Effort) -> Iterator[Found]:
        for each in checks:
            yield from each(effort)

    return check
