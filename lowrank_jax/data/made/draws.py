"""Helpers of the made problems: noisy labels, unit vectors, checks of arguments."""

import numpy as np

from lowrank_jax import checks
from lowrank_jax.checks import InputError

__all__ = ["MOST_TRIES", "check_share", "flip", "span", "unit"]
__dir__ = __all__.copy

MOST_TRIES = 1000  # draws per example that has the margin, on average


def flip(
    rng: np.random.Generator, labels: np.ndarray, noise: float, num_labels: int
) -> np.ndarray:
    """Replace a share of the labels by other labels, drawn uniformly."""
    chosen = rng.choice(labels.size, round(noise * labels.size), replace=False)
    flipped = labels.copy()
    shift = rng.integers(1, num_labels, chosen.size)
    flipped[chosen] = (labels[chosen] + shift) % num_labels
    return flipped


def unit(vectors: np.ndarray) -> np.ndarray:
    """Scale the last axis to norm 1."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def check_share(name: str, value: float) -> None:
    """Raise `InputError` unless the value lies between 0 and 1."""
    if not 0 <= value <= 1:
        raise InputError(f"`{name}` must lie between 0 and 1, got {value}.")


def span(name: str, value: tuple[int, int]) -> tuple[int, int]:
    """Return a pair (least, largest); raise unless it is 1 or more and ascending."""
    least, most = value
    checks.whole(**{f"{name}[0]": least})
    checks.whole(least=least, **{f"{name}[1]": most})
    return least, most
