r"""The certificate chain of a run of `online.mirror_descent`, round by round.

.. math:: \text{regret} \le \frac1C\Big(F^{**}(U) + F^*(0) + \sum_t B_t\Big)
   \le \frac1C\Big(F^{**}(U) + F^*(0)\Big) + \frac C2\sum_t L\|\Delta\Phi^t\|^2

The first bound is DR-B4, for any conjugate and any weights. The second needs the
smoothness of the map, and weights that are its gradient.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import streams
from lowrank_jax.certify import comparator as of_sentences
from lowrank_jax.checks import InputError
from lowrank_jax.linalg.mirror import MirrorMap, frobenius
from lowrank_jax.models import linear
from lowrank_jax.online import mirror_descent
from lowrank_jax.theory.bol.regret import AlongRounds, along_rounds
from lowrank_jax.types import Stream

__all__ = ["chain", "margins", "penalty"]


def chain(
    map: MirrorMap,
    state: mirror_descent.State,
    trace: mirror_descent.Info,
    stream: Stream,
    order: jax.Array,
    comparator: jax.Array | linear.Params,
) -> AlongRounds:
    """Return regret against U, certificate and bound from smoothness, up to each round.

    The map is compared with the last state and the order with the trace, so that other
    settings than the run had are an error. `theory.bol.regret.within_certificate`
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
    given = margins(comparator, stream, order, trace)
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
    has_bound = trace.curvature is not None
    found = along_rounds(
        jnp.asarray(trace.margin),
        jnp.asarray(trace.is_mistake),
        step_size=state.step_size,
        conjugate=jnp.asarray(trace.conjugate) - start,
        comparator_losses=jax.nn.relu(1 - given),
        comparator_penalty=penalty(map, comparator) + start,
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
            f"Round {place} of the trace has {reported[place]} wrong labels, and "
            f"example {int(order[place])} of `stream` has {wrong[place]}: give the "
            "data and the order of the run."
        )
    return found


def penalty(map: MirrorMap, comparator: jax.Array | linear.Params) -> jax.Array:
    """Return F** of U; for sentences the map acts on each first-order block."""
    if map.biconjugate is None:
        raise InputError(
            "`map` has no biconjugate, and a certificate against U needs one: build it "
            "with MirrorMap(..., biconjugate=...)."
        )
    if not isinstance(comparator, linear.Params):
        return map.biconjugate(jnp.asarray(comparator))
    assert comparator.first is not None
    blocks = jax.vmap(map.biconjugate)(comparator.first[:-1]).sum()
    return blocks + _half_squares(comparator)


def _conjugate(map: MirrorMap, state: mirror_descent.State) -> jax.Array:
    if not isinstance(state.params, linear.Params):
        return map.conjugate(state.theta)
    blocks = jax.vmap(map.conjugate)(state.theta[:-1]).sum()
    return blocks + _half_squares(state.params)


def _half_squares(params: Any) -> jax.Array:
    half = frobenius().conjugate
    parts = [half(p) for p in (params.zero, params.transitions) if p is not None]
    return sum(parts[1:], start=parts[0]) if parts else jnp.zeros(())
