"""Generated runs of BOL, made once, and how the functions of rows are tried on them."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.theory.bol import margin, regret
from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.verify.bol import runs as bol_runs
from lowrank_jax.verify.bol.runs import Array, Problems, Runs
from lowrank_jax.verify.statement import Effort, Found, cheaply

__all__ = [
    "MAIN_SHAPE",
    "Compared",
    "Pool",
    "Studied",
    "block_runs",
    "compared",
    "found_on",
    "on_chains",
    "on_pools",
    "on_runs",
    "pools",
    "study",
]
__dir__ = __all__.copy

Shape = tuple[int, int]
MAIN_SHAPE = (3, 4)


def _shapes(effort: Effort) -> tuple[Shape, ...]:
    """The main shape holds smaller ones filled up; thoroughly, they come as such."""
    if effort.is_quick:
        return (MAIN_SHAPE,)
    return (MAIN_SHAPE, (1, 1), (1, 4), (2, 2), (2, 7))


def found_on(
    given: Certificate,
    made: Problems,
    words: str,
    *,
    only: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
    over_floor: bool = False,
) -> Iterator[Found]:
    """Yield certificates (b, ...) of all problems, named after the one of least slack.

    Args:
      given: The certificates.
      made: The problems.
      words: Added to the name.
      only: The cases to keep, if any are named.
      without: The cases to leave out.
      over_floor: Say nothing of rounds (b, t) whose sides are 1e-9 of the largest of
        the run or less: sums that came back to 0 are rounding and nothing else.
    """
    here = ~np.isin(made.cases, without)
    if only:
        here = here & np.isin(made.cases, only)
    if not here.any():
        return
    kept = jax.tree.map(lambda side: np.asarray(side)[here], given)
    size = np.maximum(np.abs(kept.observed), np.abs(kept.bound))
    if over_floor:
        is_over = size > 1e-9 * size.max(1, keepdims=True)
        met, holds = kept.assumptions_met & is_over, kept.holds | ~is_over
        kept = kept._replace(assumptions_met=met, holds=holds)
    is_known = np.isfinite(kept.slack) & kept.assumptions_met
    slack = np.where(is_known, kept.slack, np.inf)
    share = slack / np.where((size > 0) & np.isfinite(size), size, 1)
    worst = share.reshape(len(share), -1).min(1).argmin()
    yield Found(kept, f"{made.cases[here][worst]}, {words}")


# Runs, one at a time


class Comparators(NamedTuple):
    """Five U for each run: (b, 5, ...)."""

    margins: Array  # (b, 5, t)  <U, dPhi_t>
    losses: Array  # (b, 5, t)
    trace: Array  # (b, 5)  ||U||_s(1)^2 / 2
    energy: Array  # (b, 5)  ||U||_F^2 / 2
    is_rank_1: Array  # (b, 5)


def comparators(rng: np.random.Generator, made: Problems, found: Runs) -> Comparators:
    """Take zero, W_N, its best multiple, the planted U, and one of full rank."""
    deltas, last = found.deltas, found.params[:, -1]
    size = np.abs(deltas).max((1, 2, 3))
    unit = 1 / np.where(size > 0, size, 1)[:, None, None]
    factor = 10.0 ** rng.uniform(-1, 1, (len(deltas), 1, 1))
    full = rng.standard_normal(last.shape) * unit * factor
    by_hand = bol_runs.is_by_hand(made)[:, None, None]
    planted = made.planted * np.where(by_hand, 1, unit * factor)
    # Best multiple of W_N for penalty / C + losses, on a grid.
    grid = 10.0 ** np.linspace(-3, 3, 61)[:, None]
    along = np.einsum("bmn,btmn->bt", last, deltas)
    bound = (trace_norm(last) ** 2 / 2 / made.steps)[:, None] * grid[:, 0] ** 2
    bound = bound + np.maximum(0, 1 - grid[None] * along[:, None]).sum(2)
    best = grid[bound.argmin(1)][:, :, None] * last
    us = np.stack([0 * last, last, best, planted, full], 1)
    margins = np.einsum("bumn,btmn->but", us, deltas)
    sigma = np.linalg.svd(us, compute_uv=False)
    return Comparators(
        margins=margins,
        losses=np.maximum(0, 1 - margins),
        trace=sigma.sum(2) ** 2 / 2,
        energy=(sigma**2).sum(2) / 2,
        is_rank_1=(sigma[..., 1:] <= 1e-12 * sigma[..., :1]).all(2),
    )


def trace_norm(matrices: np.ndarray) -> np.ndarray:
    """Return the sum of the singular values."""
    return np.linalg.svd(matrices, compute_uv=False).sum(-1)


class Studied(NamedTuple):
    """The runs of one shape, (b, ...); a check gets them one at a time."""

    exact: Runs
    us: Comparators  # U for the exact runs
    unit: Runs  # the exact map, C = 1
    paper: Runs  # Eq. (9)-(12)
    paper_unit: Runs  # Eq. (9)-(12), C = 1
    perceptron: Runs
    step: Array  # (b,)  C

    @property
    def num_mistakes(self) -> jax.Array:
        """M."""
        return self.exact.info.is_mistake.sum()

    @property
    def unit_conjugate(self) -> jax.Array:
        """F*(Theta_N) of the run with C = 1."""
        return self.exact.info.conjugate[-1] / (self.step * self.step)

    @property
    def losses(self) -> jax.Array:
        """Sum of L_t(U) over the mistakes, for each U."""
        return jnp.where(self.exact.info.is_mistake[None], self.us.losses, 0).sum(1)


@functools.lru_cache(maxsize=8)
def study(effort: Effort, shape: Shape) -> tuple[Problems, Studied]:
    """Make the problems of one shape and run them."""
    made = bol_runs.problems(effort, shape, effort.trials(24, 150))
    rng = effort.generator(42, *shape)
    ones = np.ones(len(made.steps))
    exact = bol_runs.runs(made, variant="exact")
    return made, Studied(
        exact=exact,
        us=comparators(rng, made, exact),
        unit=bol_runs.runs(made, variant="exact", steps=ones),
        paper=bol_runs.runs(made, variant="paper"),
        paper_unit=bol_runs.runs(made, variant="paper", steps=ones),
        perceptron=bol_runs.runs(made, variant="frobenius"),
        step=made.steps,
    )


def on_runs(
    one: Callable[[Studied], Certificate], effort: Effort, **kept: Any
) -> Iterator[Found]:
    """Yield the certificates of a function of one run, over all runs.

    Args:
      one: The function.
      effort: Number and seed of the trials.
      **kept: Arguments of `found_on`.
    """
    program = cheaply(jax.vmap(one))
    for shape in _shapes(effort):
        made, studied = study(effort, shape)
        words = f"{shape[0]}x{shape[1]}"
        yield from found_on(program(studied), made, words, **kept)


# Regret and its bounds after each round


class Compared(NamedTuple):
    """A run and five U, (b, ...); a check gets one run and one U at a time."""

    trace: regret.Rounds
    squared_norm: Array  # (b, t)
    ratio: Array  # (b, t)  largest on the segment of each round
    step: Array  # (b,)
    num_values: Array  # (b,)
    losses: Array  # (b, 5, t)
    penalty: Array  # (b, 5)  F**(U) of the map that was run
    energy: Array  # (b, 5)
    is_rank_1: Array  # (b, 5)

    @property
    def along(self) -> regret.AlongRounds:
        """Regret and its bounds after each round."""
        return regret.along_rounds(
            self.trace,
            step_size=self.step,
            comparator_losses=self.losses,
            comparator_penalty=self.penalty,
            comparator_energy=self.energy,
            squared_norm=self.squared_norm,
            ratio=self.ratio,
            num_values=self.num_values,
        )


def _compare(made: Problems, found: Runs, us: Comparators, penalty: Array) -> Compared:
    num_values = made.num_values.astype(float)
    given = us.losses, penalty, us.energy, us.is_rank_1
    info = found.info
    trace = regret.Rounds(*(getattr(info, name) for name in regret.Rounds._fields))
    return Compared(
        trace, info.squared_norm, found.ratio, made.steps, num_values, *given
    )


@functools.lru_cache(maxsize=8)
def compared(effort: Effort, shape: Shape) -> dict[str, Compared]:
    """Return the runs of the exact map, of sp and of Eq. (9)-(12)."""
    made, studied = study(effort, shape)
    sp, paper = studied.perceptron, studied.paper
    rng = effort.generator(43, *shape)
    sp_us, paper_us = comparators(rng, made, sp), comparators(rng, made, paper)
    return {
        "exact": _compare(made, studied.exact, studied.us, studied.us.trace),
        "sp": _compare(made, sp, sp_us, sp_us.energy),
        "Eq. (9)-(12)": _compare(made, paper, paper_us, paper_us.trace),
    }


def block_runs(effort: Effort) -> Compared:
    """Return runs with the map of each block by itself (DR-B6).

    Features are blocks of small whole numbers, at two scales. There are as many runs
    as of the main shape, for the same compiled program.
    """
    rng, count = effort.generator(45), len(study(effort, MAIN_SHAPE)[0].steps)
    kinds = rng.integers(-1, 2, (count, bol_runs.NUM_ROUNDS, 3, 2, 2))
    scale = np.where(rng.random(count) < 0.5, 0.01, 1.0)
    deltas = scale[:, None, None, None, None] * kinds
    blocks = bol_runs.block_runs(deltas, np.ones(count))
    last = blocks.params
    full = rng.standard_normal(last.shape)
    us = np.stack([0 * last, last, last / 2, 3 * last, full], 1)
    losses = np.maximum(0, 1 - np.einsum("bukmn,btkmn->but", us, blocks.deltas))
    penalty = (trace_norm(us) ** 2).sum(2) / 2
    norms = (blocks.deltas**2).sum((2, 3, 4))
    return Compared(
        blocks.rounds,
        norms,
        np.ones_like(norms),  # no ratio is known: 1
        np.ones(count),
        np.full(count, 2.0),
        losses,
        penalty,
        penalty,
        np.zeros(penalty.shape, bool),
    )


def on_chains(
    one: Callable[[Compared], Certificate],
    effort: Effort,
    *,
    maps: tuple[str, ...] = ("exact",),
    has_blocks: bool = False,
) -> Iterator[Found]:
    """Yield the certificates of a function of one run and one U, over all of them.

    Args:
      one: The function.
      effort: Number and seed of the trials.
      maps: Names of the runs: "exact", "sp", "Eq. (9)-(12)".
      has_blocks: Take the runs with blocks too.
    """
    over_u = Compared(None, None, None, None, None, 0, 0, 0, 0)  # type: ignore[arg-type]
    program = cheaply(jax.vmap(jax.vmap(one, in_axes=(over_u,))))
    for shape in _shapes(effort):
        made, every = study(effort, shape)[0], compared(effort, shape)
        for kind in maps:
            words = f"{shape[0]}x{shape[1]}, {kind}"
            yield from found_on(program(every[kind]), made, words)
    if has_blocks:
        found = program(block_runs(effort))
        yield Found(found, "blocks, each mapped by itself")


# Pools of differences


class Pool(NamedTuple):
    """A pool of differences, weights and a run, (b, ...); a check gets one of each."""

    deltas: Array  # (b, t, m, n)  all that may come
    weights: Array  # (b, m, n)
    run: Runs
    step: Array  # (b,)
    us: Comparators

    @property
    def separated(self) -> margin.Separation:
        """Margin and norms of the pool."""
        return margin.separation(self.weights, self.deltas)

    @property
    def num_mistakes(self) -> jax.Array:
        """M."""
        return self.run.info.is_mistake.sum()

    @property
    def unit_conjugate(self) -> jax.Array:
        """F*(Theta_N) of the run with C = 1."""
        return self.run.info.conjugate[-1] / (self.step * self.step)


@functools.lru_cache(maxsize=8)
def pools(effort: Effort, shape: Shape) -> tuple[Problems, Pool]:
    """Take the streams with one possible difference per round as pools."""
    made, studied = study(effort, shape)
    here = np.isin(made.cases, bol_runs.POOLS)
    made, exact, us = jax.tree.map(
        lambda part: part[here], (made, studied.exact, studied.us)
    )
    return made, Pool(made.features[:, :, 1], made.planted, exact, made.steps, us)


def on_pools(
    one: Callable[[Pool], Certificate], effort: Effort, *, only: tuple[str, ...] = ()
) -> Iterator[Found]:
    """Yield the certificates of a function of one pool, over all pools of some cases.

    Args:
      one: The function.
      effort: Number and seed of the trials.
      only: Cases to keep, if any are named.
    """
    program = cheaply(jax.vmap(one))
    for shape in _shapes(effort):
        made, every = pools(effort, shape)
        words = f"{shape[0]}x{shape[1]}"
        yield from found_on(program(every), made, words, only=only)
