"""The one place that opens files to read or to write.

A file is written under a fresh name beside its place, forced to the disk and then
renamed. A process that is killed while writing leaves the earlier content intact. The
fresh name cannot be guessed, is created exclusively, and is opened relative to the
folder's own descriptor. So a link that somebody has put there is never followed, and a
file that this program did not make is never deleted.

A model folder has one writer. Its lock is a file in the folder, locked by the
operating system. If its process ends, however it ends, the lock is free. The text in
the file (process, machine, time) is for messages. Systems and disks without such locks
have none.

A packed file may be far smaller than its content. Readers therefore stop at a limit.
"""

import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import IO, Self

from lowrank_jax.checks import InputError

try:
    import fcntl
except ImportError:  # pragma: no cover  (Windows)
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "CHECKPOINT",
    "LOCK",
    "PARTS",
    "Folder",
    "Path",
    "check_path",
    "check_unpacked",
    "hold",
    "most_unpacked",
    "open_file",
    "replace_file",
    "write_bytes",
]
__dir__ = __all__.copy

#: Name of the checkpoint of an unfinished training in a model folder.
CHECKPOINT = "checkpoint.npz"
#: Name of the lock in a model folder.
LOCK = ".lock"
#: Names of files that a killed process may leave behind.
PARTS = re.compile(r"\.lowrank-jax-[0-9a-f]{32}\.part")
#: Environment variable with the largest unpacked size of a file, in bytes.
MAX_UNPACKED = "LOWRANK_JAX_MAX_UNPACKED"

_LEAST_LIMIT, _RATIO = 1 << 24, 50  # bytes; text packs 5 to 20 times
_HAS_DESCRIPTORS = os.open in os.supports_dir_fd  # not on Windows
_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_FRESH |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

Path = str | os.PathLike[str]

_held: dict[pathlib.Path, int] = {}  # folder -> thread


class Folder:
    """A context that holds a folder open; names are relative to it.

    If another process replaces the folder by a link, the files go to the folder that
    was opened.
    """

    def __init__(self, path: Path) -> None:
        """Keep the path."""
        self.path = pathlib.Path(path)
        self._handle: int | None = None

    def __enter__(self) -> Self:
        """Open the folder."""
        if _HAS_DESCRIPTORS:
            self._handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the folder."""
        if self._handle is not None:
            os.close(self._handle)

    def create(self, name: str) -> IO[bytes]:
        """Create a new file for writing; raise if the name is taken, even by a link."""
        return os.fdopen(os.open(self._at(name), _FRESH, 0o666, dir_fd=self._fd), "wb")

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing another."""
        fd = self._fd
        os.replace(self._at(old), self._at(new), src_dir_fd=fd, dst_dir_fd=fd)

    def remove(self, name: str) -> None:
        """Remove a file or a link if it is there."""
        try:
            os.unlink(self._at(name), dir_fd=self._fd)
        except FileNotFoundError:
            pass

    def sync(self) -> None:
        """Force the names in the folder to the disk if the system can do that."""
        if self._handle is not None:
            os.fsync(self._handle)

    @property
    def _fd(self) -> int | None:
        return self._handle

    def _at(self, name: str) -> str:
        return name if self._handle is not None else os.fspath(self.path / name)


def replace_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file beside its place, force it to the disk, then rename it.

    Args:
      path: Place of the file; its folder must exist.
      write: Function that writes the content.

    Raises:
      OSError: If it cannot be written. The error names the file.
    """
    path, part = check_path(path), f".lowrank-jax-{secrets.token_hex(16)}.part"
    try:
        with Folder(path.parent) as folder:
            file = folder.create(part)
            try:
                with file:
                    write(file)
                    file.flush()
                    os.fsync(file.fileno())
                folder.rename(part, path.name)
            except BaseException:
                folder.remove(part)
                raise
            folder.sync()
    except OSError as error:
        if error.errno is not None:  # "no space left" comes without a name
            error.filename, error.filename2 = os.fspath(path), None
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file by `replace_file`."""
    replace_file(path, lambda file: file.write(content))


def check_path(path: Path) -> pathlib.Path:
    """Return a path; raise `InputError` if no system can have a file of that name."""
    if "\0" in os.fspath(path):
        raise InputError(f"{path} holds a zero byte; check the path.")
    return pathlib.Path(path)


def open_file(path: Path, *, has_size: bool = True) -> IO[bytes]:
    """Open a file for reading; never wait for a pipe nor read a device without end.

    Args:
      path: Path of the file.
      has_size: True if it must be a regular file. If False, pipes and terminals may
        be read, too.

    Raises:
      InputError: If it is missing, a folder, a device, or may not be read.
    """
    name = os.fspath(check_path(path))
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(name, flags | (os.O_NONBLOCK if has_size else 0))
    except FileNotFoundError:
        raise InputError(f"{name} does not exist; check the path.") from None
    except OSError as error:
        raise InputError(
            f"{name} cannot be read ({error.strerror}); check its permissions."
        ) from None
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    is_stream = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(handle)
    if not has_size and is_stream:
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise InputError(f"{name} is a folder; name a file in it.")
    raise InputError(f"{name} is not a regular file but a device or pipe; name a file.")


def most_unpacked(num_bytes: int) -> int:
    """Return the largest unpacked size that a packed file of so many bytes may have."""
    given = os.environ.get(MAX_UNPACKED, "")
    if given.isascii() and given.isdecimal() and len(given) < 19:
        return int(given)
    return max(_LEAST_LIMIT, _RATIO * num_bytes)


def check_unpacked(name: Path, size: int, limit: int) -> None:
    """Raise `InputError` if an unpacked size is above the limit."""
    if size > limit:
        raise InputError(
            f"{os.fspath(name)} unpacks to more than {limit:,} bytes; if that is "
            f"right, raise the limit with --max-unpacked BYTES or {MAX_UNPACKED}."
        )


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
