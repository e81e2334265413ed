r"""The averaged model after a run of BOL.

Averaging in the dual (DR-B9) takes the mean of Theta over rounds and maps it once.
Averaging the factors (BOL-X2) takes the means of alpha, beta and the scale. A state
that averages in the dual has `sums.blocks`; a state that averages factors does not.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks, linalg, models
from lowrank_jax.linalg.power_iteration import Operator, Subspace
from lowrank_jax.models import bilinear
from lowrank_jax.online import entries
from lowrank_jax.online.bol import block as bol_block
from lowrank_jax.online.bol.state import State, num_labels_of

__all__ = ["final_params"]
__dir__ = __all__.copy


def final_params(
    state: State,
    *,
    rank: int | None = None,
    num_power_steps: int = 64,
    chunk_size: int = 256,
) -> "bilinear.Params | models.linear.Params":
    """Return the model to predict with, averaged as the learner was told to.

    The mean of W has blocks of full rank: it is a linear model unless a rank is given.

    Args:
      state: State of any variant.
      rank: Rank to which each block of the mean of W is cut, by an SVD. The result is
        then a bilinear model. Only with ``averaging="weights"``. Static.
      num_power_steps: Approximate limit on the steps of subspace iteration for the
        mirror map of the average. A chunk of blocks stops when it has converged.
      chunk_size: Number of blocks mapped at a time; it bounds the memory.
    """
    params, sums = state.params, state.sums
    if rank is not None and (sums is None or sums.weights is None):
        raise checks.InputError(
            f"`rank` of the final model needs averaging='weights', got rank={rank}."
        )
    if sums is None:
        return params
    labels = num_labels_of(state)
    num_rounds = jnp.maximum(state.num_rounds, 1).astype(state.nudge.dtype)
    transitions = params.transitions
    if transitions is not None and sums.transitions is not None:
        transitions = transitions - sums.transitions / num_rounds
    if sums.weights is not None:
        mean = _mean_weights(state, transitions)
        return mean if rank is None else bilinear.truncated(mean, rank)
    if sums.blocks is not None:
        zero = params.table[:, :labels] - sums.table / num_rounds
        if state.sigma is not None:
            columns = _mean_exact(state, num_rounds, params.table.shape)
        else:
            columns = _mean_blocks(state, num_rounds, num_power_steps, chunk_size)
        table = jnp.concatenate([zero, columns], axis=1)
        return params._replace(table=table, transitions=transitions)
    pair: Any = state.pair
    if not hasattr(pair, "weight_sums"):
        table = params.table - sums.table / num_rounds
        return params._replace(table=table, transitions=transitions)
    rows = bilinear.split(params.table, labels)
    totals = bilinear.split(sums.table, labels)
    weights = pair.weight_sums
    left = (weights[0] * rows.left - totals.left) / num_rounds  # BOL-X2
    right = (weights[1] * rows.right - totals.right) / num_rounds
    zero = rows.zero - totals.zero / num_rounds
    table = jnp.concatenate([zero, bilinear.join(left, right)], axis=1)
    return bilinear.Params(table, transitions, sums.scale / num_rounds, params.rows)


def _mean_weights(
    state: State, transitions: jax.Array | None
) -> "models.linear.Params":
    """Return the mean over rounds of the W that they predicted with (DR-B13)."""
    params, sums = state.params, state.sums
    assert sums is not None and sums.weights is not None
    labels = num_labels_of(state)
    num_rounds = jnp.maximum(state.num_rounds, 1).astype(state.nudge.dtype)
    rows = bilinear.split(params.table, labels)
    last = bol_block.product(rows.left, rows.right)
    return models.linear.Params(
        zero=rows.zero - sums.table / num_rounds,
        first=last - sums.weights[:, :, : labels + 1] / num_rounds,
        transitions=transitions,
        rows=params.rows,
    )


def _mean_blocks(
    state: State, num_rounds: jax.Array, num_power_steps: int, chunk_size: int
) -> jax.Array:
    """Return the mirror map of the average of Theta (DR-B9), as columns S and above.

    Most blocks were never touched. Their average and its map are zero, so they are
    skipped. A block that has come back to zero may still have a nonzero average.
    """
    assert state.sums is not None and state.sums.blocks is not None
    blocks: Any = state.blocks
    block_sums: Any = state.sums.blocks
    num_rows, labels = state.params.table.shape[0], num_labels_of(state)
    chunk_size = min(chunk_size, num_rows)
    if state.pool is not None:
        number = state.pool.num_rows - 1
        touched = jnp.arange(1, num_rows, dtype=jnp.int32)
        touched = jnp.where(touched <= number, touched, num_rows - 1)
    else:
        is_touched = (blocks != 0).any(axis=(1, 2))
        is_touched = is_touched | (block_sums != 0).any(axis=(1, 2))
        number = is_touched.sum(dtype=jnp.int32)
        (touched,) = jnp.nonzero(is_touched, size=num_rows, fill_value=num_rows - 1)
    touched = jnp.pad(
        touched.astype(jnp.int32), (0, chunk_size), constant_values=num_rows - 1
    )
    num_chunks = (number + chunk_size - 1) // chunk_size
    tolerance = 8 * jnp.finfo(state.nudge.dtype).eps

    def one(n: jax.Array, columns: jax.Array) -> jax.Array:
        ids = lax.dynamic_slice_in_dim(touched, n * chunk_size, chunk_size)
        mean = _mean_to_map(state, ids, num_rounds)
        start = bilinear.split(state.params.table[ids], labels).right
        start = start + bol_block.NUDGE * state.nudge[None]

        Carry = tuple[jax.Array, jax.Array, Subspace]

        def energy(found: Subspace) -> jax.Array:
            return (found.left * found.left).sum(axis=(1, 2))

        def goes_on(carry: Carry) -> jax.Array:
            # If two singular values tie, the vectors never settle but the energy
            # does. The energy is what the map maximises.
            step, before, found = carry
            has_grown = energy(found) > (1 + tolerance) * before
            return (step < num_power_steps) & has_grown.any()

        def go(carry: Carry) -> Carry:
            step, _, found = carry
            new = bol_block.leading(mean, found.right, num_steps=4)
            return step + 4, energy(found), new

        found = bol_block.leading(mean, start, num_steps=4)
        begin = (jnp.array(4, jnp.int32), jnp.zeros_like(start[:, 0, 0]), found)
        _, _, found = lax.while_loop(goes_on, go, begin)
        return columns.at[ids].set(bilinear.join(found.left, found.right))

    columns = jnp.zeros_like(state.params.table[:, labels:])
    return lax.fori_loop(jnp.zeros_like(num_chunks), num_chunks, one, columns)


def _mean_to_map(state: State, ids: jax.Array, num_rounds: jax.Array) -> Any:
    """Return the average of Theta for `leading`, by entries for many labels."""
    blocks, labels = state.blocks, num_labels_of(state)
    if not isinstance(blocks, entries.Blocks) or labels < entries.MANY:
        return _mean_theta(state, ids, num_rounds)
    assert state.sums is not None and isinstance(state.sums.blocks, entries.Part)
    parts = (blocks.values, 1.0), (state.sums.blocks, -1 / num_rounds)
    return Operator(
        *entries.products(blocks.keys, parts, ids, labels, prior=state.start)
    )


def _mean_theta(state: State, ids: jax.Array, num_rounds: jax.Array) -> jax.Array:
    """Return the average of Theta for some rows: (n, S, S + 1)."""
    labels = num_labels_of(state)
    last = bol_block.theta_of(state.blocks, ids, state.start, labels)
    assert state.sums is not None and state.sums.blocks is not None
    total: Any = state.sums.blocks
    if not isinstance(state.blocks, entries.Blocks):
        return last - total[ids] / num_rounds
    found = entries.dense(state.blocks.keys, total, ids, labels)
    return last - found[:, :, : labels + 1] / num_rounds


def _mean_exact(
    state: State, num_rounds: jax.Array, shape: tuple[int, ...]
) -> jax.Array:
    """Return the exact mirror map of the average of Theta: one block."""
    from lowrank_jax.linalg import spectra
    from lowrank_jax.online.bol import exact  # this variant alone

    labels = num_labels_of(state)
    every = jnp.arange(shape[0], dtype=jnp.int32)
    mean = _mean_theta(state, every, num_rounds)
    values = spectra.singular_values(mean)[:, 0]
    table = jnp.zeros(shape, mean.dtype)
    nowhere = jnp.array(shape[0] - 1, jnp.int32)
    table, _, _ = exact.map_top(
        table, mean, linalg.max_tree.build(values), nowhere, labels
    )
    return table[:, labels:]
