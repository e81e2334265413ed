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
__dir__ = __all__.copy

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
    from lowrank_jax.estimators.classifier import choosing, selection

    assert train.y is not None
    x, scales = train.x, {name: every[name] for name in ("scale", "multi_class")}
    data = classifier.prepare(x, train.y, **scales)
    _check_folds(arguments.cv, np.unique(train.y, return_counts=True)[1])
    if data.is_one_vs_all:
        raise InputError(
            "--cv chooses for one model of all classes: leave multi_class=one-vs-all "
            "out, or give rank and strengths yourself."
        )
    most = min(x.shape[1:])
    tried = (1, 2, 3) if arguments.grid == "paper" else (1, 2)
    ranks = tuple(rank for rank in tried if rank <= most)
    if "rank" in given:
        checks.whole(rank=every["rank"])
        if every["rank"] > most:
            raise InputError(
                f"`rank` must lie in 1..{most} for {x.shape[1]}x{x.shape[2]} matrices, "
                f"got {every['rank']}."
            )
        ranks = (every["rank"],)
    elsewhere = ("rank", *selection.NAMES, *scales)
    options = {name: v for name, v in every.items() if name not in elsewhere}
    fixed = {name: (every[name],) for name in selection.NAMES if name in given}
    with _Ticker() as ticker:
        common = {"ranks": ranks, "seed": arguments.seed, "say": ticker.say}
        if arguments.grid == "paper":  # rank first, then the strengths (SBLR-E3)
            grid = selection.GRID | fixed
            return selection.select(
                data.labelled, num_folds=arguments.cv, grid=grid, **common, **options
            )
        return choosing.choose(
            x, train.y, fixed=fixed, cv=arguments.cv, **common, **scales, **options
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
