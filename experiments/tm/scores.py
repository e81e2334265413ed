"""Methods that were trained, and their F1 on a corpus."""

from typing import NamedTuple

import numpy as np

from experiments import nbest
from experiments.tm.grid import Tensor

__all__ = ["Outcome", "Trained", "f1_of", "mean_quality", "outcome"]


class Outcome(NamedTuple):
    """What some runs chose on a split.

    Attributes:
      correct: (num_runs, num_lists) chunks that are right.
      total: (num_runs, num_lists) chunks of the choice and of the gold standard.
    """

    correct: np.ndarray
    total: np.ndarray


class Trained(NamedTuple):
    """A method at one training size, with C and passes chosen."""

    name: str
    family: str
    size: int
    setting: Tensor | None  # None: a linear model
    limit: float
    num_passes: int
    development: np.ndarray  # (num_seeds,) F1
    test: Outcome
    quality: np.ndarray  # (num_seeds,)
    train: Outcome
    seconds: float


def outcome(split: nbest.Split, chosen: np.ndarray) -> Outcome:
    """Count the chunks of the chosen candidates.

    Args:
      split: Lists with their counts.
      chosen: (num_runs, n) candidates of the first n lists.
    """
    num_lists = chosen.shape[1]
    places = np.asarray(split.lists.list_offsets)[:num_lists] + chosen
    predicted = split.num_predicted[places] + split.num_gold[:num_lists]
    return Outcome(split.num_correct[places], predicted)


def f1_of(found: Outcome) -> np.ndarray:
    """Return the F1 of the corpus in percent, (num_runs,)."""
    return 200.0 * found.correct.sum(axis=1) / np.maximum(found.total.sum(axis=1), 1)


def mean_quality(split: nbest.Split, chosen: np.ndarray) -> np.ndarray:
    """Return the mean quality of the chosen candidates, (num_runs,)."""
    places = np.asarray(split.lists.list_offsets)[: chosen.shape[1]] + chosen
    return np.asarray(split.lists.quality, np.float64)[places].mean(axis=1)
