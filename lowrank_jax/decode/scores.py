r"""Score arrays of a first-order label sequence: the one input of every decoder.

The score of labels :math:`y` of length :math:`n` is (BOL-Eq2, any first-order model)

.. math:: s(y) = \sum_{i<n} U_{i, y_i} + P_{i, y_i, y_{i-1}}, \qquad y_{-1} = S,

with :math:`U` the `unary` and :math:`P` the `pairwise` scores: row = current label,
column = previous label, last column = start of the sentence, used at position 0 alone.

Arrays are padded to a fixed number of positions; what lies at `length` and beyond is
never read into a result. Of several paths with the same score the decoders return the
one with the smallest label at the last position, then at the one before, and so on:
the path whose reversed labels come first in the dictionary.
"""

import numbers
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax.checks import InputError

__all__ = ["LowRankScores", "Path", "Scores", "allow_labels"]
__dir__ = __all__.copy

Length = int | np.integer | jax.Array | None


class Scores(NamedTuple):
    """Scores of one sentence.

    Attributes:
      unary: (L, S) score of each label at each position.
      pairwise: (S, S+1) shared by all positions, or (L, S, S+1) one per position.
        Further columns are never read: a model may pad its rows for alignment.

    A score of minus infinity forbids a label or a pair of labels.
    """

    unary: jax.Array
    pairwise: jax.Array


class LowRankScores(NamedTuple):
    r"""Scores of one sentence, with the scores of pairs as factors, for many labels.

    The score of label s after label r is
    :math:`P_{i,s,r} = \sum_f a_{i,f,s}\, b_{i,f,r}`.

    Attributes:
      unary: (L, S) score of each label at each position.
      left: (L, F, W) factors of the current label, 0 from column S on.
      right: (L, F, W) factors of the previous label, with the start of the sentence in
        column S and 0 behind it. W is a multiple of 8, at least S + 1.
    """

    unary: jax.Array
    left: jax.Array
    right: jax.Array

    def pairs(
        self, place: jax.Array, labels: jax.Array, previous: jax.Array
    ) -> jax.Array:
        """Return the scores (n,) of some pairs of labels (n,) at one position."""
        left, right = self.left[place], self.right[place]
        return (left[:, labels] * right[:, previous]).sum(axis=0)


class Path(NamedTuple):
    """One label sequence and its score.

    Attributes:
      labels: (L,) int32; 0 at `length` and beyond.
      score: () of the scores' dtype; 0 for the empty sentence.
    """

    labels: jax.Array
    score: jax.Array


def allow_labels(labels: jax.Array, num_labels: int) -> jax.Array:
    """Turn partly known labels into the mask that the decoders take as `allowed`.

    Args:
      labels: (L,) integers; -1 (or any other negative) where the label is free.
      num_labels: S. Static.

    Returns:
      (L, S) booleans, True where a label may stand.
    """
    labels = jnp.asarray(labels).astype(jnp.int32)
    each_label = jnp.arange(num_labels, dtype=jnp.int32)
    return (labels[:, None] < 0) | (labels[:, None] == each_label[None, :])


def as_scores(scores: Scores, allowed: jax.Array | None = None) -> Scores:
    """Check the shapes of one sentence's scores and forbid what is not allowed.

    Forbidden labels score minus infinity: exact whatever the scale of the scores, and
    harmless, since decoders only add scores and compare them (no difference of two
    infinities, so no nan). A sentence without any permitted path scores minus infinity.
    """
    unary, pairwise = jnp.asarray(scores.unary), jnp.asarray(scores.pairwise)
    if unary.ndim != 2 or 0 in unary.shape:
        raise InputError(f"`unary` must have shape (L, S), got {unary.shape}.")
    _check_pairwise(unary, pairwise)
    return Scores(forbid(unary, allowed), pairwise)


def as_batch(
    scores: Scores, lengths: jax.Array | None
) -> tuple[Scores, jax.Array, bool]:
    """Check scores of many sentences; return them, lengths, and if pairs are shared.

    Shapes are `unary` (B, L, S) and `pairwise` (S, S+1) or (B, L, S, S+1).
    """
    unary, pairwise = jnp.asarray(scores.unary), jnp.asarray(scores.pairwise)
    if unary.ndim != 3 or 0 in unary.shape:
        raise InputError(f"`unary` must have shape (B, L, S), got {unary.shape}.")
    _check_pairwise(unary, pairwise)
    if lengths is None:
        lengths = jnp.full(unary.shape[:1], unary.shape[1], jnp.int32)
    lengths = jnp.asarray(lengths).astype(jnp.int32)
    if lengths.shape != unary.shape[:1]:
        raise InputError(
            f"`lengths` must have shape {unary.shape[:1]}, got {lengths.shape}."
        )
    return Scores(unary, pairwise), lengths, pairwise.ndim == 2


def _check_pairwise(unary: jax.Array, pairwise: jax.Array) -> None:
    """Check `pairwise` against `unary` (..., S): (S, S+1) or (..., S, S+1) or wider."""
    num_labels = unary.shape[-1]
    shared, own = (num_labels,), unary.shape
    is_wide = pairwise.ndim > 0 and pairwise.shape[-1] > num_labels
    if not is_wide or pairwise.shape[:-1] not in (shared, own):
        width = (num_labels + 1,)
        raise InputError(
            f"`pairwise` must have shape {shared + width} or {own + width} beside "
            f"`unary` {unary.shape}, got {pairwise.shape}."
        )
    if unary.dtype != pairwise.dtype:
        raise InputError(
            "`unary` and `pairwise` must have one dtype, got "
            f"{unary.dtype} and {pairwise.dtype}."
        )


def forbid(unary: jax.Array, allowed: jax.Array | None) -> jax.Array:
    """Give minus infinity to the labels outside the mask `allowed`, of equal shape."""
    if allowed is None:
        return unary
    if jnp.shape(allowed) != unary.shape:
        raise InputError(
            f"`allowed` must have the shape of `unary` {unary.shape}, "
            f"got {jnp.shape(allowed)}."
        )
    return jnp.where(allowed, unary, jnp.array(-jnp.inf, unary.dtype))


def as_length(length: Length, num_positions: int) -> np.int32 | jax.Array:
    """Return the length as int32: a NumPy number if it is known before tracing.

    A loop up to a known length has a fixed number of steps, hence is a `lax.scan` that
    can be differentiated and mapped without masks.
    """
    if length is None:
        return np.int32(num_positions)
    if isinstance(length, numbers.Integral):
        if not 0 <= length <= num_positions:
            raise InputError(f"`length` must lie in 0..{num_positions}, got {length}.")
        return np.int32(length)
    return jnp.asarray(length).astype(jnp.int32)


def pairwise_at(pairwise: jax.Array, position: jax.Array | int) -> jax.Array:
    """Return the (S, S+1) pairwise scores of one position, shared or not."""
    if pairwise.ndim == 2:
        return pairwise
    return lax.dynamic_index_in_dim(pairwise, position, 0, keepdims=False)


def is_inside(length: np.int32 | jax.Array, num_positions: int) -> jax.Array:
    """Return (L,) booleans, True before `length`."""
    return jnp.arange(num_positions, dtype=jnp.int32) < length
