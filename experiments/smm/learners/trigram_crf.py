r"""Trigram conditional random field on sub-patterns, by L-BFGS (SMM-B5).

.. math:: \min_w \; \sum_i \Big(\log \sum_z e^{F_w(x^i, z)} - F_w(x^i, y^i)\Big)
          + \frac1{2c}\|w\|^2

with :math:`F_w` the sum over a word's trigrams of the scores of `subpatterns`,
and z over the candidates of the letters. The first term is the smooth maximum of SMM-X1
with a smoothing of 1 and no cost, so the gradient in the table of scores is the
expected less the true counts of trigrams; the table is linear in w.

One `update` is one iteration over all words, a `LetteredLattice` made once on the host
by `lettered_lattice`. The first iteration evaluates the start and stays there. At
15,000 words of NETtalk the 12 tables have 5.5 million weights, and an iteration takes
2 to 3 s.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from experiments.smm.learners import subpatterns
from lowrank_jax import checks, streams
from lowrank_jax.batch.crf import quasi_newton
from lowrank_jax.batch.smm.hinge import gold_score
from lowrank_jax.data.bisymbols import Alphabet, Words
from lowrank_jax.decode.lattice_paths import LatticePaths, best_paths, smooth_maximum
from lowrank_jax.streams.words import Lattice
from lowrank_jax.types import Learner

__all__ = [
    "Info",
    "LetteredLattice",
    "State",
    "final_params",
    "learner",
    "lettered_lattice",
    "negative_log_likelihood",
    "predict",
]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LetteredLattice:
    """Words, and the letters of their bi-symbols.

    Attributes:
      lattice: Words in lanes.
      letter_of: (n,) int32, the letter of each bi-symbol.
      num_letters: Number of letters K, boundary and unknown letter counted. Static.
    """

    lattice: Lattice
    letter_of: jax.Array
    num_letters: int = dataclasses.field(metadata={"static": True})


class State(NamedTuple):
    """What the next iteration needs, and nothing else."""

    params: subpatterns.Params  # w
    search: quasi_newton.Search  # on the weights as one vector


class Info(NamedTuple):
    """What the report needs of this iteration."""

    objective: jax.Array  # ()  after the iteration, penalty included
    gradient_norm: jax.Array  # ()  there
    step_size: jax.Array  # ()  of the line search; 0 where it found none
    num_evaluations: jax.Array  # () int32  of the objective and its gradient
    relative_change: jax.Array  # ()  decrease of the objective, relative
    converged: jax.Array  # () bool: as `quasi_newton.progress` tells


def lettered_lattice(
    alphabet: Alphabet, words: Words, *, has_end: bool = True
) -> LetteredLattice:
    """Lay words out for training or for decoding all at once; on the host, once.

    Args:
      alphabet: Bi-symbols of the training corpus.
      words: Words from `data.encode_words`. Training needs all true pairs known.
      has_end: True scores the end of a word. Use the same value in training and
        prediction.
    """
    return LetteredLattice(
        lattice=streams.words.lattice(alphabet, words, has_end=has_end),
        letter_of=jnp.asarray(alphabet.letter_of, jnp.int32),
        num_letters=alphabet.first.size,
    )


def negative_log_likelihood(
    params: subpatterns.Params, data: LetteredLattice
) -> jax.Array:
    r"""Return :math:`-\sum_i \log p_w(y^i \mid x^i)`, differentiable in the weights."""
    table = subpatterns.score_table(params, data.letter_of)
    total = smooth_maximum(table, data.lattice, smoothing=1.0, cost=0.0)
    return total - gold_score(table, data.lattice)


def learner(
    *,
    strength: float | jax.Array = 1.0,
    memory_size: int = 5,
    max_evaluations: int = 20,
    tolerance: float | jax.Array = 1e-5,
    dtype: jnp.dtype = jnp.float32,
) -> Learner:
    """Build the pair ``(init, update)``; both are pure.

    Args:
      strength: Number :math:`c`, positive; the larger, the weaker the penalty. May be
        traced.
      memory_size: Pairs of vectors that L-BFGS remembers, each pair twice the size of
        the weights. Static.
      max_evaluations: Largest number of evaluations per line search. Static.
      tolerance: Relative decrease of the objective below which `Info.converged` is
        True, if a step was taken (`quasi_newton.progress`). May be traced.
      dtype: Type of the weights.
    """
    checks.positive(strength=strength)
    checks.non_negative(tolerance=tolerance)
    checks.whole(memory_size=memory_size, max_evaluations=max_evaluations)

    def init(key: jax.Array, data: LetteredLattice) -> State:
        del key  # nothing is random: the start is zero
        params = subpatterns.zeros(data.num_letters, data.lattice.num_symbols, dtype)
        return State(params, quasi_newton.init(ravel_pytree(params)[0], memory_size))

    def update(state: State, data: LetteredLattice) -> tuple[State, Info]:
        weight = 1 / jnp.asarray(strength, dtype)
        flat, unravel = ravel_pytree(state.params)  # one vector: a smaller program

        def objective(flat: jax.Array) -> jax.Array:
            loss = negative_log_likelihood(unravel(flat), data)
            return loss + weight / 2 * (flat * flat).sum()

        stepped = quasi_newton.step(
            jax.value_and_grad(objective),
            None,
            flat,
            state.search,
            max_evaluations=max_evaluations,
        )
        common = quasi_newton.common_info(stepped, jnp.asarray(tolerance, dtype))
        return State(unravel(stepped.params), stepped.search), Info(**common)

    return Learner(init, update)


def predict(params: subpatterns.Params, data: LetteredLattice) -> LatticePaths:
    """Return the best paths; `decode.lattice_paths.paths_to_words` reads off the ids.

    Args:
      params: Weights of this learner or of `trigram_perceptron`.
      data: Words from `lettered_lattice`. True pairs only count in `num_wrong`.
    """
    table = subpatterns.score_table(params, data.letter_of)
    return best_paths(table, data.lattice, cost=0.0)


def final_params(state: State) -> subpatterns.Params:
    """Return the model to predict with."""
    return state.params
