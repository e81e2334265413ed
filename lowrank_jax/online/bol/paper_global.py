r"""Algorithm 2 with one divisor for all blocks: :math:`\sigma_1` of the whole Theta.

Equations (9)-(12) of `paper` with unit :math:`\alpha, \beta`, which are normalised
after each round. Theta is block-diagonal, so each touched block goes its own way but
for the shared divisor :math:`\sigma_1 = \max_k \sigma_1(\Theta_k)`. The maximum over
all blocks is kept in a tree (errata of BOL-Eq9-12 (b)). In the round of the first
mistake :math:`\sigma_1(\Theta_1)` stands in (c). The value of a touched block is found
by
warm-started power steps: a lower bound. The divisor is in the hundreds on real data, so
that a feature seen ten times hardly moves (d).

Normalising all K blocks each round would cost O(K): the table holds
:math:`A = \alpha/c_\alpha` and :math:`B = \beta/c_\beta`, and only the two numbers
change for the blocks that nothing touched.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import linalg
from lowrank_jax.linalg import max_tree
from lowrank_jax.models import bilinear
from lowrank_jax.online import entries, mistakes
from lowrank_jax.online.bol.block import NUDGE, theta_of
from lowrank_jax.online.bol.paper import sweep
from lowrank_jax.online.touched import first_of_its_kind
from lowrank_jax.types import Sentence

__all__ = ["Pair", "Stepped", "normalisers", "step_blocks", "track_sigma"]
__dir__ = __all__.copy


class Pair(NamedTuple):
    """What Alg. 2 keeps beside Theta and the table."""

    pending: (
        jax.Array
    )  # (K+1, S + stride)  C dPhi beta, C dPhi' alpha; 0 between rounds
    top_right: jax.Array  # (K + 1, S + 1)  leading right vectors, for sigma_1
    sigma: max_tree.MaxTree  # sigma_1(Theta_k) of all blocks
    growth: jax.Array  # (2,)  ||A||^2 and ||B||^2 less their start
    start: jax.Array  # (2,)  ||A||^2 and ||B||^2 of the start
    weight_sums: jax.Array  # (2,)  sums over rounds of c_alpha, c_beta (BOL-X2)


class Stepped(NamedTuple):
    """After R steps of Eq. (9)-(12) on all touched blocks."""

    table: jax.Array
    factor_sums: jax.Array | None
    pending: jax.Array
    growth: jax.Array  # (2,)


def step_blocks(
    table: jax.Array,
    factor_sums: jax.Array | None,
    pair: Pair,
    blocks: jax.Array | entries.Blocks,
    sigma_1: jax.Array,
    example: Sentence,
    differences: mistakes.Differences,
    *,
    num_steps: int,
) -> Stepped:
    """Run Eq. (9)-(12); a block met a second time has nothing pending and rests."""
    space, dtype = example.space, table.dtype
    labels = space.num_labels
    c_alpha, c_beta = normalisers(pair)

    def one(n: jax.Array, stepped: Stepped) -> Stepped:
        here = mistakes.position(example, differences, n)
        ids = here.ids[jnp.array(space.first_order, jnp.int32)]
        theta = theta_of(blocks, ids, None, space.num_labels)
        rows = stepped.table.at[ids].get(mode="promise_in_bounds")
        factors = bilinear.split(rows, labels)
        alpha, beta = factors.left[:, 0], factors.right[:, 0]
        waiting = stepped.pending.at[ids].get(mode="promise_in_bounds")
        push_alpha = waiting[:, :labels]
        push_beta = waiting[:, labels : 2 * labels + 1]
        delta_alpha, delta_beta = sweep(
            theta,
            push_alpha,
            push_beta,
            divisor=sigma_1,
            ratios=(c_beta / c_alpha, c_alpha / c_beta),
            num_steps=num_steps,
        )
        # A repeated id in one row would be moved twice: its equals rest.
        is_first = first_of_its_kind(ids)[:, None]
        new_alpha = alpha + delta_alpha  # Eq. (10)
        new_beta = beta + delta_beta  # Eq. (12)
        columns = bilinear.join(new_alpha[:, None], new_beta[:, None])
        factor_sums = stepped.factor_sums
        if factor_sums is not None:
            change = jnp.concatenate(
                [
                    pair.weight_sums[0] * (new_alpha - alpha),
                    pair.weight_sums[1] * (new_beta - beta),
                ],
                axis=1,
            )
            change = jnp.where(is_first, change, 0)
            width = change.shape[1]
            factor_sums = factor_sums.at[ids, labels : labels + width].add(
                change, mode="promise_in_bounds"
            )
        more = jnp.stack(
            [
                jnp.where(is_first, new_alpha**2 - alpha**2, 0).sum(),
                jnp.where(is_first, new_beta**2 - beta**2, 0).sum(),
            ]
        )
        return Stepped(
            table=stepped.table.at[ids, labels:].set(columns, mode="promise_in_bounds"),
            factor_sums=factor_sums,
            pending=stepped.pending.at[ids].set(
                # Zeros that depend on what was read: no copy of the whole (see moves).
                jnp.where(jnp.isnan(waiting), waiting, jnp.zeros((), dtype)),
                mode="promise_in_bounds",
            ),
            growth=stepped.growth + more,
        )

    start = Stepped(table, factor_sums, pair.pending, pair.growth)
    count = differences.num_positions
    return lax.fori_loop(jnp.zeros_like(count), count, one, start)


def track_sigma(
    pair: Pair,
    blocks: jax.Array | entries.Blocks,
    example: Sentence,
    differences: mistakes.Differences,
    nudge: jax.Array,
    *,
    num_steps: int,
) -> tuple[jax.Array, max_tree.MaxTree, jax.Array]:
    """Renew sigma_1 of the touched blocks, and the maximum over all.

    Returns:
      The leading right vectors, the tree, and the largest residual.
    """
    space = example.space

    Carry = tuple[jax.Array, max_tree.MaxTree, jax.Array]

    def one(n: jax.Array, carry: Carry) -> Carry:
        top_right, sigma, residual = carry
        here = mistakes.position(example, differences, n)
        ids = here.ids[jnp.array(space.first_order, jnp.int32)]
        theta = theta_of(blocks, ids, None, space.num_labels)
        start = top_right.at[ids].get(mode="promise_in_bounds")[:, None]
        start = start + NUDGE * nudge[None, :1]
        found = linalg.leading_subspace(theta, start, num_steps=num_steps)
        values = jnp.sqrt((found.left * found.left).sum(axis=(1, 2)))
        top_right = top_right.at[ids].set(found.right[:, 0], mode="promise_in_bounds")
        sigma = max_tree.replace(sigma, ids, values)
        return top_right, sigma, jnp.maximum(residual, found.residual.max())

    count, zero = differences.num_positions, jnp.zeros((), nudge.dtype)
    start = (pair.top_right, pair.sigma, zero)
    return lax.fori_loop(jnp.zeros_like(count), count, one, start)


def normalisers(pair: Pair) -> tuple[jax.Array, jax.Array]:
    r"""Return :math:`c_\alpha, c_\beta`, which make the pair of unit length."""
    norms = lax.rsqrt(pair.start + pair.growth)
    return norms[0], norms[1]
