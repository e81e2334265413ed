r"""Partition functions and marginals of many sentences by matrix products.

The recursions of `forward_backward` outside the logarithm, each position divided by its
sum :math:`c_i`: with :math:`e_i = \exp(U_i - \max U_i)`, :math:`T = \exp(P - \max P)`,

.. math:: \alpha_i = e_i \odot (T \alpha_{i-1}) / c_i, \qquad
          \beta_{i-1} = T^\top (e_i \odot \beta_i) / c_i, \qquad
          \log Z = \sum_i \log c_i + \text{the maxima taken out},

one product (B, S) x (S, S) a position, and S exponentials a token instead of S^2. The
sum of all pairwise marginals is
:math:`T \odot \sum_i (e_i \odot \beta_i / c_i)\, \alpha_{i-1}^\top`, one product.

Range. All entries of T are positive, so :math:`c_i \ge e^{-d}` with d the spread
max - min of the pairwise scores; the unary scores may have any spread, minus infinity
included. What underflows has less than :math:`S^2 e^{2d} t` of the mass, t the smallest
normal number: nothing is lost in the dtype's precision while d is at most about 330 in
float64 and 32 in float32. Beyond that, or where a pair is forbidden by minus infinity,
`lax.cond` takes the slower logarithmic form instead: the results hold for all scores.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax.decode.forward_backward import log_partition, marginals
from lowrank_jax.decode.scores import Scores, as_batch, is_inside

__all__ = ["BatchMarginals", "log_partition_batch", "marginals_batch", "safe_spread"]
__dir__ = __all__.copy


class BatchMarginals(NamedTuple):
    """Probabilities of labels and pairs of labels of many sentences.

    Attributes:
      unary: (B, L, S).
      pairwise: (S, S+1), summed over all sentences and positions, for pairwise scores
        shared by all; (B, L, S, S+1) for scores of each position.
      log_partition: (B,).
    """

    unary: jax.Array
    pairwise: jax.Array
    log_partition: jax.Array


class _Forward(NamedTuple):
    """What the forward pass over one sentence leaves."""

    log_partition: jax.Array  # ()
    emission: jax.Array  # (L, S)  e_i; position 0 holds the start scores too
    transition: jax.Array  # (S, S) or (L-1, S, S)  T, row = current label
    alpha: jax.Array  # (L, S), each row sums to 1


def safe_spread(num_labels: int, dtype: jax.typing.DTypeLike) -> float:
    """Return the greatest max - min of pairwise scores that the scaled form takes."""
    info = jnp.finfo(dtype)
    room = -np.log(float(info.tiny)) + np.log(float(info.eps)) - 2 * np.log(num_labels)
    return float(room / 2)


def log_partition_batch(
    scores: Scores,
    lengths: jax.Array | None = None,
    *,
    is_safe: bool = False,
) -> jax.Array:
    """Return log Z of each sentence, differentiable; `vmap(log_partition)`, but faster.

    Args:
      scores: `Scores` of all sentences: unary (B, L, S); pairwise (S, S+1), shared by
        all, or (B, L, S, S+1).
      lengths: (B,) true lengths; None means all L positions.
      is_safe: True if the spread is known to be at most `safe_spread`; then the
        logarithmic form is not compiled. Static.

    Returns:
      (B,) logarithms; 0 for an empty sentence.
    """
    (unary, pairwise), lengths, is_shared = as_batch(scores, lengths)
    axis, pairwise = None if is_shared else 0, pairwise[..., : unary.shape[2] + 1]

    def fast(unary: jax.Array, pairwise: jax.Array) -> jax.Array:
        run = jax.vmap(_forward, in_axes=(0, axis, 0))
        return run(unary, pairwise, lengths).log_partition

    def slow(unary: jax.Array, pairwise: jax.Array) -> jax.Array:
        def one(unary: jax.Array, pairwise: jax.Array, n: jax.Array) -> jax.Array:
            return log_partition(Scores(unary, pairwise), n)

        return jax.vmap(one, in_axes=(0, axis, 0))(unary, pairwise, lengths)

    if is_safe:
        return fast(unary, pairwise)
    return lax.cond(_is_narrow(pairwise, lengths), fast, slow, unary, pairwise)


def marginals_batch(
    scores: Scores,
    lengths: jax.Array | None = None,
    *,
    is_safe: bool = False,
) -> BatchMarginals:
    """Return the marginals of each sentence; `vmap(marginals)`, but faster.

    Args:
      scores: `Scores` of all sentences: unary (B, L, S); pairwise (S, S+1), shared by
        all, or (B, L, S, S+1).
      lengths: (B,) true lengths; None means all L positions.
      is_safe: True if the spread is known to be at most `safe_spread`; then the
        logarithmic form is not compiled, which halves the time to compile. Static.

    Returns:
      `BatchMarginals`; these are the gradients of the sum of `log_partition_batch`.
    """
    (unary, pairwise), lengths, is_shared = as_batch(scores, lengths)
    axis, pairwise = None if is_shared else 0, pairwise[..., : unary.shape[2] + 1]
    run = _shared if axis is None else _per_position

    def slow(unary: jax.Array, pairwise: jax.Array, n: jax.Array) -> BatchMarginals:
        def one(inputs: tuple) -> tuple:
            unary, pairwise_i, n = inputs
            found = marginals(
                Scores(unary, pairwise if axis is None else pairwise_i), n
            )
            pairs = found.pairwise.sum(0) if axis is None else found.pairwise
            return found.unary, pairs, found.log_partition

        inputs = (unary, None if axis is None else pairwise, n)
        labels, pairs, total = lax.map(one, inputs)
        return BatchMarginals(labels, pairs.sum(0) if axis is None else pairs, total)

    if is_safe:
        return run(unary, pairwise, lengths)
    return lax.cond(_is_narrow(pairwise, lengths), run, slow, unary, pairwise, lengths)


def _is_narrow(pairwise: jax.Array, lengths: jax.Array) -> jax.Array:
    """Return whether the spread of the pairwise scores is small at every position."""
    pairs = lax.stop_gradient(pairwise[..., :-1])
    spread = pairs.max((-2, -1)) - pairs.min((-2, -1))
    if pairwise.ndim == 4:  # position 0 uses the start column alone
        positions = jnp.arange(pairwise.shape[1], dtype=jnp.int32)[None, :]
        is_used = (positions > 0) & (positions < lengths[:, None])
        spread = jnp.where(is_used, spread, 0)
    return jnp.max(spread) <= safe_spread(pairwise.shape[-2], pairwise.dtype)


def _shared(
    unary: jax.Array, pairwise: jax.Array, lengths: jax.Array
) -> BatchMarginals:
    run = jax.vmap(_forward_backward, in_axes=(0, None, 0), out_axes=(0, 0, 0, None, 0))
    labels, left, right, transition, total = run(unary, pairwise, lengths)
    product = jnp.einsum("bis,bir->sr", left, right, precision=lax.Precision.HIGHEST)
    starts = labels[:, 0].sum(0)
    pairs = jnp.concatenate([transition * product, starts[:, None]], axis=1)
    return BatchMarginals(labels, pairs, total)


def _per_position(
    unary: jax.Array, pairwise: jax.Array, lengths: jax.Array
) -> BatchMarginals:
    run = jax.vmap(_forward_backward)
    labels, left, right, transition, total = run(unary, pairwise, lengths)
    pairs = transition * left[:, :, :, None] * right[:, :, None, :]
    pairs = jnp.pad(pairs, ((0, 0), (1, 0), (0, 0), (0, 1)))
    pairs = pairs.at[:, 0, :, -1].set(labels[:, 0])
    return BatchMarginals(labels, pairs, total)


def _forward(unary: jax.Array, pairwise: jax.Array, length: jax.Array) -> _Forward:
    """Run the scaled forward recursion over one sentence."""
    num_positions, num_labels = unary.shape
    inside = is_inside(length, num_positions)
    start = pairwise[:, -1] if pairwise.ndim == 2 else pairwise[0, :, -1]
    unary = unary.at[0].add(start)
    unary = jnp.where(inside[:, None], unary, 0)
    emission_top = _finite_max(unary, (1,))
    emission = jnp.exp(unary - emission_top[:, None])
    pairs = pairwise[..., :num_labels]
    if pairwise.ndim == 3:
        pairs = jnp.where(inside[1:, None, None], pairs[1:], 0)
    top = _finite_max(pairs, (-2, -1))
    transition = jnp.exp(pairs - top[..., None, None])
    is_shared = pairwise.ndim == 2

    def step(alpha: jax.Array, inputs: tuple) -> tuple[jax.Array, tuple]:
        is_in, emission_i, transition_i = inputs
        table = transition if is_shared else transition_i
        new, scale = _normalise(emission_i * _product(table, alpha, is_shared))
        new = jnp.where(is_in, new, alpha)
        return new, (new, scale)

    first, first_scale = _normalise(emission[0])
    inputs = (inside[1:], emission[1:], None if is_shared else transition)
    _, (rest, scales) = lax.scan(step, first, inputs)
    alpha = jnp.concatenate([first[None], rest])
    scale = jnp.concatenate([first_scale[None], scales])
    logs = _log(scale) + emission_top
    logs = logs.at[1:].add(top)
    total = jnp.sum(jnp.where(inside, logs, 0))
    return _Forward(total, emission, transition, alpha)


def _forward_backward(
    unary: jax.Array, pairwise: jax.Array, length: jax.Array
) -> tuple[jax.Array, ...]:
    """Return label marginals, the factors of the pair marginals, T and log Z."""
    num_positions, num_labels = unary.shape
    inside = is_inside(length, num_positions)
    is_shared = pairwise.ndim == 2
    total, emission, transition, alpha = _forward(unary, pairwise, length)

    def step(beta: jax.Array, inputs: tuple) -> tuple[jax.Array, tuple]:
        is_in, emission_i, transition_i, alpha_before = inputs
        table = transition if is_shared else transition_i
        left = emission_i * beta
        new = _product(table.T, left, is_shared)
        mass = jnp.sum(new * alpha_before)  # c_i again, free of rounding that adds up
        mass = jnp.where(mass > 0, mass, 1)
        left = jnp.where(is_in, left / mass, 0)
        return jnp.where(is_in, new / mass, beta), (beta, left)

    end = jnp.ones((num_labels,), unary.dtype)
    inputs = (inside[1:], emission[1:], None if is_shared else transition, alpha[:-1])
    first, (rest, left) = lax.scan(step, end, inputs, reverse=True)
    beta = jnp.concatenate([first[None], rest])
    labels = jnp.where(inside[:, None], alpha * beta, 0)
    return labels, left, alpha[:-1], transition, total


def _product(table: jax.Array, vector: jax.Array, is_shared: bool) -> jax.Array:
    """Multiply matrix and vector.

    A shared table makes one product of matrices of the batch (in full precision on
    accelerators too). Tables of each sentence are read once: a plain sum is faster.
    """
    if is_shared:
        return jnp.matmul(table, vector, precision=lax.Precision.HIGHEST)
    return jnp.sum(table * vector[None, :], axis=1)


def _normalise(values: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Divide by the sum; zeros, which mean that no path is permitted, stay zeros."""
    total = jnp.sum(values)
    return values / jnp.where(total > 0, total, 1), total


def _log(values: jax.Array) -> jax.Array:
    """Return logarithms; minus infinity, with gradient 0, at 0."""
    is_positive = values > 0
    return jnp.where(is_positive, jnp.log(jnp.where(is_positive, values, 1)), -jnp.inf)


def _finite_max(values: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """Return the maximum, or 0 in place of an infinite one; not differentiated."""
    top = lax.stop_gradient(jnp.max(values, axis=axes))
    return jnp.where(jnp.isfinite(top), top, 0)
