r"""The certificate chain of a run of `online.mirror_descent`, round by round.

.. math:: \text{regret} \le \frac1C\Big(F^{**}(U) + F^*(0) + \sum_t B_t\Big)
   \le \frac1C\Big(F^{**}(U) + F^*(0)\Big) + \frac C2\sum_t L\|\Delta\Phi^t\|^2

The first bound is DR-B4, for any conjugate and any weights. The second needs the
smoothness of the map, and weights that are its gradient.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import streams
from lowrank_jax.certify import audit
from lowrank_jax.certify import comparator as of_sentences
from lowrank_jax.checks import InputError
from lowrank_jax.linalg.mirror import MirrorMap, frobenius, support_spectrum
from lowrank_jax.models import linear
from lowrank_jax.online import mirror_descent, touched
from lowrank_jax.theory.bol.regret import AlongRounds, along_rounds
from lowrank_jax.types import Stream

__all__ = ["chain", "margins", "penalty"]
__dir__ = __all__.copy


def chain(
    map: MirrorMap,
    state: mirror_descent.State,
    trace: mirror_descent.Info,
    stream: Stream,
    order: jax.Array,
    comparator: jax.Array | linear.Params,
) -> AlongRounds:
    """Return regret against U, certificate and bound from smoothness, up to each round.

    The map is compared with the last state, the order and the examples with the trace,
    and the biconjugate with the conjugate, so that other settings than the run had are
    an error. `theory.bol.regret.within_certificate`
    and `certificate_within_tight` judge the result. Without a smoothness, `tight` is
    infinite. `paper` is a bound of BOL alone, and infinite here.

    Args:
      map: Map of the learner.
      state: State after the last round.
      trace: Trace of all rounds, from the start. For sentences with
        ``record=("predicted",)``.
      stream: Examples of the run.
      order: Example of each round, (num_rounds,) int32.
      comparator: U, an array of the dual's shape, or `linear.Params` for sentences.
    """
    if trace.predicted is None:
        raise InputError(
            "A certificate needs the predictions of the run: build the learner with "
            "record=('predicted',)."
        )
    if isinstance(comparator, linear.Params):
        comparator = touched.by_feature(comparator, state.theta.shape[1])
    given = margins(comparator, stream, order, trace)
    _check_dual(state, trace, stream, order)
    dtype = state.conjugate.dtype
    start = _conjugate(map, jax.tree.map(jnp.zeros_like, state))
    ended = float(_conjugate(map, state))
    last = float(np.asarray(trace.conjugate)[-1])
    scale = max(abs(ended), abs(last), abs(float(start)), 1e-30)
    share = 1e-9 if dtype == jnp.float64 else 1e-4
    if not abs(ended - last) <= share * np.sqrt(len(order)) * scale:
        raise InputError(
            f"`map` has F*(Theta) = {ended:g} after the last round, and the trace has "
            f"{last:g}: give the map, the state and the trace of one run."
        )
    charge = penalty(map, comparator)
    _check_penalty(map, comparator, state, share)
    has_bound = trace.curvature is not None
    found = along_rounds(
        trace,
        step_size=state.step_size,
        conjugate=jnp.asarray(trace.conjugate) - start,
        comparator_losses=jax.nn.relu(1 - given),
        comparator_penalty=charge + start,
        squared_norm=jnp.asarray(trace.curvature) if has_bound else None,
        ratio=jnp.zeros_like(given) if has_bound else None,
    )
    return found._replace(paper=jnp.full_like(found.tight, jnp.inf))


def margins(
    comparator: jax.Array | linear.Params,
    stream: Stream,
    order: jax.Array,
    trace: mirror_descent.Info,
) -> jax.Array:
    r"""Return :math:`\langle U, \Delta\Phi^t\rangle` of each round.

    Raises:
      InputError: If the trace is not of these examples in this order.
    """
    predicted = jnp.asarray(trace.predicted)
    order = jnp.asarray(order, jnp.int32)
    if order.shape != predicted.shape[:1]:
        raise InputError(
            f"`order` must have one example for each of the {len(predicted)} rounds of "
            f"the trace, got {order.shape}."
        )
    examples = jax.vmap(stream.example)(order)
    if isinstance(stream, streams.sentences.Stream):
        found = jax.jit(of_sentences.margins)(comparator, stream, order, predicted)
        places = jnp.arange(stream.window, dtype=jnp.int32)[None]
        is_wrong = (examples.labels != predicted) & (places < examples.length[:, None])
        wrong = np.asarray(is_wrong.sum(axis=1))
    else:
        rounds = jnp.arange(len(order), dtype=jnp.int32)
        features = examples.features
        delta = features[rounds, examples.label] - features[rounds, predicted]
        u = jnp.asarray(comparator, delta.dtype)
        found = jnp.tensordot(delta, u, u.ndim)
        wrong = np.asarray(examples.label != predicted).astype(int)
    reported = np.asarray(trace.num_wrong)
    if (wrong != reported).any():
        place = int((wrong != reported).argmax())
        raise InputError(
            f"Round {place + 1} of the trace has {reported[place]} wrong labels, and "
            f"example {int(order[place])} of `stream` has {wrong[place]}: give the "
            "data and the order of the run."
        )
    audit.check_examples(trace, stream, np.asarray(order))
    return found


def _check_dual(
    state: mirror_descent.State,
    trace: mirror_descent.Info,
    stream: Stream,
    order: jax.Array,
) -> None:
    """Raise `InputError` unless the rounds add up to the dual: Theta = C sum dPhi."""
    if isinstance(stream, streams.sentences.Stream):
        audit.check(state, audit.joined(trace), stream, np.asarray(order))
        return

    def one(theta: jax.Array, given: tuple[jax.Array, jax.Array]) -> tuple[Any, None]:
        index, predicted = given
        features, label = stream.example(index)
        delta = (features[label] - features[predicted]).astype(theta.dtype)
        return theta + state.step_size * delta, None

    rounds = jnp.asarray(order, jnp.int32), jnp.asarray(trace.predicted)
    start = jnp.zeros_like(state.theta)
    theta = np.asarray(jax.jit(lambda s, r: jax.lax.scan(one, s, r)[0])(start, rounds))
    room = 1e-4 if theta.dtype == np.float32 else 1e-9
    is_own = np.abs(theta - state.theta).max(initial=0) <= room * np.abs(theta).max(
        initial=0
    )
    if int(state.num_rounds) != len(order) or not is_own:
        raise InputError(
            "The rounds of the trace do not add up to the dual of the state: give "
            "state, trace, examples and order of one run."
        )


def penalty(map: MirrorMap, comparator: jax.Array | linear.Params) -> jax.Array:
    """Return F** of U; for sentences the map acts on each first-order block."""
    if map.biconjugate is None:
        raise InputError(
            "`map` has no biconjugate, and a certificate against U needs one: build it "
            "with MirrorMap(..., biconjugate=...)."
        )
    if not isinstance(comparator, linear.Params):
        return map.biconjugate(jnp.asarray(comparator))
    first = jax.vmap(map.biconjugate)(_blocks(comparator)[:-1]).sum()
    return first + _half_squares(comparator)


def _blocks(params: linear.Params) -> jax.Array:
    """Return the first-order weights of U, a block for each feature."""
    first = touched.by_feature(params).first
    assert first is not None
    return first


_NUM_BLOCKS = 64  # blocks whose penalty is tried: the ones with the largest U


def _check_penalty(
    map: MirrorMap,
    comparator: jax.Array | linear.Params,
    state: mirror_descent.State,
    share: float,
) -> None:
    r"""Raise `InputError` if the biconjugate is too small to be one.

    :math:`F^{**}(U) \ge \langle U, \Theta\rangle - F^*(\Theta)` for every
    :math:`\Theta`, and any one that breaks it is a proof. `_best_gap` seeks one.
    """
    if isinstance(comparator, linear.Params):
        first = _blocks(comparator)
        sizes = np.square(np.asarray(first[:-1])).sum((1, 2))
        places = np.argsort(-sizes)[:_NUM_BLOCKS].astype(np.int32)
        u, theta = first[places], state.theta[places]
    else:
        u, theta = jnp.asarray(comparator)[None], state.theta[None]
    assert map.biconjugate is not None
    u = u.astype(theta.dtype)
    charged = np.asarray(jax.vmap(map.biconjugate)(u))
    search = jax.jit(jax.vmap(functools.partial(_best_gap, map)))
    found, size = (np.asarray(part) for part in search(u, theta))
    excess = found - charged - max(share, 1e-7) * np.maximum(size, np.abs(charged))
    if (excess > 0).any():
        worst = int(excess.argmax())
        raise InputError(
            f"`biconjugate` of U is {charged[worst]:g}, and there is a Theta with "
            f"<U, Theta> - F*(Theta) = {found[worst]:g}: no biconjugate of `conjugate` "
            "is smaller."
        )


def _best_gap(
    map: MirrorMap, u: jax.Array, theta: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return the largest <U, Theta> - F*(Theta) that was met, and the size of F*.

    It begins with U, the dual of the run and, for matrices, U with the spectra that
    attain the support norms; each at its best length. Subgradient ascent follows.
    """

    def gap(at: jax.Array) -> jax.Array:
        value = (u * at).sum() - map.conjugate(at)
        return jnp.where(jnp.isfinite(value), value, -jnp.inf)

    starts = [u, theta]
    if u.ndim == 2:
        left, values, right = jnp.linalg.svd(u, full_matrices=False)
        for rank in range(1, len(values) + 1):
            spectrum = support_spectrum(values, rank)[0]
            starts.append((left * spectrum[None]) @ right)
    grid = jnp.asarray(np.geomspace(1e-3, 1e3, 25), u.dtype)

    def at_best_length(at: jax.Array) -> jax.Array:
        twice = 2 * map.conjugate(at)
        exact = (u * at).sum() / jnp.where(twice > 0, twice, 1)  # F* has degree 2
        sizes = jnp.concatenate([jnp.zeros((1,), u.dtype), grid, exact[None]])
        points = sizes.reshape(-1, *(1,) * at.ndim) * at[None]
        return points[jax.vmap(gap)(points).argmax()]

    first = jax.vmap(at_best_length)(jnp.stack(starts))
    first = first[jax.vmap(gap)(first).argmax()]
    radius = jnp.sqrt((first * first).sum() + (u * u).sum())

    def climb(
        met: tuple[jax.Array, jax.Array], n: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], None]:
        at, best = met
        slope = jnp.nan_to_num(u - map.weights(at))
        length = jnp.sqrt((slope * slope).sum())
        at = at + radius / (n + 2) * slope / jnp.where(length > 0, length, 1)
        return (at, jnp.where(gap(at) > gap(best), at, best)), None

    steps = jnp.arange(200, dtype=u.dtype)
    best = jax.lax.scan(climb, (first, first), steps)[0][1]
    return gap(best), jnp.abs(map.conjugate(best))


def _conjugate(map: MirrorMap, state: mirror_descent.State) -> jax.Array:
    if not isinstance(state.params, linear.Params):
        return map.conjugate(state.theta)
    first = jax.vmap(map.conjugate)(state.theta[:-1]).sum()
    return first + _half_squares(state.params)


def _half_squares(params: Any) -> jax.Array:
    half = frobenius().conjugate
    parts = [half(p) for p in (params.zero, params.transitions) if p is not None]
    return sum(parts[1:], start=parts[0]) if parts else jnp.zeros(())
