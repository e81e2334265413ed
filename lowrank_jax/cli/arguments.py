"""Types of command-line arguments: a value or one sentence on what it must be."""

import argparse

__all__ = ["count", "seconds", "seed", "share"]


def count(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"must be a whole number of at least 1, got {text!r}"
        )
    return int(text)


def seed(text: str) -> int:
    """Read the seed of a random key."""
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(
            f"must be a whole number from 0 to {2**32 - 1}, got {text!r}"
        )
    return int(text)


def share(text: str) -> float:
    """Read a share, above 0 and at most 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 1, got {text!r}")
    return value


def seconds(text: str) -> float:
    """Read a time, 0 or more."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise argparse.ArgumentTypeError(
            f"must be a number of seconds, 0 or more, got {text!r}"
        )
    return value
