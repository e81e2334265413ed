"""``--cv`` of ``lowrank-jax fit``: choose rank and strengths, and show progress."""

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from lowrank_jax import checks
from lowrank_jax.checks import InputError

if TYPE_CHECKING:
    from lowrank_jax.data import Matrices
    from lowrank_jax.estimators.classifier.selection import Selection

__all__ = ["choose"]

#: Strengths and ranks that --cv tries by default.
_GRID = {
    "mu1": (1e-4, 1e-3, 3e-3),
    "mu2": (1e-4, 1e-2),
    "nu1": (1e-4, 1e-3, 3e-3),
    "nu2": (1e-4, 1e-2),
}
_RANKS = (1, 2, 3)
_TICK_SECONDS = 5.0


def choose(
    train: "Matrices",
    every: dict[str, Any],
    given: set[str],
    arguments: argparse.Namespace,
) -> "Selection":
    """Choose rank and strengths, except where the user gave them.

    Args:
      train: Labelled matrices.
      every: All settings of `fit`.
      given: Names of the settings that the user gave. These settings stay as they are.
      arguments: Arguments of the command.
    """
    import numpy as np

    from lowrank_jax.estimators import classifier
    from lowrank_jax.estimators.classifier import selection

    assert train.y is not None
    data = classifier.prepare(
        train.x, train.y, scale=every["scale"], multi_class=every["multi_class"]
    )
    _check_folds(arguments.cv, np.unique(train.y, return_counts=True)[1])
    if data.is_one_vs_all:
        raise InputError(
            "--cv chooses for one model of all classes: leave multi_class=one-vs-all "
            "out, or give rank and strengths yourself."
        )
    most = min(train.x.shape[1:])
    ranks = tuple(rank for rank in _RANKS if rank <= most)
    if "rank" in given:
        checks.whole(rank=every["rank"])
        if every["rank"] > most:
            height, width = train.x.shape[1:]
            raise InputError(
                f"`rank` must lie in 1..{most} for {height}x{width} matrices, got "
                f"{every['rank']}."
            )
        ranks = (every["rank"],)
    grid: dict[str, Any] = dict(selection.GRID if arguments.grid == "paper" else _GRID)
    grid |= {name: (every[name],) for name in grid if name in given}
    elsewhere = ("rank", *selection.NAMES, "multi_class", "scale")
    with _Ticker() as ticker:
        return selection.select(
            data.labelled,
            num_folds=arguments.cv,
            ranks=ranks,
            grid=grid,
            seed=arguments.seed,
            say=ticker.say,
            **{name: v for name, v in every.items() if name not in elsewhere},
        )


def _check_folds(num_folds: int, sizes: Any) -> None:
    """Raise `InputError` unless a fold can hold all classes, or is one matrix."""
    smallest, total = int(sizes.min()), int(sizes.sum())
    if num_folds < 2:
        raise InputError(f"--cv must be at least 2, got {num_folds}.")
    if num_folds > smallest and num_folds != total:
        raise InputError(
            f"--cv must be at most {smallest}, the number of matrices in the smallest "
            f"class, or {total} to leave out one matrix at a time, got {num_folds}."
        )


class _Ticker:
    """Show progress: one line that changes on a terminal, else a line now and then."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._began = self._last = time.perf_counter()

    def __enter__(self) -> "_Ticker":
        """Begin to show."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the line."""
        if self._is_terminal:
            print(file=sys.stderr)

    def say(self, text: str) -> None:
        """Show a line of progress from `selection`."""
        now = time.perf_counter()
        text = f"cross-validation: {text}, {now - self._began:.0f} s"
        if self._is_terminal:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
        elif now - self._last >= _TICK_SECONDS:
            self._last = now
            print(text, file=sys.stderr, flush=True)
