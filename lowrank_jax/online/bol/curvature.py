r"""The bound of DR-B3 on what a round costs, block by block.

With the map of DR-B6, :math:`B_t \le \sum_k R_k` over the touched blocks, where
:math:`R_k` bounds the remainder of the step of block k (DR-B2). The 0-order weights and
the transitions have the remainder :math:`\frac12 C^2\|\Delta\hat\Phi^t\|^2`.
"""

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax.linalg.segments import remainder_bound
from lowrank_jax.online import mistakes
from lowrank_jax.online.bol import block as bol_block
from lowrank_jax.online.bol.state import State
from lowrank_jax.online.touched import first_of_its_kind
from lowrank_jax.types import Sentence

__all__ = ["of_round"]
__dir__ = __all__.copy


def of_round(
    state: State,
    example: Sentence,
    differences: mistakes.Differences,
    step: jax.Array,
) -> jax.Array:
    r"""Return a bound on :math:`2B_t/C^2` for a run with the exact map of rank 1.

    Args:
      state: State after the round.
      example: Sentence of the round.
      differences: Positions where the label pairs of the round differ.
      step: :math:`C`.
    """
    space, dtype = example.space, step.dtype
    labels, columns = space.num_labels, jnp.array(space.first_order, jnp.int32)
    window = example.labels.shape[0]
    ids_of = example.feature_ids[:, columns]  # (window, F)
    is_used = (
        jnp.zeros((window,), bool)
        .at[differences.positions]
        .max(jnp.arange(window, dtype=jnp.int32) < differences.num_positions)
    )

    def pairs(side: int) -> jax.Array:
        current = jax.nn.one_hot(differences.labels[side], labels, dtype=dtype)
        before = jax.nn.one_hot(differences.previous[side], labels + 1, dtype=dtype)
        return current[:, :, None] * before[:, None, :]

    moves = (pairs(0) - pairs(1)) * is_used[:, None, None].astype(dtype)

    def one(n: jax.Array, total: jax.Array) -> jax.Array:
        place = differences.positions[n]
        ids = ids_of[place]
        same = ids_of[:, None, :] == ids[None, :, None]
        times = same.sum(2).astype(dtype)
        if example.values is not None:
            value = example.values[:, columns].astype(dtype)
            times = jnp.where(same, value[:, None, :], 0).sum(2)
        push = step * jnp.einsum("wf,wst->fst", times, moves)
        is_earlier = (jnp.arange(window, dtype=jnp.int32) < place) & is_used
        is_new = ~(same.any(2) & is_earlier[:, None]).any(0)
        is_new = is_new & first_of_its_kind(ids) & (ids < space.num_features)
        rows = ids if state.params.rows is None else state.params.rows[ids]
        theta = bol_block.theta_of(state.blocks, rows, state.start, labels) - push
        bounds = jax.vmap(remainder_bound)(theta, push)
        return total + jnp.where(is_new, bounds, 0).sum()

    count, zero = differences.num_positions, jnp.zeros((), dtype)
    blocks = lax.fori_loop(jnp.zeros_like(count), count, one, zero)
    others = mistakes.squared_norm(example, differences, has_blocks=False)
    return others.astype(dtype) + 2 * blocks / (step * step)
