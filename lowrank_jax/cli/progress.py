"""Show how training goes: a live line on a terminal, else one line a pass."""

import sys
from types import TracebackType
from typing import Any

__all__ = ["Progress", "describe_pass"]


def describe_pass(entry: dict[str, Any]) -> str:
    """Write what is known of one pass, in few words."""
    parts = []
    if "mistakes" in entry:
        parts.append(f"{entry['mistakes']:,} wrong")
    if "updates" in entry:
        parts.append(f"{entry['updates']:,} updates")
    for name in ("loss", "objective"):
        if name in entry:
            parts.append(f"{name} {entry[name]:.6g}")
    if entry.get("converged"):
        parts.append("converged")
    seconds = max(entry["seconds"], 1e-9)
    unit = "lists" if "lists" in entry else "sentences"
    parts.append(f"{entry[unit] / seconds:,.0f} {unit}/s")
    return ", ".join(parts)


class Progress:
    """A context that is told of each pass."""

    def __init__(self, num_passes: int, first_pass: int = 0, unit: str = "pass"):
        """Choose the display.

        Args:
          num_passes: in all, those already done included.
          first_pass: how many are done already.
          unit: what a pass is called.
        """
        self._num_passes, self._first, self._unit = num_passes, first_pass, unit
        self._seconds: list[float] = []
        self._live = _live(num_passes, first_pass, unit) if _is_terminal() else None

    def __enter__(self) -> "Progress":
        """Begin to show."""
        if self._live is not None:
            self._live[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the display."""
        if self._live is not None:
            self._live[0].stop()

    def show(self, entry: dict[str, Any]) -> None:
        """Tell of a pass that has ended."""
        text = describe_pass(entry)
        if self._live is not None:
            display, task = self._live
            display.update(task, advance=1, text=text)
            return
        self._seconds.append(entry["seconds"])
        number = self._first + len(self._seconds)
        mean = sum(self._seconds) / len(self._seconds)
        left = mean * (self._num_passes - number)
        print(
            f"{self._unit} {number}/{self._num_passes}: {text}, "
            f"{entry['seconds']:.1f} s, {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )


def _is_terminal() -> bool:
    return sys.stderr.isatty()


def _live(num_passes: int, first_pass: int, unit: str) -> tuple[Any, Any] | None:
    """A display of `rich`, where that is installed."""
    try:
        from rich import console, progress
    except ImportError:
        return None
    display = progress.Progress(
        progress.SpinnerColumn(),
        progress.TextColumn(unit),
        progress.MofNCompleteColumn(),
        progress.BarColumn(bar_width=6),  # all of it fits into 80 columns
        progress.TimeRemainingColumn(),
        progress.TextColumn("left"),
        progress.TextColumn("{task.fields[text]}"),
        console=console.Console(stderr=True),
    )
    task = display.add_task(
        unit, total=num_passes, completed=first_pass, text="compiling"
    )
    return display, task
