"""Words with outputs from a hidden automaton of few states, made from an integer seed.

A small version of the task of SMM: an output for each letter. A word is a walk over
hidden states. The state decides which letters are likely and which output each letter
has. So one letter has several outputs, and its neighbours tell which one is right. The
table of scores that fits has the rank of the automaton.
"""

from typing import NamedTuple

import numpy as np

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.data.corpus import Corpus

__all__ = ["SpellingTruth", "spelling_task"]
__dir__ = __all__.copy

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class SpellingTruth(NamedTuple):
    """The automaton.

    Attributes:
      moves: (num_states, num_states) float64, probability of the next state.
      letters: (num_states, num_letters) float64, probability of each letter.
      outputs: (num_states, num_letters) int, output of each letter in each state.
    """

    moves: np.ndarray
    letters: np.ndarray
    outputs: np.ndarray


def spelling_task(
    num_train: int,
    num_test: int,
    *,
    seed: int,
    num_states: int = 3,
    num_letters: int = 8,
    lengths: tuple[int, int] = (3, 8),
    noise: float = 0.0,
) -> tuple[Corpus, Corpus, SpellingTruth]:
    """Make words whose outputs depend on the letter and on a hidden state.

    The outputs of letter x are ``x0``, ``x1``, and so on; two states may agree. With
    probability 0.8 the walk goes from a state to the next one in a circle.

    Args:
      num_train: Number of words to train on.
      num_test: Number of words to test on.
      seed: Seed of NumPy's default generator.
      num_states: Number of states of the automaton.
      num_letters: Size of the alphabet, at most 26.
      lengths: Least and largest length of a word; lengths are uniform between.
      noise: Share of the outputs of `train` redrawn among the outputs of the letter.

    Returns:
      ``(train, test, truth)``: two corpora with one column, the letters, and outputs.
    """
    checks.whole(num_train=num_train, num_test=num_test, num_states=num_states)
    checks.whole(num_letters=num_letters)
    if num_letters > len(_LETTERS):
        raise InputError(f"`num_letters` must lie in 1..26, got {num_letters}.")
    if not 1 <= lengths[0] <= lengths[1]:
        raise InputError(
            f"`lengths` must be two ascending numbers of at least 1, got {lengths}."
        )
    if not 0 <= noise <= 1:
        raise InputError(f"`noise` must lie in 0..1, got {noise}.")
    rng = np.random.default_rng(seed)
    moves = np.full((num_states, num_states), 0.2 / num_states)
    moves += 0.8 * np.roll(np.eye(num_states), 1, axis=1)
    letters = rng.dirichlet(np.full(num_letters, 0.5), num_states)
    letters = 0.9 * letters + 0.1 / num_letters
    outputs = rng.integers(0, num_states, (num_states, num_letters))
    truth = SpellingTruth(moves, letters, outputs)

    def draw(num_words: int, level: float, name: str) -> Corpus:
        sizes = rng.integers(lengths[0], lengths[1] + 1, num_words)
        written, spoken = [], []
        for size in sizes.tolist():
            state = int(rng.integers(num_states))
            for _ in range(size):
                letter = int(rng.choice(num_letters, p=letters[state]))
                sound = int(outputs[state, letter])
                if rng.random() < level:
                    sound = int(rng.choice(outputs[:, letter]))
                written.append(_LETTERS[letter])
                spoken.append(f"{_LETTERS[letter]}{sound}")
                state = int(rng.choice(num_states, p=moves[state]))
        offsets = np.cumsum([0, *sizes])
        return Corpus((np.array(written),), np.array(spoken), offsets, name)

    train = draw(num_train, noise, "synthetic words, training part")
    return train, draw(num_test, 0.0, "synthetic words, test part"), truth
