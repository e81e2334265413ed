"""Decoders of many sentences that are the `vmap` of the decoders of one.

All take `Scores` with unary (B, L, S) and pairwise (S, S+1), shared by all, or
(B, L, S, S+1), and optional lengths (B,).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from lowrank_jax import checks
from lowrank_jax.decode.cost import path_score
from lowrank_jax.decode.forward_backward import entropy, sample_path
from lowrank_jax.decode.k_best import Paths, k_best_paths
from lowrank_jax.decode.scores import Scores, as_batch, forbid

__all__ = [
    "entropy_batch",
    "k_best_paths_batch",
    "path_score_batch",
    "sample_path_batch",
]
__dir__ = __all__.copy


def entropy_batch(scores: Scores, lengths: jax.Array | None = None) -> jax.Array:
    """Return the entropy of each sentence's distribution, (B,), in nats.

    Args:
      scores: `Scores` of all sentences.
      lengths: (B,) true lengths; None means all L positions.
    """
    return _over(entropy, scores, lengths)


def k_best_paths_batch(
    scores: Scores,
    k: int,
    lengths: jax.Array | None = None,
    *,
    allowed: jax.Array | None = None,
) -> Paths:
    """Find the k best label sequences of each sentence: (B, k, L) labels.

    Args:
      scores: `Scores` of all sentences.
      k: Number of paths, at least 1. Static.
      lengths: (B,) true lengths; None means all L positions.
      allowed: (B, L, S) booleans, False forbids a label.
    """
    scores = scores._replace(unary=forbid(jnp.asarray(scores.unary), allowed))
    return _over(lambda one, length: k_best_paths(one, k, length), scores, lengths)


def path_score_batch(
    scores: Scores, labels: jax.Array, lengths: jax.Array | None = None
) -> jax.Array:
    """Return the score of the given labels (B, L) of each sentence, (B,).

    Args:
      scores: `Scores` of all sentences.
      labels: (B, L) integers.
      lengths: (B,) true lengths; None means all L positions.
    """
    return _over(
        lambda one, length, labels: path_score(one, labels, length),
        scores,
        lengths,
        labels,
    )


def sample_path_batch(
    key: jax.Array, scores: Scores, lengths: jax.Array | None = None
) -> jax.Array:
    """Draw a label sequence for each sentence, (B, L) int32.

    Sentence i is drawn with ``fold_in(key, i)``, so a longer batch changes nothing.

    Args:
      key: Random key.
      scores: `Scores` of all sentences.
      lengths: (B,) true lengths; None means all L positions.
    """
    checks.random_key(key)
    return _over(
        lambda one, length, i: sample_path(jax.random.fold_in(key, i), one, length),
        scores,
        lengths,
        jnp.arange(jnp.shape(scores.unary)[0], dtype=jnp.int32),
    )


def _over(
    decode: Callable[..., Any], scores: Scores, lengths: jax.Array | None, *more: Any
) -> Any:
    scores, lengths, is_shared = as_batch(scores, lengths)
    axes = (Scores(0, None if is_shared else 0), 0, *(0 for _ in more))  # type: ignore[arg-type]
    return jax.vmap(decode, in_axes=axes)(scores, lengths, *more)
