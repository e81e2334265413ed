"""The mirror maps of the variants "paper" and "exact".

Each goes from Theta after a round to the new weights.
"""

import jax
import jax.numpy as jnp

from lowrank_jax.linalg import max_tree
from lowrank_jax.online import mistakes
from lowrank_jax.online.bol import exact, paper, paper_global
from lowrank_jax.online.bol.state import Seen, State, num_labels_of
from lowrank_jax.types import Sentence

__all__ = ["map_exact", "map_global", "map_paper"]
__dir__ = __all__.copy


def map_paper(
    state: State,
    table: jax.Array,
    example: Sentence,
    differences: mistakes.Differences,
    step: jax.Array,
    weight: jax.Array,
    factor: jax.Array,
    num_power_steps: int,
    num_inner_steps: int,
    record: tuple[str, ...],
) -> tuple[State, Seen]:
    """Run Algorithm 2 on the touched blocks, each with its own divisor."""
    pair, sums = state.pair, state.sums
    assert isinstance(pair, paper.Pair)
    pending = paper.collect(pair.pending, table, example, differences, step)
    stepped = paper.step_blocks(
        table,
        None if sums is None else sums.table,
        pair._replace(pending=pending),
        state.blocks,
        state.start,
        example,
        differences,
        state.nudge,
        weight,
        factor=factor,
        num_power_steps=num_power_steps,
        num_steps=num_inner_steps,
        wants_ratio="ratio" in record,
    )
    if sums is not None and stepped.factor_sums is not None:
        sums = sums._replace(table=stepped.factor_sums)
    params = state.params._replace(table=stepped.table)
    state = state._replace(params=params, pair=stepped.pair, sums=sums)
    ratio = stepped.ratio if "ratio" in record else None
    return state, Seen(stepped.growth, stepped.sigma_1, ratio, stepped.residual)


def map_global(
    state: State,
    table: jax.Array,
    example: Sentence,
    differences: mistakes.Differences,
    step: jax.Array,
    num_power_steps: int,
    num_inner_steps: int,
    record: tuple[str, ...],
) -> tuple[State, Seen]:
    """Run Algorithm 2 on the touched blocks with one divisor for all."""
    pair, sums = state.pair, state.sums
    assert isinstance(pair, paper_global.Pair)
    top_right, sigma, residual = paper_global.track_sigma(
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
    stepped = paper_global.step_blocks(
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
    c_alpha, c_beta = paper_global.normalisers(pair)
    pair = pair._replace(weight_sums=pair.weight_sums + jnp.stack([c_alpha, c_beta]))
    if sums is not None and stepped.factor_sums is not None:
        sums = sums._replace(table=stepped.factor_sums, scale=sums.scale + after)
    params = state.params._replace(table=stepped.table, scale=after * c_alpha * c_beta)
    ratio = _global_ratio(state, sigma) if "ratio" in record else None
    seen = Seen((after**2 - before**2) / 2, after, ratio, residual)
    return state._replace(params=params, pair=pair, sums=sums), seen


def map_exact(
    state: State,
    table: jax.Array,
    example: Sentence,
    differences: mistakes.Differences,
    weight: jax.Array,
    record: tuple[str, ...],
) -> tuple[State, Seen]:
    """Map Theta to its leading pair, which lies in one block."""
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
    ratio = _global_ratio(state, sigma) if "ratio" in record else None
    params = state.params._replace(table=table)
    state = state._replace(params=params, sums=sums, sigma=sigma, block=block)
    seen = Seen((after**2 - before**2) / 2, after, ratio, jnp.zeros_like(after))
    return state, seen


def _global_ratio(state: State, sigma: max_tree.MaxTree) -> jax.Array:
    first, labels = max_tree.largest(sigma), num_labels_of(state)
    second = exact.second_value(state.blocks, sigma, labels)
    return second / jnp.where(first > 0, first, 1)
