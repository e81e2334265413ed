r"""Algorithm 2 of the paper, block by block: Eq. (9)-(12) on the touched blocks.

With :math:`\Delta\alpha^{(0)} = \Delta\beta^{(0)} = 0`,

.. math::
   \Delta\alpha^{(\tau)} &= \tfrac1D
       (C\,\Delta\Phi_t\,\beta_{t-1} + \Theta_t\,\Delta\beta^{(\tau-1)})
       \qquad (9),\ (10) \\
   \Delta\beta^{(\tau)} &= \tfrac1D
       (C\,\Delta\Phi_t^\top\alpha_{t-1} + \Theta_t^\top\,\Delta\alpha^{(\tau)})
       \qquad (11),\ (12)

for R steps. These are Gauss-Seidel sweeps for a linear system that is positive definite
if :math:`D > \sigma_1(\Theta_t)`; then each sweep contracts by at most
:math:`(\sigma_1/D)^2` (DR-B12). Theta is block-diagonal, so the equations never leave a
block, and the divisor is the block's own (errata of BOL-Eq9-12 (d)):

.. math:: D_k = c\,\max\{\sigma_1(\Theta_{k,t-1}), \sigma_1(\Theta_{k,t})\}

:math:`c = 1` is literal and at the edge of stability; :math:`c = 2` is safe at every R.
:math:`\sigma_1` of a touched block is found by warm-started power steps: a lower bound,
which can be less than half after a block has turned. So with :math:`c > 1` the divisor
is at least the Frobenius norm of :math:`\Theta_{k,t}`, which :math:`\sigma_1` never
exceeds. With at most :math:`c^2` labels this changes no divisor that is right.
The factors start at the vectors of ones. From :math:`\Theta_0 = c_0 11^\top` these are
the leading pair of each block, which is what the derivation of Eq. (9) assumes. The
normalisation of the paper drops out of the predictions, so nothing global is kept.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import linalg
from lowrank_jax.linalg import places
from lowrank_jax.models import bilinear
from lowrank_jax.online import entries, mistakes
from lowrank_jax.online.bol.block import NUDGE, padded_theta, ratio_of
from lowrank_jax.online.touched import first_of_its_kind
from lowrank_jax.types import Sentence

__all__ = ["Pair", "Stepped", "collect", "start", "step_blocks", "sweep"]
__dir__ = __all__.copy

# With at most so many labels, a product with small blocks is written as a sum, which
# XLA fuses with its neighbours: half the time for 4 labels, twice the time for 22.
_FEW_LABELS = 8


class Pair(NamedTuple):
    """What Alg. 2 keeps beside Theta and the table, by block."""

    pending: (
        jax.Array
    )  # (K+1, S + stride)  C dPhi beta, C dPhi' alpha; 0 between rounds
    top: jax.Array  # (K + 1, S + 2)  leading right vectors, then sigma_1


def start(num_rows: int, num_labels: int, prior: jax.Array) -> Pair:
    """Return the pair of a run from ``Theta_0 = prior * 11'``.

    Args:
      num_rows: K + 1. The last row is no feature.
      num_labels: S.
      prior: () c_0, zero or more.
    """
    dtype = prior.dtype
    uniform = jnp.full((num_labels + 1,), (num_labels + 1) ** -0.5, dtype)
    sigma = prior * jnp.asarray((num_labels * (num_labels + 1)) ** 0.5, dtype)
    row = jnp.append(jnp.where(prior > 0, uniform, 0), sigma)
    return Pair(
        pending=jnp.zeros((num_rows, num_labels + bilinear.stride(num_labels)), dtype),
        # A choice by row and no scatter, which XLA would fold for a second.
        top=jnp.where(jnp.arange(num_rows)[:, None] < num_rows - 1, row[None], 0),
    )


def collect(
    pending: jax.Array,
    table: jax.Array,
    example: Sentence,
    differences: mistakes.Differences,
    step: jax.Array,
) -> jax.Array:
    r"""Gather :math:`C\Delta\Phi B` and :math:`C\Delta\Phi^\top A` by block."""
    space = example.space
    labels = space.num_labels

    def one(n: jax.Array, pending: jax.Array) -> jax.Array:
        here = mistakes.position(example, differences, n)
        ids = here.ids[jnp.array(space.first_order, jnp.int32)]
        rows = table.at[ids].get(mode="promise_in_bounds")
        factors = bilinear.split(rows, labels)
        alpha, beta = factors.left[:, 0], factors.right[:, 0]
        signs = jnp.array([1, -1], step.dtype) * step
        index = jnp.concatenate([here.labels, labels + here.previous])
        values = jnp.concatenate(
            [
                signs[None] * beta[:, here.previous],
                signs[None] * alpha[:, here.labels],
            ],
            axis=1,
        )
        if here.values is not None:
            value = here.values[jnp.array(space.first_order, jnp.int32)]
            values = values * value.astype(step.dtype)[:, None]
        return places.add(pending, (ids[:, None], index[None, :]), values)

    count = differences.num_positions
    return lax.fori_loop(jnp.zeros_like(count), count, one, pending)


def sweep(
    theta: jax.Array,
    push_alpha: jax.Array,
    push_beta: jax.Array,
    *,
    divisor: jax.Array,
    ratios: tuple[jax.Array | float, jax.Array | float] = (1.0, 1.0),
    num_steps: int,
    as_sums: bool = False,
) -> tuple[jax.Array, jax.Array]:
    r"""Run Eq. (9)-(12) on some blocks.

    Args:
      theta: (n, S, S + 1) :math:`\Theta_t`. Columns of zeros may stand behind.
      push_alpha: (n, S) :math:`C\,\Delta\Phi_t\,\beta_{t-1}`.
      push_beta: (n, S + 1) :math:`C\,\Delta\Phi_t^\top\alpha_{t-1}`, with as many
        columns as `theta`.
      divisor: () or (n, 1) D.
      ratios: Quotients of the scales of the two factors, where they are normalised.
      num_steps: R. Static.
      as_sums: True writes products as sums, for few labels. Static.

    Returns:
      :math:`\Delta\alpha` and :math:`\Delta\beta`.
    """

    def step(image: jax.Array) -> tuple[jax.Array, jax.Array]:
        delta_alpha = ratios[0] * (push_alpha + image) / divisor  # Eq. (9)
        back = _times_transposed(theta, delta_alpha, as_sums)
        return delta_alpha, ratios[1] * (push_beta + back) / divisor  # Eq. (11)

    first = step(jnp.zeros_like(push_alpha))  # Theta times Delta beta = 0
    return linalg.repeated(
        lambda deltas: step(_times(theta, deltas[1], as_sums)), first, num_steps - 1
    )


def _times(theta: jax.Array, vectors: jax.Array, as_sums: bool) -> jax.Array:
    """Multiply each block with its vector."""
    if as_sums:
        return (theta * vectors[:, None, :]).sum(axis=2)
    return jnp.einsum("kuv,kv->ku", theta, vectors)


def _times_transposed(theta: jax.Array, vectors: jax.Array, as_sums: bool) -> jax.Array:
    """Multiply each transposed block with its vector."""
    if as_sums:
        return (theta * vectors[:, :, None]).sum(axis=1)
    return jnp.einsum("kuv,ku->kv", theta, vectors)


class _Leading(NamedTuple):
    """Leading right vectors of some blocks, and what the round needs of them."""

    right: jax.Array  # (n, S + 1)
    value: jax.Array  # (n,)  sigma_1
    residual: jax.Array  # (n,)  move of the right vector in the last step


def _leading(theta: jax.Array, start: jax.Array, *, num_steps: int) -> _Leading:
    """Return the leading pairs of some blocks by power steps from `start`.

    `linalg.leading_subspace` of rank 1, which this calls, with sums for few labels.

    Args:
      theta: (n, S, S + 1). Columns of zeros may stand behind.
      start: (n, S + 1) right vectors to start from, with as many columns.
      num_steps: Power steps; 0 takes the exact pair. Static.
    """
    if num_steps == 0 or theta.shape[1] > _FEW_LABELS:
        found = linalg.leading_subspace(theta, start[:, None], num_steps=num_steps)
        value = jnp.sqrt((found.left * found.left).sum(axis=(1, 2)))
        return _Leading(found.right[:, 0], value, found.residual)

    def step(right: jax.Array) -> jax.Array:
        left = _times(theta, right, as_sums=True)
        return _unit(_times_transposed(theta, left, as_sums=True))

    previous = linalg.repeated(step, start, num_steps - 1)
    right = step(previous)
    left = _times(theta, right, as_sums=True)
    move = right - _unit(previous)
    value, residual = (jnp.sqrt((x * x).sum(axis=1)) for x in (left, move))
    return _Leading(right, value, residual)


def _unit(vectors: jax.Array) -> jax.Array:
    """Scale vectors (n, length) to length 1; a zero vector stays zero."""
    lengths = jnp.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    return vectors / jnp.where(lengths > 0, lengths, 1)


class Stepped(NamedTuple):
    """After R steps of Eq. (9)-(12) on all touched blocks."""

    table: jax.Array
    factor_sums: jax.Array | None
    pair: Pair
    growth: jax.Array  # ()  of the sum of sigma_1^2 / 2 over blocks
    sigma_1: jax.Array  # ()  largest sigma_1 of a touched block
    ratio: jax.Array  # ()  largest sigma_2 / sigma_1 of a touched block, if asked
    residual: jax.Array  # ()  largest move of a singular vector in the last step


def step_blocks(
    table: jax.Array,
    factor_sums: jax.Array | None,
    pair: Pair,
    blocks: jax.Array | entries.Blocks,
    prior: jax.Array | None,
    example: Sentence,
    differences: mistakes.Differences,
    nudge: jax.Array,
    weight: jax.Array,
    *,
    factor: jax.Array | float,
    num_power_steps: int,
    num_steps: int,
    wants_ratio: bool,
) -> Stepped:
    """Run Eq. (9)-(12); a block met a second time has nothing pending and rests.

    Args:
      table: Table of the bilinear model.
      factor_sums: Lazy sums of the factors (BOL-X2), or None.
      pair: What the variant keeps, with what `collect` has gathered.
      blocks: Theta less its start.
      prior: () c_0, or None for 0.
      example: Sentence of the round.
      differences: Positions where label pairs differ.
      nudge: (1, S + 1) direction that starts a new block.
      weight: () weight of a change in the lazy sums.
      factor: c of the divisor.
      num_power_steps: Power steps for sigma_1. Static.
      num_steps: R. Static.
      wants_ratio: True asks for sigma_2 / sigma_1, by an SVD. Static.
    """
    space, dtype = example.space, table.dtype
    labels = space.num_labels

    def one(n: jax.Array, stepped: Stepped) -> Stepped:
        here = mistakes.position(example, differences, n)
        ids = here.ids[jnp.array(space.first_order, jnp.int32)]
        theta = padded_theta(blocks, ids, prior, labels)
        width = theta.shape[2]
        rows = stepped.table.at[ids].get(mode="promise_in_bounds")
        factors = bilinear.split(rows, labels)
        alpha, beta = factors.left[:, 0], factors.right[:, 0]
        top = stepped.pair.top.at[ids].get(mode="promise_in_bounds")
        begin = top[:, :-1] + NUDGE * nudge
        begin = jnp.pad(begin, ((0, 0), (0, width - labels - 1)))
        found = _leading(theta, begin, num_steps=num_power_steps)
        before, after = top[:, -1], found.value
        largest = jnp.maximum(before, after)
        divisor = factor * jnp.where(largest > 0, largest, 1)
        # A few power steps may find too little; with c > 1 no sweep may expand.
        above = jnp.sqrt((theta * theta).sum(axis=(1, 2)))
        divisor = jnp.where(factor > 1, jnp.maximum(divisor, above), divisor)
        waiting = stepped.pair.pending.at[ids].get(mode="promise_in_bounds")
        delta_alpha, delta_beta = sweep(
            theta,
            waiting[:, :labels],
            waiting[:, labels : labels + width],
            divisor=divisor[:, None],
            num_steps=num_steps,
            as_sums=labels <= _FEW_LABELS,
        )
        columns = bilinear.join(
            (alpha + delta_alpha)[:, None],  # Eq. (10)
            (beta + delta_beta[:, : labels + 1])[:, None],  # Eq. (12)
        )
        # A repeated id in one row would be counted twice: its equals rest.
        is_first = first_of_its_kind(ids)
        factor_sums = stepped.factor_sums
        if factor_sums is not None:
            change = jnp.where(is_first[:, None], columns - rows[:, labels:], 0)
            factor_sums = factor_sums.at[ids, labels:].add(
                weight * change, mode="promise_in_bounds"
            )
        growth = jnp.where(is_first, after**2 - before**2, 0).sum() / 2
        right = found.right[:, : labels + 1]
        new_top = jnp.concatenate([right, after[:, None]], axis=1)
        pending = stepped.pair.pending.at[ids].set(
            # Zeros that depend on what was read: no copy of the whole table.
            jnp.where(jnp.isnan(waiting), waiting, jnp.zeros((), dtype)),
            mode="promise_in_bounds",
        )
        return Stepped(
            table=places.put(stepped.table, ids, rows, columns),
            factor_sums=factor_sums,
            pair=Pair(
                pending=pending,
                top=stepped.pair.top.at[ids].set(new_top, mode="promise_in_bounds"),
            ),
            growth=stepped.growth + growth,
            sigma_1=jnp.maximum(stepped.sigma_1, after.max()),
            ratio=(
                jnp.maximum(stepped.ratio, ratio_of(theta, 1))
                if wants_ratio
                else stepped.ratio
            ),
            residual=jnp.maximum(stepped.residual, found.residual.max()),
        )

    count, zero = differences.num_positions, jnp.zeros((), dtype)
    begin = Stepped(table, factor_sums, pair, zero, zero, zero, zero)
    return lax.fori_loop(jnp.zeros_like(count), count, one, begin)
