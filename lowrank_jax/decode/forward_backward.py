r"""Sums over all label sequences: partition function, marginals, entropy, samples.

With :math:`Z = \sum_y e^{s(y)}` the distribution of a conditional random field is
:math:`p(y) = e^{s(y)} / Z`. Everything is kept in logarithms,

.. math:: \alpha_{i,s} = U_{i,s} + \log\sum_r e^{P_{i,s,r} + \alpha_{i-1,r}}, \qquad
          \beta_{i-1,r} = \log\sum_s e^{P_{i,s,r} + U_{i,s} + \beta_{i,s}},

and each row of :math:`\alpha` and :math:`\beta` is shifted so that its exponentials sum
to 1: then neither length nor scale of the scores costs precision, and :math:`\log Z` is
the sum of the shifts of :math:`\alpha`. `scaled` has the fast form for batches.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.decode.scores import (
    Length,
    Scores,
    as_length,
    as_scores,
    is_inside,
    pairwise_at,
)

__all__ = ["Marginals", "entropy", "log_partition", "marginals", "sample_path"]
__dir__ = __all__.copy


class Marginals(NamedTuple):
    r"""Probabilities of labels and pairs of labels; 0 at `length` and beyond.

    Attributes:
      unary: (L, S) :math:`p(y_i = s)`.
      pairwise: (L, S, S+1) :math:`p(y_i = s, y_{i-1} = r)`; at position 0 all of it
        lies in the last column, elsewhere that column is 0.
      log_partition: () :math:`\log Z`.
    """

    unary: jax.Array
    pairwise: jax.Array
    log_partition: jax.Array


def log_partition(
    scores: Scores, length: Length = None, *, allowed: jax.Array | None = None
) -> jax.Array:
    """Return the logarithm () of the sum of exp(score) over all label sequences.

    Its gradient are the marginals. With `allowed` the sum is over permitted paths
    (minus infinity if there is none, with gradient 0): the difference to the sum over
    all is the log-likelihood of partly known labels.

    Args:
      scores: `Scores` of one sentence.
      length: Length of the sentence; None means all L positions. The empty sentence has
        log 1.
      allowed: (L, S) booleans, False forbids a label.
    """
    return _forward(*_prepare(scores, length, allowed))[1]


def marginals(
    scores: Scores, length: Length = None, *, allowed: jax.Array | None = None
) -> Marginals:
    """Return the probabilities of labels and of pairs of labels.

    Args:
      scores: `Scores` of one sentence.
      length: Length of the sentence; None means all L positions.
      allowed: (L, S) booleans, False forbids a label.

    Returns:
      `Marginals`; all 0 if no path is permitted.
    """
    scores, length = _prepare(scores, length, allowed)
    unary, pairwise = scores
    num_positions, num_labels = unary.shape
    inside = is_inside(length, num_positions)
    alpha, total = _forward(scores, length)
    beta = _backward(scores, length)

    labels = jnp.exp(_normalise(alpha + beta, (1,))[0])
    labels = jnp.where(inside[:, None], labels, 0)
    pairs = jnp.broadcast_to(pairwise, (num_positions, num_labels, num_labels + 1))
    pairs = pairs[1:, :, :num_labels] + (unary + beta)[1:, :, None]
    pairs = jnp.exp(_normalise(pairs + alpha[:-1, None, :], (1, 2))[0])
    pairs = jnp.where(inside[1:, None, None], pairs, 0)
    pairs = jnp.pad(pairs, ((1, 0), (0, 0), (0, 1)))
    pairs = pairs.at[0, :, num_labels].set(labels[0])
    return Marginals(labels, pairs, total)


def entropy(scores: Scores, length: Length = None) -> jax.Array:
    r"""Return the entropy () :math:`\log Z - E[s(y)]` of the distribution, in nats."""
    scores, length = _prepare(scores, length, None)
    probability = marginals(scores, length)
    pairwise = jnp.broadcast_to(scores.pairwise, probability.pairwise.shape)

    def mean(probability: jax.Array, score: jax.Array) -> jax.Array:
        is_seen = (probability > 0) & (
            score > -jnp.inf
        )  # 0 times infinity: gradient nan
        return jnp.sum(probability * jnp.where(is_seen, score, 0))

    mean_score = mean(probability.unary, scores.unary)
    mean_score += mean(probability.pairwise, pairwise)
    return probability.log_partition - mean_score


def sample_path(key: jax.Array, scores: Scores, length: Length = None) -> jax.Array:
    """Draw a label sequence with probability exp(score) / Z.

    Forward sums, then labels are drawn from the last one back. The draw at a position
    depends on the key and the position alone, so padding changes nothing.

    Args:
      key: Random key.
      scores: `Scores` of one sentence.
      length: Length of the sentence; None means all L positions.

    Returns:
      (L,) int32 labels, 0 beyond `length`.
    """
    checks.random_key(key)
    scores, length = _prepare(scores, length, None)
    num_positions, num_labels = scores.unary.shape
    alpha, _ = _forward(scores, length)
    nothing = jnp.zeros((num_labels,), alpha.dtype)

    def draw(
        label: jax.Array, inputs: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        i, alpha_i = inputs
        following = jnp.minimum(i + 1, num_positions - 1)
        pairs = pairwise_at(scores.pairwise, following)[label, :num_labels]
        logits = alpha_i + jnp.where(i + 1 < length, pairs, nothing)
        drawn = jax.random.categorical(jax.random.fold_in(key, i), logits)
        drawn = jnp.where(i < length, drawn.astype(jnp.int32), 0)
        return drawn, drawn

    positions = jnp.arange(num_positions, dtype=jnp.int32)
    start = jnp.zeros((), jnp.int32)
    return lax.scan(draw, start, (positions, alpha), reverse=True)[1]


def _prepare(
    scores: Scores, length: Length, allowed: jax.Array | None
) -> tuple[Scores, jax.Array]:
    """Check the scores and put 0 in place of the padding, whatever it holds."""
    unary, pairwise = as_scores(scores, allowed)
    num_positions, num_labels = unary.shape
    pairwise = pairwise[..., : num_labels + 1]
    length = jnp.asarray(as_length(length, num_positions))
    inside = is_inside(length, num_positions)
    unary = jnp.where(inside[:, None], unary, 0)
    if pairwise.ndim == 3:
        pairwise = jnp.where(inside[:, None, None], pairwise, 0)
    return Scores(unary, pairwise), length


def _forward(scores: Scores, length: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return alpha (L, S), normalised, and log Z ().

    Rows of alpha beyond the end repeat the last one inside.
    """
    unary, pairwise = scores
    num_positions, num_labels = unary.shape

    def step(alpha: jax.Array, inputs: tuple) -> tuple[jax.Array, tuple]:
        i, unary_i, pairwise_i = inputs
        pairs = (pairwise if pairwise_i is None else pairwise_i)[:, :num_labels]
        candidates = pairs + alpha[None, :] + unary_i[:, None]
        new, shift = _normalise(_log_sum_exp(candidates, (1,)), (0,))
        new = jnp.where(i < length, new, alpha)
        return new, (new, shift)

    start = unary[0] + pairwise_at(pairwise, 0)[:, num_labels]
    first, first_shift = _normalise(start, (0,))
    _, (rest, shifts) = lax.scan(step, first, _inputs(scores))
    shifts = jnp.append(first_shift, shifts)
    inside = is_inside(length, num_positions)
    alpha = jnp.concatenate([first[None], rest])
    return alpha, jnp.sum(jnp.where(inside, shifts, 0))


def _backward(scores: Scores, length: jax.Array) -> jax.Array:
    """Return beta (L, S), normalised but for rows from the last inside on: 0."""
    unary, pairwise = scores
    num_labels = unary.shape[1]

    def step(beta: jax.Array, inputs: tuple) -> tuple[jax.Array, jax.Array]:
        i, unary_i, pairwise_i = inputs
        pairs = (pairwise if pairwise_i is None else pairwise_i)[:, :num_labels]
        candidates = pairs + (unary_i + beta)[:, None]
        new, _ = _normalise(_log_sum_exp(candidates, (0,)), (0,))
        new = jnp.where(i < length, new, beta)
        return new, new

    end = jnp.zeros((num_labels,), unary.dtype)
    _, rest = lax.scan(step, end, _inputs(scores), reverse=True)
    return jnp.concatenate([rest, end[None]])


def _inputs(scores: Scores) -> tuple:
    """Return what a scan reads at positions 1..L-1; shared scores are not copied."""
    unary, pairwise = scores
    positions = jnp.arange(1, unary.shape[0], dtype=jnp.int32)
    return positions, unary[1:], None if pairwise.ndim == 2 else pairwise[1:]


def _normalise(values: jax.Array, axes: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Shift logarithms so that the exponentials sum to 1; return the shift as well.

    Minus infinities alone are left as they are: no path is permitted.
    """
    total = _log_sum_exp(values, axes)
    shift = jnp.where(total > -jnp.inf, total, 0)
    return values - jnp.expand_dims(shift, axes), total


def _log_sum_exp(values: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """Return log(sum(exp(values))); of minus infinities alone, with gradient 0."""
    top = lax.stop_gradient(jnp.max(values, axis=axes))
    top = jnp.where(top > -jnp.inf, top, 0)
    total = jnp.sum(jnp.exp(values - jnp.expand_dims(top, axes)), axis=axes)
    has_any = total > 0
    return jnp.where(has_any, jnp.log(jnp.where(has_any, total, 1)) + top, -jnp.inf)
