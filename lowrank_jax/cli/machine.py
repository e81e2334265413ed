"""What a result says of the machine it was made on."""

import importlib.metadata
import pathlib
import platform
import sys
from typing import Any

from lowrank_jax import __version__

__all__ = ["describe_machine", "peak_memory_mb", "versions"]


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
