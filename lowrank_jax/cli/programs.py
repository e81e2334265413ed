"""Compiled programs kept from one call of a command to the next.

JAX keeps them itself if the environment names a folder. The folder here is below the
user's cache folder, with one part per machine, version and command: a program of a
processor with other instructions, or compiled for another number of cores, is never
loaded. Compiled code is executed, so the folder must belong to the user alone.
"""

import contextlib
import hashlib
import importlib.metadata
import os
import pathlib
import platform
import shutil
import stat
import sys
import warnings
from typing import Any

__all__ = ["folder_of", "keep_programs"]
__dir__ = __all__.copy

_MOST_BYTES = 256 * 2**20
_DAMAGE = "Error reading persistent compilation cache entry"
_VARIABLES = ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE")


def keep_programs(command: str) -> None:
    """Have JAX keep compiled programs, unless the environment or the disk forbids it.

    JAX reads the environment when it is loaded. If it is loaded already, nothing is
    changed. If an entry is damaged, all entries are removed and made again.

    Args:
      command: Name of the command.
    """
    if "jax" in sys.modules or any(name in os.environ for name in _VARIABLES):
        return
    folder = folder_of(command)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
        if hasattr(os, "getuid") and about.st_uid != os.getuid():
            return
        if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and os.name == "posix":
            return
        _shrink(folder)
    except OSError:  # no home, a full or read-only disk
        return
    os.environ[_VARIABLES[0]] = str(folder)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    show = warnings.showwarning

    def heal(message: Any, *given: Any, **more: Any) -> None:
        if str(message).startswith(_DAMAGE):
            _empty(folder)  # JAX does not replace an entry that it cannot read
        else:
            show(message, *given, **more)

    warnings.showwarning = heal
    warnings.filterwarnings("always", message=_DAMAGE)
    warnings.filterwarnings("ignore", message="Error writing persistent compilation")


def folder_of(command: str) -> pathlib.Path:
    """Return the folder of the programs of a command on this machine."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    parts = [platform.platform(), platform.machine(), platform.python_version()]
    parts += [importlib.metadata.version(name) for name in ("jax", "jaxlib")]
    parts += [os.environ.get(name, "") for name in ("XLA_FLAGS", "PJRT_NPROC")]
    with contextlib.suppress(OSError):
        lines = pathlib.Path("/proc/cpuinfo").read_text().split("\n")
        names = ("flags", "Features", "model name")
        parts += sorted({line for line in lines if line.startswith(names)})
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return cache / "lowrank_jax" / "programs" / f"{command}-{digest}"


def _shrink(folder: pathlib.Path) -> None:
    """Remove all entries if they take too much room."""
    if sum(item.stat().st_size for item in folder.iterdir()) > _MOST_BYTES:
        _empty(folder)


def _empty(folder: pathlib.Path) -> None:
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
        folder.mkdir(mode=0o700)
