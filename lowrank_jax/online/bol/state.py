"""The state of BOL on sequences, shared by its variants."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax import checks
from lowrank_jax.linalg import max_tree
from lowrank_jax.models import bilinear
from lowrank_jax.online.bol import block as bol_block
from lowrank_jax.online.bol import paper, paper_global
from lowrank_jax.types import Sentence

__all__ = ["State", "start_of", "variant_of"]


class State(NamedTuple):
    """What the next round needs, and nothing else."""

    params: bilinear.Params  # W_t and w_t
    blocks: jax.Array  # (K + 1, S, S + 1)  Theta_t - Theta_0
    sums: bol_block.Sums | None  # lazy sums for averaging
    pair: paper.Pair | paper_global.Pair | None  # variant "paper"
    sigma: max_tree.MaxTree | None  # variant "exact": sigma_1 of each block
    block: jax.Array | None  # variant "exact": the block in use
    nudge: jax.Array  # (rank, S + 1)  random directions that start a new block
    conjugate: jax.Array  # ()  F*(Theta_t) - F*(Theta_0), 0-order part included
    num_rounds: jax.Array  # () int32  t
    start: jax.Array | None = None  # ()  c_0 of Theta_0 = c_0 11', if it is not 0


def variant_of(state: State) -> str:
    """Return the variant that a state belongs to: "block", "paper" or "exact"."""
    if state.pair is not None:
        return "paper"
    return "block" if state.sigma is None else "exact"


def start_of(
    key: jax.Array,
    example: Sentence,
    variant: str,
    rank: int,
    averaging: str,
    divisor: str,
    prior: jax.Array,
) -> State:
    """Return the state before the first round."""
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
            weights=jnp.zeros_like(blocks) if averaging == "weights" else None,
        )
    nudge = jax.random.normal(key, (rank, labels + 1), dtype)
    pair: paper.Pair | paper_global.Pair | None = None
    sigma, block = None, None
    if variant == "paper":
        # Alg. 2 starts from the uniform pair; as multiples of 1 it needs no K in
        # each entry.
        ones = bilinear.join(
            jnp.ones((1, 1, labels), dtype), jnp.ones((1, 1, labels + 1), dtype)
        )
        params = params._replace(table=params.table.at[:-1, labels:].set(ones))
    elif variant == "block":
        columns = bol_block.prior_columns(labels, rank, prior)
        params = params._replace(table=params.table.at[:-1, labels:].set(columns))
    if variant == "paper" and divisor == "block":
        pair = paper.start(rows, labels, prior)
    elif variant == "paper":
        params = params._replace(scale=jnp.zeros((), dtype))  # sigma_1(Theta_0)
        num_entries = jnp.array([labels, labels + 1], dtype) * space.num_features
        pair = paper_global.Pair(
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
