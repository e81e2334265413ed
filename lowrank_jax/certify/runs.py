r"""Certificate of a run on its own data: its regret, the bound on it, and the spectrum.

If the learner records its predictions, the trace is enough to compute the regret
against any fixed model U. The bound (DR-B4) uses only numbers that the update computes
in any case. At the end, :math:`F^*(\Theta_N)` is computed exactly from the singular
values of the blocks that the run has touched. Sums are taken in double precision. Their
terms, and the tolerance of `holds`, have the precision of the run.
"""

from typing import Any, Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import checks, loops, streams, theory
from lowrank_jax.certify import audit, comparator
from lowrank_jax.certify.spectrum import Conjugate, Spectrum, conjugate
from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Sequences, Space
from lowrank_jax.online import bol, mistakes, perceptron
from lowrank_jax.theory.bol.regret import AlongRounds, along_rounds
from lowrank_jax.types import Info, Learner, State

__all__ = [
    "Certified",
    "Data",
    "RunCertificate",
    "along",
    "best_multiple",
    "margins_of",
    "order_of",
    "penalty_of",
    "regret",
    "run",
    "stream_of",
]
__dir__ = __all__.copy

Data = streams.sentences.Stream | Sequences


class RunCertificate(NamedTuple):
    """What is certified of a run. Sums run over its rounds with a mistake."""

    num_rounds: int
    num_mistakes: int
    step_size: float  # C
    loss: float  # loss of the learner
    comparator_loss: float  # loss of U
    comparator_penalty: float  # F**(U)
    conjugate: float  # F*(Theta_N), exact
    regret: float  # loss - comparator_loss
    certificate: float  # (F**(U) + sum of B_t) / C  (DR-B4, DR-B11)
    slack: float  # certificate - regret
    holds: bool
    linear_regret: float  # sum of <U - W, dPhi>: between regret and certificate
    dual_objective: float  # C M - F*(Theta_N)  (BOL-N1)
    best_step_size: float  # C* in hindsight (DR-B8)
    best_dual_objective: float  # M^2 / 4f
    best_dual_bound: float  # F**(U) + C* times the comparator's loss: weak duality
    spectrum: Spectrum | None


class Certified(NamedTuple, Generic[State, Info]):
    """A run and its certificate."""

    state: State  # after the last pass
    trace: Info  # `Info`, stacked over all rounds, on the host
    params: Any  # U, the comparator
    certificate: RunCertificate


def run(
    learner: Learner[State, Info, Any],
    data: Data,
    *,
    key: jax.Array,
    num_passes: int,
    comparator: Any = None,
    hindsight: bool = False,
) -> Certified[State, Info]:
    """Train, and certify the run against a fixed model.

    Args:
      learner: Learner of `online.bol` or `online.perceptron` that records
        ``"predicted"``.
      data: Sentences.
      key: Random key of the start and of the shuffles.
      num_passes: Number of passes.
      comparator: U, parameters of a linear or bilinear chain model. None takes the
        model that the run itself ends with.
      hindsight: As in `regret`.
    """
    checks.random_key(key)
    corpus = stream_of(data)
    start = jax.eval_shape(learner.init, key, corpus.example(0))
    info = jax.eval_shape(learner.update, start, corpus.example(0))[1]
    if getattr(info, "predicted", None) is None:
        raise InputError(
            "A certificate needs the predictions of the run: build the learner with "
            "record=('predicted',)."
        )
    state, trace = loops.train(learner, corpus, key=key, num_passes=num_passes)
    params = comparator
    if params is None:
        module = perceptron if isinstance(state, perceptron.State) else bol
        params = jax.jit(module.final_params)(state)
    found = regret(state, trace, corpus, params, key=key, hindsight=hindsight)
    return Certified(state, trace, params, found)


def regret(
    state: Any,
    trace: Any,
    data: Data,
    comparator: Any,
    *,
    key: jax.Array | None = None,
    order: Any = None,
    hindsight: bool = False,
) -> RunCertificate:
    r"""Certify a finished run against a fixed model (DR-B4).

    Step size, variant, rank and start come from the state. State, trace, data and order
    must be of one run. The dual of the state is compared with the sum of the rounds, so
    a wrong one is an error, never another certificate.

    Args:
      state: State after the run.
      trace: Trace of all rounds, or the traces of the passes, with `predicted`.
      data: Sentences of the run.
      comparator: U.
      key: Key that the run was trained with (`loops.train`).
      order: (num_rounds,) sentence of each round, for a run of one's own in place of
        `key`.
      hindsight: If true, U is replaced by the multiple of U with the least bound on the
        learner's loss.
    """
    given = _compared(state, trace, data, comparator, key, order, hindsight)
    rounds, ended, step_size = given.rounds, given.ended, given.rounds.step_size
    is_mistake, margin, losses = rounds.is_mistake, rounds.margin, given.losses
    with jax.enable_x64(True):
        certified = theory.regret_certificate(
            given.trace,
            step_size=step_size,
            conjugate=jnp.asarray(ended.value),
            comparator_losses=jnp.asarray(losses),
            comparator_penalty=jnp.asarray(given.penalty),
            tolerance=rounds.tolerance,
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
        comparator_penalty=given.penalty,
        conjugate=ended.value,
        regret=float(certified.observed),
        certificate=float(certified.bound),
        slack=float(certified.slack),
        holds=bool(certified.holds),
        linear_regret=float((given.margins - margin).sum()),
        dual_objective=step_size * num_mistakes - ended.value,
        best_step_size=best_step,
        best_dual_objective=float(best.dual_objective),
        best_dual_bound=given.penalty + best_step * float(losses.sum()),
        spectrum=ended.spectrum,
    )


def along(
    state: Any,
    trace: Any,
    data: Data,
    comparator: Any,
    *,
    key: jax.Array | None = None,
    order: Any = None,
    hindsight: bool = False,
) -> AlongRounds:
    r"""Return regret, certificate and bounds up to each round, in double precision.

    Each is at most the next: regret, certificate (DR-B4), tight bound (DR-B3), and the
    same sum with the paper's constant :math:`2l` in place of 1/2 (BOL-P4). The last two
    are infinite unless the learner records ``"curvature"``. They need a converged map,
    `num_power_steps` of 32 or so: the running conjugate of fewer steps is too small.

    Args:
      state: State after the run.
      trace: Trace of all rounds, or the traces of the passes, with `predicted`.
      data: Sentences of the run.
      comparator: U.
      key: Key that the run was trained with.
      order: (num_rounds,) sentence of each round, in place of `key`.
      hindsight: As in `regret`.
    """
    given = _compared(state, trace, data, comparator, key, order, hindsight)
    rounds, ended = given.rounds, given.ended
    values = given.trace.conjugate.copy()
    values[-1] = max(values[-1], ended.value)  # exact at the end
    space = stream_of(data).space
    is_bilinear = ended.variant != "sp"
    curvature = given.trace.curvature
    with jax.enable_x64(True):
        found = along_rounds(
            given.trace,
            step_size=rounds.step_size,
            conjugate=jnp.asarray(values),
            comparator_losses=jnp.asarray(given.losses),
            comparator_penalty=given.penalty,
            squared_norm=None if curvature is None else jnp.asarray(curvature),
            ratio=None if curvature is None else jnp.zeros(len(values)),
            num_values=space.num_labels * space.num_features if is_bilinear else 1,
            tolerance=rounds.tolerance,
        )
    return jax.device_get(found)


class _Compared(NamedTuple):
    """A run that was checked, and what U does in its rounds."""

    trace: Any  # on the host, in double precision
    rounds: audit.Rounds
    ended: Conjugate
    margins: np.ndarray  # (num_rounds,)  <U, dPhi>
    losses: np.ndarray  # (num_rounds,)  [1 - <U, dPhi>]_+ on a mistake
    penalty: float  # F**(U)


def _compared(
    state: Any,
    trace: Any,
    data: Data,
    params: Any,
    key: jax.Array | None,
    order: Any,
    hindsight: bool,
) -> _Compared:
    corpus, trace = stream_of(data), audit.joined(trace)
    if (key is None) == (order is None):
        raise InputError("Give `key` or `order`, and not both: it orders the rounds.")
    if key is not None:
        order = order_of(key, len(trace.margin), corpus.num_examples)
    rounds = audit.check(state, trace, corpus, np.asarray(order))
    comparator.check(params, corpus.space)
    ended, moved = conjugate(state), rounds.is_mistake
    margins = np.zeros(len(moved))
    margins[moved] = margins_of(
        params, corpus, rounds.order[moved], trace.predicted[moved]
    )
    penalty = penalty_of(params, corpus.space, ended)
    if hindsight and ended.start:
        raise InputError(
            "The best multiple of a model (hindsight) is for runs from zero, and this "
            f"run has start={ended.start:g}; compare with the model itself."
        )
    if hindsight:
        size = best_multiple(margins[moved], penalty, rounds.step_size)
        margins, penalty = size * margins, size**2 * penalty
    losses = np.where(moved, np.maximum(1 - margins, 0), 0)
    return _Compared(audit.wide(trace), rounds, ended, margins, losses, penalty)


def stream_of(data: Data) -> streams.sentences.Stream:
    """Return the sentences on the device."""
    if isinstance(data, streams.sentences.Stream):
        return data
    return streams.sentences.stream(data)


def order_of(key: jax.Array, num_rounds: int, num_examples: int) -> np.ndarray:
    """Return the sentence of each round of a run with this key, the last pass cut."""
    num_passes = -(-num_rounds // num_examples)
    orders = [loops.pass_order(key, index, num_examples) for index in range(num_passes)]
    return np.concatenate([np.zeros(0, int), *orders])[:num_rounds].astype(int)


_POSITIONS = 8192  # per call, so that one program serves runs of all lengths
_penalty = jax.jit(
    comparator.penalty, static_argnums=1, static_argnames=("variant", "rank", "start")
)


def penalty_of(params: Any, space: Space, ended: Conjugate) -> float:
    """Return F**(U) for the mirror map of a run."""
    given = {"variant": ended.variant, "rank": ended.rank, "start": ended.start}
    return float(_penalty(params, space, **given))


def margins_of(
    params: Any,
    corpus: streams.sentences.Stream,
    order: np.ndarray,
    predicted: np.ndarray,
) -> np.ndarray:
    """Return the comparator's margins of some rounds, as `comparator.margins`.

    A long run has many rounds, each with a few reads of U. The positions of all rounds
    are therefore handled together.
    """
    positions, owner = audit.differences(corpus, order, predicted)
    leaves, tree = jax.tree.flatten(positions)  # without values there is one leaf less
    chunks = zip(*map(_chunks, leaves), strict=True)
    found = [_gaps(params, corpus, jax.tree.unflatten(tree, some)) for some in chunks]
    gaps = np.concatenate([np.zeros(0), *found])[: len(owner)]
    return np.bincount(owner, weights=gaps, minlength=len(order))


def _chunks(part: np.ndarray) -> np.ndarray:
    """Cut the first axis into runs of `_POSITIONS`; the last is padded with zeros."""
    room = -len(part) % _POSITIONS
    filled = np.pad(part, ((0, room), *((0, 0),) * (part.ndim - 1)))
    return filled.reshape(-1, _POSITIONS, *part.shape[1:])


@jax.jit
def _gaps(
    params: Any, corpus: streams.sentences.Stream, positions: mistakes.Position
) -> jax.Array:
    positions = positions._replace(ids=corpus.feature_ids[positions.ids])
    return jax.vmap(lambda here: comparator.gap(params, here, corpus.space))(positions)


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
