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

from lowrank_jax.data.sequences import Space
from lowrank_jax.decode import Scores
from lowrank_jax.streams import sentences
from lowrank_jax.types import Sentence

__all__ = ["Params", "positions", "scores", "with_transitions", "zeros"]


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


def positions(
    params: Params, ids: jax.Array, space: Space
) -> tuple[jax.Array, jax.Array | None]:
    """Score positions by their features, transitions left out.

    Args:
      params: Weights.
      ids: (n, num_templates) int32.
      space: Sizes.

    Returns:
      (n, S) scores of labels and (n, S, S + 1) of pairs, None without first order.
    """
    dtype = next(part for part in params if part is not None).dtype
    # Sums are spelt out: they fuse with the gathers, where a reduction would not.
    unary = jnp.zeros((ids.shape[0], space.num_labels), dtype)
    if params.zero is not None:
        for t in space.zero_order:
            unary = unary + params.zero.at[ids[:, t]].get(mode="promise_in_bounds")
    if params.first is None:
        return unary, None
    pairwise = jnp.zeros((*unary.shape, space.num_labels + 1), dtype)
    for t in space.first_order:
        pairwise = pairwise + params.first.at[ids[:, t]].get(mode="promise_in_bounds")
    return unary, pairwise


def with_transitions(
    params: Params, unary: jax.Array, pairwise: jax.Array | None
) -> Scores:
    """Join what `positions` found with the label transitions."""
    num_labels = unary.shape[-1]
    if pairwise is None:
        if params.transitions is not None:
            return Scores(unary, params.transitions)
        return Scores(unary, jnp.zeros((num_labels, num_labels + 1), unary.dtype))
    if params.transitions is not None:
        lead = (1,) * (pairwise.ndim - 2)
        pairwise = pairwise + params.transitions.reshape(
            *lead, num_labels, num_labels + 1
        )
    return Scores(unary, pairwise)


def scores(params: Params, sentence: Sentence) -> Scores:
    """Score all labels and label pairs of one sentence. Differentiable in `params`."""
    found = sentences.fill(
        lambda params, ids: positions(params, ids, sentence.space),
        params,
        sentence.feature_ids,
        sentence.length,
    )
    return with_transitions(params, *found)
