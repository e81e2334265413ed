r"""Forward-backward over a whole corpus in lanes: loss, and expected minus observed.

For a linear-chain conditional random field :math:`p(y \mid x) = e^{s(x, y)} / Z(x)` the
gradient of :math:`-\log p` in the scores is the marginals less the true labels. The
recursions are as in `decode.scaled`, each position divided by its sum :math:`c_i`,

.. math:: \alpha_i = e_i \odot (T \alpha_{i-1}) / c_i, \qquad
          \beta_{i-1} = T^\top (e_i \odot \beta_i) / c_i, \qquad
          -\log p = \sum_i (\log c_i + \text{maxima taken out} - s_i(y)),

with :math:`e_i = \exp(U_i - \max U_i)`, :math:`T = \exp(P - \max P)` and
:math:`s_i(y)` the score of the true pair: position by position nearly all of it
cancels, so float32 does not see the difference of two large sums. Where a sentence
begins :math:`\alpha` starts afresh. Beyond the range of the scaled form
(`decode.safe_spread`) `lax.cond` takes the same recursions in logarithms.

Where labels are unknown, the loss is :math:`\log Z(x) - \log Z(x, y)` with
:math:`Z(x, y)` over the paths that agree with the known labels. Its gradient is the
difference of the two marginals.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp

from lowrank_jax.decode import safe_spread
from lowrank_jax.streams.lanes import Lanes

__all__ = ["Expectations", "expectations"]
__dir__ = __all__.copy


class Expectations(NamedTuple):
    """The loss and its gradients in the scores."""

    loss: jax.Array  # ()  sum of -log p(y | x) over all sentences, times weights
    unary: jax.Array  # (num_steps, num_lanes, S)  marginals less true labels; 0 padded
    pairwise: jax.Array  # (S, S+1), or (num_steps, num_lanes, S, S+1): the same


class _Found(NamedTuple):
    """What either form finds."""

    logs: jax.Array  # (num_steps, num_lanes)  terms of log Z
    unary: jax.Array  # (num_steps, num_lanes, S)  marginals
    pairwise: jax.Array  # marginals of pairs, without the start column


def expectations(unary: jax.Array, pairwise: jax.Array, lanes: Lanes) -> Expectations:
    """Return the loss and its gradients in the scores.

    Args:
      unary: (num_steps, num_lanes, S) scores, finite.
      pairwise: (S, S+1) shared by all positions, or (num_steps, num_lanes, S, S+1).
      lanes: Sentences in lanes, with their true labels.
    """
    dtype, num_labels = unary.dtype, unary.shape[2]
    labels, previous, inside = lanes.labels, lanes.previous, lanes.is_inside
    is_first = previous == num_labels
    start = jnp.broadcast_to(pairwise[..., num_labels], unary.shape)
    merged = unary + jnp.where(is_first[:, :, None], start, 0)
    pairs = pairwise[..., :num_labels]
    spread = (pairs.max((-2, -1)) - pairs.min((-2, -1))).max()
    is_safe = spread <= safe_spread(num_labels, dtype)
    weights = None
    if lanes.weights is not None:
        weights = lanes.weights.astype(dtype)

    def recursions(merged: jax.Array) -> _Found:
        given = merged, pairs, is_first, weights
        return lax.cond(is_safe, _scaled, _logarithmic, *given)

    def expected(found: _Found) -> tuple[jax.Array, jax.Array]:
        marginals = jnp.where(inside[:, :, None], found.unary, 0)
        between = found.pairwise
        if weights is not None:
            marginals = marginals * weights[:, :, None]
        starts = jnp.where(is_first[:, :, None], marginals, 0)
        if pairwise.ndim == 2:
            return marginals, jnp.append(between, starts.sum((0, 1))[:, None], axis=1)
        if weights is not None:
            between = between * weights[:, :, None, None]
        return marginals, jnp.append(between, starts[:, :, :, None], axis=3)

    def total(logs: jax.Array) -> jax.Array:
        logs = jnp.where(inside, logs, 0)
        return (logs if weights is None else weights * logs).sum()

    found = recursions(merged)
    marginals, between = expected(found)
    if lanes.is_partial:
        every = jnp.arange(num_labels, dtype=labels.dtype)
        allowed = (labels < 0)[:, :, None] | (labels[:, :, None] == every[None, None])
        known = recursions(jnp.where(allowed, merged, -jnp.inf))
        seen, seen_between = expected(known)
        loss = total(found.logs - known.logs)
        return Expectations(loss, marginals - seen, between - seen_between)

    true = _one_hot(labels, num_labels, dtype) * inside[:, :, None].astype(dtype)
    if weights is not None:
        true = true * weights[:, :, None]
    true_scores = jnp.take_along_axis(unary, labels[:, :, None], 2)[:, :, 0]
    if pairwise.ndim == 2:
        true_scores = true_scores + pairwise[labels, previous]
        observed = lanes.pair_counts.astype(dtype)
    else:
        index = labels * pairwise.shape[3] + previous
        flat = pairwise.reshape(*labels.shape, -1)
        pair_scores = jnp.take_along_axis(flat, index[:, :, None], 2)[:, :, 0]
        true_scores = true_scores + pair_scores
        before = _one_hot(previous, num_labels + 1, dtype)
        observed = true[:, :, :, None] * before[:, :, None, :]
    loss = total(found.logs - true_scores)
    return Expectations(loss, marginals - true, between - observed)


def _scaled(
    merged: jax.Array,
    pairs: jax.Array,
    is_first: jax.Array,
    weights: jax.Array | None,
) -> _Found:
    """Run the recursions as products of probabilities.

    Weights count only where pairs are summed: if all positions share their scores.
    """
    is_shared = pairs.ndim == 2
    top, pair_top = merged.max(2), pairs.max((-2, -1))
    emission = jnp.exp(merged - top[:, :, None])
    transition = jnp.exp(pairs - pair_top[..., None, None])
    own = None if is_shared else transition
    forward = "sr,br->bs" if is_shared else "bsr,br->bs"
    backward = "sr,bs->br" if is_shared else "bsr,bs->br"

    def ahead(alpha: jax.Array, inputs: tuple) -> tuple[jax.Array, tuple]:
        first, emission_i, own_i = inputs
        image = _product(forward, transition if is_shared else own_i, alpha)
        new = emission_i * jnp.where(first[:, None], 1, image)
        scale = new.sum(1)
        new = new / scale[:, None]
        return new, (new, scale)

    def back(carry: tuple, inputs: tuple) -> tuple[tuple, tuple]:
        beta, total = carry
        first, emission_i, own_i, alpha_before, weight = inputs
        left = emission_i * beta
        image = _product(backward, transition if is_shared else own_i, left)
        mass = jnp.where(first, 1, (image * alpha_before).sum(1))[:, None]
        left = jnp.where(first[:, None], 0, left / mass)
        new = jnp.where(first[:, None], 1, image / mass)
        if is_shared:
            counted = left if weight is None else left * weight[:, None]
            total = total + _product("bs,br->sr", counted, alpha_before)
            return (new, total), (beta, None)
        return (new, None), (beta, left)

    ones = jnp.ones(merged.shape[1:], merged.dtype)
    _, (alpha, scale) = lax.scan(ahead, ones, (is_first, emission, own))
    before = jnp.concatenate([ones[None], alpha[:-1]])
    inputs = (is_first, emission, own, before, weights)
    start: tuple = (ones, jnp.zeros_like(pairs) if is_shared else None)
    (_, total), (beta, left) = lax.scan(back, start, inputs, reverse=True)
    found = total if is_shared else left[:, :, :, None] * before[:, :, None, :]
    logs = jnp.log(scale) + top + jnp.where(is_first, 0, pair_top)
    return _Found(logs, alpha * beta, transition * found)


def _logarithmic(
    merged: jax.Array,
    pairs: jax.Array,
    is_first: jax.Array,
    weights: jax.Array | None,
) -> _Found:
    """Run the recursions on logarithms: slower, for any scores."""
    is_shared = pairs.ndim == 2
    own = None if is_shared else pairs

    def ahead(alpha: jax.Array, inputs: tuple) -> tuple[jax.Array, tuple]:
        first, merged_i, own_i = inputs
        table = pairs[None] if is_shared else own_i
        image = logsumexp(table + alpha[:, None, :], 2)
        new = merged_i + jnp.where(first[:, None], 0, image)
        shift = logsumexp(new, 1)
        new = new - shift[:, None]
        return new, (new, shift)

    def back(carry: tuple, inputs: tuple) -> tuple[tuple, tuple]:
        beta, total = carry
        first, merged_i, own_i, alpha_before, weight = inputs
        table = pairs[None] if is_shared else own_i
        joint = table + (merged_i + beta)[:, :, None]
        image = logsumexp(joint, 1)
        mass = logsumexp(image + alpha_before, 1)
        joint = jnp.exp(joint + (alpha_before - mass[:, None])[:, None, :])
        joint = jnp.where(first[:, None, None], 0, joint)
        new = jnp.where(first[:, None], 0, image - mass[:, None])
        if is_shared:
            if weight is not None:
                joint = joint * weight[:, None, None]
            return (new, total + joint.sum(0)), (beta, None)
        return (new, None), (beta, joint)

    zeros = jnp.zeros(merged.shape[1:], merged.dtype)
    _, (alpha, logs) = lax.scan(ahead, zeros, (is_first, merged, own))
    before = jnp.concatenate([zeros[None], alpha[:-1]])
    inputs = (is_first, merged, own, before, weights)
    start: tuple = (zeros, jnp.zeros_like(pairs) if is_shared else None)
    (_, total), (beta, joint) = lax.scan(back, start, inputs, reverse=True)
    return _Found(logs, jnp.exp(alpha + beta), total if is_shared else joint)


def _product(equation: str, left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.einsum(equation, left, right, precision=lax.Precision.HIGHEST)


def _one_hot(labels: jax.Array, num_labels: int, dtype: jnp.dtype) -> jax.Array:
    return jax.nn.one_hot(labels, num_labels, dtype=dtype)
