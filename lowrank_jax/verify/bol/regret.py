"""Regret, duality, averaging and margins of BOL (BOL-N3 to C6, DR-B3, B4, B7 to B9)."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.data.sequences import Space
from lowrank_jax.online import perceptron
from lowrank_jax.theory import certificate
from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.types import Sentence
from lowrank_jax.verify.bol import runs, studies
from lowrank_jax.verify.bol.runs import Problems
from lowrank_jax.verify.statement import Effort, Found, Statement

__all__ = ["STATEMENTS"]

_SHAPE = (3, 4)
Check = Callable[[Effort], Iterator[Found]]


def _shapes(effort: Effort) -> tuple[tuple[int, int], ...]:
    """The main shape holds smaller ones filled up; thoroughly, they come as such."""
    return (_SHAPE,) if effort.is_quick else (_SHAPE, (1, 1), (1, 4), (2, 2), (2, 7))


def _found(
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
      given: the certificates.
      made: the problems.
      words: added to the name.
      only: the cases to keep, if any are named.
      without: the cases to leave out.
      over_floor: say nothing of rounds (b, t) whose sides are 1e-9 of the largest of
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


def _from_chain(name: str, *maps: str) -> Check:
    def check(effort: Effort) -> Iterator[Found]:
        for shape in _shapes(effort):
            made = studies.study(effort, shape).made
            every = studies.chains(effort, shape)
            for kind in maps or ("exact",):
                words = f"{shape[0]}x{shape[1]}, {kind}"
                yield from _found(getattr(every[kind], name), made, words)

    return check


def _from_dual(
    name: str,
    *,
    only: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
    over_floor: bool = False,
) -> Check:
    def check(effort: Effort) -> Iterator[Found]:
        for shape in _shapes(effort):
            found = getattr(studies.dual(effort, shape), name)
            made = studies.study(effort, shape).made
            words = f"{shape[0]}x{shape[1]}"
            yield from _found(
                found, made, words, only=only, without=without, over_floor=over_floor
            )

    return check


def _from_margins(name: str, *, only: tuple[str, ...] = ()) -> Check:
    def check(effort: Effort) -> Iterator[Found]:
        for shape in _shapes(effort):
            made, found = studies.margins(effort, shape)
            words = f"{shape[0]}x{shape[1]}"
            yield from _found(getattr(found, name), made, words, only=only)

    return check


def _certificate(effort: Effort) -> Iterator[Found]:
    """DR-B4 for the exact map, for sp, for Eq. (9)-(12), and for blocks."""
    yield from _from_chain("within", "exact", "sp", "Eq. (9)-(12)")(effort)
    count = len(studies.study(effort, _SHAPE).made.steps)
    found = studies.block_chain(effort.generator(45), count)
    yield Found(found, "blocks, each mapped by itself")


def _rank_1_duality(effort: Effort) -> Iterator[Found]:
    for shape in _shapes(effort):
        studied = studies.study(effort, shape)
        is_rank_1 = jnp.asarray(studied.us.is_rank_1)
        found = studies.dual(effort, shape).rank_1_weak
        found = found._replace(
            assumptions_met=is_rank_1, holds=found.holds | ~is_rank_1
        )
        yield from _found(found, studied.made, f"{shape[0]}x{shape[1]}")


def _any_step(effort: Effort) -> Iterator[Found]:
    """W_t and mistakes; where equal scores are usual, rounding breaks them."""
    for name in ("any_step", "any_step_paper"):
        yield from _from_dual(name, without=runs.TIED, over_floor=True)(effort)
    for name in ("same_mistakes", "same_mistakes_paper"):
        yield from _from_dual(name, without=runs.TIED)(effort)


def _dual_average(effort: Effort) -> Iterator[Found]:
    """The averaged perceptron is the mean of W_t: bol_dense, and sp on sentences."""
    yield from _from_dual("mean", over_floor=True)(effort)
    studied = studies.study(effort, _SHAPE)
    sp = studied.perceptron

    @runs.compiled
    def compare(average: jax.Array, params: jax.Array) -> Certificate:
        scale = jnp.abs(params).max((1, 2, 3))
        return certificate.equal(average, params.mean(1), num_axes=2, scale=scale)

    yield from _found(compare(sp.average, sp.params), studied.made, "sp on matrices")
    if not effort.is_quick:  # the learner of sequences takes long to compile
        yield Found(_averaged_perceptron(effort), "sp on sentences")


def _averaged_perceptron(effort: Effort) -> Certificate:
    rng = effort.generator(44)
    space = Space(num_features=6, num_labels=3, orders=("1", "0"))
    count, window = 40, 8
    ids = rng.integers(0, 6, (count, window, 2)).astype(np.int32)
    labels = rng.integers(0, 3, (count, window)).astype(np.int32)
    lengths = rng.integers(1, window + 1, count).astype(np.int32)
    learner = perceptron.learner(step_size=0.5, dtype=jnp.float64)

    def go(ids: jax.Array, labels: jax.Array, lengths: jax.Array) -> Any:
        def body(state: perceptron.State, example: tuple[jax.Array, ...]) -> Any:
            ids, labels, length = example
            sentence = Sentence(ids, labels, length, space=space)
            new, _ = learner.update(state, sentence)
            return new, new.params

        first = Sentence(ids[0], labels[0], lengths[0], space=space)
        state = learner.init(jax.random.key(0), first)
        state, params = jax.lax.scan(body, state, (ids, labels, lengths))
        return perceptron.final_params(state), params

    average, params = runs.compiled(go)(ids, labels, lengths)
    parts = [(average.zero, params.zero), (average.first, params.first)]
    own = np.concatenate([np.ravel(mean) for mean, _ in parts])
    every = np.concatenate([np.reshape(each, (count, -1)) for _, each in parts], 1)
    return certificate.equal(jnp.asarray(own), jnp.asarray(every.mean(0)), num_axes=1)


_REGRET = "lowrank_jax.theory.bol.regret."
_DUALITY = "lowrank_jax.theory.bol.duality."
_MARGIN = "lowrank_jax.theory.bol.margin."

STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "BOL-N3",
        "rounds without a mistake cancel: regret over mistakes = over all rounds",
        "proved",
        _REGRET + "literal_regret",
        _from_dual("literal"),
        form="mistake-free rounds",
    ),
    Statement(
        "BOL-N3",
        "L_t(W_t) <= L_t(W_{t-1}): the printed index makes the smaller regret",
        "proved",
        _REGRET + "later_losses",
        _from_dual("later"),
        form="printed index",
    ),
    Statement(
        "BOL-N5",
        "Delta_t = C - |Theta + C dPhi|_2^2/2 + |Theta|_2^2/2 is what a run reports",
        "proved",
        _DUALITY + "increment_identity",
        _from_dual("increments", over_floor=True),
        form="increment",
    ),
    Statement(
        "BOL-N5",
        "sum Delta_t = CM - F*(Theta_N) <= |U|_F^2/2 + C sum L_t(U), U of rank 1",
        "proved",
        _DUALITY + "weak_duality",
        _rank_1_duality,
        form="weak duality",
    ),
    Statement(
        "BOL-N5",
        "sum Delta_t <= |U|_s(1)^2/2 + C sum L_t(U) for every U",
        "proved",
        _DUALITY + "weak_duality",
        _from_dual("weak"),
        form="weak duality, any U",
    ),
    Statement(
        "BOL-N5",
        "every mistake raises the dual: Delta_t >= 0",
        "printed-form-fails",
        _DUALITY + "increments_rise",
        _from_dual("rise", only=("one mistake",)),
        form="printed",
    ),
    Statement(
        "BOL-N5",
        "C - Delta_t <= C^2 |dPhi|_F^2 / (2 (1 - s2/s1)): small C raises the dual",
        "proved",
        _DUALITY + "growth_bound",
        _from_dual("growth"),
        form="corrected",
    ),
    Statement(
        "BOL-N5",
        "at C* = M/2f the dual is at least 0",
        "proved",
        _DUALITY + "best_step_size",
        _from_dual("at_best"),
        is_tight=False,
        form="corrected, C*",
    ),
    Statement(
        "BOL-P4",
        "regret <= |U|_F^2/2C + 2lC sum |dPhi|_F^2/(1 - s2/s1), every U",
        "proved",
        _REGRET + "paper_bound",
        _from_chain("paper"),
        is_tight=False,
        form="printed",
    ),
    Statement(
        "BOL-P4",
        "its proof: weak duality with |U|_F^2/2 for U of any rank",
        "printed-form-fails",
        _DUALITY + "weak_duality",
        _from_dual("rank_1_weak", only=("unmoved",)),
        form="step of the proof",
    ),
    Statement(
        "BOL-P4",
        "regret <= |U|_F^2/2C + (l/2)C sum |dPhi|_F^2/(1 - s2/s1), every U",
        "proved",
        _REGRET + "sharpened_paper_bound",
        _from_chain("sharpened"),
        form="sharpened",
    ),
    Statement(
        "BOL-P4",
        "tight bound (DR-B3) <= paper's bound, U of rank 1",
        "proved",
        _REGRET + "tight_within_paper",
        _from_chain("loose"),
        is_tight=False,
        form="chain",
    ),
    Statement(
        "DR-B3",
        "regret <= |U|_s(1)^2/2C + (C/2) sum |dPhi|_F^2/(1 - s2/s1), every U",
        "proved",
        _REGRET + "tight_bound",
        _from_chain("tight"),
    ),
    Statement(
        "DR-B3",
        "certificate (DR-B4) <= tight bound",
        "proved",
        _REGRET + "certificate_within_tight",
        _from_chain("within_tight", "exact", "sp"),
        form="chain",
    ),
    Statement(
        "DR-B4",
        "regret <= (F**(U) + F*(Theta_t) - C sum <W, dPhi>)/C after every round",
        "proved",
        _REGRET + "within_certificate",
        _certificate,
    ),
    Statement(
        "BOL-Alg2",
        "W_t and the mistakes do not depend on C, but for the factor C",
        "proved",
        _DUALITY + "same_run",
        _any_step,
        form="any C",
    ),
    Statement(
        "DR-B8",
        "D(C) = CM - C^2 f",
        "proved",
        _DUALITY + "dual_of_step",
        _from_dual("parabola", without=runs.TIED),
        form="parabola",
    ),
    Statement(
        "DR-B8",
        "D(C) <= M^2/4f, attained at C* = M/2f",
        "proved",
        _DUALITY + "dual_is_largest_at_best_step",
        _from_dual("best"),
        form="maximum",
    ),
    Statement(
        "DR-B8",
        "M^2/4f <= F**(U) + C* sum L_t(U)",
        "proved",
        _DUALITY + "weak_duality_at_best_step",
        _from_dual("best_weak"),
        form="weak duality",
    ),
    Statement(
        "DR-B8",
        "M^2 <= 4 f F**(U) where <U, dPhi_t> >= 1",
        "proved",
        _DUALITY + "separable_mistakes",
        _from_dual("separable"),
        form="separable",
    ),
    Statement(
        "DR-B9",
        "mean of Theta_t = its lazy form; for sp it is the averaged perceptron",
        "proved",
        _DUALITY + "dual_mean",
        _dual_average,
    ),
    Statement(
        "BOL-D1",
        "margin = 1/|W|_s(1) where W is scaled to min <W, dPhi> = 1",
        "proved",
        _MARGIN + "margin_of_scaled",
        _from_margins("scaled"),
    ),
    Statement(
        "BOL-P5",
        "s2/s1 <= (M2 - gamma)/gamma on every segment",
        "proved",
        _MARGIN + "ratio_bound",
        _from_margins("ratio"),
        form="ratio",
    ),
    Statement(
        "BOL-P5",
        "gamma <= inf |dPhi|_2, which is at most M1",
        "proved",
        _MARGIN + "margin_within_least_norm",
        _from_margins("least"),
        form="range of gamma",
    ),
    Statement(
        "BOL-P5",
        "a dPhi with s1 = s2, as blocks have: gamma <= M2/2, the assumption fails",
        "proved",
        _MARGIN + "tied_features",
        _from_margins("tied"),
        form="tied features",
    ),
    Statement(
        "BOL-C6",
        "mean regret <= |U|_F^2/2CN + 2 C l^2 M1^2 gamma/(2 gamma - M2)",
        "proved",
        _MARGIN + "corollary",
        _from_margins("corollary"),
        is_tight=False,
        form="printed",
    ),
    Statement(
        "BOL-C6",
        "remark: gamma > M2/2 if and only if |W|_s(1) < M2/2",
        "printed-form-fails",
        _MARGIN + "threshold",
        _from_margins("printed_threshold", only=("one mistake",)),
        form="remark, printed",
    ),
    Statement(
        "BOL-C6",
        "remark: gamma > M2/2 if and only if |W|_s(1) < 2/M2",
        "proved",
        _MARGIN + "threshold",
        _from_margins("threshold"),
        form="remark, corrected",
    ),
    Statement(
        "BOL-C6",
        "remark: s1 - s2 >= delta for all dPhi gives M1 - M2/2 >= delta/2",
        "proved",
        _MARGIN + "gap_is_enough",
        _from_margins("gap"),
        form="remark, gap",
    ),
    Statement(
        "DR-B7",
        "M <= max |dPhi|_F^2/(gamma (2 gamma - M2))",
        "proved",
        _MARGIN + "mistake_bound",
        _from_margins("mistakes"),
        form="mistakes",
    ),
    Statement(
        "DR-B7",
        "M^2 gamma^2/2 <= F*(Theta_M)",
        "proved",
        _MARGIN + "conjugate_below",
        _from_margins("below"),
        form="sandwich, below",
    ),
    Statement(
        "DR-B7",
        "F*(Theta_M) <= (M/2) max |dPhi|_F^2 gamma/(2 gamma - M2)",
        "proved",
        _MARGIN + "conjugate_above",
        _from_margins("above"),
        form="sandwich, above",
    ),
)
