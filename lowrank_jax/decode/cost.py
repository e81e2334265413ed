r"""Costs of wrong labels, loss-augmented decoding, and scores of given paths.

The structured hinge (SMM-N1, BOL's loss) needs
:math:`\max_z s(z) + \ell(y, z)` with a cost that is a sum over positions, such as the
Hamming distance: the cost is added to the unary scores and the rest is Viterbi.
"""

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.checks import InputError
from lowrank_jax.decode.scores import (
    Length,
    Path,
    Scores,
    as_length,
    as_scores,
    is_inside,
)
from lowrank_jax.decode.viterbi import best_path

__all__ = [
    "cost_table",
    "hamming_cost",
    "label_costs",
    "loss_augmented_path",
    "pair_counts",
    "path_cost",
    "path_score",
]
__dir__ = __all__.copy


def hamming_cost(
    labels: jax.Array,
    num_labels: int,
    scale: float | jax.Array = 1.0,
    *,
    dtype: jax.typing.DTypeLike | None = None,
) -> jax.Array:
    """Return the cost of each label: `scale`, or 0 for the true one.

    Args:
      labels: (L,) true labels; where negative (not known) every label is free.
      num_labels: S. Static.
      scale: Cost of one wrong label. May be traced.
      dtype: Type of the result; None takes the type of `scale` if it is a JAX
        array, otherwise the default float.

    Returns:
      (L, S) costs, to be added to the unary scores.
    """
    if dtype is None:
        dtype = scale.dtype if isinstance(scale, jax.Array) else jnp.result_type(float)
    labels = jnp.asarray(labels).astype(jnp.int32)
    each_label = jnp.arange(num_labels, dtype=jnp.int32)
    is_wrong = (labels[:, None] != each_label[None, :]) & (labels[:, None] >= 0)
    return jnp.where(is_wrong, jnp.asarray(scale, dtype), jnp.zeros((), dtype))


def cost_table(cost: jax.typing.ArrayLike, num_labels: int) -> np.ndarray:
    """Return the cost of each wrong label as a table, on the host.

    Args:
      cost: (S,) cost of a token whose true label was missed, or (S, S) costs by true
        and predicted label. Finite, 0 or more; the diagonal counts as 0.
      num_labels: S.

    Returns:
      (S, S) float64: row = true label, column = predicted label.
    """
    table = np.asarray(cost, np.float64)
    if table.shape == (num_labels,):
        table = np.repeat(table[:, None], num_labels, axis=1)
    is_fit = table.shape == (num_labels, num_labels)
    if not is_fit or not (np.isfinite(table) & (table >= 0)).all():
        raise InputError(
            f"`label_cost` must hold finite numbers of 0 or more, in shape "
            f"({num_labels},) or ({num_labels}, {num_labels}), got shape "
            f"{table.shape} from {table.min(initial=0):g} to {table.max(initial=0):g}."
        )
    return table * (1 - np.eye(num_labels))


def label_costs(labels: jax.Array, table: jax.Array) -> jax.Array:
    """Return the cost of each label at each position, to be added to unary scores.

    Args:
      labels: (L,) true labels; where negative (not known) every label is free.
      table: (S, S) costs by true and predicted label.
    """
    rows = table[jnp.maximum(labels, 0)]
    return jnp.where((labels >= 0)[:, None], rows, 0)


def path_cost(costs: jax.Array, labels: jax.Array, length: Length = None) -> jax.Array:
    """Return the sum () of the costs (L, S) of given labels (L,)."""
    num_positions = costs.shape[0]
    inside = is_inside(as_length(length, num_positions), num_positions)
    each = jnp.take_along_axis(costs, labels[:, None], 1)[:, 0]
    return jnp.where(inside, each, 0).sum()


def loss_augmented_path(
    scores: Scores,
    labels: jax.Array,
    length: Length = None,
    *,
    cost: jax.Array | None = None,
) -> Path:
    """Find the path with the greatest score plus cost.

    Args:
      scores: `Scores` of one sentence.
      labels: (L,) true labels.
      length: Length of the sentence; None means all L positions.
      cost: (L, S) cost of each label at each position; None means `hamming_cost`.

    Returns:
      `Path` whose score includes the cost.
    """
    unary, pairwise = as_scores(scores)
    if cost is None:
        cost = hamming_cost(labels, unary.shape[1], dtype=unary.dtype)
    if jnp.shape(cost) != unary.shape:
        raise InputError(
            f"`cost` must have the shape of `unary` {unary.shape}, "
            f"got {jnp.shape(cost)}."
        )
    return best_path(Scores(unary + cost, pairwise), length)


def path_score(scores: Scores, labels: jax.Array, length: Length = None) -> jax.Array:
    """Return the score () of the given labels (L,), those beyond `length` ignored."""
    unary, pairwise = as_scores(scores)
    num_positions, num_labels = unary.shape
    inside = is_inside(as_length(length, num_positions), num_positions)
    labels = jnp.where(inside, jnp.asarray(labels).astype(jnp.int32), 0)
    previous = _previous(labels, num_labels)
    positions = jnp.arange(num_positions, dtype=jnp.int32)
    if pairwise.ndim == 2:
        pairs = pairwise[labels, previous]
    else:
        pairs = pairwise[positions, labels, previous]
    terms = unary[positions, labels] + pairs
    return jnp.sum(jnp.where(inside, terms, 0), dtype=unary.dtype)


def pair_counts(labels: jax.Array, num_labels: int, length: Length = None) -> jax.Array:
    """Count how often each label follows each label.

    With pairwise scores shared by all positions this is the gradient of `path_score`.

    Args:
      labels: (L,) labels in 0..S-1, those beyond `length` ignored.
      num_labels: S. Static.
      length: Length of the sentence; None means all L positions.

    Returns:
      (S, S+1) int32: row = current label, column = previous, last column = start.
    """
    num_positions = labels.shape[0]
    inside = is_inside(as_length(length, num_positions), num_positions)
    labels = jnp.where(inside, jnp.asarray(labels).astype(jnp.int32), 0)
    counts = jnp.zeros((num_labels, num_labels + 1), jnp.int32)
    return counts.at[labels, _previous(labels, num_labels)].add(
        inside.astype(jnp.int32)
    )


def _previous(labels: jax.Array, num_labels: int) -> jax.Array:
    """Return the label before each position; S before the first."""
    return jnp.concatenate([jnp.full((1,), num_labels, jnp.int32), labels[:-1]])
