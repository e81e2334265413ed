r"""The best label sequence in logarithmic depth, for long sentences on accelerators.

Position i is the matrix :math:`M_i[r, s] = U_{i,s} + P_{i,s,r}` of the max-plus
semiring, :math:`(A \otimes B)[r, s] = \max_k \{A[r, k] + B[k, s]\}`. The product is
associative, so all prefixes, hence all forward maxima, come from one
`lax.associative_scan`. The way back is a composition of maps label -> previous label,
associative as well. Work O(L S^3), depth O(log L): on one core `best_path` is faster.

Sums are bracketed otherwise than in `best_path`: with scores that are not exact in the
dtype, paths whose scores differ by a rounding error only may be told apart otherwise.
"""

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax.decode.scores import (
    Length,
    Path,
    Scores,
    as_length,
    as_scores,
    is_inside,
)

__all__ = ["best_path_parallel"]


def best_path_parallel(
    scores: Scores, length: Length = None, *, allowed: jax.Array | None = None
) -> Path:
    """Find the label sequence with the greatest score by two associative scans.

    Args:
      scores: `Scores` of one sentence.
      length: true length, an integer or traced int32 (); None means all L positions.
      allowed: (L, S) booleans, False forbids a label.

    Returns:
      What `best_path` returns.
    """
    unary, pairwise = as_scores(scores, allowed)
    num_positions, num_labels = unary.shape
    length = as_length(length, num_positions)
    inside = is_inside(length, num_positions)
    pairwise = pairwise[..., : num_labels + 1]
    pairwise = jnp.broadcast_to(pairwise, (num_positions, num_labels, num_labels + 1))
    pairs = pairwise[:, :, :num_labels]  # (L, current, previous)
    each_label = jnp.arange(num_labels, dtype=jnp.int32)

    # Identities stand beyond the end, so that the last prefix is the whole sentence.
    forbidden = jnp.array(-jnp.inf, unary.dtype)
    identity = jnp.where(each_label[:, None] == each_label[None, :], 0, forbidden)
    matrices = jnp.swapaxes(pairs + unary[:, :, None], 1, 2)
    matrices = jnp.where(inside[:, None, None], matrices, identity[None])
    start = jnp.where(length > 0, unary[0] + pairwise[0, :, num_labels], 0)
    matrices = matrices.at[0].set(jnp.broadcast_to(start, matrices.shape[1:]))
    best = lax.associative_scan(_max_plus, matrices)[:, 0]  # rows of a prefix are equal

    final = best[-1]
    previous = lax.argmax(pairs[1:] + best[:-1, None, :], 2, jnp.int32)
    previous = jnp.where(inside[1:, None], previous, each_label[None, :])
    to_earlier = lax.associative_scan(_then, previous, reverse=True)
    label = lax.argmax(final, 0, jnp.int32)
    labels = jnp.append(to_earlier[:, label], label)
    score = jnp.where(length > 0, jnp.max(final), 0)
    return Path(jnp.where(inside, labels, 0), score)


def _max_plus(left: jax.Array, right: jax.Array) -> jax.Array:
    """Multiply stacks of (S, S) matrices in the max-plus semiring."""
    return jnp.max(left[:, :, :, None] + right[:, None, :, :], axis=2)


def _then(first: jax.Array, second: jax.Array) -> jax.Array:
    """Compose stacks of maps: label -> second[first[label]]."""
    return jnp.take_along_axis(second, first, axis=1)
