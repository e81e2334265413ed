"""Words laid out for decoding many at once, over ragged candidate lists; on the host.

A factor of order 3 scores three consecutive bi-symbols a, b, c. The states are pairs of
candidates. Letters have from 1 to 18 candidates, so cubes padded to the longest list
would be nearly all padding (a factor of 20 on NETtalk). Here no list is padded:

* Words stand one behind the other in lanes, with ``order - 1`` boundary symbols
  between them. A boundary has one candidate, so the recursion itself starts each word
  anew, and the score of a lane is the sum over its words.
* A step works on the states of all lanes, laid flat and grouped by the number of
  candidates for a, the width of the group.
* The table of scores has the axes (b, c, a), and the states of a step have (c, b). So
  the entries that a state takes its maximum over are neighbours in both.

`lattice_paths` has the recursions. Order 2 is the same with one symbol fewer, and order
1 is laid out as order 2.
"""

import dataclasses
import heapq
from typing import Any, NamedTuple

import jax
import numpy as np

from lowrank_jax import checks
from lowrank_jax.data.bisymbols import Alphabet, Words

__all__ = ["Lattice", "batches", "lattice"]
__dir__ = __all__.copy


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Lattice:
    """Words in lanes, their states laid flat: T steps, B lanes, N states a step.

    Attributes:
      table_base: (T, N) int32, where in the flat table a state's entries begin.
      delta_base: (T, N) int32, where in the previous step its predecessors begin.
      is_wrong: (T, N) bool, True if the symbol c differs from the true one.
      width: (T, B) int32, the number of predecessors of a lane's states.
      last_state: (B,) int32, the one state of each lane at the last step.
      position: (T, B) int32, ``word * max_length + index`` of the letter at a step, or
        -1 at a boundary.
      gold_cells: (num_cells,) int32, entries of the flat table on the true paths.
      num_letters: () int32, number of letters of all words.
      widths: Width of each group of states. Static.
      sizes: Number of states of each group. Static.
      order: Order of the factors, 2 or 3. Static.
      num_symbols: Number of symbols n. Static.
      num_words: Number of words. Static.
      max_length: Length of the longest word. Static.
    """

    table_base: jax.Array
    delta_base: jax.Array
    is_wrong: jax.Array
    width: jax.Array
    last_state: jax.Array
    position: jax.Array
    gold_cells: jax.Array
    num_letters: jax.Array
    widths: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    sizes: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    order: int = dataclasses.field(metadata={"static": True})
    num_symbols: int = dataclasses.field(metadata={"static": True})
    num_words: int = dataclasses.field(metadata={"static": True})
    max_length: int = dataclasses.field(metadata={"static": True})


def lattice(
    alphabet: Alphabet,
    words: Words,
    *,
    order: int = 3,
    has_end: bool = False,
    num_lanes: int | None = None,
) -> Lattice:
    """Lay words out in lanes, for training or for decoding all at once; on the host.

    Args:
      alphabet: Bi-symbols of the training corpus.
      words: Words from `data.encode_words`.
      order: Number of symbols in a factor, 1 to 3.
      has_end: True scores the factor that ends in one boundary symbol, too.
      num_lanes: Number of lanes. None balances the number of steps against the padding
        within them.
    """
    found = batches(
        alphabet,
        words,
        num_batches=1,
        order=order,
        has_end=has_end,
        num_lanes=num_lanes,
    )
    return jax.tree.map(lambda part: part[0], found)


def batches(
    alphabet: Alphabet,
    words: Words,
    *,
    num_batches: int,
    order: int = 3,
    has_end: bool = False,
    num_lanes: int | None = None,
    has_all: bool = False,
) -> Lattice:
    """Lay words out in batches of equally many words, each a lattice of one shape.

    Args:
      alphabet: Bi-symbols of the training corpus.
      words: Words from `data.encode_words`, in random order. They are dealt out in
        turn; words left over after the division are not used.
      num_batches: Number of batches.
      order: Number of symbols in a factor, 1 to 3.
      has_end: True scores the factor that ends in one boundary symbol, too.
      num_lanes: Number of lanes of one batch; None as in `lattice`.
      has_all: If true, words left over are used too: the batches are shares of one
        corpus (`sharding.shard_words`), and `num_words` is the number of all words.

    Returns:
      A `Lattice` whose arrays have the batches as their first axis.
    """
    letters, gold, lengths = words.letters, words.gold, words.lengths
    first, num_candidates = alphabet.first, alphabet.num_candidates
    checks.whole(order=order, num_batches=num_batches)
    if order > 3:
        raise checks.InputError(f"`order` must be 1, 2 or 3, got {order}.")
    num_words = len(lengths) // num_batches
    if num_words == 0:
        raise checks.InputError(
            f"There is no word to lay out: {len(lengths)} words in {num_batches} "
            "batches."
        )
    order = max(order, 2)
    if num_lanes is None:
        total = (int(np.sum(lengths)) + (order - 1) * len(lengths)) // num_batches
        num_lanes = int(np.clip(np.sqrt(14 * total), 1, num_words))
    most = len(lengths) if has_all else num_words * num_batches
    chosen = [np.arange(i, most, num_batches) for i in range(num_batches)]
    plans = [
        _plan(
            letters[i], gold[i], lengths[i], num_candidates, order, has_end, num_lanes
        )
        for i in chosen
    ]
    plans = _alike(plans, num_candidates, order)
    widths = np.unique(np.concatenate([np.unique(plan.width) for plan in plans]))
    sizes = np.max(
        [
            [np.where(plan.width == w, plan.num_states, 0).sum(1).max() for w in widths]
            for plan in plans
        ],
        axis=0,
    )
    filled = [
        _fill(plan, widths, sizes, first, int(num_candidates.sum()), order)
        for plan in plans
    ]
    num_cells = max(len(arrays["gold_cells"]) for arrays in filled)
    n = int(num_candidates.sum())
    for arrays, i in zip(filled, chosen, strict=True):
        cells = arrays["gold_cells"]
        missing = num_cells - len(cells)
        arrays["gold_cells"] = np.pad(cells, (0, missing), constant_values=n**order)
        arrays["num_letters"] = np.int32(lengths[i].sum())
    stacked: dict[str, Any] = {
        name: np.stack([part[name] for part in filled]) for name in filled[0]
    }
    return Lattice(
        **stacked,
        widths=tuple(int(w) for w in widths),
        sizes=tuple(int(size) for size in sizes),
        order=order,
        num_symbols=n,
        num_words=len(lengths) if has_all else num_words,
        max_length=letters.shape[1],
    )


class _Plan(NamedTuple):
    """What stands where; all (T, B)."""

    position: np.ndarray  # place of the letter; -1 at a boundary
    letter: np.ndarray
    true: np.ndarray  # id, 0 at a boundary
    is_scored: np.ndarray  # whether the factor that ends here counts
    width: np.ndarray  # candidates of the oldest symbol
    inner: np.ndarray  # candidates of the middle one; 1 for order 2
    num_states: np.ndarray


def _plan(
    letters: np.ndarray,
    gold: np.ndarray,
    lengths: np.ndarray,
    num_candidates: np.ndarray,
    order: int,
    has_end: bool,
    num_lanes: int,
) -> _Plan:
    position, is_end = _lanes(lengths, letters.shape[1], order - 1, num_lanes)
    is_letter = position >= 0
    letter = np.where(is_letter, letters.reshape(-1)[position], 0)
    true = np.where(is_letter, gold.reshape(-1)[position], 0)
    is_scored = is_letter | (is_end & has_end)
    return _finish(position, letter, true, is_scored, num_candidates, order)


def _finish(
    position: np.ndarray,
    letter: np.ndarray,
    true: np.ndarray,
    is_scored: np.ndarray,
    num_candidates: np.ndarray,
    order: int,
) -> _Plan:
    width = num_candidates[_before(letter, order - 1)]
    # Order 3: states (c, b); order 2: states c alone.
    inner = num_candidates[_before(letter, 1)] if order == 3 else np.ones_like(letter)
    num_states = num_candidates[letter] * inner
    return _Plan(position, letter, true, is_scored, width, inner, num_states)


def _alike(plans: list[_Plan], num_candidates: np.ndarray, order: int) -> list[_Plan]:
    """Give all plans the number of steps of the longest: boundaries at the end."""
    num_steps = max(len(plan.letter) for plan in plans)

    def longer(part: np.ndarray, value: int) -> np.ndarray:
        missing = num_steps - len(part)
        return np.pad(part, ((0, missing), (0, 0)), constant_values=value)

    return [
        _finish(
            longer(plan.position, -1),
            longer(plan.letter, 0),
            longer(plan.true, 0),
            longer(plan.is_scored, 0),
            num_candidates,
            order,
        )
        for plan in plans
    ]


def _fill(
    plan: _Plan,
    widths: np.ndarray,
    sizes: np.ndarray,
    first: np.ndarray,
    n: int,
    order: int,
) -> dict[str, Any]:
    """Lay the states flat."""
    letter, width, inner, num_states = (
        plan.letter,
        plan.width,
        plan.inner,
        plan.num_states,
    )
    offset = np.zeros_like(letter)  # where a lane's states begin
    starts = np.cumsum([0, *sizes])
    for w, start in zip(widths, starts[:-1], strict=True):
        part = np.where(width == w, num_states, 0)
        offset += np.where(width == w, start + np.cumsum(part, axis=1) - part, 0)

    table_base = np.full((len(letter), starts[-1]), n**order, np.int32)
    delta_base = np.zeros_like(table_base)
    is_wrong = np.zeros(table_base.shape, bool)
    previous = _before(offset, 1)
    oldest, middle = _before(letter, order - 1), _before(letter, 1)
    for t in range(len(letter)):
        lane = np.repeat(np.arange(letter.shape[1]), num_states[t])
        begins = np.cumsum(num_states[t]) - num_states[t]
        local = np.arange(lane.size) - np.repeat(begins, num_states[t])
        c = first[letter[t, lane]] + local // inner[t, lane]
        begin = first[oldest[t, lane]]  # start of the window over the oldest symbol
        delta = previous[t, lane]
        if order == 3:
            index_b = local % inner[t, lane]
            cell = ((first[middle[t, lane]] + index_b) * n + c) * n + begin
            delta = delta + index_b * width[t, lane]
        else:
            cell = c * n + begin
        places = offset[t, lane] + local
        table_base[t, places] = np.where(plan.is_scored[t, lane], cell, n**order)
        delta_base[t, places] = delta
        is_letter = plan.position[t, lane] >= 0
        is_wrong[t, places] = is_letter & (c != plan.true[t, lane])

    past = [_before(plan.true, k) for k in range(1, order)]
    cells = plan.true * n + past[0]
    if order == 3:
        cells = (past[0] * n + plan.true) * n + past[1]
    is_known = np.all([part >= 0 for part in (plan.true, *past)], axis=0)
    return {
        "table_base": table_base,
        "delta_base": delta_base,
        "is_wrong": is_wrong,
        "width": width.astype(np.int32),
        "last_state": offset[-1].astype(np.int32),
        "position": plan.position.astype(np.int32),
        "gold_cells": cells[plan.is_scored & is_known].astype(np.int32),
    }


def _lanes(
    lengths: np.ndarray, max_length: int, num_pads: int, num_lanes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Spread words over lanes of about equal length.

    Returns:
      ``(position, is_end)``, both (T, B): which letter stands at a step (-1 none), and
      whether it is the first boundary symbol after a word.
    """
    lanes: list[list[int]] = [[] for _ in range(num_lanes)]
    loads = [(0, lane) for lane in range(num_lanes)]
    for word in np.argsort(-lengths, kind="stable").tolist():
        load, lane = loads[0]  # the shortest lane gets the longest word left
        lanes[lane].append(word)
        heapq.heapreplace(loads, (load + int(lengths[word]) + num_pads, lane))
    stagger = round(float(np.mean(lengths))) + num_pads
    num_steps = max(load + lane % stagger for load, lane in loads)
    position = np.full((num_steps, num_lanes), -1, np.int64)
    is_end = np.zeros((num_steps, num_lanes), bool)
    generator = np.random.default_rng(0)
    for lane, words in enumerate(lanes):
        t = lane % stagger  # else all lanes would begin and end words in step
        for word in generator.permutation(words).tolist():
            length = int(lengths[word])
            position[t : t + length, lane] = word * max_length + np.arange(length)
            is_end[t + length, lane] = True
            t += length + num_pads
    return position, is_end


def _before(values: np.ndarray, num_steps: int) -> np.ndarray:
    """What stood in each lane so many steps before; 0 before the first."""
    return np.pad(values, ((num_steps, 0), (0, 0)))[: len(values)]
