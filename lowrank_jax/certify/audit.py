r"""Does a trace belong to this state, these data and this order of rounds?

A certificate is worth what it is computed from. The rounds of a run are re-derived from
its predictions: the number of wrong labels of each round, and the dual
:math:`\Theta_N - \Theta_0 = C\sum_t\Delta\Phi^t`, entry by entry. If the dual of the
state is this sum, then DR-B4 holds for the certified rounds, whatever the map was. Each
round also recorded a hash of its sentence. So data that differ in any sentence of the
run are noticed, even where the learner made no mistake.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import streams
from lowrank_jax.certify import spectrum
from lowrank_jax.checks import InputError
from lowrank_jax.online import mistakes
from lowrank_jax.theory.bol.regret import has_step_size
from lowrank_jax.types import Stream, fingerprints

__all__ = [
    "Rounds",
    "check",
    "check_examples",
    "check_first_pass",
    "check_labels",
    "differences",
    "joined",
    "wide",
]
__dir__ = __all__.copy


class Rounds(NamedTuple):
    """The rounds of a run, on the host in double precision."""

    order: np.ndarray  # (num_rounds,)  sentence of each round
    is_mistake: np.ndarray  # (num_rounds,)
    margin: np.ndarray  # (num_rounds,)  <W, dPhi>, 0 without a mistake
    step_size: float  # C
    tolerance: float | None  # allowance for rounding, for `theory.at_most`


def joined(trace: Any) -> Any:
    """Return one trace on the host, from one trace or from the traces of passes."""
    if hasattr(trace, "_fields"):
        return jax.tree.map(np.asarray, trace)
    return jax.tree.map(lambda *parts: np.concatenate(parts), *trace)


def wide(trace: Any) -> Any:
    """Return a trace on the host with its numbers in double precision."""
    return jax.tree.map(
        lambda part: part.astype(np.float64) if part.dtype.kind == "f" else part, trace
    )


def check(
    state: Any, trace: Any, corpus: streams.sentences.Stream, order: np.ndarray
) -> Rounds:
    """Raise `InputError` unless state, trace, corpus and order are of one run.

    Args:
      state: State after the run.
      trace: Trace of all rounds, as `joined` returns it.
      corpus: Sentences of the run.
      order: (num_rounds,) sentence of each round.
    """
    theta = spectrum.dual(state)
    if getattr(trace, "predicted", None) is None:
        raise InputError(
            "A certificate needs the predictions of the run: build the learner with "
            "record=('predicted',)."
        )
    if not hasattr(trace, "bregman"):
        raise InputError(
            "The trace is of wide rounds (`batch_size`): `certify.wide_regret` "
            "certifies them."
        )
    if state.step_size is None:
        raise InputError(
            "A certificate needs one step size for all rounds, and this state names "
            "none: train with online.bol or online.perceptron."
        )
    if corpus.is_partial or corpus.weights is not None:
        what = "unknown labels" if corpus.is_partial else "weights of sentences"
        raise InputError(
            f"A certificate (DR-B4) is for data without {what}: train without them."
        )
    num_rounds, dtype = len(trace.margin), trace.margin.dtype
    if int(state.num_rounds) != num_rounds:
        raise InputError(
            f"The state has seen {int(state.num_rounds)} rounds where the trace has "
            f"{num_rounds}: give the state after the run, and the traces of all its "
            "passes."
        )
    if len(order) != num_rounds or not _is_index(order, corpus.num_examples):
        raise InputError(
            f"`order` must hold {num_rounds} indices of {corpus.num_examples} "
            f"sentences, one per round of the trace, got {len(order)}."
        )
    step = float(state.step_size)
    _check_step_size(state, trace, step, _tolerance(trace))
    spectrum.check_start(state, _tolerance(trace))
    check_labels(trace, corpus, order)
    check_examples(trace, corpus, order)
    moved = np.flatnonzero(trace.is_mistake)
    counts = _counts(corpus, order[moved], trace.predicted[moved])
    labels = corpus.space.num_labels
    shape = (corpus.space.num_features, labels, labels + 1)
    largest = None
    if corpus.values is not None:
        largest = float(np.abs(np.asarray(corpus.values)).max(initial=1e-300))
    for table, (index, count, touches) in zip(theta, counts, strict=True):
        _check_dual(table, shape, index, count, touches, step, dtype, largest)
    margin = np.where(trace.is_mistake, trace.margin, 0).astype(np.float64)
    known = None if dtype == np.float64 else 1e-4
    return Rounds(np.asarray(order), trace.is_mistake, margin, step, known)


def _is_index(order: np.ndarray, size: int) -> bool:
    return order.ndim == 1 and bool(((order >= 0) & (order < size)).all())


def _check_step_size(state: Any, trace: Any, step: float, tolerance: float) -> None:
    """Check C: on a mistake, Delta_t + B_t = C (1 - <W, dPhi>), and F* of the end."""
    given = wide(trace)
    named = getattr(trace, "step_size", None)
    if named is None:
        raise InputError(
            "A certificate needs the step size of each round, `Info.step_size`, and "
            "this trace has none: train again."
        )
    if (named != step).any():
        raise InputError(
            f"The state says step_size={step:g} where the rounds of the trace moved by "
            f"{named[named != step][0]:g}: give state and trace of one run."
        )
    _check_increments(given, step, tolerance)
    ended = float(state.conjugate)
    last = float(trace.conjugate[-1]) if len(trace.conjugate) else ended
    if abs(last - ended) > tolerance * max(abs(ended), abs(last)):
        raise InputError(
            f"The conjugate of the state is {ended:g} where the trace ends with "
            f"{last:g}: give state and trace of one run."
        )


def _check_increments(trace: Any, step: Any, tolerance: float) -> None:
    """Check Delta_t + B_t = C (1 - <W, dPhi>) on a mistake."""
    with jax.enable_x64(True):
        is_own = bool(has_step_size(trace, step, tolerance=tolerance))
    if not is_own:
        raise InputError(
            "The increments of the trace are not C (1 - <W, dPhi>) on a mistake: give "
            "the trace of one run, of a learner without `label_cost`."
        )


def _tolerance(trace: Any) -> float:
    return 1e-8 if trace.margin.dtype == np.float64 else 1e-4


def check_labels(
    trace: Any, corpus: streams.sentences.Stream, order: np.ndarray
) -> None:
    """Raise `InputError` unless each round has its wrong labels, counted again."""
    predicted = np.asarray(trace.predicted)
    if predicted.shape[1] != corpus.window:
        raise InputError(
            f"The trace has predictions of {predicted.shape[1]} labels per sentence "
            f"where the windows of the data have {corpus.window}: give the data of the "
            "run."
        )
    starts, lengths = (
        np.asarray(part)[order] for part in (corpus.starts, corpus.lengths)
    )
    places = np.arange(corpus.window)
    labels = np.asarray(corpus.labels)[starts[:, None] + places]
    is_wrong = (labels != predicted) & (places < lengths[:, None])
    num_wrong = is_wrong.sum(axis=1)
    is_other = (num_wrong != trace.num_wrong) | ((num_wrong > 0) != trace.is_mistake)
    if is_other.any():
        first = int(is_other.argmax())
        raise InputError(
            f"Round {first + 1} of the trace has {int(trace.num_wrong[first])} wrong "
            f"labels where sentence {int(order[first])} of these data has "
            f"{int(num_wrong[first])}: give the data and the key of the run."
        )


def check_examples(trace: Any, stream: Stream, order: np.ndarray) -> None:
    """Raise `InputError` unless each round of the trace met its example of a stream."""
    is_other = np.asarray(fingerprints(stream))[order] != _recorded(trace)
    if is_other.any():
        first = int(is_other.argmax())
        raise InputError(
            f"Round {first + 1} of the trace met another example than number "
            f"{int(order[first])} of these data: give the data and the key of the run."
        )


def check_first_pass(trace: Any, stream: streams.sentences.Stream) -> None:
    """Raise `InputError` unless a run begins with its first pass over a stream.

    The first rounds met each example once, they began at the start, and each predicted
    the path of the greatest score.
    """
    if stream.is_partial or not hasattr(trace, "bregman"):
        raise InputError(
            "The held-out loss (DR-B13) is certified for online.bol and "
            "online.perceptron in rounds of one sentence (`batch_size` 1), all labels "
            "known."
        )
    recorded, number = _recorded(trace), stream.num_examples
    first, met = np.sort(recorded[:number]), np.sort(np.asarray(fingerprints(stream)))
    if len(first) < number or (first != met).any():
        raise InputError(
            f"The first {number} rounds of the trace did not meet each of the {number} "
            "examples of these data once: give the data of the run, and the trace from "
            "its first round."
        )
    given, tolerance = wide(trace), _tolerance(trace)
    growth = given.bregman[0] + given.step_size[0] * given.margin[0]
    before = given.conjugate[0] - growth
    if abs(before) > tolerance * (abs(given.conjugate[0]) + abs(given.bregman[0])):
        raise InputError(
            f"The conjugate before the first round of the trace is {before:g}, not 0: "
            "give the trace from the first round of the run."
        )
    _check_increments(given, given.step_size, tolerance)


def _recorded(trace: Any) -> np.ndarray:
    """Return the hashes that the rounds recorded of their examples."""
    if getattr(trace, "fingerprint", None) is None:
        raise InputError(
            "A certificate needs to know the examples of the run: build the learner "
            "with record=('predicted',)."
        )
    return np.asarray(trace.fingerprint)


def differences(
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
    here = mistakes.Position(*[part.astype(np.int32) for part in parts])
    if corpus.values is not None:
        here = here._replace(values=np.asarray(corpus.values)[here.ids])
    return here, owner


_Counted = tuple[tuple[np.ndarray, ...], np.ndarray, np.ndarray]


def _counts(
    corpus: streams.sentences.Stream, order: np.ndarray, predicted: np.ndarray
) -> list[_Counted]:
    """Return the sum of dPhi over some rounds, for each part of the dual.

    A part is the index of its entries, their sums, and how often each was touched.
    """
    space = corpus.space
    here, _ = differences(corpus, order, predicted)
    ids = np.asarray(corpus.feature_ids)[here.ids]
    values = np.ones(ids.shape) if here.values is None else np.asarray(here.values)
    shape = (space.num_features, space.num_labels, space.num_labels + 1)
    pairs: list[tuple[Any, ...]] = []
    for columns, has_previous in ((space.zero_order, False), (space.first_order, True)):
        rows = np.repeat(ids[:, list(columns)][:, None], 2, axis=1)  # (n, 2, F)
        sides = [here.labels, here.previous] if has_previous else [here.labels]
        parts = [
            rows,
            *[np.broadcast_to(side[:, :, None], rows.shape) for side in sides],
        ]
        each = np.repeat(values[:, list(columns)][:, None], 2, axis=1)
        inside = rows < space.num_features
        pairs.append((parts, shape[: len(parts)], inside, each))
    if space.has_transitions:
        inside = np.ones(here.labels.shape, bool)
        ones = np.ones(inside.shape)
        pairs.append(([here.labels, here.previous], shape[1:], inside, ones))
    else:
        nothing = here.labels[:0]
        empty = nothing.astype(float)
        pairs.append(([nothing, nothing], shape[1:], nothing > 0, empty))
    return [_sums(*given) for given in pairs]


def _sums(
    parts: list[np.ndarray],
    shape: tuple[int, ...],
    is_counted: np.ndarray,
    values: np.ndarray,
) -> _Counted:
    signs = values.astype(np.float64)
    signs[:, 1] *= -1
    places = [part[is_counted].astype(np.int64) for part in parts]
    flat = np.ravel_multi_index(places, shape)
    entries, owner, touches = np.unique(flat, return_inverse=True, return_counts=True)
    sums = np.bincount(owner, weights=signs[is_counted], minlength=len(entries))
    return np.unravel_index(entries, shape), sums, touches


_num_above = jax.jit(
    lambda table, size: (jnp.abs(table) > size.astype(table.dtype)).sum(dtype=jnp.int32)
)


def _check_dual(
    table: jax.Array | spectrum.Listed | None,
    shape: tuple[int, ...],
    index: tuple[np.ndarray, ...],
    count: np.ndarray,
    touches: np.ndarray,
    step: float,
    dtype: np.dtype,
    largest: float | None,
) -> None:
    """Compare a part of the dual with C times the sum of dPhi, and its size with it.

    The largest value of a feature is the unit of the rounding; None means 1 each.
    """
    if table is None and not len(count):
        return
    if table is not None:
        every: Any = table
        if isinstance(table, spectrum.Listed):
            found, every = table.at(np.ravel_multi_index(index, shape)), table.values
        else:
            at = tuple(jnp.asarray(part, jnp.int32) for part in index)
            found = np.asarray(table.at[at].get(mode="fill", fill_value=jnp.nan))
        # Rounding of as many additions of C as the entry had.
        eps = float(np.finfo(dtype).eps)
        unit = max(1.0, largest or 1.0)
        room = 1e-3 + eps * touches * (1 + np.abs(count) + np.sqrt(touches))
        is_same = np.abs(found.astype(np.float64) - step * count) <= step * unit * room
        # What no round touched is 0. Of whole numbers the half tells 0 from 1.
        least = np.float32(step / 2 if largest is None else 0)
        if (
            is_same.all()
            and int(_num_above(every, least)) == (np.abs(found) > least).sum()
        ):
            return
    raise InputError(
        "The rounds of the trace do not add up to the dual of the state: give state, "
        "trace, data and key of one run."
    )
