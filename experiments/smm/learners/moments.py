r"""Spectral input-output HMM from counts (SMM-B3): one decomposition, no iterations.

The expected number of times a string s occurs in a word, as a sub-string, is

.. math:: F(s) = \alpha^\top A_{s_1} \cdots A_{s_T}\, \beta

for some operators if the words (letters and outputs together) come from a hidden Markov
model with as many states. With P = S = single bi-symbols its Hankel blocks are counts:

.. math:: H(a, c) = F(ac), \quad H_b(a, c) = F(abc), \quad h_P(a) = h_S(a) = F(a),

so bigrams, trigrams and unigrams, a singular value decomposition of the bigrams cut at
rank n, and the recovery DR-M1 give the model; piecewise decoding (SMM-Eq4) needs its
table of trigram scores.

The *conditional* form divides each count by the number of times its letters occur, so
that F estimates the probability of the outputs given the letters.

There is nothing to repeat, hence no `State` and `update` here: `count`, then `fit`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import checks
from lowrank_jax.data.bisymbols import BOUNDARY, Alphabet, Words
from lowrank_jax.models import operators
from lowrank_jax.models.hankel import SubBlocks
from lowrank_jax.models.operators import Operators

__all__ = ["Moments", "conditional_moments", "count", "fit", "score_table"]


class Moments(NamedTuple):
    """Counts of sub-strings, a word.

    Attributes:
      unigrams: (n,), n bi-symbols.
      bigrams: (n, n).
      trigrams: (n, n, n), oldest symbol first.
    """

    unigrams: np.ndarray
    bigrams: np.ndarray
    trigrams: np.ndarray


def count(
    alphabet: Alphabet,
    words: Words,
    *,
    has_boundary: bool = True,
    has_end: bool = False,
    dtype: np.typing.DTypeLike = np.float32,
) -> Moments:
    """Count the sub-strings of the true bi-symbols of words; on the host.

    Strings with a pair that training did not show are left out.

    Args:
      alphabet: Bi-symbols of the training corpus.
      words: Words from `data.encode_words`.
      has_boundary: True puts two boundary symbols before each word, as decoding does;
        without them the first two letters of a word have no score.
      has_end: True puts one boundary symbol behind each word.
      dtype: Type of the result.
    """
    n = alphabet.num_symbols
    num_pads = 2 if has_boundary else 0
    gold = np.pad(words.gold.astype(np.int64), ((0, 0), (num_pads, int(has_end))))
    gold[:, :num_pads] = BOUNDARY
    ends = words.lengths + num_pads
    if has_end:
        gold[np.arange(words.num_words), ends] = BOUNDARY
        ends = ends + 1
    is_there = (np.arange(gold.shape[1])[None, :] < ends[:, None]) & (gold >= 0)
    tables = []
    for order in (1, 2, 3):
        width = max(gold.shape[1] - order + 1, 0)
        cells = np.zeros((len(gold), width), np.int64)
        is_whole = np.ones(cells.shape, bool)
        for k in range(order):
            cells = cells * n + gold[:, k : k + width]
            is_whole &= is_there[:, k : k + width]
        counts = np.zeros(n**order, dtype)
        found, times = np.unique(cells[is_whole], return_counts=True)
        counts[found] = times / max(words.num_words, 1)
        tables.append(counts.reshape((n,) * order))
    return Moments(*tables)


def conditional_moments(alphabet: Alphabet, moments: Moments) -> Moments:
    """Divide each count by the count of its letters over all outputs; on the host."""
    letter = alphabet.letter_of
    num_letters = alphabet.num_candidates.size
    divided = []
    for table in moments:
        sums = table
        for axis in range(table.ndim):
            shape = list(sums.shape)
            shape[axis] = num_letters
            summed = np.zeros(shape, table.dtype)
            np.add.at(np.moveaxis(summed, axis, 0), letter, np.moveaxis(sums, axis, 0))
            sums = summed
        totals = sums[np.ix_(*[letter] * table.ndim)]
        divided.append(np.where(totals > 0, table / np.where(totals > 0, totals, 1), 0))
    return Moments(*divided)


def fit(moments: Moments, *, rank: int) -> Operators:
    """Recover the operators of a model with `rank` states.

    Args:
      moments: Counts from `count`, conditional or not, or exact expectations.
      rank: Number of states, at most the number of bi-symbols. Static.
    """
    checks.whole(rank=rank)
    unigrams, bigrams, trigrams = (jnp.asarray(part) for part in moments)
    middle_first = jnp.moveaxis(trigrams, 1, 0)  # H_b(a, c) = F(abc)
    return operators.recover(SubBlocks(bigrams, middle_first, unigrams, unigrams), rank)


def score_table(
    alphabet: Alphabet, model: Operators, *, is_conditional: bool = False
) -> jax.Array:
    """Return (n, n, n), the table of trigram scores to decode with.

    Args:
      alphabet: Bi-symbols of the training corpus.
      model: Model from `fit`.
      is_conditional: True cuts off scores below zero and divides the scores of one
        triple of letters by their sum. The scores then are probabilities, and no longer
        favour frequent letters over rare ones.
    """
    table = operators.trigram_table(model)
    if not is_conditional:
        return table
    table = jax.nn.relu(table)
    letter = jnp.asarray(alphabet.letter_of)
    sums = table
    for axis in range(3):
        moved = jnp.moveaxis(sums, axis, 0)
        size = alphabet.num_candidates.size
        moved = jax.ops.segment_sum(moved, letter, size, indices_are_sorted=True)
        sums = jnp.moveaxis(moved, 0, axis)
    sums = sums[letter[:, None, None], letter[None, :, None], letter[None, None, :]]
    return jnp.where(sums > 0, table / jnp.where(sums > 0, sums, 1), 0)
