"""One writer per model folder: a lock that says who holds it.

The lock is a file in the folder, locked by the operating system. If its process ends,
however it ends, the lock is free. The text in the file (process, machine, time) is for
messages. Systems and disks without such locks have none.
"""

import contextlib
import datetime
import json
import os
import pathlib
import platform
import stat
import threading
from collections.abc import Iterator

from lowrank_jax.checks import InputError
from lowrank_jax.store.files import Path, check_path

try:
    import fcntl
except ImportError:  # pragma: no cover  (Windows)
    fcntl = None  # type: ignore[assignment]

__all__ = ["LOCK", "hold"]
__dir__ = __all__.copy

#: Name of the lock in a model folder.
LOCK = ".lock"

_held: dict[pathlib.Path, int] = {}  # folder -> thread


@contextlib.contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a folder; a thread may nest it.

    Args:
      folder: Folder. If it is missing, it is made, with the folders above it, and
        removed again if it stays empty.

    Raises:
      InputError: If another process or thread holds the lock.
    """
    folder = check_path(folder).resolve()
    if _held.get(folder) == threading.get_ident() or fcntl is None:
        folder.mkdir(parents=True, exist_ok=True)
        yield
        return
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    handle = _take(folder)
    _held[folder] = threading.get_ident()
    try:
        yield
    finally:
        del _held[folder]
        try:
            with contextlib.suppress(OSError):
                os.unlink(folder / LOCK)
        finally:
            os.close(handle)
        with contextlib.suppress(OSError):
            for path in new:
                path.rmdir()


def _take(folder: pathlib.Path) -> int:
    """Return the handle of the locked file."""
    path = folder / LOCK
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except FileNotFoundError:
            continue  # the earlier holder has just removed its empty folder
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            os.close(handle)
            raise InputError(f"{path} is not a lock of this program; remove it.")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = os.read(handle, 1000)
            os.close(handle)
            raise InputError(
                f"{folder} is being written by {_describe(who)}; wait for it to end or "
                "name another folder."
            ) from None
        except OSError:  # pragma: no cover  (a disk without locks)
            pass
        with contextlib.suppress(FileNotFoundError):
            if os.stat(path).st_ino == found.st_ino:
                break
        os.close(handle)  # the earlier holder has removed the file meanwhile
    now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    about = {"pid": os.getpid(), "host": platform.node(), "since": now}
    try:
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps(about).encode())
    except OSError:  # a full disk: the lock holds without its text
        pass
    except BaseException:
        os.close(handle)
        raise
    return handle


def _describe(content: bytes) -> str:
    try:
        about = json.loads(content)
        return f"process {about['pid']} on {about['host']} since {about['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
