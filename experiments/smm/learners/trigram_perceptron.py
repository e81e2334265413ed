r"""Trigram perceptron on sub-patterns, plain and averaged (SMM-B6).

A round takes one word, finds its best path z under the scores of `subpatterns`
and moves on a mistake by

.. math:: w_t = w_{t-1} + C\,(\Phi(x, y) - \Phi(x, z))

with :math:`\Phi` the counts of all sub-patterns of the word's trigrams. The average of
w over rounds is kept lazily, as in `perceptron`:
:math:`\sum_t (t-1)\,C\,\Delta\Phi^t`.

The candidates of a letter are consecutive ids. So what a trigram of letters reads of
each table is a small block of it: one slice per table, not one look-up per candidate.
The blocks are added up and at once maximised over the oldest symbol.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from experiments.smm.learners import subpatterns
from lowrank_jax import checks, streams
from lowrank_jax.data.bisymbols import Alphabet, Words
from lowrank_jax.online import perceptron
from lowrank_jax.types import Learner

__all__ = ["Info", "State", "Word", "final_params", "learner", "stream"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Word:
    """One word.

    Positions are numbered from the first of the two boundary symbols before the word;
    there is one behind it too, and boundaries beyond: P = longest word + 3.

    Attributes:
      letters: (P,) int32.
      first: (P,) int32, where the window of C ids begins that holds all candidates.
      is_candidate: (P, C) bool, which of the window are.
      gold: (P,) int32 ids of the true pairs.
      num_trigrams: () int32, how many are scored.
      num_letters: Number of letters K (static), boundary and unknown letter counted.
      num_symbols: Number of symbols n. Static.
    """

    letters: jax.Array
    first: jax.Array
    is_candidate: jax.Array
    gold: jax.Array
    num_trigrams: jax.Array
    num_letters: int = dataclasses.field(metadata={"static": True})
    num_symbols: int = dataclasses.field(metadata={"static": True})


class State(NamedTuple):
    """What the next round needs, and nothing else."""

    params: subpatterns.Params  # w_t
    sums: subpatterns.Params | None  # sum_t (t - 1) C dPhi_t, where averaging is asked
    num_rounds: jax.Array  # () int32  t


class Info(NamedTuple):
    """What the report needs of this round."""

    loss: jax.Array  # ()  [1 - <w, dPhi>]_+ on a mistake, else 0
    is_mistake: jax.Array  # () bool
    num_wrong: jax.Array  # () int32  wrong symbols
    margin: jax.Array  # ()  <w_{t-1}, dPhi_t>, 0 or less


def stream(
    alphabet: Alphabet, words: Words, *, has_end: bool = True
) -> streams.Stacked:
    """Return a stream of one `Word` per word, on the device.

    Args:
      alphabet: Bi-symbols of the training corpus.
      words: Words from `data.encode_words`, all true pairs known.
      has_end: True scores the end of a word, as in `trigram_crf.lettered_lattice`, with
        which the model predicts.

    Raises:
      InputError: If a true pair is not known.
    """
    num_unknown = int((words.gold[words.inside] < 0).sum())
    if num_unknown:
        raise checks.InputError(
            f"{num_unknown} letters have no known pair (-1): training needs them all; "
            "encode the training words with their labels."
        )
    letters = jnp.pad(jnp.asarray(words.letters, jnp.int32), ((0, 0), (2, 1)))
    gold = jnp.asarray(words.gold.clip(0), jnp.int32)
    width = alphabet.max_candidates
    begin = jnp.asarray(alphabet.first, jnp.int32)[letters]
    first = jnp.minimum(begin, alphabet.num_symbols - width)  # within the tables
    ids = first[..., None] + jnp.arange(width, dtype=jnp.int32)[None, None, :]
    end = begin + jnp.asarray(alphabet.num_candidates, jnp.int32)[letters]
    examples = Word(
        letters=letters,
        first=first,
        is_candidate=(begin[..., None] <= ids) & (ids < end[..., None]),
        gold=jnp.pad(gold, ((0, 0), (2, 1))),
        num_trigrams=jnp.asarray(words.lengths, jnp.int32) + int(has_end),
        num_letters=alphabet.first.size,
        num_symbols=alphabet.num_symbols,
    )
    return streams.Stacked(examples)


def learner(
    *,
    step_size: float | jax.Array = 1.0,
    averaging: str = "dual",
    dtype: jnp.dtype = jnp.float32,
) -> Learner:
    """Build the pair ``(init, update)``; both are pure.

    Args:
      step_size: Step size :math:`C`, positive. May be traced. The predictions do not
        depend on it, the loss does.
      averaging: ``"dual"`` for the averaged perceptron, ``"none"`` for the last
        weights.
      dtype: Type of the weights.
    """
    checks.positive(step_size=step_size)
    checks.choice(("dual", "none"), averaging=averaging)

    def init(key: jax.Array, word: Word) -> State:
        del key  # nothing is random: the start is zero
        params = subpatterns.zeros(word.num_letters, word.num_symbols, dtype)
        sums = jax.tree.map(jnp.zeros_like, params) if averaging == "dual" else None
        return State(params, sums, jnp.zeros((), jnp.int32))

    def update(state: State, word: Word) -> tuple[State, Info]:
        step = jnp.asarray(step_size, dtype)
        predicted, margin = _best_path(state.params, word)
        num_wrong = (predicted != word.gold).sum(dtype=jnp.int32)
        true, found = _cells(word, word.gold), _cells(word, predicted)
        weight = state.num_rounds.astype(dtype) * step
        trigrams = jnp.arange(word.gold.shape[0] - 2, dtype=jnp.int32)
        is_scored = trigrams < word.num_trigrams
        params = _move(state.params, true, found, is_scored, step)
        sums = state.sums and _move(state.sums, true, found, is_scored, weight)
        info = Info(
            loss=jnp.where(num_wrong > 0, jax.nn.relu(1 - margin), 0),
            is_mistake=num_wrong > 0,
            num_wrong=num_wrong,
            margin=margin,
        )
        return State(params, sums, state.num_rounds + 1), info

    return Learner(init, update)


def _best_path(params: subpatterns.Params, word: Word) -> tuple[jax.Array, jax.Array]:
    """Return (P,) ids of the best path, and the score of the true one less its."""
    num_positions, width = word.is_candidate.shape
    dtype = params.s.dtype
    ends = jnp.zeros((), jnp.int32), word.num_trigrams
    oldest = jnp.arange(width, dtype=jnp.int32)[:, None, None]
    true = word.gold - word.first  # within the windows

    def forward(t: jax.Array, carry: tuple) -> tuple:
        best, pointers, true_score = carry
        score = _block(params, word, t)
        true_score = true_score + score[true[t], true[t + 1], true[t + 2]]
        total = best[:, :, None] + score
        best = total.max(axis=0)
        # The first that is best; an argmax would double the time of a round.
        pointer = jnp.where(total == best[None, :, :], oldest, width).min(axis=0)
        best = jnp.where(word.is_candidate[t + 2][None, :], best, -jnp.inf)
        pointers = lax.dynamic_update_index_in_dim(pointers, pointer, t, 0)
        return best, pointers, true_score

    is_start = jnp.arange(width * width).reshape(width, width) == 0  # two boundaries
    start = jnp.where(is_start, 0, -jnp.inf).astype(dtype)
    pointers = jnp.zeros((num_positions - 2, width, width), jnp.int32)
    zero = jnp.zeros((), dtype)
    best, pointers, true_score = lax.fori_loop(*ends, forward, (start, pointers, zero))
    last = jnp.argmax(best.reshape(-1)).astype(jnp.int32)

    def backward(k: jax.Array, carry: tuple) -> tuple:
        path, before, now = carry
        t = word.num_trigrams - 1 - k
        path = path.at[t + 2].set(word.first[t + 2] + now)
        return path, pointers[t, before, now], before

    path = jnp.zeros_like(word.gold)  # boundaries
    path, _, _ = lax.fori_loop(*ends, backward, (path, last // width, last % width))
    return path, true_score - best.max()


def _block(params: subpatterns.Params, word: Word, t: jax.Array) -> jax.Array:
    """Return (C, C, C), the scores of trigram t over the windows of a, b and c."""
    width = word.is_candidate.shape[1]
    places = (t, t + 1, t + 2)
    starts = subpatterns.cells(
        [word.letters[place] for place in places],
        [word.first[place] for place in places],
    )
    score = jnp.zeros((width,) * 3, params.s.dtype)
    for name, table in params._asdict().items():
        sizes = [width if kind == "s" else 1 for kind in name if kind != "_"]
        shape = [width if kind == "s" else 1 for kind in name.rjust(3, "_")]
        part = lax.dynamic_slice(table, starts[name], sizes).reshape(shape)
        score = score + jnp.broadcast_to(part, score.shape)
    return score


def _cells(word: Word, path: jax.Array) -> dict[str, tuple[jax.Array, ...]]:
    """Return the entries that the trigrams of a path read."""
    count = path.shape[0] - 2
    return subpatterns.cells(
        [word.letters[k : k + count] for k in range(3)],
        [path[k : k + count] for k in range(3)],
    )


def _move(
    params: subpatterns.Params,
    true: dict[str, tuple[jax.Array, ...]],
    found: dict[str, tuple[jax.Array, ...]],
    is_scored: jax.Array,
    step: jax.Array,
) -> subpatterns.Params:
    """Add ``step`` to what the true path reads, and subtract it from the other's."""
    moved = {}
    for name, table in params._asdict().items():
        pairs = list(zip(true[name], found[name], strict=True))
        differs = jnp.any(jnp.stack([a != b for a, b in pairs]), axis=0)
        delta = jnp.where(differs & is_scored, step, 0)
        where = tuple(jnp.concatenate(pair) for pair in pairs)
        delta = jnp.concatenate([delta, -delta])
        moved[name] = table.at[where].add(delta, mode="promise_in_bounds")
    return subpatterns.Params(**moved)


def final_params(state: State) -> subpatterns.Params:
    """Return the model to predict with: the average over rounds, if it was kept."""
    return perceptron.average(state.params, state.sums, state.num_rounds)
