"""The state of BOL on sequences, shared by its variants."""

from typing import NamedTuple

import jax

from lowrank_jax.linalg import max_tree
from lowrank_jax.models import bilinear
from lowrank_jax.online.bol import block as bol_block
from lowrank_jax.online.bol import paper, paper_global

__all__ = ["State", "variant_of"]


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
    step_size: jax.Array | None = None  # ()  C of the learner that made the state


def variant_of(state: State) -> str:
    """Return the variant that a state belongs to: "block", "paper" or "exact"."""
    if state.pair is not None:
        return "paper"
    return "block" if state.sigma is None else "exact"
