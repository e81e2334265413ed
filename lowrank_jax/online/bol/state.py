"""The state of BOL on sequences, shared by its variants."""

from typing import NamedTuple

import jax

from lowrank_jax.linalg import max_tree
from lowrank_jax.models import bilinear
from lowrank_jax.online.bol import block as bol_block
from lowrank_jax.online.bol import paper, paper_global

__all__ = ["State", "variant_of"]
__dir__ = __all__.copy


class State(NamedTuple):
    """What the next round needs, and nothing else.

    Attributes:
      params: W_t and w_t.
      blocks: Theta_t - Theta_0, (K + 1, S, S + 1).
      sums: Lazy sums for averaging.
      pair: Variant "paper".
      sigma: Variant "exact": sigma_1 of each block.
      block: Variant "exact": the block in use.
      nudge: Random directions that start a new block, (rank, S + 1).
      conjugate: F*(Theta_t) - F*(Theta_0), 0-order part included, ().
      num_rounds: Number of rounds t, () int32.
      start: c_0 of Theta_0 = c_0 11', if it is not 0, ().
      step_size: C of the learner that made the state, ().
    """

    params: bilinear.Params
    blocks: jax.Array
    sums: bol_block.Sums | None
    pair: paper.Pair | paper_global.Pair | None
    sigma: max_tree.MaxTree | None
    block: jax.Array | None
    nudge: jax.Array
    conjugate: jax.Array
    num_rounds: jax.Array
    start: jax.Array | None = None
    step_size: jax.Array | None = None


def variant_of(state: State) -> str:
    """Return the variant that a state belongs to: "block", "paper" or "exact"."""
    if state.pair is not None:
        return "paper"
    return "block" if state.sigma is None else "exact"
