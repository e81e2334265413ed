r"""The bilinear chain model: each first-order block has rank r (BOL-Eq1, BOL-M2).

.. math:: s(x, y) = \sum_i \Big(\sum_k v_{ik} w_{k, y_i}
   + c \sum_k v_{ik} \sum_{j \le r} \alpha_{k j, y_i}\, \beta_{k j, y_{i-1}}
   + T_{y_i, y_{i-1}}\Big)

with the 0-order features of BOL-X1 beside and the scale :math:`c` carried as a
parameter of its own (errata of BOL-Eq8). The value :math:`v_{ik}` of a feature is 1
unless the sentence has `values`. What a feature owns lies side by side in one
row of `table`, so that scoring a position is one gather:

====================  ==========================================
columns               content
====================  ==========================================
S                     :math:`w_k`, 0-order weights
rank * S              :math:`\alpha_{k j}`
rank * stride         :math:`\beta_{k j}`: S labels, then the start of
                      the sentence, then zeros up to a multiple of 8
the rest              zeros up to a multiple of 16, from 8 labels on
====================  ==========================================

The padding makes the inner loop of the outer product whole vectors: 23 columns without
it cost a third more time than 24. Rows of whole cache lines are read in four fifths of
the time (80 columns against 68). Row K stands for "not a feature" and is 0.

A model with an index `rows` keeps one row per touched feature (`online.touched`): the
row of feature k is ``rows[k]``.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax import checks
from lowrank_jax.data.sequences import Space
from lowrank_jax.decode import LowRankScores, Scores
from lowrank_jax.linalg.forms import accumulate, by_platform
from lowrank_jax.models import blocks
from lowrank_jax.models.blocks import stride
from lowrank_jax.streams import sentences
from lowrank_jax.types import Sentence

if TYPE_CHECKING:
    from lowrank_jax.models import linear

__all__ = [
    "Params",
    "Rows",
    "buffers_for",
    "join",
    "packed",
    "packed_pairs",
    "packed_rows",
    "packed_unary",
    "positions",
    "random",
    "rank_of",
    "scores",
    "sought",
    "split",
    "stride",
    "truncated",
    "width",
    "with_transitions",
    "zeros",
]
__dir__ = __all__.copy


_MOST_FACTORS = 32  # of a position: a step of Viterbi spells them out eight times


class Params(NamedTuple):
    """The model; see the module for the columns of `table`."""

    table: jax.Array  # (K + 1, width), or (R, width) with an index
    transitions: jax.Array | None  # (S, S + 1)
    scale: jax.Array  # ()  c
    rows: jax.Array | None = None  # (K + 1,) int32, the row of each feature


class Rows(NamedTuple):
    """Some rows of the table, taken apart."""

    zero: jax.Array  # (..., S)  w
    left: jax.Array  # (..., rank, S)  alpha
    right: jax.Array  # (..., rank, S + 1)  beta


def width(num_labels: int, rank: int) -> int:
    """Return the columns of the table."""
    each = num_labels + stride(num_labels)
    used = num_labels + rank * each
    return -(-used // 16) * 16 if each > 16 else used


def rank_of(table: jax.Array, num_labels: int) -> int:
    """Return the rank of the blocks, from the width of the table."""
    return (table.shape[-1] - num_labels) // (num_labels + stride(num_labels))


def zeros(space: Space, rank: int, dtype: jnp.dtype) -> Params:
    """Return the zero model of a feature space."""
    labels = space.num_labels
    return Params(
        table=jnp.zeros((space.num_features + 1, width(labels, rank)), dtype),
        transitions=(
            jnp.zeros((labels, labels + 1), dtype) if space.has_transitions else None
        ),
        scale=jnp.ones((), dtype),
    )


def random(
    key: jax.Array,
    space: Space,
    rank: int,
    dtype: jnp.dtype = jnp.float32,
    *,
    spread: float | jax.Array = 0.1,
) -> Params:
    """Return a model with normal factors, for learning by gradients.

    The zero model is a stationary point of the factors, so a gradient never leaves it.
    Weights on single labels and label transitions are 0.

    Args:
      key: Random key.
      space: Sizes of the feature space.
      rank: Rank of the blocks.
      dtype: Type of the weights.
      spread: Standard deviation of an entry of alpha and beta. May be traced.
    """
    checks.random_key(key)
    labels, params = space.num_labels, zeros(space, rank, dtype)
    keys = jax.random.split(key)
    shape = (space.num_features, rank)
    left = jax.random.normal(keys[0], (*shape, labels), dtype)
    right = jax.random.normal(keys[1], (*shape, labels + 1), dtype)
    columns = jnp.asarray(spread, dtype) * join(left, right)
    return params._replace(table=params.table.at[:-1, labels:].set(columns))


def split(rows: jax.Array, num_labels: int) -> Rows:
    """Take rows of the table (..., width) apart."""
    rank, lead = rank_of(rows, num_labels), rows.shape[:-1]
    ends = num_labels * (1 + rank)
    right = rows[..., ends : ends + rank * stride(num_labels)]
    right = right.reshape(*lead, rank, stride(num_labels))
    return Rows(
        zero=rows[..., :num_labels],
        left=rows[..., num_labels:ends].reshape(*lead, rank, num_labels),
        right=right[..., : num_labels + 1],
    )


def join(left: jax.Array, right: jax.Array) -> jax.Array:
    """Put alpha (n, rank, S) and beta (n, rank, S + 1) into columns S.. of rows."""
    num_rows, rank, num_labels = left.shape
    each = stride(num_labels)
    right = jnp.pad(right, ((0, 0), (0, 0), (0, each - num_labels - 1)))
    columns = jnp.concatenate(
        [
            left.reshape(num_rows, rank * num_labels),
            right.reshape(num_rows, rank * each),
        ],
        axis=1,
    )
    gap = width(num_labels, rank) - num_labels - columns.shape[1]
    return jnp.pad(columns, ((0, 0), (0, gap)))


def truncated(params: "linear.Params", rank: int) -> Params:
    """Return the linear model with each first-order block cut to a rank, by an SVD.

    Args:
      params: Model with first-order weights, not by their entries.
      rank: Rank of the blocks, at most the number of labels. Static.
    """
    assert params.first is not None
    if isinstance(params.first, blocks.Blocks):
        raise checks.InputError(
            "`params` has first-order weights by their entries: give "
            "online.touched.by_feature(params)."
        )
    labels = params.first.shape[1]
    checks.whole(rank=rank)
    checks.at_most(labels, rank=rank)
    from lowrank_jax.linalg import spectra  # this function alone

    left, sigma, right = spectra.svd(params.first)
    left = (left * sigma[:, None, :])[:, :, :rank].swapaxes(1, 2)
    zero = jnp.zeros_like(left[:, 0]) if params.zero is None else params.zero
    table = jnp.concatenate([zero, join(left, right[:, :rank])], axis=1)
    one = jnp.ones((), table.dtype)
    return Params(table.at[-1].set(0), params.transitions, one, params.rows)


def positions(
    params: Params,
    ids: jax.Array,
    space: Space,
    values: jax.Array | None = None,
    *,
    has_zero_row: bool = True,
) -> tuple[jax.Array, jax.Array]:
    """Score positions by their features, transitions left out.

    Args:
      params: Model.
      ids: (n, num_templates) int32.
      space: Sizes.
      values: (n, num_templates) values of the features, or None for 1 each.
      has_zero_row: True if row K is known to be 0, as in the tables of the learners.
        Else id K is masked: it scores 0 whatever its row holds. Static.

    Returns:
      (n, S) scores of labels and (n, S, stride) of pairs.
    """
    labels, each = space.num_labels, stride(space.num_labels)
    rank, dtype = rank_of(params.table, labels), params.table.dtype
    rows = packed_rows(params, ids, space, values, has_zero_row)

    # Unrolled over features and ranks: the sum stays in one fused loop on a CPU.
    def spelt_out(rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        unary = jnp.zeros((ids.shape[0], labels), dtype)
        unary = accumulate(
            lambda found, t: found + rows[:, t, :labels], unary, space.zero_order
        )
        pairwise = jnp.zeros((ids.shape[0], labels, each), dtype)

        def add(pairwise: jax.Array, t: Any) -> jax.Array:
            for j in range(rank):
                left = rows[:, t, labels * (1 + j) :][:, :labels]
                right = rows[:, t, labels * (1 + rank) + each * j :][:, :each]
                pairwise = pairwise + left[:, :, None] * right[:, None, :]
            return pairwise

        return unary, accumulate(add, pairwise, space.first_order)

    def products(rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        zero, first = (
            rows[:, np.array(columns, np.int32)]
            for columns in (space.zero_order, space.first_order)
        )
        left = first[..., labels : labels * (1 + rank)]
        right = first[..., labels * (1 + rank) :][..., : rank * each]
        pairwise = jnp.einsum(
            "ntjs,ntjr->nsr",
            left.reshape(*left.shape[:2], rank, labels),
            right.reshape(*right.shape[:2], rank, each),
            precision=lax.Precision.HIGHEST,
        )
        return zero[..., :labels].sum(axis=1), pairwise

    unary, pairwise = by_platform(rows, cpu=spelt_out, tpu=products)
    return unary, params.scale * pairwise


def packed_rows(
    params: Params,
    ids: jax.Array,
    space: Space,
    values: jax.Array | None = None,
    has_zero_row: bool = True,
) -> jax.Array:
    """Return the rows of features, times their values: (n, num_templates, width)."""
    at = ids
    if params.rows is not None:
        at = params.rows.at[ids].get(mode="promise_in_bounds")
    rows = params.table.at[at].get(mode="promise_in_bounds")
    if not has_zero_row:
        rows = jnp.where((ids < space.num_features)[:, :, None], rows, 0)
    if values is None:
        return rows
    # w and alpha carry the value, beta does not
    own = space.num_labels * (1 + rank_of(params.table, space.num_labels))
    column = jnp.arange(rows.shape[2], dtype=jnp.int32)[None, None]
    factor = values.astype(rows.dtype)[:, :, None]
    return rows * jnp.where(column < own, factor, 1)


def packed_unary(rows: jax.Array, space: Space) -> jax.Array:
    """Return the (n, stride) scores of labels; columns beyond S hold anything."""
    width = stride(space.num_labels)
    unary = jnp.zeros((rows.shape[0], width), rows.dtype)
    return accumulate(
        lambda found, t: found + rows[:, t, :width], unary, space.zero_order
    )


def packed_pairs(rows: jax.Array, space: Space, start: jax.Array) -> jax.Array:
    """Add the (n, S + 1, stride) scores of (previous, current) to what is there.

    Columns beyond S hold anything: a slice of `stride` columns reaches into what lies
    beside it in the row.
    """
    labels, each = space.num_labels, stride(space.num_labels)
    rank = rank_of(rows, labels)

    def add(pairs: jax.Array, t: Any) -> jax.Array:
        for j in range(rank):
            left = rows[:, t, labels * (1 + j) :][:, :each]
            right = rows[:, t, labels * (1 + rank) + each * j :][:, : labels + 1]
            pairs = pairs + right[:, :, None] * left[:, None, :]
        return pairs

    return accumulate(add, start, space.first_order)


def packed(
    params: Params, ids: jax.Array, space: Space, values: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """Score positions for `decode.packed`: labels (n, W), pairs (n, S + 1, W)."""
    rows = packed_rows(params, ids, space, values)
    unary, labels = packed_unary(rows, space), space.num_labels
    zeros = jnp.zeros((ids.shape[0], labels + 1, unary.shape[1]), unary.dtype)
    pairs = params.scale * packed_pairs(rows, space, zeros)
    if params.transitions is not None:
        room = ((0, 0), (0, unary.shape[1] - labels))
        pairs = pairs + jnp.pad(params.transitions.T, room)[None]
    return unary, pairs


def with_transitions(params: Params, unary: jax.Array, pairwise: jax.Array) -> Scores:
    """Join what `positions` found with the label transitions."""
    if params.transitions is not None:
        labels, each = pairwise.shape[-2:]
        more = jnp.pad(params.transitions, ((0, 0), (0, each - labels - 1)))
        lead = (1,) * (pairwise.ndim - 2)
        pairwise = pairwise + more.reshape(*lead, labels, each)
    return Scores(unary, pairwise)


def scores(
    params: Params,
    sentence: Sentence,
    *,
    has_zero_row: bool = False,
    buffers: Scores | None = None,
) -> Scores:
    """Score all labels and label pairs of one sentence. Differentiable in `params`.

    `pairwise` has `stride` columns; decoders ignore those beyond S + 1.

    Args:
      params: Model.
      sentence: Sentence.
      has_zero_row: True if row K is known to be 0, as in the tables of the learners.
        Else id K is masked: it scores 0 whatever its row holds. Static.
      buffers: Scores of an earlier sentence in the same window, from `buffers_for`, to
        write over. Then the scores are not differentiable.
    """

    def group(params: Params, *here: jax.Array) -> Scores:
        found = positions(
            params, here[0], sentence.space, *here[1:], has_zero_row=has_zero_row
        )
        return with_transitions(params, *found)

    given = group, params, sentence.feature_ids, sentence.length
    if buffers is None or buffers.unary.shape[0] != sentence.labels.shape[0]:
        return sentences.fill(*given, sentence.values)
    return sentences.refill(*given, buffers, sentence.values)


def sought(
    params: Params, sentence: Sentence, buffers: Scores | LowRankScores | None = None
) -> Scores | LowRankScores:
    """Score a sentence to find its best path, in the faster form; row K must be 0.

    From 64 labels on, scores of pairs stay factors, unless there are label transitions.

    Args:
      params: Model.
      sentence: Sentence.
      buffers: Buffers, as in `scores`. None takes new ones.
    """
    if buffers is None:
        buffers = buffers_for(params, sentence)
    if isinstance(buffers, Scores):
        return scores(params, sentence, has_zero_row=True, buffers=buffers)
    space = sentence.space
    labels, each = space.num_labels, stride(space.num_labels)
    rank = rank_of(params.table, labels)
    first = labels * (1 + rank)

    def group(params: Params, *here: jax.Array) -> LowRankScores:
        values = here[1] if len(here) > 1 else None
        rows = packed_rows(params, here[0], space, values, True)
        unary = jnp.zeros((len(rows), labels), rows.dtype)
        unary = accumulate(
            lambda found, t: found + rows[:, t, :labels], unary, space.zero_order
        )
        own = rows[:, np.array(space.first_order, np.int32)]
        left = own[:, :, labels:first].reshape(len(rows), -1, labels)
        right = own[:, :, first : first + rank * each].reshape(len(rows), -1, each)
        left = jnp.pad(params.scale * left, ((0, 0), (0, 0), (0, each - labels)))
        return LowRankScores(unary, left, right)

    given = group, params, sentence.feature_ids, sentence.length
    if buffers.unary.shape[0] != sentence.labels.shape[0]:
        return sentences.fill(*given, sentence.values)
    return sentences.refill(*given, buffers, sentence.values)


def buffers_for(params: Params, sentence: Sentence) -> Scores | LowRankScores:
    """Return zeros that scores of sentences in the same window may write over."""
    window, labels = sentence.labels.shape[0], sentence.space.num_labels
    dtype, each = params.table.dtype, stride(labels)
    unary = jnp.zeros((window, labels), dtype)
    num_factors = len(sentence.space.first_order) * rank_of(params.table, labels)
    is_dense = labels < blocks.MANY or num_factors > _MOST_FACTORS
    if is_dense or params.transitions is not None:
        return Scores(unary, jnp.zeros((window, labels, each), dtype))
    factors = jnp.zeros((window, num_factors, each), dtype)
    return LowRankScores(unary, factors, factors)
