r"""Block-rank-r mirror descent (DR-B6, DR-B5; the corrected form of BOL-Alg2).

With block-diagonal features (BOL-M2) the dual is block-diagonal too. The separable
penalty :math:`\frac12\sum_k\|W_k\|^2` on blocks of rank at most r has

.. math:: F^*(\Theta) = \tfrac12 \sum_k \sum_{j\le r} \sigma_j(\Theta_k)^2, \qquad
   \nabla F^*(\Theta) = \operatorname{blockdiag}_k
      \Big(\sum_{j\le r} \sigma_j u_j v_j^\top\Big).

A round touches the blocks of the features at the positions where the label pairs
differ. Each is moved, then mapped by a few warm-started steps of subspace iteration.
:math:`\alpha_{kj} = \Theta_k v_j` carries the singular value, :math:`\beta_{kj} = v_j`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax.data.sequences import Space
from lowrank_jax.decode import LowRankScores, Scores
from lowrank_jax.linalg import places, power_iteration
from lowrank_jax.models import bilinear
from lowrank_jax.online import entries, mistakes
from lowrank_jax.online.touched import first_of_its_kind
from lowrank_jax.types import Sentence

__all__ = [
    "Mapped",
    "Moved",
    "Sums",
    "add",
    "map_blocks",
    "move",
    "padded_product",
    "padded_theta",
    "theta_to_map",
]
__dir__ = __all__.copy

# In a block of small integers, a warm start can lie exactly in an invariant subspace
# and would stay there. This share of a fixed random vector (the nudge) frees it.
NUDGE = 0.1


class Sums(NamedTuple):
    """Lazy sums over rounds, from which an average is made (BOL-X2, DR-B9, DR-B13)."""

    table: jax.Array  # (K + 1, S) or, for factors, the table's own shape
    blocks: jax.Array | entries.Part | None  # like Theta, for averaging in the dual
    transitions: jax.Array | None  # (S, S + 1)
    scale: jax.Array  # ()
    weights: jax.Array | None = None  # (K + 1, S, stride), for the mean of W


class Moved(NamedTuple):
    """Tables after ``Theta + step * dPhi``, before the mirror map."""

    table: jax.Array
    transitions: jax.Array | None
    blocks: jax.Array | entries.Blocks
    sums: Sums | None
    margin: jax.Array  # ()  <W_{t-1}, dPhi>
    growth: jax.Array  # ()  growth of ||w||^2 / 2, the 0-order part of F*


def move(
    params: bilinear.Params,
    blocks: jax.Array | entries.Blocks,
    sums: Sums | None,
    example: Sentence,
    scores: Scores | LowRankScores,
    differences: mistakes.Differences,
    step: jax.Array,
    weight: jax.Array,
) -> Moved:
    """Add ``step * dPhi`` to Theta and w, and ``weight * dPhi`` to their sums."""
    space, dtype = example.space, step.dtype

    def one(n: jax.Array, moved: Moved) -> Moved:
        here = mistakes.position(example, differences, n)
        moved = add(moved, here, here.ids, space, step, weight)
        return moved._replace(margin=moved.margin + mistakes.score_gap(scores, here))

    zero, count = jnp.zeros((), dtype), differences.num_positions
    start = Moved(params.table, params.transitions, blocks, sums, zero, zero)
    return lax.fori_loop(jnp.zeros_like(count), count, one, start)


def add(
    moved: Moved,
    here: mistakes.Position,
    own: jax.Array,
    space: Space,
    step: jax.Array,
    weight: jax.Array,
) -> Moved:
    """Add ``step * dPhi`` of a position, and ``weight * dPhi`` to the sums.

    Args:
      moved: Tables.
      here: Position, with rows of the table in place of features.
      own: Rows of the blocks.
      space: Sizes of the table. Static.
      step: () factor of Theta and w.
      weight: () factor of the sums.
    """
    table, transitions, blocks, sums, margin, growth = moved
    zero_sum = None if sums is None else sums.table
    block_sum: Any = None if sums is None else sums.blocks
    pair_sum = None if sums is None else sums.transitions
    if space.zero_order:
        touched = mistakes.unary(here, space, step.dtype)
        table, zero_sum, more = mistakes.add(table, zero_sum, touched, step, weight)
        growth = growth + more
    if transitions is not None:
        touched = mistakes.transitions(here, step.dtype)
        transitions, pair_sum, more = mistakes.add(
            transitions, pair_sum, touched, step, weight
        )
        growth = growth + more
    here = here._replace(ids=own)
    if isinstance(blocks, entries.Blocks):
        blocks, block_sum, _ = entries.add(blocks, block_sum, here, space, step, weight)
    else:
        touched = mistakes.pairs(here, space, step.dtype)
        at, mode = blocks.at[touched.where], "promise_in_bounds"
        blocks = at.add(step * touched.delta, mode=mode)
        if block_sum is not None:
            at = block_sum.at[touched.where]
            block_sum = at.add(weight * touched.delta, mode=mode)
    if sums is not None and zero_sum is not None:
        sums = sums._replace(table=zero_sum, blocks=block_sum, transitions=pair_sum)
    return Moved(table, transitions, blocks, sums, margin, growth)


class Mapped(NamedTuple):
    """Tables after the mirror map of the touched blocks."""

    table: jax.Array
    factor_sums: jax.Array | None  # (K + 1, width): lazy sums of the factors (BOL-X2)
    weight_sums: jax.Array | None  # (K + 1, S, stride): lazy sums of W (DR-B13)
    growth: jax.Array  # ()  of the first-order part of F*
    sigma_1: jax.Array  # ()  largest sigma_1 of a touched block
    ratio: jax.Array  # ()  largest sigma_{r+1} / sigma_r of a touched block, if asked
    residual: jax.Array  # ()  largest move of a singular vector in the last step


def theta_of(
    blocks: jax.Array | entries.Blocks,
    ids: jax.Array,
    prior: jax.Array | None,
    num_labels: int,
) -> jax.Array:
    """Return Theta of some blocks, (n, S, S + 1); what is no feature has none.

    Args:
      blocks: Theta less its start.
      ids: (n,) int32 rows of it.
      prior: () c_0 of ``Theta_0 = c_0 11'`` (DR-B11), or None for 0.
      num_labels: S. Static.
    """
    return padded_theta(blocks, ids, prior, num_labels)[:, :, : num_labels + 1]


def padded_theta(
    blocks: jax.Array | entries.Blocks,
    ids: jax.Array,
    prior: jax.Array | None,
    num_labels: int,
) -> jax.Array:
    """Return Theta of some blocks; entries come with columns of zeros behind."""
    if isinstance(blocks, entries.Blocks):
        moved = entries.dense(blocks.keys, blocks.values, ids, num_labels)
        num_rows = blocks.keys.shape[0]
    else:
        moved = blocks.at[ids].get(mode="promise_in_bounds")
        num_rows = blocks.shape[0]
    if prior is None:
        return moved
    is_column = jnp.arange(moved.shape[2], dtype=jnp.int32) <= num_labels
    is_entry = (ids < num_rows - 1)[:, None, None] & is_column[None, None]
    return moved + jnp.where(is_entry, prior, 0)


def theta_to_map(
    blocks: jax.Array | entries.Blocks,
    ids: jax.Array,
    prior: jax.Array | None,
    num_labels: int,
) -> jax.Array | power_iteration.Operator:
    """Return Theta of some blocks for `leading_subspace`; by entries for many labels.

    Takes the arguments of `theta_of`.
    """
    if not isinstance(blocks, entries.Blocks) or num_labels < entries.MANY:
        return padded_theta(blocks, ids, prior, num_labels)
    parts = [(blocks.values, 1.0)]
    return power_iteration.Operator(
        *entries.products(blocks.keys, parts, ids, num_labels, prior=prior)
    )


def leading(
    theta: jax.Array | power_iteration.Operator, start: jax.Array, *, num_steps: int
) -> power_iteration.Subspace:
    """Return the leading subspaces of `theta_to_map` from a start (n, rank, S + 1)."""
    width = bilinear.stride(start.shape[2] - 1)
    if isinstance(theta, jax.Array):
        width = theta.shape[2]
    room = ((0, 0), (0, 0), (0, width - start.shape[2]))
    new = power_iteration.leading_subspace(
        theta, jnp.pad(start, room), num_steps=num_steps
    )
    return new._replace(right=new.right[:, :, : start.shape[2]])


def map_blocks(
    table: jax.Array,
    blocks: jax.Array | entries.Blocks,
    prior: jax.Array | None,
    factor_sums: jax.Array | None,
    weight_sums: jax.Array | None,
    example: Sentence,
    differences: mistakes.Differences,
    nudge: jax.Array,
    weight: jax.Array,
    *,
    num_steps: int,
    wants_ratio: bool,
) -> Mapped:
    """Set alpha and beta of the touched blocks to the mirror map of Theta.

    A block touched at two positions is mapped twice; the second map starts from the
    result of the first. The two increments of F* add up to the total.
    """
    space, dtype = example.space, table.dtype
    labels = space.num_labels
    rank = bilinear.rank_of(table, labels)

    def one(n: jax.Array, mapped: Mapped) -> Mapped:
        here = mistakes.position(example, differences, n)
        ids = here.ids[jnp.array(space.first_order, jnp.int32)]
        theta = theta_to_map(blocks, ids, prior, labels)
        rows = mapped.table.at[ids].get(mode="promise_in_bounds")
        old = bilinear.split(rows, labels)
        start = old.right + NUDGE * nudge[None]
        new = leading(theta, start, num_steps=num_steps)
        columns = bilinear.join(new.left, new.right)
        table = places.put(mapped.table, ids, rows, columns)
        factor_sums = mapped.factor_sums
        is_first = first_of_its_kind(ids)
        if factor_sums is not None:
            change = (columns - rows[:, labels:]) * is_first[:, None].astype(dtype)
            factor_sums = factor_sums.at[ids, labels:].add(
                weight * change, mode="promise_in_bounds"
            )
        weight_sums = mapped.weight_sums
        if weight_sums is not None:
            change = padded_product(columns, labels)
            change = change - padded_product(rows[:, labels:], labels)
            change = change * is_first[:, None, None].astype(dtype)
            weight_sums = weight_sums.at[ids].add(
                weight * change, mode="promise_in_bounds"
            )
        energy = (new.left * new.left).sum(axis=(1, 2))
        before = (old.left * old.left).sum(axis=(1, 2))
        growth = jnp.where(is_first, energy - before, 0).sum() / 2
        ratio = mapped.ratio
        if wants_ratio:
            whole = padded_theta(blocks, ids, prior, labels)
            ratio = jnp.maximum(ratio, ratio_of(whole, rank))
        return Mapped(
            table=table,
            factor_sums=factor_sums,
            weight_sums=weight_sums,
            growth=mapped.growth + growth,
            sigma_1=jnp.maximum(mapped.sigma_1, jnp.sqrt(top_energy(new.left))),
            ratio=ratio,
            residual=jnp.maximum(mapped.residual, new.residual.max()),
        )

    zero, count = jnp.zeros((), dtype), differences.num_positions
    start = Mapped(table, factor_sums, weight_sums, zero, zero, zero, zero)
    return lax.fori_loop(jnp.zeros_like(count), count, one, start)


def ratio_of(theta: jax.Array, rank: int) -> jax.Array:
    """Return the largest sigma_{r+1} / sigma_r of some blocks; 0 at full rank."""
    from lowrank_jax.linalg import spectra  # a recorded run alone

    sigma = spectra.singular_values(theta)
    if rank == sigma.shape[1]:
        return jnp.zeros((), theta.dtype)
    last, next_one = sigma[:, rank - 1], sigma[:, rank]
    return (next_one / jnp.where(last > 0, last, 1)).max()


def prior_columns(num_labels: int, rank: int, prior: jax.Array) -> jax.Array:
    """Return alpha and beta of ``Theta_0 = prior * 11'`` as columns of one row."""
    lengths = (num_labels + 1) ** 0.5
    left = jnp.full((num_labels,), lengths, prior.dtype) * prior
    right = jnp.full((num_labels + 1,), 1 / lengths, prior.dtype)
    right = jnp.where(prior > 0, right, 0)
    rows = jnp.zeros((rank - 1, num_labels + 1), prior.dtype)
    return bilinear.join(
        jnp.concatenate([left[None], rows[:, 1:]])[None],
        jnp.concatenate([right[None], rows])[None],
    )


def product(left: jax.Array, right: jax.Array) -> jax.Array:
    """Return W of some blocks from their factors."""
    parts = [left[:, j, :, None] * right[:, j, None, :] for j in range(left.shape[1])]
    return sum(parts[1:], start=parts[0])


def padded_product(columns: jax.Array, num_labels: int) -> jax.Array:
    """Return W of some blocks from columns S.. of their rows: (n, S, stride).

    Vectors as long as those of the table: 24 columns take half the time of 23.
    """
    each = bilinear.stride(num_labels)
    rank = columns.shape[1] // (num_labels + each)
    ends = rank * num_labels
    left = columns[:, :ends].reshape(-1, rank, num_labels)
    right = columns[:, ends : ends + rank * each].reshape(-1, rank, each)
    return product(left, right)


def top_energy(left: jax.Array) -> jax.Array:
    """Return the largest squared norm of a column of Theta V, over blocks and ranks."""
    return (left * left).sum(axis=2).max()
