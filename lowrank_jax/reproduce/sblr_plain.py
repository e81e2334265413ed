r"""Algorithm 1 of SBLR as it stands, reading all matrices in each inner step.

The same blocks, inner method and tolerances as ``batch.bcpd`` with
``solver="minimise"`` and so the same iterates; but the scores
:math:`\operatorname{tr}(U^\top X_i V) + b` and the gradient
:math:`\sum_i g_i X_i V` (SBLR-Eq6, Eq12) of each inner step come from the matrices
themselves, once read for both, and not from products kept while a block is solved.
For the times of `sblr_table1` alone: `batch.bcpd` does the same work sooner.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax.batch import bcpd
from lowrank_jax.batch.block_step import Block, Search, Stepped, gradients
from lowrank_jax.linalg import penalties
from lowrank_jax.linalg.penalties import Penalty
from lowrank_jax.models import bilinear_logit, lipschitz
from lowrank_jax.models.logistic import Labelled
from lowrank_jax.types import Learner

__all__ = ["BLOCK_TOLERANCE", "MAX_BLOCK_STEPS", "learner"]

_usual = bcpd.learner.__kwdefaults__ or {}
BLOCK_TOLERANCE: float = _usual["block_tolerance"]
MAX_BLOCK_STEPS: int = _usual["max_block_steps"]


def learner(
    *,
    mu1: float | jax.Array,
    mu2: float | jax.Array,
    nu1: float | jax.Array,
    nu2: float | jax.Array,
    tolerance: float | jax.Array,
    start: str = "paper",
) -> Learner:
    """Build ``(init, update)`` of rank 1, as `bcpd.learner`.

    `State` and `Info` are those of `bcpd`. The numbers may be traced.
    """
    left = penalties.elastic_net(l1=mu1, l2=mu2)
    right = penalties.elastic_net(l1=nu1, l2=nu2)
    parts = bcpd.stages(
        left,
        right,
        Search("backtracking", 1.5, 1e-6),  # its least constant is in `Info` alone
        solver="minimise",
        tolerance=tolerance,
        block_tolerance=BLOCK_TOLERANCE,
        max_block_steps=MAX_BLOCK_STEPS,
    )

    def init(key: jax.Array, labelled: Labelled) -> bcpd.State:
        del key  # nothing is random
        params = bcpd.start_params(labelled, rank=1, start=start)
        features = bilinear_logit.left_features(labelled, params.right)
        given = labelled.targets, labelled.weights
        return parts.init(params, features, *given, start == "label")

    def update(state: bcpd.State, labelled: Labelled) -> tuple[bcpd.State, bcpd.Info]:
        given = labelled.targets, labelled.weights
        params = state.params
        block = Block(state.features, params.left, params.bias, *given)
        one = _minimise(
            block,
            left,
            params.right,
            lambda v: bilinear_logit.left_features(labelled, v),
        )  # (6a)
        meets = bilinear_logit.right_features(labelled, one.factors)
        block = Block(meets, params.right, one.bias, *given)
        two = _minimise(
            block,
            right,
            one.factors,
            lambda u: bilinear_logit.right_features(labelled, u),
        )  # (6b)
        features = bilinear_logit.left_features(labelled, two.factors)
        return parts.finish(state, one, two, meets, features, *given)

    return Learner(init, update)


class _Descent(NamedTuple):
    factors: jax.Array  # (m, size, r)
    bias: jax.Array  # (m,)
    ahead: jax.Array  # the extrapolated point
    bias_ahead: jax.Array
    momentum: jax.Array  # t_k of FISTA
    distance: jax.Array  # ()  the norm of the gradient mapping
    num_steps: jax.Array  # () int32


def _minimise(
    block: Block,
    penalty: Penalty,
    fixed: jax.Array,
    read: Callable[[jax.Array], jax.Array],
) -> Stepped:
    """Take the steps of `block_step.minimise`, each with features read anew.

    Args:
      block: where it stands; its features serve the constant and the last scores.
      penalty: of the factors.
      fixed: the other factors.
      read: gives the features, from the matrices and the other factors.
    """
    constant = lipschitz.tight_constant(block.features, block.weights)
    size = 1 / constant

    def advance(last: _Descent) -> _Descent:
        # Tied to the number of the step: a compiler may not read X once for all steps.
        now, _ = lax.optimization_barrier((fixed, last.num_steps))
        here = block._replace(features=read(now))
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

    dtype = block.factors.dtype
    found = lax.while_loop(
        lambda last: (
            (last.distance > jnp.asarray(BLOCK_TOLERANCE, dtype))
            & (last.num_steps < MAX_BLOCK_STEPS)
        ),
        advance,
        _Descent(
            factors=block.factors,
            bias=block.bias,
            ahead=block.factors,
            bias_ahead=block.bias,
            momentum=jnp.ones((), dtype),
            distance=jnp.full((), jnp.inf, dtype),
            num_steps=jnp.zeros((), jnp.int32),
        ),
    )
    scores = bilinear_logit.block_scores(block.features, found.factors, found.bias)
    return Stepped(found.factors, found.bias, scores, constant, found.num_steps)
