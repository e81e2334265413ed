"""Means with their 95 % intervals: Student's t, Wilson, and the bootstrap."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.protocol import Verdict

__all__ = [
    "Bootstrap",
    "Mean",
    "answer",
    "decide",
    "mean_of",
    "stated",
    "verdict",
    "wilson",
]

_NUM_SAMPLES = 2000


class Mean(NamedTuple):
    """A mean, and half the width of its interval (0 if there is one value)."""

    mean: float
    half: float

    def shown(self, sign: str = "", digits: int = 2, mark: str = "+-") -> str:
        """Return both as text; a mean of one value stands alone."""
        text = f"{self.mean:{sign}.{digits}f}"
        return text + (f" {mark} {self.half:.{digits}f}" if self.half else "")


def mean_of(values: Sequence[float], *, test_over_train: float = 0.0) -> Mean:
    """Return the mean over repetitions with its interval by Student's t.

    For paired differences, give the differences.

    Args:
      values: One value per repetition.
      test_over_train: Ratio of the sizes of both parts. Random splits of one data set
        share most of their examples, and the variance of the mean is then
        (1/J + ratio) times the variance of one repetition (Nadeau and Bengio, 2003).
        Take 0 if training parts are disjoint.
    """
    from scipy.special import stdtrit

    number = len(values)
    mean = float(np.mean(values))
    if number < 2:
        return Mean(mean, 0.0)
    scale = np.sqrt((1 / number + test_over_train) * np.var(values, ddof=1))
    return Mean(mean, float(stdtrit(number - 1, 0.975) * scale))


def verdict(difference: Mean) -> str:
    """Say what the interval of a paired difference tells."""
    if difference.mean - difference.half > 0:
        return "better"
    if difference.mean + difference.half < 0:
        return "worse"
    return "not told apart"


def decide(claim: str, found: Mean, *, least: float = 0.0) -> Verdict:
    """Decide the claim that a number is above `least`, by its interval.

    A mean of one value has no interval, and its claim is not decided.

    Args:
      claim: The claim in words.
      found: The number with its interval.
      least: What the number must be above.
    """
    low, high = found.mean - found.half, found.mean + found.half
    is_known = found.half > 0
    return {
        "claim": claim,
        "value": found.mean,
        "interval": [low, high] if is_known else None,
        "verdict": (
            "holds"
            if is_known and low > least
            else "fails"
            if is_known and high < least
            else "not decided"
        ),
    }


def stated(claim: str, is_true: bool, found: str) -> Verdict:
    """Decide a claim that one run shows or does not; it has no interval.

    Args:
      claim: The claim in words.
      is_true: True if the run shows it.
      found: The numbers in words.
    """
    answer: Verdict = {
        "claim": claim,
        "value": None,
        "interval": None,
        "verdict": "holds" if is_true else "fails",
        "found": found,
    }
    return answer


def wilson(share: float, number: int) -> list[float]:
    """Return the interval of a share of so many trials (Wilson, 1927)."""
    z2 = 1.96**2
    middle = (share + z2 / (2 * number)) / (1 + z2 / number)
    half = np.sqrt(share * (1 - share) * z2 / number + z2 * z2 / (4 * number**2))
    half = float(half) / (1 + z2 / number)
    return [middle - half, middle + half]


class Bootstrap:
    """Samples of F1 with sentences and runs redrawn, the same sentences for all.

    A sample is the mean over as many runs as there are, drawn with replacement, on as
    many sentences as there are, drawn with replacement. Differences of samples are thus
    paired by sentence, and contain the noise of seeds as well.
    """

    def __init__(self, num_sentences: int, *, num_samples: int = _NUM_SAMPLES) -> None:
        """Draw the sentences of each sample."""
        rng = np.random.default_rng(0)
        shares = np.full(num_sentences, 1 / num_sentences)
        drawn = rng.multinomial(num_sentences, shares, size=num_samples)
        self._weights = drawn.astype(np.float32)
        self._seed = 1

    def sample(self, correct: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Return samples of the mean F1 over runs, (num_samples,).

        Args:
          correct: (num_runs, num_sentences) chunks that are right.
          total: (num_runs, num_sentences) predicted chunks and true chunks together.
        """
        rights = self._weights @ correct.T.astype(np.float32)
        totals = self._weights @ total.T.astype(np.float32)
        f1 = 200.0 * rights / np.maximum(totals, 1)  # (num_samples, num_runs)
        rng = np.random.default_rng(self._seed)
        self._seed += 1  # seeds of two methods have nothing to do with each other
        runs = rng.integers(f1.shape[1], size=f1.shape)
        return np.take_along_axis(f1, runs, axis=1).mean(axis=1, dtype=np.float64)


def answer(samples: np.ndarray | Sequence[float], value: float) -> dict[str, Any]:
    """Answer if a difference is above 0, as far as its samples tell.

    Args:
      samples: Samples of the difference by the bootstrap.
      value: The difference itself.

    Returns:
      The value, its interval, and ``"yes"`` if the whole interval is above 0.
    """
    low, high = np.percentile(samples, [2.5, 97.5]).tolist()
    found = "yes" if low > 0 else "no"
    note = "the opposite holds" if high < 0 else "" if low > 0 else "not established"
    return {"value": value, "interval": [low, high], "answer": found, "note": note}
