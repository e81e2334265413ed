r"""The linear chain model with free weights (BOL-Eq2, BOL-Eq6 with free W).

.. math:: \langle w, \hat\Phi(x, y)\rangle = \sum_i \Big(
   \sum_{k \in \text{0-order}(x, i)} w_{k, y_i}
   + \sum_{k \in \text{first-order}(x, i)} W_{k, y_i, y_{i-1}}
   + T_{y_i, y_{i-1}} \Big)

Row is the current label, column the previous one; the last column is the start of the
sentence (errata of BOL-M2). Row K of each table stands for "not a feature": always 0.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax.decode import Scores
from lowrank_jax.models import windows
from lowrank_jax.types import Sentence, Space

__all__ = ["Params", "scores", "zeros"]


class Params(NamedTuple):
    """Weights; a part the feature space does not ask for is None."""

    zero: jax.Array | None  # (K + 1, S)  0-order weights
    first: jax.Array | None  # (K + 1, S, S + 1)  first-order weights
    transitions: jax.Array | None  # (S, S + 1)  label transitions


def zeros(space: Space, dtype: jnp.dtype) -> Params:
    """Return the zero weights of a feature space."""
    rows, labels = space.num_features + 1, space.num_labels
    return Params(
        zero=jnp.zeros((rows, labels), dtype) if space.zero_order else None,
        first=(
            jnp.zeros((rows, labels, labels + 1), dtype) if space.first_order else None
        ),
        transitions=(
            jnp.zeros((labels, labels + 1), dtype) if space.has_transitions else None
        ),
    )


def scores(params: Params, sentence: Sentence) -> Scores:
    """Score all labels and label pairs of one sentence."""
    space = sentence.space
    window, labels = sentence.feature_ids.shape[0], space.num_labels
    dtype = next(part for part in params if part is not None).dtype

    def group(ids: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        unary = jnp.zeros((windows.POSITIONS, labels), dtype)
        if params.zero is not None:
            rows = params.zero.at[ids[:, space.zero_order]]
            unary = rows.get(mode="promise_in_bounds").sum(axis=1)
        if params.first is None:
            return unary, None
        blocks = params.first.at[ids[:, space.first_order]]
        return unary, blocks.get(mode="promise_in_bounds").sum(axis=1)

    buffers = (
        jnp.zeros((window, labels), dtype),
        None
        if params.first is None
        else jnp.zeros((window, labels, labels + 1), dtype),
    )
    unary, pairwise = windows.fill(sentence, group, buffers)
    if pairwise is None:
        shared = params.transitions
        if shared is None:
            shared = jnp.zeros((labels, labels + 1), dtype)
        return Scores(unary, shared)
    if params.transitions is not None:
        pairwise = pairwise + params.transitions[None]
    return Scores(unary, pairwise)
