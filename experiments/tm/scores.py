"""F1 of rerankers on a corpus, and intervals of differences by the bootstrap."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments import nbest

__all__ = ["Bootstrap", "Outcome", "answer", "f1_of", "mean_quality", "outcome"]

_NUM_SAMPLES = 2000


class Outcome(NamedTuple):
    """What some runs chose on a split.

    Attributes:
      correct: (num_runs, num_lists) chunks that are right.
      total: (num_runs, num_lists) chunks of the choice and of the gold standard.
    """

    correct: np.ndarray
    total: np.ndarray


def outcome(split: nbest.Split, chosen: np.ndarray) -> Outcome:
    """Count the chunks of the chosen candidates.

    Args:
      split: lists with their counts.
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


class Bootstrap:
    """Draws sentences and runs anew, the same sentences for all methods.

    A sample of F1 is the mean over as many runs as there are, drawn with replacement,
    on as many sentences as there are, drawn with replacement. Differences of samples
    are thus paired by sentence, and know of the noise of seeds as well.
    """

    def __init__(self, num_lists: int, *, num_samples: int = _NUM_SAMPLES) -> None:
        """Draw the sentences.

        Args:
          num_lists: of the split.
          num_samples: to draw.
        """
        rng = np.random.default_rng(0)
        shares = np.full(num_lists, 1 / num_lists)
        drawn = rng.multinomial(num_lists, shares, size=num_samples)
        self._weights = drawn.astype(np.float32)
        self._seed = 1

    def sample(self, found: Outcome) -> np.ndarray:
        """Return samples of the mean F1 over runs, (num_samples,)."""
        correct = self._weights @ found.correct.T.astype(np.float32)
        total = self._weights @ found.total.T.astype(np.float32)
        f1 = 200.0 * correct / np.maximum(total, 1)  # (num_samples, num_runs)
        rng = np.random.default_rng(self._seed)
        self._seed += 1  # seeds of two methods have nothing to do with each other
        runs = rng.integers(f1.shape[1], size=f1.shape)
        return np.take_along_axis(f1, runs, axis=1).mean(axis=1, dtype=np.float64)


def answer(samples: np.ndarray | Sequence[float], value: float) -> dict[str, Any]:
    """Say whether a difference is above 0.

    Args:
      samples: of the bootstrap.
      value: the difference itself.

    Returns:
      The value, its 95 % interval, and ``"yes"`` where all of the interval is above 0.
    """
    low, high = np.percentile(samples, [2.5, 97.5]).tolist()
    found = "yes" if low > 0 else "no"
    note = "the opposite holds" if high < 0 else "" if low > 0 else "not established"
    return {"value": value, "interval": [low, high], "answer": found, "note": note}
