"""What a command tells: notes, progress, scores, the machine; and how it is stopped."""

import contextlib
import importlib.metadata
import os
import pathlib
import platform
import signal
import sys
import threading
from typing import Any, TextIO

from lowrank_jax import __version__

__all__ = [
    "Progress",
    "StopRequest",
    "describe_machine",
    "describe_pass",
    "note",
    "peak_memory_mb",
    "release_memory",
    "score_line",
    "summary_to",
    "use_devices",
    "use_one_core",
    "versions",
]
__dir__ = __all__.copy

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def note(sentence: str) -> None:
    """Print a sentence on standard error."""
    print(f"lowrank-jax: {sentence}", file=sys.stderr, flush=True)


def summary_to(json_path: str | None) -> TextIO:
    """Return where the summary goes: not between the lines of a JSON result."""
    return sys.stderr if json_path == "-" else sys.stdout


def score_line(scores: dict[str, Any]) -> str:
    """Write the scores in one line."""
    return (
        f"F1 {scores['f1']:.2f} ({scores['f1_is']}), precision "
        f"{scores['precision']:.2f}, recall {scores['recall']:.2f}, accuracy "
        f"{scores['accuracy']:.2f}, sentences {scores['sentence_accuracy']:.2f}"
    )


def describe_pass(entry: dict[str, Any]) -> str:
    """Write what is known of one pass, in few words."""
    parts = []
    if "mistakes" in entry:
        parts.append(f"{entry['mistakes']:,} sentences with a mistake")
    if "updates" in entry:
        parts.append(f"{entry['updates']:,} updates")
    for name in ("loss", "objective"):
        if name in entry:
            parts.append(f"{name} {entry[name]:.6g}")
    if "dev" in entry:
        parts.append(f"dev F1 {entry['dev']:.2f}")
    if entry.get("converged"):
        parts.append("converged")
    seconds = max(entry["seconds"], 1e-9)
    unit = "lists" if "lists" in entry else "sentences"
    parts.append(f"{entry[unit] / seconds:,.0f} {unit}/s")
    return ", ".join(parts)


class Progress:
    """A context that shows a run: a live line on a terminal, else a line per pass."""

    def __init__(self) -> None:
        """Show nothing before the first pass begins."""
        self._num_passes, self._first, self._unit = 0, 0, "pass"
        self._seconds: list[float] = []
        self._live: tuple[Any, Any] | None = None

    def __enter__(self) -> "Progress":
        """Return the display."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the display."""
        if self._live is not None:
            self._live[0].stop()

    def note(self, sentence: str) -> None:
        """Print a sentence."""
        note(sentence)

    def begin(self, num_done: int, num_passes: int, unit: str = "pass") -> None:
        """Begin to show.

        Args:
          num_done: Number of passes that are done already.
          num_passes: Number of passes in all.
          unit: Name of a pass.
        """
        self._num_passes, self._first, self._unit = num_passes, num_done, unit
        if _is_terminal():
            self._live = _live(num_passes, num_done, unit)
        if self._live is not None:
            self._live[0].start()
        elif _is_terminal():
            print("compiling ...", file=sys.stderr, flush=True)

    def show(self, entry: dict[str, Any]) -> None:
        """Tell of a pass that has ended."""
        text = describe_pass(entry)
        if self._live is not None:
            display, task = self._live
            # The line has 80 columns at least.
            short = text.replace(" sentences/s", "/s").replace("sentences with", "with")
            display.update(task, advance=1, text=short)
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
        unit, total=num_passes, completed=first_pass, text="compiling ..."
    )
    return display, task


class StopRequest:
    """A context in which SIGINT and SIGTERM ask for a stop.

    The first signal asks for a stop after the pass, the second stops at once. A pass
    runs inside compiled code, and Python's own signal handlers wait for its end. The
    wakeup pipe does not: its byte is written when the signal comes, and a thread reads
    it.

    Attributes:
      number: Number of the first signal that came, else None.
    """

    def __init__(self, message: str) -> None:
        """Remember what to say when the first signal comes."""
        self.number: int | None = None
        self._message = message
        self._is_active = False

    def __enter__(self) -> "StopRequest":
        """Take over the signals; outside the main thread Python forbids it."""
        if threading.current_thread() is not threading.main_thread():
            return self
        self._is_active = True
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._handlers = {
            number: signal.signal(number, lambda *_: None) for number in _SIGNALS
        }
        return self

    def __exit__(self, *_: object) -> None:
        """Give the signals back."""
        if not self._is_active:
            return
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._write)
        self._thread.join()
        os.close(self._read)

    def _watch(self) -> None:
        while byte := os.read(self._read, 1):
            if byte[0] not in _SIGNALS:
                continue
            if self.number is not None:
                if sys.stderr.isatty():
                    sys.stderr.write("\033[?25h\n")  # show the cursor again
                os._exit(128 + byte[0])
            self.number = byte[0]
            print(self._message, file=sys.stderr, flush=True)


def use_one_core() -> None:
    """Have JAX run each operation on one core, for learners of many short steps.

    A step reads or writes a few rows of a large table. XLA's CPU back end weighs it by
    the size of the table, and hands a part of it to every core: most of a pass of BOL
    is then spent on waiting for the other core (docs/design.md). It has no option for
    this but the environment variable ``PJRT_NPROC``, which it reads once; if that is
    set, or JAX is loaded, nothing is changed. Other devices do not look at it.
    """
    if "jax" not in sys.modules:
        os.environ.setdefault("PJRT_NPROC", "1")


def use_devices(number: int) -> None:
    """Have JAX make so many devices of a CPU; other devices are as many as there are.

    Args:
      number: Number of devices, at most the number of cores this process may use.
    """
    import jax

    from lowrank_jax.checks import InputError

    cores = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
    try:
        jax.config.update("jax_num_cpu_devices", number)
    except RuntimeError:  # JAX runs already: it has the devices it has
        pass
    if jax.devices()[0].platform == "cpu" and number > max(len(cores), 2):
        raise InputError(
            f"--devices must be at most {len(cores)}, the cores of this machine that "
            f"may be used, got {number}."
        )


def describe_machine() -> dict[str, Any]:
    """Peak memory, versions and device."""
    import jax

    return {
        "peak_memory_mb": peak_memory_mb(),
        "versions": versions(),
        "device": jax.devices()[0].device_kind,
    }


def versions() -> dict[str, str]:
    """Return the versions of what computes, and of this package."""
    found = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib")}
    found["numpy"] = importlib.metadata.version("numpy")
    return found | {"lowrank_jax": __version__, "python": platform.python_version()}


def release_memory() -> None:
    """Give memory that was freed back to the system, where the C library can.

    Encoding a corpus frees some 60 MB that compiling would otherwise come on top of.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def peak_memory_mb() -> float:
    """Peak memory of this process in MB; what its parent had does not count."""
    try:
        status = pathlib.Path("/proc/self/status").read_text()
        (line,) = (line for line in status.split("\n") if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    except (OSError, ValueError):
        import resource  # not on every system

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 1024 / (1024 if sys.platform == "darwin" else 1)
