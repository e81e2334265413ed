r"""One block of a bilinear model moved by a proximal step, or to its minimum.

With the other block fixed the scores are linear in this one, `features` being their
derivative: :math:`X_i V_c` for the left factors, :math:`X_i^\top U_c` for the right
ones. The block and the bias move together (SBLR-Eq7, Eq9, Eq10):

.. math:: U^+ = \operatorname{prox}_{r_1/L}\big(U - \tfrac1L\nabla_U\mathcal L\big),
   \qquad b^+ = b - \tfrac1L\nabla_b\mathcal L

The constant L is one that majorises the loss (`models.lipschitz`) or is found by
backtracking (SBLR-Eq13..16): the smallest :math:`\max(L_{\min}, L'\eta^n)`,
:math:`n \ge -1`, for which the loss lies below its quadratic model. No search goes
past `trace_constant`, with which the test holds for certain: so rounding errors of a
converged run cannot drive the constant up.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax.linalg.penalties import Penalty
from lowrank_jax.models import bilinear_logit, lipschitz, logistic

__all__ = ["Block", "Search", "Stepped", "gradients", "minimise", "proximal_step"]
__dir__ = __all__.copy


class Block(NamedTuple):
    """One block of the descent: what it meets, and where it stands."""

    features: jax.Array  # (m, n, r, size)
    factors: jax.Array  # (m, size, r)  U or V
    bias: jax.Array  # (m,)
    targets: jax.Array  # (n, m)
    weights: jax.Array  # (n,)


class Search(NamedTuple):
    """How the constant is found."""

    rule: str  # "backtracking", "tight" or "lemma"
    growth: float | jax.Array  # eta > 1
    least: float | jax.Array  # L_min > 0


class Stepped(NamedTuple):
    """Where a step has come to."""

    factors: jax.Array  # (m, size, r)
    bias: jax.Array  # (m,)
    scores: jax.Array  # (n, m)
    constant: jax.Array  # ()  L
    num_trials: jax.Array  # () int32


class _Trial(NamedTuple):
    factors: jax.Array
    bias: jax.Array
    moves: jax.Array  # (n, m)  of the scores
    excess: jax.Array  # ()  of the loss over its model; (14) asks for none
    constant: jax.Array
    num_trials: jax.Array


def gradients(block: Block, scores: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the gradients in the factors and in the bias (SBLR-Eq12)."""
    residuals = logistic.residuals(scores, block.targets, block.weights)
    num_classes, num_matrices, rank, size = block.features.shape
    flat = block.features.reshape(num_classes, num_matrices, -1)
    found = jnp.einsum("mnk,mn->mk", flat, residuals.T)
    return found.reshape(num_classes, rank, size).transpose(0, 2, 1), residuals.sum(0)


def proximal_step(
    block: Block, penalty: Penalty, search: Search, constant: jax.Array
) -> Stepped:
    """Move a block by one proximal gradient step.

    Args:
      block: Block and its point.
      penalty: Penalty of the factors.
      search: Rule that finds the constant.
      constant: Constant accepted last; backtracking starts from it.
    """
    dtype = block.factors.dtype
    scores = bilinear_logit.block_scores(block.features, block.factors, block.bias)
    in_factors, in_bias = gradients(block, scores)

    def trial(constant: jax.Array, num_trials: jax.Array) -> _Trial:
        size = 1 / constant
        factors = penalty.prox(block.factors - size * in_factors, size)  # Eq. (10)
        bias = block.bias - size * in_bias  # Eq. (9)
        move, shift = factors - block.factors, bias - block.bias
        moves = bilinear_logit.block_scores(block.features, move, shift)
        squares = (move * move).sum() + (shift * shift).sum()
        rise = logistic.divergence(scores, moves, block.weights)
        excess = rise - constant / 2 * squares  # Eq. (14), (16)
        return _Trial(factors, bias, moves, excess, constant, num_trials + 1)

    none_yet = jnp.zeros((), jnp.int32)
    if search.rule == "lemma":
        found = trial(lipschitz.lemma_constant(block.features, block.weights), none_yet)
    elif search.rule == "tight":
        found = trial(lipschitz.tight_constant(block.features, block.weights), none_yet)
    else:
        growth, least = (
            jnp.asarray(search.growth, dtype),
            jnp.asarray(search.least, dtype),
        )
        most = lipschitz.trace_constant(block.features, block.weights)
        first = jnp.clip(constant / growth, least, jnp.maximum(most, least))
        found = lax.while_loop(
            lambda last: ~(last.excess <= 0) & (last.constant < most),
            lambda last: trial(
                jnp.minimum(last.constant * growth, most), last.num_trials
            ),
            trial(first, none_yet),
        )
    return Stepped(
        found.factors,
        found.bias,
        scores + found.moves,
        found.constant,
        found.num_trials,
    )


class _Descent(NamedTuple):
    factors: jax.Array  # (m, size, r)
    bias: jax.Array
    ahead: jax.Array  # the extrapolated point
    bias_ahead: jax.Array
    momentum: jax.Array  # t_k of FISTA
    distance: jax.Array  # ()  of the step, times L: the gradient mapping
    num_steps: jax.Array  # () int32


def minimise(
    block: Block,
    penalty: Penalty,
    *,
    tolerance: float | jax.Array,
    max_steps: int,
    features_at: Callable[[jax.Array], jax.Array] | None = None,
) -> Stepped:
    """Solve a block to a tolerance (SBLR-Eq6) by accelerated proximal steps.

    FISTA with the tight constant, started anew whenever its last move points against
    the gradient.

    Args:
      block: Block and its point.
      penalty: Penalty of the factors.
      tolerance: Norm of the gradient mapping at which the steps end.
      max_steps: Largest number of steps. Static.
      features_at: Function from the number of a step to its features; None keeps the
        features of the block.
    """
    dtype = block.factors.dtype
    constant = lipschitz.tight_constant(block.features, block.weights)
    size = 1 / constant

    def advance(last: _Descent) -> _Descent:
        here = block
        if features_at is not None:
            here = block._replace(features=features_at(last.num_steps))
        scores = bilinear_logit.block_scores(here.features, last.ahead, last.bias_ahead)
        in_factors, in_bias = gradients(here, scores)
        factors = penalty.prox(last.ahead - size * in_factors, size)
        bias = last.bias_ahead - size * in_bias
        move, shift = last.ahead - factors, last.bias_ahead - bias
        turn = (move * (factors - last.factors)).sum()
        turn = turn + (shift * (bias - last.bias)).sum()
        momentum = jnp.where(turn > 0, 1, last.momentum)  # restart
        further = (1 + jnp.sqrt(1 + 4 * momentum * momentum)) / 2
        pull = jnp.where(turn > 0, 0, (momentum - 1) / further)
        return _Descent(
            factors=factors,
            bias=bias,
            ahead=factors + pull * (factors - last.factors),
            bias_ahead=bias + pull * (bias - last.bias),
            momentum=further,
            distance=constant * jnp.sqrt((move * move).sum() + (shift * shift).sum()),
            num_steps=last.num_steps + 1,
        )

    start = _Descent(
        factors=block.factors,
        bias=block.bias,
        ahead=block.factors,
        bias_ahead=block.bias,
        momentum=jnp.ones((), dtype),
        distance=jnp.full((), jnp.inf, dtype),
        num_steps=jnp.zeros((), jnp.int32),
    )
    limit = jnp.asarray(tolerance, dtype)
    found = lax.while_loop(
        lambda last: (last.distance > limit) & (last.num_steps < max_steps),
        advance,
        start,
    )
    scores = bilinear_logit.block_scores(block.features, found.factors, found.bias)
    return Stepped(found.factors, found.bias, scores, constant, found.num_steps)
