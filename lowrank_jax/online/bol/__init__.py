r"""BOL: Wu and Sun, "An Online Learning Algorithm for Bilinear Models", ICML 2015.

Round :math:`t` predicts :math:`\bar y^t` with :math:`W_{t-1}` and moves in the dual,

.. math:: \Theta_t = \Theta_{t-1} + \eta_t\,\Delta\Phi^t, \qquad
   W_t = \nabla F^*(\Theta_t) \qquad \text{(BOL-Eq8)}

with :math:`\eta_t = C` on a mistake and 0 otherwise. The variants differ in the map:

===========  =====================================================================
``"block"``  each feature's block has rank at most `rank`: DR-B6, DR-B5, BOL-X3
``"paper"``  Algorithm 2, Eq. (9)-(12), block by block or with one divisor for all
``"exact"``  the true :math:`\nabla F_1^*`: one block only, a diagnostic
===========  =====================================================================

The 0-order features and label transitions (BOL-X1) move by
:math:`w_t = w_{t-1} + C\,\Delta\hat\Phi^t`. For matrices without blocks, see
`bol_dense`.

Of each round, the certificate (DR-B4) needs :math:`B_t = F^*(\Theta_t) -
F^*(\Theta_{t-1}) - C\langle W_{t-1}, \Delta\Phi^t\rangle`. It bounds the regret for any
:math:`W_{t-1}`, even if the map is not exact, as long as :math:`F^*` is exact.
"""

import dataclasses
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax import checks
from lowrank_jax.data.sequences import MOST_RANK
from lowrank_jax.decode import best_path
from lowrank_jax.models import bilinear
from lowrank_jax.online import entries, mistakes
from lowrank_jax.online.bol import block as bol_block
from lowrank_jax.online.bol.average import final_params
from lowrank_jax.online.bol.state import (
    Seen,
    State,
    grow,
    start_of,
    theta,
    variant_of,
)
from lowrank_jax.online.entries import Capacity
from lowrank_jax.types import Learner, Sentence, check_dtype, documented, fingerprint

__all__ = [
    "Capacity",
    "Info",
    "State",
    "final_params",
    "grow",
    "learner",
    "theta",
    "variant_of",
]
__dir__ = __all__.copy

VARIANTS = ("block", "paper", "exact")
AVERAGING = ("dual", "weights", "factors", "none")
DIVISORS = ("block", "global")
RECORDS = ("ratio", "predicted", "squared_norm", "curvature")


@documented
class Info(NamedTuple):
    """What the proof and the report need of this round.

    Attributes:
      loss: [1 - <W, dPhi>]_+ on a mistake, else 0 (errata of BOL-N3), ().
      is_mistake: True if the prediction was wrong, () bool.
      num_wrong: Wrong labels, () int32.
      margin: <W_{t-1}, dPhi_t>, 0 or less, ().
      dual_increment: Delta_t (BOL-N5), ().
      conjugate: F*(Theta_t), ().
      bregman: B_t (DR-B4), ().
      sigma_1: "block": largest of a touched block; else of all Theta, ().
      ratio: sigma_{r+1} / sigma_r, same scope, if recorded, ().
      residual: Largest move of a singular vector in the last step, ().
      predicted: Predicted labels, if recorded, (window,) int32.
      fingerprint: Hash of the sentence, recorded with them, () uint32.
      squared_norm: ``||dPhi_t||^2``, if recorded, () int32.
      curvature: 2 B_t / C^2 at most (DR-B3), if recorded, ().
      step_size: C, times the weight of the sentence, ().
    """

    loss: jax.Array
    is_mistake: jax.Array
    num_wrong: jax.Array
    margin: jax.Array
    dual_increment: jax.Array
    conjugate: jax.Array
    bregman: jax.Array
    sigma_1: jax.Array
    ratio: jax.Array | None
    residual: jax.Array
    predicted: jax.Array | None = None
    fingerprint: jax.Array | None = None
    squared_norm: jax.Array | None = None
    curvature: jax.Array | None = None
    step_size: jax.Array | None = None


def learner(
    *,
    variant: Literal["block", "paper", "exact"] = "block",
    rank: int = 1,
    step_size: float | jax.Array = 1.0,
    averaging: Literal["dual", "weights", "factors", "none"] | None = None,
    num_power_steps: int = 2,
    num_inner_steps: int = 2,
    start: float | jax.Array = 0.0,
    divisor: Literal["block", "global"] = "block",
    divisor_factor: float | jax.Array = 1.0,
    record: tuple[Literal["ratio", "predicted", "squared_norm", "curvature"], ...] = (),
    dual: Literal["sparse", "dense"] = "sparse",
    capacity: Capacity | None = None,
    label_cost: jax.typing.ArrayLike | None = None,
    dtype: jnp.dtype = jnp.float32,
) -> Learner[State, Info, Sentence]:
    r"""Build the pair ``(init, update)``; both are pure.

    Args:
      variant: ``"block"``, ``"paper"`` or ``"exact"``; see the module.
      rank: Rank of each block, at least 1. Other than 1 only with ``"block"``. Static.
      step_size: :math:`C`, positive. May be traced. It changes only the reported loss
        and bound; predictions do not depend on it (errata of Alg2).
      averaging: ``"dual"`` averages Theta and maps once (DR-B9). It is not for
        ``"paper"``, whose map is not a function of Theta. ``"weights"`` takes the mean
        of W over rounds (DR-B13; for ``"block"`` only): blocks of full rank, as large
        as Theta. ``"factors"`` averages alpha, beta and scale one by one (BOL-X2).
        ``"none"`` takes the last iterate. The default is ``"dual"``, or ``"factors"``
        for ``"paper"``.
      num_power_steps: Number of subspace iterations per round on each touched block,
        for the mirror map of ``"block"`` and for sigma_1 of ``"paper"``. 0 takes the
        exact leading subspace, for at most 16 labels: then the mirror map is a function
        of Theta alone. Static.
      num_inner_steps: R of Algorithm 2, for ``"paper"``. On held-out sentences of
        CoNLL-2000 and pku 2 is better than 4, and makes fewer mistakes. Static.
      start: :math:`c_0` of :math:`\Theta_0 = c_0 11^\top` (DR-B11), zero or more, for
        ``"block"`` and for ``"paper"`` with ``divisor="block"``. The uniform block is
        a prior: a large start makes a linear model on the current and the previous
        label. Only the quotient of `start` and `step_size` matters.
      divisor: Divisor of Eq. (9)-(12), for ``"paper"``: ``"block"`` takes sigma_1 of
        each block, before or after the round, whichever is larger; ``"global"`` takes
        sigma_1 of all of Theta. Static.
      divisor_factor: Factor c of a block's divisor, at least 1. The factor 1 is literal
        and at the edge of stability, 2 is safe for every R. Above 1 the divisor is at
        least the Frobenius norm of the block, so that no sweep expands. May be traced.
      record: ``"ratio"`` records sigma_2 / sigma_1 of each round, by an SVD.
        ``"predicted"`` records the predicted labels; `certify` needs them to certify
        the run against any model. ``"squared_norm"`` and ``"curvature"`` record
        :math:`\|\Delta\Phi^t\|^2` and the bound on :math:`2B_t/C^2` of DR-B3, by
        SVDs along the segment of each touched block; the bound is for rank 1 of
        ``"block"`` and a converged map (`num_power_steps` of 32 or so). Static.
      dual: ``"sparse"`` keeps the entries of Theta that a mistake has touched,
        ``"dense"`` all K S (S + 1) of them. The entries are equal. The weights are
        equal up to rounding. Static.
      capacity: Room of ``"sparse"`` at the start. None takes room for all features if
        that is at most 80 MB. `loops.passes` grows a full state by itself. After a
        scan of your own, look at ``state.pool.is_full``. If it is true, the rounds
        after ``state.num_rounds`` were not done. Call ``learner.grow(state)`` and scan
        again from there. Static.
      label_cost: Costs of wrong labels, as in `online.perceptron`.
      dtype: Type of the weights.
    """
    checks.choice(VARIANTS, variant=variant)
    checks.whole(rank=rank, num_inner_steps=num_inner_steps)
    checks.at_most(MOST_RANK, rank=rank)
    checks.whole(least=0, num_power_steps=num_power_steps)
    checks.positive(step_size=step_size)
    checks.non_negative(start=start)
    checks.choice(DIVISORS, divisor=divisor)
    checks.choice(("sparse", "dense"), dual=dual)
    _check_paper(variant, start, divisor, divisor_factor)
    has_start = not isinstance(start, int | float) or start > 0
    if averaging is None:
        averaging = "factors" if variant == "paper" else "dual"
    checks.choice(AVERAGING, averaging=averaging)
    for name in record:
        checks.choice(RECORDS, record=name)
    if rank != 1 and variant != "block":
        raise checks.InputError(
            f"`rank` other than 1 needs variant='block', got rank={rank} with "
            f"variant={variant!r}."
        )
    if "curvature" in record and (rank, variant) != (1, "block"):
        raise checks.InputError(
            "`record='curvature'` needs variant='block' with rank=1, got "
            f"variant={variant!r} with rank={rank}."
        )
    if averaging == "dual" and variant == "paper":
        raise checks.InputError(
            "`averaging='dual'` needs variant='block' or 'exact': the factors of "
            "variant='paper' are not a function of Theta; say 'factors' or 'none'."
        )
    if averaging == "weights" and variant != "block":
        raise checks.InputError(
            f"`averaging='weights'` needs variant='block', got variant={variant!r}; "
            "say 'factors' or 'none'."
        )

    def init(key: jax.Array, example: Sentence) -> State:
        check_dtype(dtype)
        prior = jnp.asarray(start, dtype)
        if num_power_steps == 0:
            checks.at_most(16, num_labels=example.space.num_labels)
        room = (capacity or Capacity()) if dual == "sparse" else None
        state = start_of(key, example, variant, rank, averaging, divisor, prior, room)
        step = jnp.asarray(step_size, dtype)
        return state._replace(start=prior if has_start else None, step_size=step)

    def update(state: State, example: Sentence) -> tuple[State, Info]:
        if state.pool is not None:  # a full state does no round
            length = jnp.where(state.pool.is_full, 0, example.length)
            example = dataclasses.replace(example, length=length)
        scores = bilinear.sought(state.params, example, state.scores)
        example, predicted, differences, price = mistakes.predict(
            example, scores, label_cost
        )
        before, sentence = state, example
        state, example, differences = _enter(state, example, differences)
        step = mistakes.weighted(jnp.asarray(step_size, dtype), example)
        # The mean of W is over what the rounds predicted with (DR-B13): one later.
        weight = (state.num_rounds + int(averaging == "weights")).astype(dtype)
        moved = bol_block.move(
            state.params,
            state.blocks,
            state.sums,
            example,
            scores,
            differences,
            step,
            weight * step,
        )
        state = state._replace(
            params=state.params._replace(transitions=moved.transitions),
            blocks=moved.blocks,
            sums=moved.sums,
        )
        given = (state, moved.table, example, differences)
        if variant == "block":
            state, seen = _map_blocks(*given, weight, num_power_steps, record)
        else:
            from lowrank_jax.online.bol import maps  # the other variants

            steps = num_power_steps, num_inner_steps
            if variant == "exact":
                state, seen = maps.map_exact(*given, weight, record)
            elif divisor == "global":
                state, seen = maps.map_global(*given, step, *steps, record)
            else:
                factor = jnp.asarray(divisor_factor, dtype)
                state, seen = maps.map_paper(
                    *given, step, weight, factor, *steps, record
                )
        growth = moved.growth + seen.growth
        by_feature = sentence, differences._replace(rows=None)
        is_mistake = differences.num_positions > 0
        state = _end(state, before)._replace(conjugate=state.conjugate + growth)
        kept = before.scores
        if kept is not None and scores.unary.shape == kept.unary.shape:
            state = state._replace(scores=scores)
        info = Info(
            loss=jnp.where(is_mistake, jax.nn.relu(price - moved.margin), 0),
            is_mistake=is_mistake,
            num_wrong=differences.num_wrong,
            margin=moved.margin,
            dual_increment=jnp.where(is_mistake, step * price, 0) - growth,  # BOL-N5
            conjugate=state.conjugate,
            bregman=growth - step * moved.margin,  # DR-B4
            sigma_1=seen.sigma_1,
            ratio=seen.ratio,
            residual=seen.residual,
            predicted=predicted if "predicted" in record else None,
            fingerprint=fingerprint(sentence) if "predicted" in record else None,
            squared_norm=(
                mistakes.squared_norm(*by_feature) if "squared_norm" in record else None
            ),
            step_size=step,
        )
        if "curvature" in record:
            from lowrank_jax.online.bol import curvature  # a recorded run alone

            info = info._replace(curvature=curvature.of_round(state, *by_feature, step))
        return state, info

    def wide() -> Any:
        from lowrank_jax.online.wide import bol as wide_bol

        mistakes.refuse_cost(label_cost)
        chosen: dict[str, Any] = {"variant": variant, "averaging": averaging}
        chosen |= {"dual": dual, "num_power_steps": num_power_steps}
        return wide_bol.rounds(
            **chosen, step_size=step_size, record=record, dtype=dtype
        )

    return Learner(init, update, grow, wide)


def _enter(
    state: State, example: Sentence, differences: mistakes.Differences
) -> tuple[State, Sentence, mistakes.Differences]:
    """Give rows to the touched features, or begin no round; see `touched.enter`."""
    if state.pool is None or state.params.rows is None:
        return state, example, differences
    assert isinstance(state.blocks, entries.Blocks)
    pool, rows, example, differences = entries.enter(
        state.pool, state.params.rows, state.blocks, example, differences
    )
    params = state.params._replace(rows=rows)
    return state._replace(params=params, pool=pool), example, differences


def _end(state: State, before: State) -> State:
    """Count the round, unless it was not begun."""
    if state.pool is None:
        return state._replace(num_rounds=state.num_rounds + 1)
    is_full, sums = state.pool.is_full, state.sums
    pair: Any = state.pair
    old: Any = before.pair
    if hasattr(pair, "weight_sums"):  # sums over rounds, mistaken or not
        total = jnp.where(is_full, old.weight_sums, pair.weight_sums)
        pair = pair._replace(weight_sums=total)
    if sums is not None and before.sums is not None:
        sums = sums._replace(scale=jnp.where(is_full, before.sums.scale, sums.scale))
    num_rounds = state.num_rounds + (~is_full).astype(jnp.int32)
    return state._replace(pair=pair, sums=sums, num_rounds=num_rounds)


def _check_paper(
    variant: str, start: Any, divisor: str, divisor_factor: float | jax.Array
) -> None:
    """Raise `InputError` for settings that the variant does not have."""
    is_given = isinstance(divisor_factor, int | float) and divisor_factor != 1
    if is_given and (variant != "paper" or divisor != "block"):
        raise checks.InputError(
            "`divisor_factor` needs variant='paper' with divisor='block', got "
            f"divisor_factor={divisor_factor} with variant={variant!r} and "
            f"divisor={divisor!r}."
        )
    if is_given and divisor_factor < 1:
        raise checks.InputError(
            f"`divisor_factor` must be at least 1, got {divisor_factor}: below it the "
            "factors grow without bound."
        )
    has_start = isinstance(start, int | float) and start > 0
    if has_start and (variant == "exact" or (variant, divisor) == ("paper", "global")):
        raise checks.InputError(
            "`start` needs variant='block', or variant='paper' with divisor='block', "
            f"got start={start} with variant={variant!r} and divisor={divisor!r}."
        )


def _map_blocks(
    state: State,
    table: jax.Array,
    example: Sentence,
    differences: mistakes.Differences,
    weight: jax.Array,
    num_power_steps: int,
    record: tuple[str, ...],
) -> tuple[State, Seen]:
    """Map the touched blocks by rank (DR-B6, DR-B5)."""
    sums = state.sums
    factor_sums = None
    if sums is not None and sums.blocks is None and sums.weights is None:
        factor_sums = sums.table
    mapped = bol_block.map_blocks(
        table,
        state.blocks,
        state.start,
        factor_sums,
        None if sums is None else sums.weights,
        example,
        differences,
        state.nudge,
        weight,
        num_steps=num_power_steps,
        wants_ratio="ratio" in record,
    )
    if sums is not None and mapped.factor_sums is not None:
        sums = sums._replace(table=mapped.factor_sums)
    if sums is not None:
        sums = sums._replace(weights=mapped.weight_sums)
    state = state._replace(params=state.params._replace(table=mapped.table), sums=sums)
    ratio = mapped.ratio if "ratio" in record else None
    return state, Seen(mapped.growth, mapped.sigma_1, ratio, mapped.residual)
