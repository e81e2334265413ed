"""Certificates of generated runs of BOL, computed once for all statements on regret."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.theory import certificate
from lowrank_jax.theory.bol import duality, margin, regret
from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.verify.bol import runs as bol_runs
from lowrank_jax.verify.bol.runs import Array, Problems, Runs
from lowrank_jax.verify.statement import Effort

__all__ = ["Studied", "block_chain", "chains", "dual", "margins", "study"]


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


class Chain(NamedTuple):
    """Regret and its bounds, compared after each round: (b, 5, t)."""

    within: Certificate
    within_tight: Certificate
    tight: Certificate
    loose: Certificate
    paper: Certificate
    sharpened: Certificate


@functools.lru_cache
def _chain_program() -> Callable[..., Chain]:
    def one(
        trace: tuple[jax.Array, ...],
        step: jax.Array,
        num_values: jax.Array,
        losses: jax.Array,
        penalty: jax.Array,
        energy: jax.Array,
        is_rank_1: jax.Array,
    ) -> Chain:
        slack_margin, is_mistake, conjugate, squared_norm, ratio = trace
        along = regret.along_rounds(
            slack_margin,
            is_mistake,
            step_size=step,
            conjugate=conjugate,
            comparator_losses=losses,
            comparator_penalty=penalty,
            comparator_energy=energy,
            squared_norm=squared_norm,
            ratio=ratio,
            num_values=num_values,
        )
        return Chain(
            regret.within_certificate(along),
            regret.certificate_within_tight(along),
            regret.tight_bound(along),
            regret.tight_within_paper(along, is_rank_1=is_rank_1),
            regret.paper_bound(along),
            regret.sharpened_paper_bound(
                along, step_size=step, comparator_energy=energy
            ),
        )

    over_u = jax.vmap(one, in_axes=(None, None, None, 0, 0, 0, 0))
    return bol_runs.compiled(jax.vmap(over_u))


def chain(made: Problems, found: Runs, us: Comparators, penalty: np.ndarray) -> Chain:
    """Compare regret, certificate, tight bound and paper's bound.

    Args:
      made: the problems.
      found: the runs.
      us: the comparators.
      penalty: (b, 5) F**(U) of the map that was run.
    """
    info = found.info
    numbers = info.margin, info.is_mistake, info.conjugate, info.squared_norm
    num_values = made.num_values.astype(float)
    given = us.losses, penalty, us.energy, us.is_rank_1
    return _chain_program()((*numbers, found.ratio), made.steps, num_values, *given)


def block_chain(rng: np.random.Generator, count: int) -> Certificate:
    """Check DR-B4 for the map of each block by itself (DR-B6).

    Args:
      rng: makes the features: blocks of small whole numbers, at two scales.
      count: runs; as many as in `chain` for the same compiled program.
    """
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
    numbers = blocks.margin, blocks.is_mistake, blocks.conjugate, norms
    found = _chain_program()(
        (*numbers, np.ones_like(norms)),  # no ratio is known: 1
        np.ones(count),
        np.full(count, 2.0),
        losses,
        penalty,
        penalty,
        np.zeros(penalty.shape, bool),
    )
    return found.within


class Studied(NamedTuple):
    """The runs of one shape."""

    made: Problems
    exact: Runs
    us: Comparators  # of the exact runs
    unit: Runs  # the exact map, C = 1
    paper: Runs  # Eq. (9)-(12)
    paper_unit: Runs  # Eq. (9)-(12), C = 1
    perceptron: Runs


@functools.lru_cache(maxsize=8)
def study(effort: Effort, shape: tuple[int, int]) -> Studied:
    """Make the problems of one shape and run them."""
    made = bol_runs.problems(effort, shape, effort.trials(24, 150))
    rng = effort.generator(42, *shape)
    ones = np.ones(len(made.steps))
    exact = bol_runs.runs(made, variant="exact")
    return Studied(
        made=made,
        exact=exact,
        us=comparators(rng, made, exact),
        unit=bol_runs.runs(made, variant="exact", steps=ones),
        paper=bol_runs.runs(made, variant="paper"),
        paper_unit=bol_runs.runs(made, variant="paper", steps=ones),
        perceptron=bol_runs.runs(made, variant="frobenius"),
    )


@functools.lru_cache(maxsize=8)
def chains(effort: Effort, shape: tuple[int, int]) -> dict[str, Chain]:
    """Return the chains of the exact map, of sp and of Eq. (9)-(12)."""
    studied = study(effort, shape)
    made, sp, paper = studied.made, studied.perceptron, studied.paper
    rng = effort.generator(43, *shape)
    sp_us, paper_us = comparators(rng, made, sp), comparators(rng, made, paper)
    return {
        "exact": chain(made, studied.exact, studied.us, studied.us.trace),
        "sp": chain(made, sp, sp_us, sp_us.energy),
        "Eq. (9)-(12)": chain(made, paper, paper_us, paper_us.trace),
    }


class Dual(NamedTuple):
    """Certificates of one run each: (b, ...)."""

    later: Certificate
    literal: Certificate
    increments: Certificate
    rise: Certificate
    growth: Certificate
    weak: Certificate
    rank_1_weak: Certificate
    best: Certificate
    best_weak: Certificate
    separable: Certificate
    at_best: Certificate
    mean: Certificate
    parabola: Certificate
    any_step: Certificate
    any_step_paper: Certificate
    same_mistakes: Certificate
    same_mistakes_paper: Certificate


def _same(own: jax.Array, other: jax.Array) -> Certificate:
    """Compare two sequences of truths by the number of places where they agree."""
    count = jnp.asarray(float(len(own)))
    return certificate.equal((own == other).sum().astype(count.dtype), count)


@functools.lru_cache
def _dual_program() -> Callable[..., Dual]:
    def one(
        run: Runs,
        unit: Runs,
        paper: Runs,
        paper_unit: Runs,
        step: jax.Array,
        us: Comparators,
    ) -> Dual:
        info, deltas = run.info, run.deltas
        is_mistake = info.is_mistake
        pushes = step * deltas
        mistakes = is_mistake.sum()
        conjugate = info.conjugate[-1]
        f = conjugate / (step * step)  # of the run with C = 1
        loss = jnp.where(is_mistake[None], us.losses, 0).sum(1)
        best = duality.best_step_size(mistakes, f)
        factors = jnp.array([0.5, 0.98, 1.0, 1.7]).astype(step.dtype)
        weak = functools.partial(
            duality.weak_duality, mistakes, conjugate, step_size=step
        )
        over_u = jax.vmap(regret.literal_regret, in_axes=(None, None, None, 0))
        return Dual(
            later=regret.later_losses(
                info.margin, (run.params * deltas).sum((1, 2)), is_mistake
            ),
            literal=over_u(info.loss, is_mistake, info.margin, us.margins),
            increments=duality.increment_identity(
                info.dual_increment, run.before, pushes, is_mistake, step_size=step
            ),
            rise=duality.increments_rise(info.dual_increment, is_mistake),
            growth=duality.growth_bound(
                info.dual_increment,
                is_mistake,
                step_size=step,
                conjugate=info.conjugate,
                squared_norm=info.squared_norm,
                ratio=run.ratio,
            ),
            weak=weak(comparator_penalty=us.trace, comparator_loss=loss),
            rank_1_weak=weak(comparator_penalty=us.energy, comparator_loss=loss),
            best=duality.dual_is_largest_at_best_step(
                mistakes, f, step_size=factors * best.step_size
            ),
            best_weak=duality.weak_duality_at_best_step(
                mistakes, f, comparator_penalty=us.trace, comparator_loss=loss
            ),
            separable=duality.separable_mistakes(
                mistakes, f, comparator_penalty=us.trace, comparator_loss=loss
            ),
            at_best=certificate.at_most(
                jnp.zeros_like(f), best.dual_objective, assumptions_met=f > 0
            ),
            mean=duality.dual_mean(run.after, pushes),
            parabola=duality.dual_of_step(
                info.dual_increment,
                unit.info.is_mistake.sum(),
                unit.info.conjugate[-1],
                step_size=step,
            ),
            any_step=duality.same_run(run.params, unit.params, step_size=step),
            any_step_paper=duality.same_run(
                paper.params, paper_unit.params, step_size=step
            ),
            same_mistakes=_same(is_mistake, unit.info.is_mistake),
            same_mistakes_paper=_same(
                paper.info.is_mistake, paper_unit.info.is_mistake
            ),
        )

    return bol_runs.compiled(jax.vmap(one))


@functools.lru_cache(maxsize=8)
def dual(effort: Effort, shape: tuple[int, int]) -> Dual:
    """Return the certificates of duality, of the exact runs of one shape."""
    studied = study(effort, shape)
    runs = studied.exact, studied.unit, studied.paper, studied.paper_unit
    return _dual_program()(*runs, studied.made.steps, studied.us)


class Margins(NamedTuple):
    """Certificates of one pool and its run: (b, ...)."""

    ratio: Certificate
    least: Certificate
    tied: Certificate
    gap: Certificate
    scaled: Certificate
    threshold: Certificate
    printed_threshold: Certificate
    corollary: Certificate
    mistakes: Certificate
    below: Certificate
    above: Certificate


@functools.lru_cache
def _margin_program(num_values: int) -> Callable[..., Margins]:
    def one(
        pool: jax.Array,
        weights: jax.Array,
        info: Any,
        arrays: tuple[jax.Array, ...],
        step: jax.Array,
        losses: jax.Array,
        energy: jax.Array,
    ) -> Margins:
        deltas, before = arrays
        separated = margin.separation(weights, pool)
        at = jnp.array([0.0, 0.3, 1.0]).astype(step.dtype)[:, None, None, None]
        points = before[None] + at * (step * deltas)[None]
        count = info.is_mistake.sum()
        f = info.conjugate[-1] / (step * step)
        others = jnp.where(info.is_mistake[None], losses, 0).sum(1)
        return Margins(
            ratio=margin.ratio_bound(points.reshape(-1, *weights.shape), separated),
            least=margin.margin_within_least_norm(separated),
            tied=margin.tied_features(weights, pool),
            gap=margin.gap_is_enough(pool),
            scaled=margin.margin_of_scaled(weights, pool),
            threshold=margin.threshold(weights, pool),
            printed_threshold=margin.threshold(weights, pool, is_printed=True),
            corollary=margin.corollary(
                info.loss.sum() - others,
                separated,
                step_size=step,
                num_rounds=jnp.maximum(count, 1),
                num_values=num_values,
                comparator_energy=energy,
            ),
            mistakes=margin.mistake_bound(count, separated),
            below=margin.conjugate_below(count, f, separated),
            above=margin.conjugate_above(count, f, separated),
        )

    return bol_runs.compiled(jax.vmap(one))


@functools.lru_cache(maxsize=8)
def margins(effort: Effort, shape: tuple[int, int]) -> tuple[Problems, Margins]:
    """Take the streams with one possible difference a round as pools."""
    studied = study(effort, shape)
    here = np.isin(studied.made.cases, bol_runs.POOLS)
    made, exact, us = jax.tree.map(
        lambda part: part[here], (studied.made, studied.exact, studied.us)
    )
    given = (exact.deltas, exact.before), made.steps, us.losses, us.energy
    program = _margin_program(min(shape))
    return made, program(made.features[:, :, 1], made.planted, exact.info, *given)
