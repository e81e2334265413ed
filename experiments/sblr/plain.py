r"""Algorithm 1 of SBLR as it stands, reading all matrices in each inner step.

The same blocks, inner method and tolerances as ``batch.bcpd`` with
``solver="minimise"`` and so the same iterates; but the scores
:math:`\operatorname{tr}(U^\top X_i V) + b` and the gradient
:math:`\sum_i g_i X_i V` (SBLR-Eq6, Eq12) of each inner step come from the matrices
themselves, once read for both, and not from products kept while a block is solved.
It serves `sblr.table1` alone: `batch.bcpd` does the same work sooner.
"""

from collections.abc import Callable

import jax
from jax import lax

from lowrank_jax.batch.sblr import bcpd
from lowrank_jax.batch.sblr.block_step import Block, Stepped, minimise
from lowrank_jax.batch.sblr.start import start_params
from lowrank_jax.linalg import penalties
from lowrank_jax.linalg.penalties import Penalty
from lowrank_jax.models import bilinear_logit
from lowrank_jax.streams.matrices import Labelled
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

    `State` and `Info` come from `bcpd`. The numbers may be traced.
    """
    left = penalties.elastic_net(l1=mu1, l2=mu2)
    right = penalties.elastic_net(l1=nu1, l2=nu2)
    parts = bcpd.stages(
        bcpd.Settings(
            left_penalty=left,
            right_penalty=right,
            solver="minimise",
            tolerance=tolerance,
            block_tolerance=BLOCK_TOLERANCE,
            max_block_steps=MAX_BLOCK_STEPS,
        )
    )

    def init(key: jax.Array, labelled: Labelled) -> bcpd.State:
        del key  # nothing is random
        params = start_params(labelled, rank=1, start=start)
        features = bilinear_logit.left_features(labelled, params.right)
        given = labelled.targets, labelled.weights
        return parts.init(params, features, *given, start == "label")

    def update(state: bcpd.State, labelled: Labelled) -> tuple[bcpd.State, bcpd.Info]:
        given = labelled.targets, labelled.weights
        params = state.params

        def solve(
            block: Block,
            penalty: Penalty,
            other: jax.Array,
            read: Callable[[Labelled, jax.Array], jax.Array],
        ) -> Stepped:
            def features_at(step: jax.Array) -> jax.Array:
                # Tied to the number of the step, or a compiler reads X once for all.
                now, _ = lax.optimization_barrier((other, step))
                return read(labelled, now)

            return minimise(
                block,
                penalty,
                tolerance=BLOCK_TOLERANCE,
                max_steps=MAX_BLOCK_STEPS,
                features_at=features_at,
            )

        block = Block(state.features, params.left, params.bias, *given)
        one = solve(block, left, params.right, bilinear_logit.left_features)  # (6a)
        meets = bilinear_logit.right_features(labelled, one.factors)
        block = Block(meets, params.right, one.bias, *given)
        two = solve(block, right, one.factors, bilinear_logit.right_features)  # (6b)
        features = bilinear_logit.left_features(labelled, two.factors)
        return parts.finish(state, one, two, meets, features, *given)

    return Learner(init, update)
