"""The state of BOL on sequences, shared by its variants."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax.decode import LowRankScores, Scores
from lowrank_jax.linalg import max_tree
from lowrank_jax.models import bilinear
from lowrank_jax.online import entries, touched
from lowrank_jax.online.bol import block as bol_block
from lowrank_jax.online.bol import paper, paper_global

__all__ = ["State", "grow", "num_labels_of", "theta", "variant_of"]
__dir__ = __all__.copy


class State(NamedTuple):
    """What the next round needs, and nothing else.

    Tables have one row per feature and one more (``dual="dense"``), or one row per
    touched feature and the index `params.rows` (``dual="sparse"``, `online.touched`).

    Attributes:
      params: W_t and w_t.
      blocks: Theta_t - Theta_0, (rows, S, S + 1) or its entries.
      sums: Lazy sums for averaging.
      pair: Variant "paper".
      sigma: Variant "exact": sigma_1 of each block.
      block: Variant "exact": the block in use.
      nudge: Random directions that start a new block, (rank, S + 1).
      conjugate: F*(Theta_t) - F*(Theta_0), 0-order part included, ().
      num_rounds: Number of rounds t, () int32.
      start: c_0 of Theta_0 = c_0 11', if it is not 0, ().
      step_size: C of the learner that made the state, ().
      pool: Rows in use, if there is an index.
      scores: Buffers that each round writes over.
    """

    params: bilinear.Params
    blocks: jax.Array | entries.Blocks
    sums: bol_block.Sums | None
    pair: paper.Pair | paper_global.Pair | None
    sigma: max_tree.MaxTree | None
    block: jax.Array | None
    nudge: jax.Array
    conjugate: jax.Array
    num_rounds: jax.Array
    start: jax.Array | None = None
    step_size: jax.Array | None = None
    pool: touched.Pool | None = None
    scores: Scores | LowRankScores | None = None


def variant_of(state: State) -> str:
    """Return the variant that a state belongs to: "block", "paper" or "exact"."""
    if state.pair is not None:
        return "paper"
    return "block" if state.sigma is None else "exact"


def num_labels_of(state: State) -> int:
    """Return S."""
    if not isinstance(state.blocks, entries.Blocks):
        return state.blocks.shape[1]
    return state.nudge.shape[1] - 1


def theta(state: State) -> jax.Array:
    """Return Theta_t - Theta_0 of all features: (K + 1, S, S + 1). For small data."""
    if not isinstance(state.blocks, entries.Blocks):
        return state.blocks
    rows = state.params.rows
    assert rows is not None
    return bol_block.theta_of(state.blocks, rows, None, num_labels_of(state))


def grow(state: State) -> State:
    """Return the state with twice the rows or pages that a round fell short of.

    A state that is not full is returned as it is. A function of the host, as the
    shapes change.
    """
    pool, blocks, rows = state.pool, state.blocks, state.params.rows
    if pool is None or not bool(pool.is_full):
        return state
    assert isinstance(blocks, entries.Blocks) and rows is not None
    num_rows, num_pages = entries.larger(pool, rows, blocks)

    def more(part: Any) -> Any:
        return touched.grown(part, num_rows)

    def tree(sigma: max_tree.MaxTree) -> max_tree.MaxTree:
        return max_tree.build(more(sigma.levels[0][: blocks.keys.shape[0]]))

    sums, pair, sigma = state.sums, state.pair, state.sigma
    block_sums = None if sums is None else sums.blocks
    assert not isinstance(block_sums, jax.Array)
    new_blocks, block_sums = entries.grown(blocks, block_sums, num_rows, num_pages)
    if sums is not None:
        sums = sums._replace(
            table=more(sums.table), weights=more(sums.weights), blocks=block_sums
        )
    if isinstance(pair, paper.Pair):
        pair = paper.Pair(more(pair.pending), more(pair.top))
    elif pair is not None:
        pair = pair._replace(
            pending=more(pair.pending),
            top_right=more(pair.top_right),
            sigma=tree(pair.sigma),
        )
    return state._replace(
        params=state.params._replace(
            table=more(state.params.table), rows=rows.at[-1].set(num_rows - 1)
        ),
        blocks=new_blocks,
        sums=sums,
        pair=pair,
        sigma=None if sigma is None else tree(sigma),
        pool=pool._replace(is_full=jnp.zeros((), bool)),
    )
