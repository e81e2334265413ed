"""The state of BOL on sequences, shared by its variants.

Only the variants that need them load Algorithm 2 and the tree of singular values.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax import checks, linalg
from lowrank_jax.decode import LowRankScores, Scores
from lowrank_jax.models import bilinear
from lowrank_jax.online import entries, touched
from lowrank_jax.online.bol import block as bol_block
from lowrank_jax.types import Sentence, documented

if TYPE_CHECKING:
    from lowrank_jax.linalg.max_tree import MaxTree
    from lowrank_jax.online.bol import paper, paper_global

__all__ = [
    "Seen",
    "State",
    "grow",
    "num_labels_of",
    "start_of",
    "theta",
    "variant_of",
]
__dir__ = __all__.copy


@documented
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
    pair: "paper.Pair | paper_global.Pair | None"
    sigma: "MaxTree | None"
    block: jax.Array | None
    nudge: jax.Array
    conjugate: jax.Array
    num_rounds: jax.Array
    start: jax.Array | None = None
    step_size: jax.Array | None = None
    pool: touched.Pool | None = None
    scores: Scores | LowRankScores | None = None


class Seen(NamedTuple):
    """Numbers that the mirror map reports of this round."""

    growth: jax.Array  # ()  of the first-order part of F*
    sigma_1: jax.Array  # ()
    ratio: jax.Array | None  # ()  None if it is not recorded
    residual: jax.Array  # ()


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

    def tree(sigma: "MaxTree") -> "MaxTree":
        return linalg.max_tree.build(more(sigma.levels[0][: blocks.keys.shape[0]]))

    sums, sigma = state.sums, state.sigma
    pair: Any = state.pair
    block_sums = None if sums is None else sums.blocks
    assert not isinstance(block_sums, jax.Array)
    new_blocks, block_sums = entries.grown(blocks, block_sums, num_rows, num_pages)
    if sums is not None:
        sums = sums._replace(
            table=more(sums.table), weights=more(sums.weights), blocks=block_sums
        )
    if hasattr(pair, "sigma"):
        pair = pair._replace(
            pending=more(pair.pending),
            top_right=more(pair.top_right),
            sigma=tree(pair.sigma),
        )
    else:
        pair = jax.tree.map(more, pair)
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


def start_of(
    key: jax.Array,
    example: Sentence,
    variant: str,
    rank: int,
    averaging: str,
    divisor: str,
    prior: jax.Array,
    room: entries.Capacity | None,
) -> State:
    """Return the state before the first round."""
    checks.random_key(key)
    space, dtype = example.space, prior.dtype
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
    blocks: Any = None
    block_sums: Any = None
    index, pool = None, None
    if room is not None:
        columns = bilinear.width(labels, rank) + labels
        rows, num_pages = room.sizes(space, columns, dtype)
        index, pool = touched.start(space, rows)
        blocks = entries.zeros(
            rows, labels, dtype, num_pages=num_pages, num_slots=room.slots_of(space)
        )
        block_sums = jax.tree.map(jnp.zeros_like, blocks.values)
    else:
        blocks = jnp.zeros((rows, labels, labels + 1), dtype)
        block_sums = jnp.zeros_like(blocks)
    own = dataclasses.replace(space, num_features=rows - 1)
    params = bilinear.zeros(own, rank, dtype)._replace(rows=index)
    sums = None
    if averaging != "none":
        table = params.table if averaging == "factors" else params.table[:, :labels]
        sums = bol_block.Sums(
            table=jnp.zeros_like(table),
            blocks=block_sums if averaging == "dual" else None,
            transitions=jax.tree.map(jnp.zeros_like, params.transitions),
            scale=jnp.zeros((), dtype),
            weights=(
                jnp.zeros((rows, labels, bilinear.stride(labels)), dtype)
                if averaging == "weights"
                else None
            ),
        )
    nudge = jax.random.normal(key, (rank, labels + 1), dtype)
    pair: Any = None
    sigma, block = None, None
    if variant == "paper":
        # Alg. 2 starts from the uniform pair; as multiples of 1 it needs no K in
        # each entry.
        ones = bilinear.join(
            jnp.ones((1, 1, labels), dtype), jnp.ones((1, 1, labels + 1), dtype)
        )
        params = params._replace(table=params.table.at[:-1, labels:].set(ones))
    elif variant == "block":
        prior_row = bol_block.prior_columns(labels, rank, prior)
        params = params._replace(table=params.table.at[:-1, labels:].set(prior_row))
    if variant == "paper" and divisor == "block":
        from lowrank_jax.online.bol import paper

        pair = paper.start(rows, labels, prior)
    elif variant == "paper":
        from lowrank_jax.online.bol import paper_global

        params = params._replace(scale=jnp.zeros((), dtype))  # sigma_1(Theta_0)
        num_entries = jnp.array([labels, labels + 1], dtype) * space.num_features
        pair = paper_global.Pair(
            pending=jnp.zeros((rows, labels + bilinear.stride(labels)), dtype),
            top_right=jnp.zeros((rows, labels + 1), dtype),
            sigma=linalg.max_tree.build(jnp.zeros((rows,), dtype)),
            growth=jnp.zeros((2,), dtype),
            start=num_entries,
            weight_sums=jnp.zeros((2,), dtype),
        )
    elif variant == "exact":
        sigma = linalg.max_tree.build(jnp.zeros((rows,), dtype))
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
        pool=pool,
        scores=bilinear.buffers_for(params, example),
    )
