r"""The linear chain model with free weights (BOL-Eq2, BOL-Eq6 with free W).

.. math:: \langle w, \hat\Phi(x, y)\rangle = \sum_i \Big(
   \sum_{k \in \text{0-order}(x, i)} v_{ik} w_{k, y_i}
   + \sum_{k \in \text{first-order}(x, i)} v_{ik} W_{k, y_i, y_{i-1}}
   + T_{y_i, y_{i-1}} \Big)

The value :math:`v_{ik}` of a feature is 1 unless the sentence has `values`.
Row is the current label, column the previous one; the last column is the start of the
sentence (errata of BOL-M2). Row K of each table stands for "not a feature": always 0.
Weights with an index `rows` keep one row per touched feature (`online.touched`), and of
the first-order weights the entries that were touched (`models.blocks`).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Space
from lowrank_jax.decode import Scores
from lowrank_jax.linalg.forms import accumulate, by_platform
from lowrank_jax.models import blocks
from lowrank_jax.streams import sentences
from lowrank_jax.types import Sentence

__all__ = [
    "Buffers",
    "Params",
    "Sums",
    "buffers_for",
    "dtype_of",
    "packed",
    "positions",
    "scores",
    "with_transitions",
    "zeros",
]
__dir__ = __all__.copy


class Params(NamedTuple):
    """Weights; a part the feature space does not ask for is None."""

    zero: jax.Array | None  # (K + 1, S)  0-order weights
    first: jax.Array | blocks.Blocks | None  # (K + 1, S, S + 1)  first-order weights
    transitions: jax.Array | None  # (S, S + 1)  label transitions
    rows: jax.Array | None = None  # (K + 1,) int32, the row of each feature


class Sums(NamedTuple):
    """Lazy sums of the weights; of entries there is one sum each."""

    zero: jax.Array | None
    first: jax.Array | blocks.Part | None
    transitions: jax.Array | None


class Buffers(NamedTuple):
    """Scores of an earlier sentence, for `scores` to write over."""

    unary: jax.Array  # (window, S)
    pairwise: jax.Array | None  # (window, S, ...), or None without first order


def zeros(space: Space, dtype: jnp.dtype) -> Params:
    """Return the zero weights of a feature space."""
    if not space.orders and not space.has_transitions:
        raise InputError(
            "`space` must have a column of features or label transitions, got neither."
        )
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


def dtype_of(params: Any) -> jnp.dtype:
    """Return the type of the weights of a model; its index has another."""
    types = (leaf.dtype for leaf in jax.tree.leaves(params))
    return next(dtype for dtype in types if jnp.issubdtype(dtype, jnp.floating))


def positions(
    params: Params,
    ids: jax.Array,
    space: Space,
    values: jax.Array | None = None,
    *,
    has_zero_row: bool = True,
) -> tuple[jax.Array, jax.Array | None]:
    """Score positions by their features, transitions left out.

    Args:
      params: Weights.
      ids: (n, num_templates) int32.
      space: Sizes.
      values: (n, num_templates) values of the features, or None for 1 each.
      has_zero_row: True if row K is known to be 0, as in the tables of the learners.
        Else id K is masked: it scores 0 whatever its row holds. Static.

    Returns:
      (n, S) scores of labels and (n, S, S + 1) of pairs, None without first order.
      Entries (`models.blocks`) give `stride` columns in place of S + 1.
    """
    dtype = dtype_of(params)

    def read(table: jax.Array, ids: jax.Array, place: Any) -> jax.Array:
        ids = ids[:, place]
        at = ids
        if params.rows is not None:
            at = params.rows.at[ids].get(mode="promise_in_bounds")
        rows = table.at[at].get(mode="promise_in_bounds")
        if values is not None:
            factor = values[:, place].astype(dtype)
            rows = rows * factor.reshape(*ids.shape, *(1,) * (rows.ndim - ids.ndim))
        if has_zero_row:
            return rows
        is_feature = ids < space.num_features
        lead = (1,) * (rows.ndim - ids.ndim)
        return jnp.where(is_feature.reshape(*ids.shape, *lead), rows, 0)

    def total(table: jax.Array, columns: tuple[int, ...]) -> jax.Array:
        def spelt_out(table: jax.Array, ids: jax.Array) -> jax.Array:
            found = jnp.zeros((ids.shape[0], *table.shape[1:]), dtype)
            return accumulate(
                lambda found, t: found + read(table, ids, t), found, columns
            )

        def reduced(table: jax.Array, ids: jax.Array) -> jax.Array:
            return read(table, ids, np.array(columns, np.int32)).sum(axis=1)

        return by_platform(table, ids, cpu=spelt_out, tpu=reduced)

    unary = jnp.zeros((ids.shape[0], space.num_labels), dtype)
    if params.zero is not None and space.zero_order:
        unary = total(params.zero, space.zero_order)
    if params.first is None:
        return unary, None
    if isinstance(params.first, blocks.Blocks):
        return unary, _entries(params, ids, space, values, has_zero_row)
    return unary, total(params.first, space.first_order)


def _entries(
    params: Params,
    ids: jax.Array,
    space: Space,
    values: jax.Array | None,
    has_zero_row: bool,
) -> jax.Array:
    """Return the (n, S, stride) scores of pairs from weights that keep entries."""
    first = params.first
    assert isinstance(first, blocks.Blocks) and params.rows is not None
    columns = jnp.array(space.first_order, jnp.int32)
    own = ids[:, columns]
    rows = params.rows.at[own].get(mode="promise_in_bounds")
    is_feature = None if has_zero_row else own < space.num_features
    times = None if values is None else values[:, columns]
    given = first.keys, first.values, rows, space.num_labels
    return blocks.scores(*given, is_feature=is_feature, times=times)


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
        lead, gap = (1,) * (pairwise.ndim - 2), pairwise.shape[-1] - num_labels - 1
        more = jnp.pad(params.transitions, ((0, 0), (0, gap)))
        pairwise = pairwise + more.reshape(*lead, *more.shape)
    return Scores(unary, pairwise)


def packed(
    params: Params, ids: jax.Array, space: Space, values: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """Score positions for `decode.packed`.

    Returns:
      (n, S) scores of labels. The scores of pairs (previous, current) are (S + 1, S)
      for all positions, or (n, S + 1, S) with first order.
    """
    given = positions(params, ids, space, values)
    unary, pairs = with_transitions(params, *given)
    return unary, jnp.swapaxes(pairs, -1, -2)[..., : space.num_labels + 1, :]


def scores(
    params: Params,
    sentence: Sentence,
    *,
    has_zero_row: bool = False,
    buffers: Buffers | None = None,
) -> Scores:
    """Score all labels and label pairs of one sentence. Differentiable in `params`.

    Args:
      params: Weights.
      sentence: Sentence.
      has_zero_row: True if row K is known to be 0, as in the tables of the learners.
        Else id K is masked: it scores 0 whatever its row holds. Static.
      buffers: Scores of an earlier sentence in the same window, from `buffers_for`, to
        write over. Then the scores are not differentiable.
    """

    def group(params: Params, *here: jax.Array) -> Buffers:
        found = positions(
            params, here[0], sentence.space, *here[1:], has_zero_row=has_zero_row
        )
        if params.first is None:  # the transitions serve all positions
            return Buffers(*found)
        return Buffers(*with_transitions(params, *found))

    given = group, params, sentence.feature_ids, sentence.length
    if buffers is None or buffers.unary.shape[0] != sentence.labels.shape[0]:
        unary, pairwise = sentences.fill(*given, sentence.values)
    else:
        unary, pairwise = sentences.refill(*given, buffers, sentence.values)
    if params.first is None:
        return with_transitions(params, unary, None)
    assert pairwise is not None
    return Scores(unary, pairwise)


def buffers_for(params: Params, sentence: Sentence) -> Buffers:
    """Return zeros that `scores` of sentences in the same window may write over.

    Without first-order weights the scores of pairs need no buffer: they are None.
    """
    found = jax.eval_shape(lambda: scores(params, sentence, has_zero_row=True))
    unary, pairwise = (jnp.zeros(part.shape, part.dtype) for part in found)
    return Buffers(unary, None if params.first is None else pairwise)
