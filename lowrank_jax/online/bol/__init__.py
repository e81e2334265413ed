r"""BOL: Wu and Sun, "An Online Learning Algorithm for Bilinear Models", ICML 2015.

Round :math:`t` predicts :math:`\bar y^t` with :math:`W_{t-1}` and moves in the dual,

.. math:: \Theta_t = \Theta_{t-1} + \eta_t\,\Delta\Phi^t, \qquad
   W_t = \nabla F^*(\Theta_t) \qquad \text{(BOL-Eq8)}

with :math:`\eta_t = C` on a mistake and 0 otherwise. The variants differ in the map:

===========  =====================================================================
``"block"``  each feature's block has rank at most `rank`: DR-B6, DR-B5, BOL-X3
``"paper"``  Algorithm 2 as printed, Eq. (9)-(12), with the scale of the errata
``"exact"``  the true :math:`\nabla F_1^*`: one block only, a diagnostic
===========  =====================================================================

The 0-order features and label transitions (BOL-X1) move by
:math:`w_t = w_{t-1} + C\,\Delta\hat\Phi^t`. For matrices without blocks, see
`bol_dense`.

Of each round, the certificate (DR-B4) needs :math:`B_t = F^*(\Theta_t) -
F^*(\Theta_{t-1}) - C\langle W_{t-1}, \Delta\Phi^t\rangle`. It bounds the regret for any
:math:`W_{t-1}`, even if the map is not exact, as long as :math:`F^*` is exact.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax import checks
from lowrank_jax.decode import best_path
from lowrank_jax.linalg import max_tree
from lowrank_jax.models import bilinear
from lowrank_jax.online import mistakes
from lowrank_jax.online.bol import block as bol_block
from lowrank_jax.online.bol import exact, paper
from lowrank_jax.online.bol.average import final_params
from lowrank_jax.online.bol.state import State, variant_of
from lowrank_jax.types import Learner, Sentence

__all__ = ["Info", "State", "final_params", "learner", "variant_of"]

VARIANTS = ("block", "paper", "exact")
AVERAGING = ("dual", "factors", "none")
RECORDS = ("ratio", "predicted")


class Info(NamedTuple):
    """What the proof and the report need of this round."""

    loss: jax.Array  # ()  [1 - <W, dPhi>]_+ on a mistake, else 0 (errata of BOL-N3)
    is_mistake: jax.Array  # () bool
    num_wrong: jax.Array  # () int32  wrong labels
    margin: jax.Array  # ()  <W_{t-1}, dPhi_t>, 0 or less
    dual_increment: jax.Array  # ()  Delta_t (BOL-N5)
    conjugate: jax.Array  # ()  F*(Theta_t)
    bregman: jax.Array  # ()  B_t (DR-B4)
    sigma_1: jax.Array  # ()  "block": largest of a touched block; else of all Theta
    ratio: jax.Array  # ()  sigma_{r+1} / sigma_r, same scope, if recorded, else nan
    residual: jax.Array  # ()  largest move of a singular vector in the last step
    predicted: jax.Array | None = None  # (window,) int32, if recorded


def learner(
    *,
    variant: str = "block",
    rank: int = 1,
    step_size: float | jax.Array = 1.0,
    averaging: str | None = None,
    num_power_steps: int = 2,
    num_inner_steps: int = 4,
    record: tuple[str, ...] = (),
    dtype: jnp.dtype = jnp.float32,
) -> Learner:
    """Build the pair ``(init, update)``; both are pure.

    Args:
      variant: ``"block"``, ``"paper"`` or ``"exact"``; see the module.
      rank: Rank of each block, at least 1. Other than 1 only with ``"block"``. Static.
      step_size: :math:`C`, positive. May be traced. It changes only the reported loss
        and bound; predictions do not depend on it (errata of Alg2).
      averaging: ``"dual"`` averages Theta and maps once (DR-B9). It is not for
        ``"paper"``, whose map is not a function of Theta. ``"factors"`` averages alpha,
        beta and scale one by one (BOL-X2). ``"none"`` takes the last iterate. The
        default is ``"dual"``, or ``"factors"`` for ``"paper"``.
      num_power_steps: Number of subspace iterations per round on each touched block,
        for the mirror map of ``"block"`` and for sigma_1 of ``"paper"``. Static.
      num_inner_steps: R of Algorithm 2, for ``"paper"``. Static.
      record: ``"ratio"`` records sigma_2 / sigma_1 of each round, by an SVD.
        ``"predicted"`` records the predicted labels; `certify` needs them to certify
        the run against any model. Static.
      dtype: Type of the weights.
    """
    checks.choice(VARIANTS, variant=variant)
    checks.whole(
        rank=rank, num_power_steps=num_power_steps, num_inner_steps=num_inner_steps
    )
    checks.positive(step_size=step_size)
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
    if averaging == "dual" and variant == "paper":
        raise checks.InputError(
            "`averaging='dual'` needs variant='block' or 'exact': the factors of "
            "variant='paper' are not a function of Theta; say 'factors' or 'none'."
        )

    def init(key: jax.Array, example: Sentence) -> State:
        return _init(key, example, variant, rank, averaging, dtype)

    def update(state: State, example: Sentence) -> tuple[State, Info]:
        scores = bilinear.scores(state.params, example)
        predicted = best_path(scores, example.length).labels
        differences = mistakes.find(example, predicted)
        step = jnp.asarray(step_size, dtype)
        weight = state.num_rounds.astype(dtype)
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
        if variant == "block":
            state, seen = _map_block(
                state,
                moved.table,
                example,
                differences,
                weight,
                num_power_steps,
                record,
            )
        elif variant == "paper":
            state, seen = _map_paper(
                state,
                moved.table,
                example,
                differences,
                step,
                num_power_steps,
                num_inner_steps,
                record,
            )
        else:
            state, seen = _map_exact(
                state, moved.table, example, differences, weight, record
            )
        growth = moved.growth + seen.growth
        is_mistake = differences.num_positions > 0
        state = state._replace(
            conjugate=state.conjugate + growth, num_rounds=state.num_rounds + 1
        )
        info = Info(
            loss=jnp.where(is_mistake, jax.nn.relu(1 - moved.margin), 0),
            is_mistake=is_mistake,
            num_wrong=differences.num_wrong,
            margin=moved.margin,
            dual_increment=jnp.where(is_mistake, step, 0) - growth,  # BOL-N5
            conjugate=state.conjugate,
            bregman=growth - step * moved.margin,  # DR-B4
            sigma_1=seen.sigma_1,
            ratio=seen.ratio,
            residual=seen.residual,
            predicted=predicted if "predicted" in record else None,
        )
        return state, info

    return Learner(init, update)


class _Seen(NamedTuple):
    """Numbers that the mirror map reports of this round."""

    growth: jax.Array  # ()  of the first-order part of F*
    sigma_1: jax.Array  # ()
    ratio: jax.Array  # ()
    residual: jax.Array  # ()


def _init(
    key: jax.Array,
    example: Sentence,
    variant: str,
    rank: int,
    averaging: str,
    dtype: jnp.dtype,
) -> State:
    space = example.space
    if not space.first_order:
        raise checks.InputError(
            "BOL needs first-order features, and the template has none: add `B` lines, "
            "or read it with orders='both'."
        )
    if rank > space.num_labels:
        raise checks.InputError(
            f"`rank` must lie in 1..{space.num_labels}, the number of labels, "
            f"got {rank}."
        )
    rows, labels = space.num_features + 1, space.num_labels
    params = bilinear.zeros(space, rank, dtype)
    blocks = jnp.zeros((rows, labels, labels + 1), dtype)
    sums = None
    if averaging != "none":
        table = params.table if averaging == "factors" else params.table[:, :labels]
        sums = bol_block.Sums(
            table=jnp.zeros_like(table),
            blocks=jnp.zeros_like(blocks) if averaging == "dual" else None,
            transitions=jax.tree.map(jnp.zeros_like, params.transitions),
            scale=jnp.zeros((), dtype),
        )
    nudge = jax.random.normal(key, (rank, labels + 1), dtype)
    pair, sigma, block = None, None, None
    if variant == "paper":
        # Alg. 2 starts from the uniform pair. Its entries are kept as multiples of 1,
        # so they need no K. The scale, sigma_1(Theta_0), is 0.
        ones = bilinear.join(
            jnp.ones((1, 1, labels), dtype), jnp.ones((1, 1, labels + 1), dtype)
        )
        table = params.table.at[:-1, labels:].set(ones)
        params = params._replace(table=table, scale=jnp.zeros((), dtype))
        num_entries = jnp.array([labels, labels + 1], dtype) * space.num_features
        pair = paper.Pair(
            pending=jnp.zeros((rows, labels + bilinear.stride(labels)), dtype),
            top_right=jnp.zeros((rows, labels + 1), dtype),
            sigma=max_tree.build(jnp.zeros((rows,), dtype)),
            growth=jnp.zeros((2,), dtype),
            start=num_entries,
            weight_sums=jnp.zeros((2,), dtype),
        )
    elif variant == "exact":
        sigma = max_tree.build(jnp.zeros((rows,), dtype))
        block = jnp.zeros((), jnp.int32)
    return State(
        params=params,
        blocks=blocks,
        sums=sums,
        pair=pair,
        sigma=sigma,
        block=block,
        nudge=nudge / jnp.linalg.norm(nudge, axis=1, keepdims=True),
        conjugate=jnp.zeros((), dtype),
        num_rounds=jnp.zeros((), jnp.int32),
    )


def _map_block(
    state: State,
    table: jax.Array,
    example: Sentence,
    differences: mistakes.Differences,
    weight: jax.Array,
    num_power_steps: int,
    record: tuple[str, ...],
) -> tuple[State, _Seen]:
    sums = state.sums
    factor_sums = sums.table if sums is not None and sums.blocks is None else None
    mapped = bol_block.map_blocks(
        table,
        state.blocks,
        factor_sums,
        example,
        differences,
        state.nudge,
        weight,
        num_steps=num_power_steps,
        wants_ratio="ratio" in record,
    )
    if sums is not None and mapped.factor_sums is not None:
        sums = sums._replace(table=mapped.factor_sums)
    state = state._replace(params=state.params._replace(table=mapped.table), sums=sums)
    ratio = mapped.ratio if "ratio" in record else jnp.full_like(mapped.ratio, jnp.nan)
    return state, _Seen(mapped.growth, mapped.sigma_1, ratio, mapped.residual)


def _map_paper(
    state: State,
    table: jax.Array,
    example: Sentence,
    differences: mistakes.Differences,
    step: jax.Array,
    num_power_steps: int,
    num_inner_steps: int,
    record: tuple[str, ...],
) -> tuple[State, _Seen]:
    pair, sums = state.pair, state.sums
    assert pair is not None
    top_right, sigma, residual = paper.track_sigma(
        pair,
        state.blocks,
        example,
        differences,
        state.nudge,
        num_steps=num_power_steps,
    )
    before, after = max_tree.largest(pair.sigma), max_tree.largest(sigma)
    divisor = jnp.where(before > 0, before, after)  # errata of BOL-Eq9-12 (c)
    divisor = jnp.where(divisor > 0, divisor, 1)
    pending = paper.collect(pair.pending, table, example, differences, step)
    stepped = paper.step_blocks(
        table,
        None if sums is None else sums.table,
        pair._replace(pending=pending),
        state.blocks,
        divisor,
        example,
        differences,
        num_steps=num_inner_steps,
    )
    pair = pair._replace(
        pending=stepped.pending,
        top_right=top_right,
        sigma=sigma,
        growth=stepped.growth,
    )
    c_alpha, c_beta = paper.normalisers(pair)
    pair = pair._replace(weight_sums=pair.weight_sums + jnp.stack([c_alpha, c_beta]))
    if sums is not None and stepped.factor_sums is not None:
        sums = sums._replace(table=stepped.factor_sums, scale=sums.scale + after)
    params = state.params._replace(table=stepped.table, scale=after * c_alpha * c_beta)
    ratio = jnp.full_like(after, jnp.nan)
    if "ratio" in record:
        ratio = _global_ratio(state.blocks, sigma)
    seen = _Seen((after**2 - before**2) / 2, after, ratio, residual)
    return state._replace(params=params, pair=pair, sums=sums), seen


def _map_exact(
    state: State,
    table: jax.Array,
    example: Sentence,
    differences: mistakes.Differences,
    weight: jax.Array,
    record: tuple[str, ...],
) -> tuple[State, _Seen]:
    assert state.sigma is not None and state.block is not None
    labels, sums = example.space.num_labels, state.sums
    sigma = exact.track_sigma(state.sigma, state.blocks, example, differences)
    before, after = max_tree.largest(state.sigma), max_tree.largest(sigma)
    table, block, change = exact.map_top(
        table, state.blocks, sigma, state.block, labels
    )
    if sums is not None and sums.blocks is None:
        rows = jnp.stack([state.block, block])
        sums = sums._replace(table=sums.table.at[rows, labels:].add(weight * change))
    ratio = jnp.full_like(after, jnp.nan)
    if "ratio" in record:
        ratio = _global_ratio(state.blocks, sigma)
    params = state.params._replace(table=table)
    state = state._replace(params=params, sums=sums, sigma=sigma, block=block)
    seen = _Seen((after**2 - before**2) / 2, after, ratio, jnp.zeros_like(after))
    return state, seen


def _global_ratio(blocks: jax.Array, sigma: max_tree.MaxTree) -> jax.Array:
    first = max_tree.largest(sigma)
    return exact.second_value(blocks, sigma) / jnp.where(first > 0, first, 1)
