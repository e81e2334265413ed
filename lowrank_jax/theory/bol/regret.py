r"""Regret of online mirror descent, from the trace of a run (BOL-N3, P4, DR-B3, B4).

For any conjugate :math:`F^*` and any :math:`W_{t-1}`, with
:math:`B_t = F^*(\Theta_t) - F^*(\Theta_{t-1}) - C\langle W_{t-1}, \Delta\Phi^t\rangle`,

.. math:: C \sum_t \langle U - W_{t-1}, \Delta\Phi^t\rangle
   \le F^{**}(U) + \sum_t B_t \qquad\text{(DR-B4)}

by Fenchel and Young and a telescoping sum; so the regret of the hinge losses against
:math:`U` is at most the right side over :math:`C`, over the rounds with a mistake. The
sum needs :math:`F^*(\Theta_N)` alone: a run whose per-round numbers come from a few
power steps ends with the exact value and stays certified. If :math:`\sigma_1>\sigma_2`
on every segment from :math:`\Theta_{t-1}` to :math:`\Theta_t`, then
:math:`B_t \le \frac12 C^2\|\Delta\Phi^t\|_F^2/(1-\hat\sigma_2/\hat\sigma_1)` (DR-B2):
the tight bound DR-B3. The paper has :math:`2l` instead of :math:`\frac12`.

All regrets and bounds are sums over rounds, not means. Rounds without a mistake have
:math:`\Delta\Phi = 0` and count nothing (errata of BOL-N3).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax.checks import InputError
from lowrank_jax.linalg.segments import curvature, segment_ratio
from lowrank_jax.theory import certificate
from lowrank_jax.theory.certificate import Certificate

__all__ = [
    "AlongRounds",
    "Rounds",
    "along_rounds",
    "certificate_within_tight",
    "curvature",
    "has_step_size",
    "later_losses",
    "literal_regret",
    "paper_bound",
    "regret_certificate",
    "segment_ratio",
    "sharpened_paper_bound",
    "tight_bound",
    "tight_within_paper",
    "within_certificate",
]
__dir__ = __all__.copy


class Rounds(NamedTuple):
    """What a bound needs of the rounds of a run, for a run of your own: (num_rounds,).

    The learners' `Info`, stacked over rounds, has these fields and may stand in its
    place.
    """

    margin: Any  # <W_{t-1}, dPhi_t>
    is_mistake: Any  # booleans
    dual_increment: Any  # Delta_t (BOL-N5)
    conjugate: Any  # F*(Theta_t)
    bregman: Any  # B_t (DR-B4)
    step_size: Any = None  # C of each round; see `has_step_size`


def has_step_size(
    trace: Any, step_size: float | jax.Array, *, tolerance: float | None = None
) -> jax.Array:
    r"""Return whether the rounds of a trace moved by this step size, () bool.

    On a mistake :math:`\Delta_t + B_t = C(1 - \langle W_{t-1}, \Delta\Phi^t\rangle)`,
    whatever the map. The sums over rounds are compared too: small deviations add up.
    At large :math:`C`, :math:`\Delta_t` and :math:`B_t` cancel. The sums then have room
    for the rounding of both, a five-hundredth of the tolerance. If this room hides four
    digits of :math:`C`, only a trace that names its step size can be True.

    Args:
      trace: Trace of a run, with the fields of `Rounds`.
      step_size: Step size :math:`C`.
      tolerance: Rounding allowed, as a share of the terms; see `certificate.at_most`.
    """
    margin = jnp.asarray(trace.margin)
    share = _share(margin, tolerance)
    increment, bregman = jnp.asarray(trace.dual_increment), jnp.asarray(trace.bregman)
    step = jnp.asarray(step_size, margin.dtype)
    expected = step * (1 - margin)
    cancelled, size = jnp.abs(increment) + jnp.abs(bregman), jnp.abs(expected)
    error = jnp.where(trace.is_mistake, increment + bregman - expected, 0)
    is_each = (jnp.abs(error) <= share * (cancelled + size)).all()
    size, lost = (
        jnp.where(trace.is_mistake, part, 0).sum() for part in (size, cancelled / 500)
    )
    named = getattr(trace, "step_size", None)
    is_known = share * lost <= 1e-4 * size
    if named is not None:
        is_known = jnp.abs(jnp.asarray(named, step.dtype) - step) <= share * step
        is_known = (is_known | ~jnp.asarray(trace.is_mistake)).all()
    return is_each & is_known & (jnp.abs(error.sum()) <= share * (size + lost))


def _share(margin: jax.Array, tolerance: float | None) -> jax.Array:
    if tolerance is None:
        tolerance = 1e-9 if margin.dtype == jnp.float64 else 1e-4
    return jnp.asarray(tolerance, margin.dtype)


def _check_losses(comparator_losses: Any, margin: jax.Array) -> None:
    if jnp.shape(comparator_losses) != margin.shape:
        raise InputError(
            f"`comparator_losses` must have one loss per round of the trace, shape "
            f"{margin.shape}, got {jnp.shape(comparator_losses)}."
        )


def regret_certificate(
    trace: Any,
    *,
    step_size: float | jax.Array,
    comparator_losses: jax.Array,
    comparator_penalty: jax.Array,
    conjugate: jax.Array | None = None,
    tolerance: float | None = None,
) -> Certificate:
    r"""Compare the total regret with its certificate (DR-B4).

    The trace is asked for its own step size. For any other, for negative losses of U
    and for a conjugate below the trace's, the sides are NaN and nothing holds. Losses
    and penalty of U are given numbers, and the function compares numbers: a run is
    certified by `certify.regret`, which computes them from U, data and state.

    Args:
      trace: Trace of all rounds: `Info` of a learner of `online`, stacked.
      step_size: Step size :math:`C` of the run.
      comparator_losses: Losses :math:`[1 - \langle U, \Delta\Phi^t\rangle]_+`,
        (num_rounds,).
      comparator_penalty: Penalty :math:`F^{**}(U)`.
      conjugate: Conjugate :math:`F^*(\Theta_N)`, or an upper bound of it. None takes
        the last of the trace, which a map by a few power steps makes too small.
      tolerance: Tolerance of `certificate.at_most`. Static.

    Returns:
      Certificate of the sums over rounds. For means, divide both sides by the number of
      rounds or of mistakes.
    """
    margin, is_mistake = jnp.asarray(trace.margin), trace.is_mistake
    _check_losses(comparator_losses, margin)
    ended = jnp.asarray(trace.conjugate)[-1] if conjugate is None else conjugate
    losses = jnp.where(is_mistake, jax.nn.relu(1 - margin), 0)
    others = jnp.where(is_mistake, comparator_losses, 0)
    bregman = ended - step_size * jnp.where(is_mistake, margin, 0).sum()
    bound = (comparator_penalty + bregman) / step_size
    scale = losses.sum() + others.sum()
    regret = losses.sum() - others.sum()
    is_own = has_step_size(trace, step_size, tolerance=tolerance) & (others >= 0).all()
    least = jnp.asarray(trace.conjugate)[-1]  # by power steps, or exact
    is_own &= ended >= least - 10 * _share(margin, tolerance) * jnp.abs(least)
    regret, bound = (jnp.where(is_own, side, jnp.nan) for side in (regret, bound))
    return certificate.at_most(regret, bound, scale=scale, tolerance=tolerance)


class AlongRounds(NamedTuple):
    """Regret against one U and its bounds, summed up to each round: (num_rounds,)."""

    regret: jax.Array
    certificate: jax.Array  # DR-B4
    tight: jax.Array  # DR-B3; infinite from the first segment with a tie on
    paper: jax.Array  # BOL-P4 as printed, with ||U||_F
    scale: jax.Array  # size of the sums the regret is the difference of


def along_rounds(
    trace: Any,
    *,
    step_size: float | jax.Array,
    comparator_losses: jax.Array,
    comparator_penalty: float | jax.Array,
    comparator_energy: float | jax.Array | None = None,
    conjugate: jax.Array | None = None,
    squared_norm: jax.Array | None = None,
    ratio: jax.Array | None = None,
    num_values: int | jax.Array = 1,
    tolerance: float | None = None,
) -> AlongRounds:
    r"""Sum regret, certificate, tight bound and paper's bound up to each round.

    For a step size other than the trace's own, all of them are NaN and nothing holds.

    Args:
      trace: Trace of all rounds: `Info` of a learner of `online`, stacked.
      step_size: :math:`C` of the run.
      comparator_losses: (num_rounds,) :math:`[1 - \langle U, \Delta\Phi^t\rangle]_+`.
      comparator_penalty: :math:`F^{**}(U)`; for BOL half the squared trace norm.
      comparator_energy: :math:`\frac12\|U\|_F^2`; None: as the penalty (rank 1).
      conjugate: (num_rounds,) :math:`F^*(\Theta_t)`, exact or too large. None takes the
        trace's. One that is too small (a few power steps) makes an estimate of the
        certificate.
      squared_norm: (num_rounds,) :math:`\|\Delta\Phi^t\|_F^2`; None: the bounds that
        need it are infinite.
      ratio: (num_rounds,) Largest :math:`\sigma_2/\sigma_1` on the segment, see
        `segment_ratio`; 0 for the perceptron, and where `squared_norm` has been divided
        by 1 - ratio block by block. None: the bounds that need it are infinite.
      num_values: :math:`l = \min(m, n)`, for the paper's constant.
      tolerance: Tolerance of `has_step_size`. A trace in double precision of a run in
        single precision needs the tolerance of single precision. Static.
    """
    margin, is_mistake = jnp.asarray(trace.margin), trace.is_mistake
    _check_losses(comparator_losses, margin)
    dtype = margin.dtype
    step = jnp.asarray(step_size, dtype)
    penalty = jnp.asarray(comparator_penalty, dtype)
    energy = penalty
    if comparator_energy is not None:
        energy = jnp.asarray(comparator_energy, dtype)
    values = trace.conjugate if conjugate is None else conjugate

    def total(values: jax.Array) -> jax.Array:
        return jnp.cumsum(jnp.where(is_mistake, values.astype(dtype), 0))

    losses, others = total(jax.nn.relu(1 - margin)), total(comparator_losses)
    bregman = jnp.asarray(values, dtype) - step * total(margin)  # DR-B4
    spread = jnp.full_like(margin, jnp.inf)
    if squared_norm is not None and ratio is not None:
        spread = total(curvature(squared_norm, ratio)) * step
    factor = 2 * jnp.asarray(num_values, dtype)
    found = AlongRounds(
        regret=losses - others,
        certificate=(penalty + bregman) / step,
        tight=penalty / step + spread / 2,  # DR-B3
        paper=energy / step + factor * spread,  # BOL-P4
        scale=losses + others,
    )
    is_own = has_step_size(trace, step, tolerance=tolerance)
    return jax.tree.map(lambda part: jnp.where(is_own, part, jnp.nan), found)


def within_certificate(along: AlongRounds) -> Certificate:
    """Compare regret and certificate after each round (DR-B4)."""
    return certificate.at_most(along.regret, along.certificate, scale=along.scale)


def certificate_within_tight(along: AlongRounds) -> Certificate:
    """Compare certificate and tight bound after each round (DR-B2 summed)."""
    is_met = ~jnp.isinf(along.tight)
    return certificate.at_most(along.certificate, along.tight, assumptions_met=is_met)


def tight_bound(along: AlongRounds) -> Certificate:
    """Compare regret and tight bound after each round (DR-B3)."""
    is_met = ~jnp.isinf(along.tight)
    return certificate.at_most(
        along.regret, along.tight, assumptions_met=is_met, scale=along.scale
    )


def tight_within_paper(
    along: AlongRounds, *, is_rank_1: bool | jax.Array
) -> Certificate:
    """Compare tight bound and paper's bound, U of rank 1: there the norms agree."""
    is_met = ~jnp.isinf(along.tight) & is_rank_1
    return certificate.at_most(along.tight, along.paper, assumptions_met=is_met)


def paper_bound(along: AlongRounds) -> Certificate:
    r"""Compare regret and the paper's bound after each round (BOL-P4 as printed).

    The paper's proof uses :math:`F_1^{**}(U) = \frac12\|U\|_F^2`, true for U of rank 1
    alone. The bound holds for every U all the same, by another way: Fenchel and Young
    for :math:`\frac12\|\cdot\|_F^2` give

    .. math:: C\sum_t\langle U - W_{t-1},\Delta\Phi^t\rangle \le \tfrac12\|U\|_F^2
       + \tfrac12\|\Theta_N\|_F^2 - C\sum_t\langle W_{t-1},\Delta\Phi^t\rangle ;

    :math:`\frac12\|\Theta_N\|_F^2 \le l\,F_1^*(\Theta_N)` and the margins are not
    positive, so the last two terms are at most :math:`l\sum_t B_t`, and DR-B2 leaves
    :math:`\frac l2` where the paper has :math:`2l`.
    """
    is_met = ~jnp.isinf(along.paper)
    return certificate.at_most(
        along.regret, along.paper, assumptions_met=is_met, scale=along.scale
    )


def sharpened_paper_bound(
    along: AlongRounds,
    *,
    step_size: float | jax.Array,
    comparator_energy: float | jax.Array,
) -> Certificate:
    r"""Compare regret and BOL-P4 with l/2 instead of 2l: any U, see `paper_bound`.

    Args:
      along: Result of `along_rounds` with the same `comparator_energy`.
      step_size: :math:`C`.
      comparator_energy: :math:`\frac12\|U\|_F^2`.
    """
    dtype = along.paper.dtype
    energy = jnp.asarray(comparator_energy, dtype) / jnp.asarray(step_size, dtype)
    is_met = ~jnp.isinf(along.paper)
    bound = energy + (jnp.where(is_met, along.paper, energy) - energy) / 4
    return certificate.at_most(
        along.regret, bound, assumptions_met=is_met, scale=along.scale
    )


def literal_regret(
    losses: jax.Array,
    is_mistake: jax.Array,
    margin: jax.Array,
    comparator_margin: jax.Array,
) -> Certificate:
    r"""Compare the regret over mistakes with the one over all rounds (BOL-N3).

    Where :math:`\bar y^t = y^t`, :math:`\Delta\Phi^t = 0` and the literal hinge is 1
    for learner and comparator alike: the two cancel.

    Args:
      losses: (num_rounds,) Losses as the learner reports them, 0 without a mistake.
      is_mistake: (num_rounds,).
      margin: (num_rounds,) :math:`\langle W_{t-1}, \Delta\Phi^t\rangle`.
      comparator_margin: (num_rounds,) :math:`\langle U, \Delta\Phi^t\rangle`.
    """
    literal, others = jax.nn.relu(1 - margin), jax.nn.relu(1 - comparator_margin)
    # As an identity of sums of losses, where nothing cancels.
    return certificate.equal(
        losses.sum() + others.sum(),
        literal.sum() + jnp.where(is_mistake, others, 0).sum(),
    )


def later_losses(
    margin: jax.Array, margin_after: jax.Array, is_mistake: jax.Array
) -> Certificate:
    r"""Compare the losses of the printed index, L_t(W_t), with L_t(W_{t-1}) (BOL-N3).

    The gradient of a convex function is monotone: :math:`\langle W_t - W_{t-1},
    C\Delta\Phi^t\rangle \ge 0`. So the printed regret is the smaller, and every
    bound holds for it too; but :math:`W_t` has seen round t.

    Args:
      margin: (num_rounds,) :math:`\langle W_{t-1}, \Delta\Phi^t\rangle`.
      margin_after: (num_rounds,) :math:`\langle W_t, \Delta\Phi^t\rangle`.
      is_mistake: (num_rounds,).
    """
    before, after = jax.nn.relu(1 - margin), jax.nn.relu(1 - margin_after)
    scale = jnp.abs(margin) + jnp.abs(margin_after)
    return certificate.at_most(after, before, assumptions_met=is_mistake, scale=scale)
