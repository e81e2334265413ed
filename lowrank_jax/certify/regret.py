r"""Certificate of a run on its own data: its regret, the bound on it, and the spectrum.

If the learner records its predictions, the trace is enough to compute the regret
against any fixed model U. The bound (DR-B4) uses only numbers that the update computes
in any case. At the end, :math:`F^*(\Theta_N)` is computed exactly from the singular
values of the blocks that the run has touched. Sums are taken in double precision. Their
terms, and the tolerance of `holds`, have the precision of the run.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import streams, theory
from lowrank_jax.certify import comparator
from lowrank_jax.checks import InputError
from lowrank_jax.models import bilinear
from lowrank_jax.online import bol, mistakes, perceptron

__all__ = [
    "Conjugate",
    "RunCertificate",
    "Spectrum",
    "best_multiple",
    "conjugate",
    "run_certificate",
]


class Spectrum(NamedTuple):
    """Summary of the singular values of the dual's blocks."""

    num_blocks: int  # blocks that are not zero
    participation: float  # (sum s_1^2)^2 / sum s_1^4: blocks in use, in effect
    sigma_1: float  # the largest of all
    median_ratio: float  # sigma_{r+1} / sigma_r, median over the blocks
    max_ratio: float
    share_of_ties: float  # share of blocks with a ratio above 0.999
    global_ratio: float  # sigma_2 / sigma_1 of Theta as one matrix


class Conjugate(NamedTuple):
    """Exact value of the conjugate, and the spectrum it was computed from."""

    value: float  # F*(Theta)
    spectrum: Spectrum | None  # None without first-order blocks
    variant: str  # "sp", or the variant of BOL
    rank: int  # r, rank of the blocks


class RunCertificate(NamedTuple):
    """What is certified of a run. Sums run over its rounds with a mistake."""

    num_rounds: int
    num_mistakes: int
    step_size: float  # C
    loss: float  # of the learner
    comparator_loss: float  # of U
    comparator_penalty: float  # F**(U)
    conjugate: float  # F*(Theta_N), exact
    regret: float  # loss - comparator_loss
    certificate: float  # (F**(U) + sum of B_t) / C  (DR-B4)
    slack: float  # certificate - regret
    holds: bool
    linear_regret: float  # sum of <U - W, dPhi>: between regret and certificate
    dual_objective: float  # C M - F*(Theta_N)  (BOL-N1)
    best_step_size: float  # C* in hindsight (DR-B8)
    best_dual_objective: float  # M^2 / 4f
    best_dual_bound: float  # F**(U) + C* times the comparator's loss: weak duality
    spectrum: Spectrum | None


def conjugate(state: bol.State | perceptron.State) -> Conjugate:
    r"""Return :math:`F^*(\Theta)` of a state, from exact singular values.

    The running `State.conjugate` of the variants ``"block"`` and ``"paper"`` comes from
    a few power steps and is a lower bound. A certificate uses this exact value.

    Args:
      state: State of `online.bol` or `online.perceptron`. The variant and the rank are
        read off the state.
    """
    if isinstance(state, perceptron.State):
        parts = jax.tree.leaves(state.params)
        return Conjugate(sum(_squares(part) for part in parts) / 2, None, "sp", 1)
    variant = bol.variant_of(state)
    rank = bilinear.rank_of(state.params.table, state.blocks.shape[1])
    values = _singular_values(
        np.asarray(state.blocks), np.asarray(_rows_in_use(state.blocks))
    )
    total = _squares(state.params.table, state.blocks.shape[1])
    if state.params.transitions is not None:
        total += _squares(state.params.transitions)
    energies = (values[:, :rank] ** 2).sum(1)
    first_order = energies.sum() if variant == "block" else energies.max(initial=0)
    value = (total + float(first_order)) / 2
    return Conjugate(value, _spectrum(values, rank), variant, rank)


def _singular_values(blocks: np.ndarray, is_row: np.ndarray) -> np.ndarray:
    """Return the (n, S) singular values of the n blocks that are not zero.

    They come from Gram matrices. Most blocks were touched at a few labels only. Blocks
    are therefore grouped by their number of nonzero rows, and only those rows are read.

    Args:
      blocks: (K + 1, S, S + 1).
      is_row: (K + 1, S) bool, True for rows that are not zero.
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
            rows = rows.reshape(len(some), number, -1)
            squares = np.linalg.eigvalsh(rows @ rows.transpose(0, 2, 1))
            roots = np.sqrt(np.maximum(squares[:, ::-1], 0))
            values[done : done + len(some), :number] = roots
            done += len(some)
    return values


def _spectrum(values: np.ndarray, rank: int) -> Spectrum:
    if not len(values):
        return Spectrum(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
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
    )


_POSITIONS = 8192  # per call, so that one program serves runs of all lengths
_rows_in_use = jax.jit(lambda blocks: (blocks != 0).any(axis=2))
_penalty = jax.jit(
    comparator.penalty, static_argnums=1, static_argnames=("variant", "rank")
)


def _squares(table: jax.Array, num_columns: int | None = None) -> float:
    """Return the sum of squares of the first columns; rows are added up in double."""
    return float(np.asarray(_row_squares(table, num_columns), np.float64).sum())


@functools.partial(jax.jit, static_argnums=1)
def _row_squares(table: jax.Array, num_columns: int | None) -> jax.Array:
    kept = table[:, :num_columns]
    return (kept * kept).reshape(len(table), -1).sum(axis=1)


def run_certificate(
    traces: Sequence[Any],
    orders: Sequence[jax.Array],
    corpus: streams.sentences.Stream,
    params: Any,
    ended: Conjugate,
    *,
    step_size: float = 1.0,
    is_best_multiple: bool = False,
) -> RunCertificate:
    """Certify a whole run against a fixed model.

    Args:
      traces: Trace of each pass, with `predicted` recorded.
      orders: Sentences of the rounds of each pass (`loops.pass_order`).
      corpus: Sentences of the run.
      params: U.
      ended: Value of `conjugate` for the last state.
      step_size: C.
      is_best_multiple: Replace U by the multiple of U with the least bound on the
        learner's loss, the best one in hindsight.
    """
    if any(trace.predicted is None for trace in traces):
        raise InputError(
            "A certificate needs the predictions of the run: build the learner with "
            "record=('predicted',)."
        )
    is_mistake = np.concatenate([trace.is_mistake for trace in traces])
    margin = _on_mistakes([trace.margin for trace in traces], is_mistake)
    comparator_margin = np.zeros(len(is_mistake))
    comparator_margin[is_mistake] = _margins_of(
        params,
        corpus,
        np.concatenate([np.asarray(order) for order in orders])[is_mistake],
        np.concatenate([trace.predicted for trace in traces])[is_mistake],
    )
    penalty = float(
        _penalty(params, corpus.space, variant=ended.variant, rank=ended.rank)
    )
    if is_best_multiple:
        size = best_multiple(comparator_margin[is_mistake], penalty, step_size)
        comparator_margin, penalty = size * comparator_margin, size**2 * penalty
    losses = np.where(is_mistake, np.maximum(1 - comparator_margin, 0), 0)
    with jax.enable_x64(True):
        certified = theory.regret_certificate(
            jnp.asarray(margin),
            jnp.asarray(is_mistake),
            step_size=step_size,
            conjugate=jnp.asarray(ended.value),
            comparator_losses=jnp.asarray(losses),
            comparator_penalty=jnp.asarray(penalty),
            tolerance=None if traces[0].margin.dtype == np.float64 else 1e-4,
        )
        num_mistakes = int(is_mistake.sum())
        best = theory.best_step_size(
            jnp.asarray(float(num_mistakes)),
            jnp.asarray(ended.value / step_size**2),
        )
    best_step = float(best.step_size)
    return RunCertificate(
        num_rounds=len(is_mistake),
        num_mistakes=num_mistakes,
        step_size=step_size,
        loss=float(np.where(is_mistake, np.maximum(1 - margin, 0), 0).sum()),
        comparator_loss=float(losses.sum()),
        comparator_penalty=penalty,
        conjugate=ended.value,
        regret=float(certified.observed),
        certificate=float(certified.bound),
        slack=float(certified.slack),
        holds=bool(certified.holds),
        linear_regret=float((comparator_margin - margin).sum()),
        dual_objective=step_size * num_mistakes - ended.value,
        best_step_size=best_step,
        best_dual_objective=float(best.dual_objective),
        best_dual_bound=penalty + best_step * float(losses.sum()),
        spectrum=ended.spectrum,
    )


def _margins_of(
    params: Any,
    corpus: streams.sentences.Stream,
    order: np.ndarray,
    predicted: np.ndarray,
) -> np.ndarray:
    """Return the comparator's margins of some rounds, as `comparator.margins`.

    A long run has many rounds, each with a few reads of U. The positions of all rounds
    are therefore handled together.
    """
    positions, owner = _differences(corpus, order, predicted)
    chunks = zip(*jax.tree.map(_chunks, positions), strict=True)
    found = [_gaps(params, corpus, mistakes.Position(*some)) for some in chunks]
    gaps = np.concatenate([np.zeros(0), *found])[: len(owner)]
    return np.bincount(owner, weights=gaps, minlength=len(order))


def _chunks(part: np.ndarray) -> np.ndarray:
    """Cut the first axis into runs of `_POSITIONS`; the last is padded with zeros."""
    room = -len(part) % _POSITIONS
    filled = np.pad(part, ((0, room), *((0, 0),) * (part.ndim - 1)))
    return filled.reshape(-1, _POSITIONS, *part.shape[1:])


def _differences(
    corpus: streams.sentences.Stream, order: np.ndarray, predicted: np.ndarray
) -> tuple[mistakes.Position, np.ndarray]:
    """Return the positions where label pairs differ, and the round of each.

    The `ids` of a position hold its token in the stream, not its features.
    """
    starts = np.asarray(corpus.starts)[order][:, None]
    places = np.arange(corpus.window, dtype=np.int32)[None]
    labels = np.stack([np.asarray(corpus.labels)[starts + places], predicted])
    before = np.pad(
        labels[:, :, :-1],
        ((0, 0), (0, 0), (1, 0)),
        constant_values=corpus.space.num_labels,
    )
    differs = (labels[0] != labels[1]) | (before[0] != before[1])
    differs &= places < np.asarray(corpus.lengths)[order][:, None]
    owner, place = np.nonzero(differs)
    parts: tuple[Any, ...] = (
        starts[owner, 0] + place,
        labels[:, owner, place].T,
        before[:, owner, place].T,
        place,
    )
    return mistakes.Position(*[part.astype(np.int32) for part in parts]), owner


@jax.jit
def _gaps(
    params: Any, corpus: streams.sentences.Stream, positions: mistakes.Position
) -> jax.Array:
    positions = positions._replace(ids=corpus.feature_ids[positions.ids])
    return jax.vmap(lambda here: comparator.gap(params, here, corpus.space))(positions)


def _on_mistakes(parts: Sequence[Any], is_mistake: np.ndarray) -> np.ndarray:
    values = np.concatenate([np.asarray(part, np.float64) for part in parts])
    return np.where(is_mistake, values, 0)


def best_multiple(margins: np.ndarray, penalty: float, step_size: float) -> float:
    r"""Return the c that minimises :math:`\sum_t[1 - cm_t]_+ + c^2F^{**}(U)/C`.

    The function is convex and piecewise quadratic in c, with breaks at :math:`1/m_t`.
    Bisection finds where its slope changes sign.

    Args:
      margins: (num_mistakes,) :math:`m_t = \langle U, \Delta\Phi^t\rangle`.
      penalty: :math:`F^{**}(U)`.
      step_size: C.
    """
    if penalty <= 0:
        return 0.0
    curvature = 2 * penalty / step_size

    def slope(size: float) -> float:
        return curvature * size - float(margins[size * margins < 1].sum())

    low, high = 0.0, max(float(np.abs(margins).sum()) / curvature, 1e-300)
    for _ in range(200):  # bisection: halves the interval each time
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return high
