r"""The exact conjugate of a state, from the singular values of its dual."""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from lowrank_jax.checks import InputError
from lowrank_jax.models import bilinear
from lowrank_jax.online import bol, entries, mirror_descent, perceptron
from lowrank_jax.online.bol import block as bol_block
from lowrank_jax.online.bol import paper_global
from lowrank_jax.online.bol.state import num_labels_of

__all__ = [
    "Conjugate",
    "Dual",
    "Listed",
    "Spectrum",
    "check_start",
    "conjugate",
    "dual",
    "squares",
    "start_of",
]
__dir__ = __all__.copy


class Spectrum(NamedTuple):
    """Summary of the singular values of the dual's blocks."""

    num_blocks: int  # blocks that are not zero
    participation: float  # (sum s_1^2)^2 / sum s_1^4: blocks in use, in effect
    sigma_1: float  # the largest of all
    median_ratio: float  # sigma_{r+1} / sigma_r, median over the blocks
    max_ratio: float
    share_of_ties: float  # share of blocks with a ratio above 0.999
    global_ratio: float  # sigma_2 / sigma_1 of Theta as one matrix
    mean_rank: float  # sum s_i^2 / s_1^2 of a block, mean over the blocks


class Conjugate(NamedTuple):
    """Exact value of the conjugate, and the spectrum it was computed from."""

    value: float  # F*(Theta) - F*(Theta_0)
    spectrum: Spectrum | None  # None without first-order blocks
    variant: str  # "sp", or the variant of BOL whose mirror map it is
    rank: int  # r, rank of the blocks
    start: float = 0.0  # c_0 of Theta_0 = c_0 11'


class Listed(NamedTuple):
    """Entries of blocks that are not zero, on the host."""

    places: np.ndarray  # (n,) flat index into (K, S, S + 1), ascending
    values: np.ndarray  # (n,)

    def at(self, places: np.ndarray) -> np.ndarray:
        """Return the values at some places; 0 where there is no entry."""
        i = np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)
        return np.where(self.places[i] == places, self.values[i], 0)


class Dual(NamedTuple):
    """Theta of a state less its start; a part that the model lacks is None."""

    zero: jax.Array | None  # (K + 1, S)
    first: jax.Array | Listed | None  # (K + 1, S, S + 1)
    transitions: jax.Array | None  # (S, S + 1)


def dual(state: Any) -> Dual:
    """Return the dual of a state of a learner of sentences that `certify` knows."""
    params: Any = getattr(state, "params", None)
    if isinstance(state, mirror_descent.State):
        return Dual(params.zero, state.theta, params.transitions)
    if isinstance(state, perceptron.State):
        if not isinstance(params.first, entries.Blocks):
            return Dual(params.zero, params.first, params.transitions)
        assert state.scores is not None
        labels = state.scores.unary.shape[1]
        zero = None if params.zero is None else params.zero[params.rows]
        first = _listed(params.first, params.rows, labels)
        return Dual(zero, first, params.transitions)
    if isinstance(state, bol.State):
        zero = params.table[:, : num_labels_of(state)]
        if not isinstance(state.blocks, entries.Blocks):
            return Dual(zero, state.blocks, params.transitions)
        first = _listed(state.blocks, params.rows, num_labels_of(state))
        return Dual(zero[params.rows], first, params.transitions)
    raise InputError(
        "A certificate is for states of online.bol and online.perceptron, got "
        f"{type(state).__module__}.{type(state).__name__}."
    )


def _listed(blocks: entries.Blocks, rows: jax.Array, labels: int) -> Listed:
    """Return the entries of a sparse dual, by feature."""
    index = np.asarray(rows)
    features = np.zeros(blocks.keys.shape[0], np.int64)
    features[index] = np.arange(len(index))
    row, place, values = entries.listed(blocks)
    current, previous = np.divmod(place, bilinear.stride(labels))
    places = (features[row] * labels + current) * (labels + 1) + previous
    order = np.argsort(places)
    return Listed(places[order], values[order])


def conjugate(state: bol.State | perceptron.State) -> Conjugate:
    r"""Return :math:`F^*(\Theta) - F^*(\Theta_0)` of a state, from singular values.

    The running `State.conjugate` of the variants ``"block"`` and ``"paper"`` comes from
    a few power steps and is a lower bound. A certificate uses this exact value.

    Args:
      state: State of `online.bol` or `online.perceptron`. The variant and the rank are
        read off the state.
    """
    if isinstance(state, perceptron.State):
        zero, first, transitions, _ = state.params
        weights = first.values if isinstance(first, entries.Blocks) else first
        parts = jax.tree.leaves((zero, weights, transitions))
        return Conjugate(sum(squares(part) for part in parts) / 2, None, "sp", 1)
    is_block = state.sigma is None and not isinstance(state.pair, paper_global.Pair)
    variant = "block" if is_block else bol.variant_of(state)
    labels = num_labels_of(state)
    rank = bilinear.rank_of(state.params.table, labels)
    start = start_of(state)
    values = np.concatenate([np.zeros((0, labels)), *_spectra(state, start)])
    total = squares(state.params.table, labels)
    if state.params.transitions is not None:
        total += squares(state.params.transitions)
    energies = (values[:, :rank] ** 2).sum(1) - start**2 * labels * (labels + 1)
    first_order = energies.sum() if is_block else energies.max(initial=0)
    value = (total + float(first_order)) / 2
    return Conjugate(value, _spectrum(values, rank), variant, rank, start)


def start_of(state: bol.State) -> float:
    """Return c_0 of Theta_0 = c_0 11'."""
    return 0.0 if state.start is None else float(state.start)


def check_start(state: Any, room: float) -> None:
    """Raise `InputError` unless c_0 is the start that the factors have grown from.

    The conjugate in a state is half the growth of the energies of its blocks. Each
    block began with the energy of its block of Theta_0.
    """
    is_other = not isinstance(state, bol.State) or state.sigma is not None
    if is_other or isinstance(state.pair, paper_global.Pair):
        return
    table, labels = state.params.table, num_labels_of(state)
    if state.pair is None:
        parts = squares(bilinear.split(table, labels).left)
    else:
        parts = squares(state.pair.top[:, -1:])
    parts += squares(table, labels)
    if state.params.transitions is not None:
        parts += squares(state.params.transitions)
    start, begun = start_of(state), labels * (labels + 1) * (len(table) - 1)
    grown, carried = (parts - start**2 * begun) / 2, float(state.conjugate)
    if not abs(grown - carried) <= room * (parts + start**2 * begun):
        raise InputError(
            f"The state says start={start:g}, from which its factors have grown by "
            f"{grown:g}, where it carries {carried:g}: give the state of the run."
        )


def _spectra(state: bol.State, start: float) -> Iterator[np.ndarray]:
    """Yield the singular values of the blocks that have moved, some at a time."""
    if not isinstance(state.blocks, entries.Blocks):
        is_row = np.array(_rows_in_use(state.blocks))
        yield _singular_values(np.asarray(state.blocks), _whole(is_row, start), start)
        return
    assert state.pool is not None
    labels, last = num_labels_of(state), state.params.table.shape[0] - 1
    size = 4096 if labels < entries.MANY else 64  # blocks written out at a time
    for first in range(1, int(state.pool.num_rows), size):
        rows = np.arange(first, first + size, dtype=np.int32)
        rows = np.where(rows < int(state.pool.num_rows), rows, last)
        blocks = np.asarray(_theta_of(state.blocks, rows, None, labels))
        is_row = _whole((blocks != 0).any(axis=2), start)
        yield _singular_values(blocks, is_row, start)


def _whole(is_row: np.ndarray, start: float) -> np.ndarray:
    """Mark all rows of a block that has moved, if no row of the start is zero."""
    return is_row | is_row.any(axis=1, keepdims=True) if start else is_row


def _singular_values(
    blocks: np.ndarray, is_row: np.ndarray, start: float = 0.0
) -> np.ndarray:
    """Return the (n, S) singular values of the n blocks that have moved.

    They come from Gram matrices. Most blocks were touched at a few labels only. Blocks
    are therefore grouped by their number of nonzero rows, and only those rows are read.

    Args:
      blocks: (K + 1, S, S + 1).
      is_row: (K + 1, S) bool, True for rows that are not zero.
      start: Number that is added to each entry.
    """
    num_rows = is_row.sum(axis=1)
    values = np.zeros((int((num_rows > 0).sum()), blocks.shape[1]))
    done = 0
    for number in np.unique(num_rows[num_rows > 0]).tolist():
        group = np.flatnonzero(num_rows == number)
        for first in range(0, len(group), 4096):
            some = group[first : first + 4096]
            place = np.nonzero(is_row[some])[1]
            rows = blocks[np.repeat(some, number), place].astype(np.float64)
            rows = rows.reshape(len(some), number, -1) + start
            squares = np.linalg.eigvalsh(rows @ rows.transpose(0, 2, 1))
            roots = np.sqrt(np.maximum(squares[:, ::-1], 0))
            values[done : done + len(some), :number] = roots
            done += len(some)
    return values


def _spectrum(values: np.ndarray, rank: int) -> Spectrum:
    if not len(values):
        return Spectrum(0, *(0.0,) * 7)
    top = values[:, 0]
    ratios = np.zeros(len(values))
    if rank < values.shape[1]:
        last = values[:, rank - 1]
        ratios = values[:, rank] / np.where(last > 0, last, 1)
    two = np.sort(values.ravel())[-2:]
    return Spectrum(
        num_blocks=len(values),
        participation=float((top**2).sum() ** 2 / (top**4).sum()),
        sigma_1=float(top.max()),
        median_ratio=float(np.median(ratios)),
        max_ratio=float(ratios.max()),
        share_of_ties=float((ratios > 0.999).mean()),
        global_ratio=float(two[0] / two[1]),
        mean_rank=float(((values**2).sum(1) / np.where(top > 0, top, 1) ** 2).mean()),
    )


_theta_of = jax.jit(bol_block.theta_of, static_argnums=3)
_rows_in_use = jax.jit(lambda blocks: (blocks != 0).any(axis=2))


def squares(table: jax.Array, num_columns: int | None = None) -> float:
    """Return the sum of squares of the first columns; rows are added up in double."""
    return float(np.asarray(_row_squares(table, num_columns), np.float64).sum())


@functools.partial(jax.jit, static_argnums=1)
def _row_squares(table: jax.Array, num_columns: int | None) -> jax.Array:
    kept = table[:, :num_columns]
    return (kept * kept).reshape(len(table), -1).sum(axis=1)
