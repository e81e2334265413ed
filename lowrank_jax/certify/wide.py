r"""Certificate of a run in wide rounds on its own data (DR-B10).

The trace holds the step, the margin and the predicted labels of each sentence. The dual
of the state is compared with :math:`\sum_i\eta_i\Delta\Phi_i`, entry by entry, and
:math:`F^*(\Theta_N)` comes from singular values. The certificate does not depend on the
number of devices of the run.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import theory
from lowrank_jax.certify import audit, comparator, runs, spectrum
from lowrank_jax.certify.spectrum import Spectrum, conjugate
from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Space
from lowrank_jax.online.wide import Info
from lowrank_jax.streams import sentences

__all__ = ["WideCertificate", "wide_regret"]
__dir__ = __all__.copy


class WideCertificate(NamedTuple):
    """What is certified of a run. Sums run over sentences, weighed by their step."""

    num_rounds: int  # sentences
    num_mistakes: int
    loss: float  # loss of the learner
    comparator_loss: float  # loss of U
    comparator_penalty: float  # F**(U)
    conjugate: float  # F*(Theta_N), exact
    regret: float  # loss - comparator_loss
    certificate: float  # F**(U) + sum of B_t  (DR-B10)
    slack: float  # certificate - regret
    holds: bool
    spectrum: Spectrum | None


def wide_regret(
    state: Any, trace: Any, data: runs.Data, params: Any, *, key: jax.Array
) -> WideCertificate:
    r"""Certify a finished run in wide rounds against a fixed model (DR-B10).

    Args:
      state: State after the run.
      trace: Trace of all passes (`online.wide.Info`), or the traces of the passes, with
        `predicted`.
      data: Sentences of the run.
      params: U, parameters of a linear or bilinear chain model.
      key: Key that the run was trained with (`loops.train`).
    """
    corpus, trace = runs.stream_of(data), audit.joined(trace)
    if not isinstance(trace, Info) or trace.predicted is None:
        raise InputError(
            "A certificate of wide rounds needs their trace with predictions: build "
            "the learner with record=('predicted',) and give the trace of the run."
        )
    if int(state.num_rounds) != len(trace.margin):
        raise InputError(
            f"The state has seen {int(state.num_rounds)} sentences where the trace has "
            f"{len(trace.margin)}: give the state after the run, and the traces of all "
            "its passes."
        )
    order = runs.order_of(key, len(trace.margin), corpus.num_examples)
    moved = np.flatnonzero(trace.is_mistake)
    _check(state, trace, corpus, order, moved)
    comparator.check(params, corpus.space)
    ended = conjugate(state)
    margins = np.zeros(len(order))
    predicted = np.asarray(trace.predicted)
    margins[moved] = runs.margins_of(params, corpus, order[moved], predicted[moved])
    penalty = runs.penalty_of(params, corpus.space, ended)
    step = np.asarray(trace.step_size, np.float64)
    margin = np.asarray(trace.margin, np.float64)
    losses = np.maximum(1 - margins, 0)
    with jax.enable_x64(True):
        found = theory.wide_certificate(
            jnp.asarray(margin),
            jnp.asarray(trace.is_mistake),
            step_size=jnp.asarray(step),
            conjugate=jnp.asarray(ended.value),
            comparator_losses=jnp.asarray(losses),
            comparator_penalty=jnp.asarray(penalty),
            tolerance=None if trace.margin.dtype == np.float64 else 1e-4,
        )
    weight = np.where(trace.is_mistake, step, 0)
    return WideCertificate(
        num_rounds=len(order),
        num_mistakes=len(moved),
        loss=float((weight * np.maximum(1 - margin, 0)).sum()),
        comparator_loss=float((weight * losses).sum()),
        comparator_penalty=penalty,
        conjugate=ended.value,
        regret=float(found.observed),
        certificate=float(found.bound),
        slack=float(found.slack),
        holds=bool(found.holds),
        spectrum=ended.spectrum,
    )


def _check(
    state: Any,
    trace: Info,
    corpus: sentences.Stream,
    order: np.ndarray,
    moved: np.ndarray,
) -> None:
    """Raise `InputError` unless the trace, the data and the state are of one run."""
    eps = float(np.finfo(trace.margin.dtype).eps)
    spectrum.check_start(state, 1e-8 + 1000 * eps)
    audit.check_labels(trace, corpus, order)
    audit.check_examples(trace, corpus, order)
    predicted = np.asarray(trace.predicted)
    here, owner = audit.differences(corpus, order[moved], predicted[moved])
    step = np.asarray(trace.step_size, np.float64)[moved][owner]
    for table, (index, total, size) in zip(
        spectrum.dual(state), _sums(corpus, here, step), strict=True
    ):
        if table is None:
            continue
        if isinstance(table, spectrum.Listed):
            found, all_of = table.at(index), table.values
        else:
            # The last row of a table by feature is no feature.
            all_of = np.asarray(table).reshape(-1)
            found = all_of[index]
        room = (1e-6 + 64 * eps) * size
        others = (np.asarray(all_of, np.float64) ** 2).sum()
        others -= (found.astype(np.float64) ** 2).sum()
        is_whole = others <= 1e-6 * (size**2).sum()
        if not (np.abs(found - total) <= room).all() or not is_whole:
            raise InputError(
                "The sentences of the trace do not add up to the dual of the state: "
                "give state, trace, data and key of one run."
            )


def _sums(
    corpus: sentences.Stream, here: Any, step: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return place, sum of eta dPhi and sum of sizes, for each part of the dual."""
    space: Space = corpus.space
    ids = np.asarray(corpus.feature_ids)[here.ids]
    values = np.ones(ids.shape)
    if corpus.values is not None:
        values = np.asarray(corpus.values, np.float64)[here.ids]
    labels, parts = space.num_labels, []
    pair = here.labels.astype(np.int64) * (labels + 1) + here.previous
    for columns, code, width in (
        (space.zero_order, here.labels.astype(np.int64), labels),
        (space.first_order, pair, labels * (labels + 1)),
    ):
        own = ids[:, list(columns)].astype(np.int64)
        place = own[:, None] * width + code[:, :, None]  # (n, 2, F)
        weight = (step[:, None] * values[:, list(columns)])[:, None]
        weight = weight * np.array([1.0, -1.0])[None, :, None]
        is_feature = np.broadcast_to((own < space.num_features)[:, None], place.shape)
        weight = np.broadcast_to(weight, place.shape)
        parts.append((place[is_feature], weight[is_feature]))
    if space.has_transitions:
        weight = step[:, None] * np.array([[1.0, -1.0]])
        parts.append((pair.ravel(), weight.ravel()))
    else:
        parts.append((np.zeros(0, np.int64), np.zeros(0)))
    found = []
    for place, weight in parts:
        entry, owner = np.unique(place, return_inverse=True)
        found.append(
            (
                entry,
                np.bincount(owner, weights=weight, minlength=len(entry)),
                np.bincount(owner, weights=np.abs(weight), minlength=len(entry)),
            )
        )
    return found
