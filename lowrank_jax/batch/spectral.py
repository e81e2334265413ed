r"""Penalties of Hankel matrices: value, proximal map, and scaling of a dual point.

For blocks :math:`H_b` with strengths :math:`\tau_b`:

=====================  ==========================================  ===============
name                   :math:`R(H_b)`                              ids
=====================  ==========================================  ===============
``nuclear``            :math:`\|H_b\|_*`                           SMM-Eq8
``frobenius``          :math:`\|H_b\|_F`                           SMM-B2 as printed
``squared_frobenius``  :math:`\frac12\|H_b\|_F^2`                  SMM-B2, usual L2
``none``               0                                           SMM-B1
=====================  ==========================================  ===============

Dual bound (DR-M2). Let :math:`\bar G` be a weighted average of subgradients of the sum
of hinges and :math:`\bar\ell` that of the Hamming costs of their paths. Each is a sum
over words of expectations under some distribution on outputs; mixing it with the
true outputs scales both by any :math:`s \in [0, 1]`, so that for all H the sum of
hinges is at least :math:`s(\bar\ell + \langle\bar G, H\rangle)`, and

.. math:: \min_H \sum_i L_i(H) + \sum_b \tau_b \|H_b\|_* \;\ge\;
   \min\Big(1, \min_b \frac{\tau_b}{\sigma_1(\bar G_b)}\Big)\,\bar\ell .

For the Frobenius norm :math:`\|\bar G_b\|_F` stands in place of :math:`\sigma_1`; for
half its square the bound is the maximum over s of
:math:`s\bar\ell - \frac{s^2}2 \sum_b \|\bar G_b\|_F^2 / \tau_b`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax.linalg import prox
from lowrank_jax.linalg.svt import svt, truncated_svt
from lowrank_jax.models.hankel import Params

__all__ = ["REGULARISERS", "Proximal", "lower_bound", "proximal_step", "warm_start"]

REGULARISERS = ("nuclear", "none", "frobenius", "squared_frobenius")


class Proximal(NamedTuple):
    """Where the proximal step arrives.

    Attributes:
      params: one matrix a block.
      penalty: () the sum of the strengths times R, there.
      rank: () int32, of all blocks together; -1 where it is not computed.
      right: one (n, r) a block, the start of the next truncated step.
      is_complete: () bool, False if a truncated step had too little room.
    """

    params: Params
    penalty: jax.Array
    rank: jax.Array
    right: Params
    is_complete: jax.Array


def warm_start(key: jax.Array, params: Params, max_rank: int | None) -> Params:
    """Return random starts (n, max_rank); empty ones if the step is not truncated.

    A block with no more rows or columns than `max_rank` is thresholded whole.
    """
    keys = jax.random.split(key, len(params))
    return tuple(
        jax.random.normal(key, (part.shape[1], _room(part.shape, max_rank)), part.dtype)
        for key, part in zip(keys, params, strict=True)
    )


def _room(shape: tuple[int, ...], max_rank: int | None) -> int:
    return 0 if max_rank is None or min(shape) <= max_rank else max_rank


def proximal_step(
    regulariser: str,
    params: Params,
    strengths: tuple[jax.Array, ...],
    step_size: jax.Array,
    right: Params,
    *,
    num_steps: int,
    method: str = "gram",
) -> Proximal:
    """Apply the proximal map of ``step_size * sum of strength * R`` to each block."""
    moved, starts = [], []
    penalty = jnp.zeros((), params[0].dtype)
    rank = jnp.array(0 if regulariser == "nuclear" else -1, jnp.int32)
    is_complete = jnp.array(True)
    for matrix, strength, start in zip(params, strengths, right, strict=True):
        threshold = step_size * strength
        if regulariser == "nuclear" and start.shape[1] == 0:
            found = svt(matrix, threshold, method=method)
            found = found._replace(right=start)
        elif regulariser == "nuclear":
            found = truncated_svt(matrix, threshold, start, num_steps=num_steps)
        elif regulariser == "frobenius":
            new = prox.l2_norm(matrix, threshold)
            penalty += strength * jnp.sqrt((new * new).sum())
        elif regulariser == "squared_frobenius":
            new = prox.squared_l2(matrix, threshold)
            penalty += strength / 2 * (new * new).sum()
        else:
            new = matrix
        if regulariser == "nuclear":
            new, start = found.matrix, found.right
            penalty += strength * found.nuclear_norm
            rank += found.rank
            is_complete &= found.is_complete
        moved.append(new)
        starts.append(start)
    return Proximal(tuple(moved), penalty, rank, tuple(starts), is_complete)


def lower_bound(
    regulariser: str,
    gradient: Params,
    cost: jax.Array,
    strengths: tuple[jax.Array, ...],
) -> jax.Array:
    """Return the bound of DR-M2 from an averaged subgradient and its averaged cost."""
    if regulariser == "squared_frobenius":
        total = jnp.zeros((), cost.dtype)
        for part, strength in zip(gradient, strengths, strict=True):
            total += (part * part).sum() / jnp.maximum(strength, _tiny(cost))
        share = jnp.minimum(1, cost / jnp.maximum(total, _tiny(cost)))
        return share * cost - share * share / 2 * total
    share = jnp.ones((), cost.dtype)
    for part, strength in zip(gradient, strengths, strict=True):
        if regulariser == "nuclear":
            tall = part if part.shape[0] >= part.shape[1] else part.T
            norm = jnp.sqrt(jax.nn.relu(jnp.linalg.eigvalsh(tall.T @ tall)[-1]))
        else:
            norm = jnp.sqrt((part * part).sum())
        if regulariser == "none":  # only a gradient of 0 bounds the loss from below
            strength = jnp.zeros_like(strength)
        share = jnp.minimum(share, strength / jnp.maximum(norm, _tiny(cost)))
    return share * cost


def _tiny(like: jax.Array) -> jax.Array:
    return jnp.asarray(jnp.finfo(like.dtype).tiny, like.dtype)
