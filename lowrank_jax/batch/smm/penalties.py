r"""Penalties of Hankel matrices: value, proximal map, and scaling of a dual point.

For blocks :math:`H_b` with strengths :math:`\tau_b`:

=====================  ==============================================  ================
name                   :math:`R(H_b)`                                  ids
=====================  ==============================================  ================
``nuclear``            :math:`\|H_b\|_*`                               SMM-Eq8
``frobenius``          :math:`\|H_b\|_F`                               SMM-B2 as printed
``squared_frobenius``  :math:`\frac12\|H_b\|_F^2`                      SMM-B2, usual L2
``overlapped``         :math:`\|H_{(a|bc)}\|_* + \|H_{(ab|c)}\|_*`     DR-M3
``none``               0                                               SMM-B1
=====================  ==============================================  ================

Dual bound (DR-M2). Let :math:`\bar G` be a weighted mean of subgradients of the sum of
hinges, and :math:`\bar\ell` the mean Hamming cost of their paths. Each is a sum
over words of expectations under some distribution on outputs; mixing it with the
true outputs scales both by any :math:`s \in [0, 1]`, so that for all H the sum of
hinges is at least :math:`s(\bar\ell + \langle\bar G, H\rangle)`, and

.. math:: \min_H \sum_i L_i(H) + \sum_b \tau_b \|H_b\|_* \;\ge\;
   \min\Big(1, \min_b \frac{\tau_b}{\sigma_1(\bar G_b)}\Big)\,\bar\ell .

For the Frobenius norm :math:`\|\bar G_b\|_F` stands in place of :math:`\sigma_1`; for
half its square the bound is the maximum over s of
:math:`s\bar\ell - \frac{s^2}2 \sum_b \|\bar G_b\|_F^2 / \tau_b`.

The overlapped penalty is of a block of trigrams, rows (a, b) and columns c, whose other
unfolding is penalised too; a block of a lower order has one unfolding and its nuclear
norm once. Its dual ball is the sum of two: any
:math:`\bar G = A + B` gives the share
:math:`\min(\tau/\sigma_1(A_{(a|bc)}),\, \tau/\sigma_1(B_{(ab|c)}))`. Two splits are
tried: :math:`\bar G` in proportion, for which the share is
:math:`\tau/\sigma_1(\bar G_{(a|bc)}) + \tau/\sigma_1(\bar G_{(ab|c)})`, and the two
multipliers of the proximal map of :math:`\bar G` with half of what is left over each.
"""

from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from lowrank_jax import checks
from lowrank_jax.linalg import prox
from lowrank_jax.linalg.overlapped import overlapped_prox, unfold
from lowrank_jax.linalg.svt import svt, truncated_svt
from lowrank_jax.models.hankel import Block, Params

__all__ = [
    "REGULARISERS",
    "Proximal",
    "check_regulariser",
    "lower_bound",
    "proximal_step",
    "warm_start",
]
__dir__ = __all__.copy

Regulariser = Literal["nuclear", "none", "frobenius", "squared_frobenius", "overlapped"]
REGULARISERS = get_args(Regulariser)

# Of the overlapped proximal map. What single precision can reach; from the multiplier
# of the iteration before a few steps are enough.
_TOLERANCE = 1e-5
_MAX_STEPS = 200


def check_regulariser(
    regulariser: str, blocks: tuple[Block, ...], svt: str = "full"
) -> None:
    """Raise unless the name is known, and for ``"overlapped"`` the basis fits it."""
    checks.choice(REGULARISERS, regulariser=regulariser)
    if regulariser != "overlapped":
        return
    if any(len(block.lengths) > 1 or block.columns != "last" for block in blocks):
        raise checks.InputError(
            '`regulariser="overlapped"` needs one table an order: give '
            '`unfolding="last"` and `lower_orders` "none" or "separate".'
        )
    if svt == "truncated":
        raise checks.InputError(
            '`regulariser="overlapped"` thresholds whole spectra: give `svt` "full" or '
            '"svd", not "truncated".'
        )


class Proximal(NamedTuple):
    """Where the proximal step arrives.

    Attributes:
      params: One matrix per block.
      penalty: () the sum of the strengths times R, there.
      rank: () int32, of all blocks (and unfoldings) together; -1 where it is not
        computed.
      right: One (n, r) per block, the start of the next truncated step; or as the
        block, the multiplier over the step size, for the next overlapped step.
      is_complete: () bool, False if a truncated step had too little room, or an
        overlapped one too few steps.
    """

    params: Params
    penalty: jax.Array
    rank: jax.Array
    right: Params
    is_complete: jax.Array


def warm_start(
    key: jax.Array, params: Params, max_rank: int | None, regulariser: str = "nuclear"
) -> Params:
    """Return random starts (n, max_rank); empty ones if the step is not truncated.

    A block with no more rows or columns than `max_rank` is thresholded whole. For the
    overlapped penalty the start is a multiplier, 0 and of the shape of the block.
    """
    checks.random_key(key)
    keys = jax.random.split(key, len(params))
    return tuple(
        jnp.zeros_like(part)
        if _kind(regulariser, part) == "overlapped"
        else jax.random.normal(
            key, (part.shape[1], _room(part.shape, max_rank)), part.dtype
        )
        for key, part in zip(keys, params, strict=True)
    )


def _kind(regulariser: str, matrix: jax.Array) -> str:
    """Return the penalty of one block: two unfoldings have blocks of trigrams alone."""
    has_trigrams = matrix.shape[0] == matrix.shape[1] ** 2
    if regulariser == "overlapped" and not has_trigrams:
        return "nuclear"
    return regulariser


def _tensor(matrix: jax.Array) -> jax.Array:
    return matrix.reshape((matrix.shape[1],) * 3)


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
    has_spectrum = regulariser in ("nuclear", "overlapped")
    rank = jnp.array(0 if has_spectrum else -1, jnp.int32)
    is_complete = jnp.array(True)
    for matrix, strength, start in zip(params, strengths, right, strict=True):
        threshold = step_size * strength
        kind = _kind(regulariser, matrix)
        if kind == "overlapped":
            both = overlapped_prox(
                _tensor(matrix),
                (threshold, threshold),
                start=_tensor(step_size * start),
                tolerance=_TOLERANCE,
                max_steps=_MAX_STEPS,
                svt_method=method,
            )
            new = both.tensor.reshape(matrix.shape)
            start = both.multipliers[1].reshape(matrix.shape) / step_size
            penalty += strength * both.norms.sum()
            rank += both.ranks.sum(dtype=jnp.int32)
            is_complete &= both.converged
        elif kind == "nuclear" and start.shape[1] == 0:
            found = svt(matrix, threshold, method=method)
            found = found._replace(right=start)
        elif kind == "nuclear":
            found = truncated_svt(matrix, threshold, start, num_steps=num_steps)
        elif kind == "frobenius":
            new = prox.l2_norm(matrix, threshold)
            penalty += strength * jnp.sqrt((new * new).sum())
        elif kind == "squared_frobenius":
            new = prox.squared_l2(matrix, threshold)
            penalty += strength / 2 * (new * new).sum()
        else:
            new = matrix
        if kind == "nuclear":
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
        kind = _kind(regulariser, part)
        if kind == "overlapped":
            share = jnp.minimum(share, _overlapped_share(part, strength))
            continue
        if kind == "nuclear":
            norm = _sigma_1(part)
        else:
            norm = jnp.sqrt((part * part).sum())
        if regulariser == "none":  # only a gradient of 0 bounds the loss from below
            strength = jnp.zeros_like(strength)
        share = jnp.minimum(share, strength / jnp.maximum(norm, _tiny(cost)))
    return share * cost


def _overlapped_share(gradient: jax.Array, strength: jax.Array) -> jax.Array:
    """Return the largest share known to lie in the sum of the two dual balls."""
    tensor, tiny = _tensor(gradient), _tiny(gradient)
    norms = jnp.stack([_sigma_1(part) for part in unfold(tensor)])
    in_proportion = (strength / jnp.maximum(norms, tiny)).sum()
    near = overlapped_prox(
        tensor, (strength, strength), tolerance=_TOLERANCE, max_steps=_MAX_STEPS
    )
    first, last = (part + near.tensor / 2 for part in near.multipliers)
    largest = jnp.maximum(_sigma_1(unfold(first)[0]), _sigma_1(unfold(last)[1]))
    return jnp.maximum(in_proportion, strength / jnp.maximum(largest, tiny))


def _sigma_1(matrix: jax.Array) -> jax.Array:
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    return jnp.sqrt(jax.nn.relu(jnp.linalg.eigvalsh(tall.T @ tall)[-1]))


def _tiny(like: jax.Array) -> jax.Array:
    return jnp.asarray(jnp.finfo(like.dtype).tiny, like.dtype)
