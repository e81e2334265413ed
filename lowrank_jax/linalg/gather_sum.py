r"""Sums of rows by segment without a scatter: a tree of gathers, planned on the host.

The gradient of a table of weights is :math:`G_k = \sum_{i : k \in x_i} D_i`, rows of D
added into the row of every feature they bear. The pairs (i, k) never change, so they
are sorted by k once. Each segment is cut into pieces of at most 16 rows. Pieces of the
same width make one dense array of row numbers, and a piece is a gather and an unrolled
sum. The sums of the pieces are summed in the same way, level by level, until each
segment has one.

Measured on one core, 211,727 tokens x 19 features x 22 labels in float32: 0.14 s, and
0.33 s for a scatter-add by template, 0.96 s for one scatter-add of all, 1.4 s for
`segment_sum` with sorted indices. The result does not depend on the order of threads.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax.linalg.forms import by_platform

__all__ = ["SumPlan", "plan_sums", "sum_rows"]
__dir__ = __all__.copy

WIDTHS = (1, 2, 4, 8, 16)  # 32 as the widest is no faster, 8 is slower
WIDTHS_ABOVE = (4, 16)  # few pieces are left there: rather less to compile


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SumPlan:
    """Which rows to add, level by level.

    Attributes:
      levels: Plan of each level: for each width w an (n, w) int32 array of row numbers
        of the level below; the number of its rows stands for a row of zeros.
      places: (num_segments,) int32, where each segment's sum lies among the pieces of
        all levels; the number of pieces stands for a segment without rows.
    """

    levels: tuple[tuple[jax.Array, ...], ...]
    places: jax.Array


def plan_sums(
    segments: np.ndarray, rows: np.ndarray, *, num_segments: int, num_rows: int
) -> SumPlan:
    """Plan the sums of rows by segment, on the host.

    Args:
      segments: (n,) integers in 0..num_segments-1, in any order.
      rows: (n,) integers in 0..num_rows-1, the row that is added into each segment.
      num_segments: Number of sums.
      num_rows: Number of rows of the values to come.
    """
    order = np.argsort(segments, kind="stable")
    segments, rows = np.asarray(segments)[order], np.asarray(rows)[order]
    nothing = num_rows
    levels: list[tuple[jax.Array, ...]] = []
    places = np.full(num_segments, -1, np.int64)
    num_pieces = 0
    while segments.size:
        widths = WIDTHS_ABOVE if levels else WIDTHS
        groups, segments = _cut(segments, rows, nothing, widths)
        levels.append(tuple(jnp.asarray(group, jnp.int32) for group in groups))
        is_alone = np.bincount(segments, minlength=num_segments)[segments] == 1
        places[segments[is_alone]] = num_pieces + np.flatnonzero(is_alone)
        nothing = segments.size
        num_pieces += segments.size
        rows = np.flatnonzero(~is_alone)
        order = np.argsort(segments[rows], kind="stable")
        rows, segments = rows[order], segments[rows][order]
    places = np.where(places < 0, num_pieces, places)
    return SumPlan(tuple(levels), jnp.asarray(places, jnp.int32))


def _cut(
    segments: np.ndarray, rows: np.ndarray, nothing: int, widths: tuple[int, ...]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Cut sorted segments into pieces; return the groups and each piece's segment."""
    starts = np.flatnonzero(np.diff(segments, prepend=-1))
    counts = np.diff(starts, append=segments.size)
    index = np.arange(segments.size) - np.repeat(starts, counts)
    pieces = np.flatnonzero(index % widths[-1] == 0)
    sizes = np.diff(pieces, append=segments.size)
    fitting = np.array(widths)[np.searchsorted(widths, sizes)]
    groups, owners = [], []
    for width in widths:
        chosen = np.flatnonzero(fitting == width)
        if chosen.size:
            inside = np.arange(width) < sizes[chosen, None]
            entry = np.where(inside, pieces[chosen, None] + np.arange(width), 0)
            groups.append(np.where(inside, rows[entry], nothing))
            owners.append(segments[pieces[chosen]])
    return groups, np.concatenate(owners)


def sum_rows(plan: SumPlan, values: jax.Array) -> jax.Array:
    """Add rows of `values` by segment.

    Args:
      plan: Plan from `plan_sums`.
      values: (num_rows, width).

    Returns:
      (num_segments, width).
    """
    nothing = jnp.zeros((1, values.shape[1]), values.dtype)
    below, pieces = jnp.concatenate([values, nothing]), [nothing]
    for groups in plan.levels:
        num_pieces = sum(group.shape[0] for group in groups)
        # Behind the pieces stays a row of zeros, which fills up pieces of the next
        # level. Each group is written to its place: handed to one `concatenate`, the
        # gathers would not be fused with their sum, at three times the time.
        level = jnp.zeros((num_pieces + 1, values.shape[1]), values.dtype)
        first = 0
        for group in groups:
            total = by_platform(
                below, group, cpu=_spelt_out, gpu=_reduced, tpu=_reduced
            )
            level = lax.dynamic_update_slice_in_dim(level, total, first, 0)
            first += group.shape[0]
        below = level
        pieces.insert(-1, level[:-1])
    return jnp.concatenate(pieces).at[plan.places].get(mode="promise_in_bounds")


def _spelt_out(below: jax.Array, group: jax.Array) -> jax.Array:
    """Add the rows of each piece, spelt out: one fused loop on a CPU."""
    total = below.at[group[:, 0]].get(mode="promise_in_bounds")
    for j in range(1, group.shape[1]):
        total = total + below.at[group[:, j]].get(mode="promise_in_bounds")
    return total


def _reduced(below: jax.Array, group: jax.Array) -> jax.Array:
    """Add the rows of each piece by a reduction: spelt out, it compiles for minutes."""
    return below.at[group].get(mode="promise_in_bounds").sum(axis=1)
