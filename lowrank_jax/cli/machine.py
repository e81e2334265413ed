"""The machine: what a result says of it, and how many of its cores are used."""

import importlib.metadata
import os
import pathlib
import platform
import sys
from typing import Any

from lowrank_jax import __version__

__all__ = ["describe_machine", "peak_memory_mb", "use_one_core", "versions"]


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


def describe_machine() -> dict[str, Any]:
    """Peak memory, versions and device."""
    import jax

    return {
        "peak_memory_mb": peak_memory_mb(),
        "versions": versions(),
        "device": jax.devices()[0].device_kind,
    }


def versions() -> dict[str, str]:
    """Of what computes, and of this package."""
    found = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib")}
    found["numpy"] = importlib.metadata.version("numpy")
    return found | {"lowrank_jax": __version__, "python": platform.python_version()}


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
