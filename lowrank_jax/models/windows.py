"""Work on a sentence a few positions at a time, up to its true length.

One position at a time pays the overhead of many small operations; the whole window at
once pays for padding. `POSITIONS` at a time is the measured middle (docs/design.md).
"""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax.types import Sentence

__all__ = ["POSITIONS", "fill", "window_of"]

POSITIONS = 8  # 16 costs 30 % more on ragged sentences of 24 tokens, 4 no less

Buffers = TypeVar("Buffers")


def window_of(max_length: int) -> int:
    """Return the smallest window that holds `max_length` tokens in whole steps."""
    return max(1, -(-max_length // POSITIONS)) * POSITIONS


def fill(
    sentence: Sentence,
    score: Callable[[jax.Array], Buffers],
    buffers: Buffers,
) -> Buffers:
    """Write `score(ids)` of each group of positions into `buffers`.

    Args:
      sentence: its window must be a multiple of `POSITIONS` (see `window_of`).
      score: from ids (POSITIONS, num_templates) to arrays of leading axis POSITIONS,
        the same structure as `buffers`.
      buffers: arrays of leading axis `window`; rows beyond the length are left alone
        or overwritten with the scores of padding.
    """
    num_steps = (sentence.length + POSITIONS - 1) // POSITIONS

    def step(j: jax.Array, filled: Buffers) -> Buffers:
        first = j * POSITIONS
        ids = lax.dynamic_slice_in_dim(sentence.feature_ids, first, POSITIONS)
        return jax.tree.map(
            lambda whole, part: lax.dynamic_update_slice_in_dim(whole, part, first, 0),
            filled,
            score(ids),
        )

    return lax.fori_loop(jnp.zeros_like(num_steps), num_steps, step, buffers)
