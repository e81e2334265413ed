r"""Latent structured SVM by the convex-concave procedure (SMM-N2, SMM-B4).

A word has hidden states :math:`h_1 \ldots h_T` beside its bi-symbols s; weights stand
on a bi-symbol and the states before and after it:

.. math:: S(x, y, h) = \sum_t w(s_t, h_{t-1}, h_t), \qquad h_0 = 0,

.. math:: \min_w\; \frac1m \sum_i \Big(\max_{z,h}\,[S(x^i, z, h) + \ell(y^i, z)]
          - \max_h S(x^i, y^i, h)\Big) + \frac\lambda2 \|w\|^2

is a difference of convex functions. One `update` is one round of the procedure:

1. *impute*: replace :math:`\max_h S(x^i, y^i, h)` by its linearisation at w, the score
   of the best hidden states :math:`h^i` (of their mean where several are best);
2. *solve* the structured SVM that is left by `num_inner_steps` subgradient steps of
   length :math:`c/\sqrt t`, and keep the best point met, the start included.

Step 2 never ends above the value it began with, which is the objective, and the
linearised problem lies above the objective: so the objective never rises.

It ends in a local minimum that depends on the start: `vmap` over keys and keep the
least objective.

Outputs meet only through hidden states. Decoding is thus a recursion over states, with
an inner maximum over the candidates of a letter. Best paths are read off gradients: the
derivative of a maximum in its terms is 1 at the term taken.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.data.bisymbols import Alphabet, Words
from lowrank_jax.types import Learner

__all__ = [
    "PaddedWords",
    "Info",
    "State",
    "best_scores",
    "final_params",
    "learner",
    "padded_words",
    "predict",
]


class PaddedWords(NamedTuple):
    """Words on the device; L positions, C candidates.

    Attributes:
      candidates: (num_words, L, C) int32 ids.
      is_candidate: (num_words, L, C) bool.
      gold: (num_words, L) int32, -1 where not known and beyond the end.
      lengths: (num_words,) int32.
      symbols: (num_symbols,) int32, all ids of the alphabet.
    """

    candidates: jax.Array
    is_candidate: jax.Array
    gold: jax.Array
    lengths: jax.Array
    symbols: jax.Array


class State(NamedTuple):
    """What the next round needs."""

    params: jax.Array  # (num_symbols, num_states, num_states)  w
    num_steps: jax.Array  # () int32, subgradient steps so far


class Info(NamedTuple):
    """What the report needs of this round."""

    objective: jax.Array  # ()  at w, where the round began
    surrogate: jax.Array  # ()  of the linearised problem, where it ended
    loss: jax.Array  # ()  mean of the latent hinges at w
    norm: jax.Array  # ()  of w
    converged: jax.Array  # () bool: the round gained less than the tolerance


def padded_words(alphabet: Alphabet, words: Words) -> PaddedWords:
    """Put words on the device."""
    return PaddedWords(
        jnp.asarray(words.candidates, jnp.int32),
        jnp.asarray(words.mask),
        jnp.asarray(words.gold, jnp.int32),
        jnp.asarray(words.lengths, jnp.int32),
        jnp.arange(alphabet.num_symbols, dtype=jnp.int32),
    )


def best_scores(params: jax.Array, data: PaddedWords, added: jax.Array) -> jax.Array:
    """Return (num_words,), the best score over outputs and hidden states.

    Args:
      params: Weights w.
      data: Words from `padded_words`.
      added: (num_words, L, C), added to the score of each candidate; minus infinity
        forbids it.
    """
    num_words, num_positions, _ = data.candidates.shape
    num_states = params.shape[1]
    least = jnp.asarray(-jnp.inf, params.dtype)
    start = jnp.where(jnp.arange(num_states) == 0, 0, least)  # h_0 = 0

    @jax.checkpoint
    def step(delta: jax.Array, inputs: tuple) -> tuple[jax.Array, None]:
        t, candidates, allowed, more = inputs
        scores = params[candidates] + more[:, :, None, None]  # (m, C, h', h)
        scores = jnp.where(allowed[:, :, None, None], scores, least).max(axis=1)
        new = (delta[:, :, None] + scores).max(axis=1)
        return jnp.where((t < data.lengths)[:, None], new, delta), None

    by_position = (
        jnp.arange(num_positions, dtype=jnp.int32),
        data.candidates.swapaxes(0, 1),
        data.is_candidate.swapaxes(0, 1),
        added.swapaxes(0, 1),
    )
    start = jnp.broadcast_to(start[None, :], (num_words, num_states))
    delta, _ = lax.scan(step, start, by_position)
    return delta.max(axis=1)


def learner(
    *,
    num_states: int = 2,
    strength: float | jax.Array = 1e-3,
    step_size: float | jax.Array = 1.0,
    num_inner_steps: int = 50,
    start_scale: float | jax.Array = 0.01,
    tolerance: float | jax.Array = 1e-4,
    dtype: jnp.dtype = jnp.float32,
) -> Learner:
    r"""Build the pair ``(init, update)``; both are pure.

    Args:
      num_states: Hidden states, at least 1. Static.
      strength: :math:`\lambda`, zero or more. May be traced.
      step_size: Number c of :math:`c/\sqrt t`, positive. May be traced.
      num_inner_steps: Subgradient steps per round, at least 1. Static.
      start_scale: Size of the random weights to start from, positive: states that are
        equal stay equal. May be traced.
      tolerance: `Info.converged` if a round gains less, relative to the objective.
      dtype: Type of the weights.
    """
    checks.whole(num_states=num_states, num_inner_steps=num_inner_steps)
    checks.non_negative(strength=strength, tolerance=tolerance)
    checks.positive(step_size=step_size, start_scale=start_scale)

    def init(key: jax.Array, data: PaddedWords) -> State:
        shape = (data.symbols.shape[0], num_states, num_states)
        noise = jax.random.normal(key, shape, dtype)
        return State(jnp.asarray(start_scale, dtype) * noise, jnp.zeros((), jnp.int32))

    def update(state: State, data: PaddedWords) -> tuple[State, Info]:
        lam = jnp.asarray(strength, dtype)
        c = jnp.asarray(step_size, dtype)
        half = jnp.asarray(0.5, dtype)
        is_true = data.candidates == data.gold[:, :, None]
        cost = jnp.where(is_true, 0, 1).astype(dtype)
        only_true = jnp.where(is_true, 0, -jnp.inf).astype(dtype)
        num_known = (data.gold >= 0).sum(axis=1, dtype=jnp.int32)
        is_known = (num_known == data.lengths).astype(dtype)
        share = is_known / jnp.maximum(is_known.sum(), 1)  # other words teach nothing

        def augmented(w: jax.Array) -> jax.Array:
            return jnp.vdot(share, best_scores(w, data, cost))

        def imputed(w: jax.Array) -> jax.Array:
            scores = best_scores(w, data, only_true)
            return jnp.vdot(share, jnp.where(is_known > 0, scores, 0))

        def ridge(w: jax.Array) -> jax.Array:
            return half * lam * jnp.vdot(w, w)

        true_score, counts = jax.value_and_grad(imputed)(state.params)  # step 1

        def step(carry: tuple, t: jax.Array) -> tuple[tuple, None]:
            w, best, least = carry
            value, gradient = jax.value_and_grad(augmented)(w)
            value = value - jnp.vdot(counts, w) + ridge(w)
            is_better = value < least
            best = jnp.where(is_better, w, best)
            eta = c / jnp.sqrt(t.astype(dtype))
            # The ridge by its proximal map: stable whatever the step.
            w = (w - eta * (gradient - counts)) / (1 + eta * lam)
            return (w, best, jnp.minimum(value, least)), None

        times = state.num_steps + 1 + jnp.arange(num_inner_steps, dtype=jnp.int32)
        loss = augmented(state.params) - true_score
        objective = loss + ridge(state.params)
        begin = (state.params, state.params, objective)
        (_, best, least), _ = lax.scan(step, begin, times)  # step 2
        gain = objective - least
        info = Info(
            objective=objective,
            surrogate=least,
            loss=loss,
            norm=jnp.sqrt(jnp.vdot(state.params, state.params)),
            converged=gain <= jnp.asarray(tolerance, dtype) * jnp.abs(objective),
        )
        return State(best, state.num_steps + num_inner_steps), info

    return Learner(init, update)


def predict(params: jax.Array, data: PaddedWords) -> jax.Array:
    """Return (num_words, L) int32 ids of the best outputs, -1 beyond the end.

    Args:
      params: Weights w.
      data: Words from `padded_words`. Labels are not read.
    """
    zeros = jnp.zeros(data.candidates.shape, params.dtype)
    taken = jax.grad(lambda added: best_scores(params, data, added).sum())(zeros)
    best = jnp.argmax(taken, axis=2)[:, :, None]
    found = jnp.take_along_axis(data.candidates, best, axis=2)[:, :, 0]
    positions = jnp.arange(found.shape[1], dtype=jnp.int32)
    return jnp.where(positions[None, :] < data.lengths[:, None], found, -1)


def final_params(state: State) -> jax.Array:
    """Return the weights to predict with."""
    return state.params
