"""Text files: plain, ``.gz`` or ``.xz``, with or without a byte order mark.

A file is read whole, so an error is reported with its line before any work is done. The
name ``-`` stands for standard input. A packed file that unpacks to more than 50 times
its size (and 16 MiB) is refused; `store.files.most_unpacked` says how to raise the
limit.

A text becomes an array of code points. A column of single characters has dtype ``U1``.
Each character takes four bytes, which hold its code point. A view as ``uint32`` costs
nothing and gives the integer code of the character.
"""

import gzip
import io
import lzma
import os
import pathlib
import stat
import sys
import zlib
from typing import IO, Any

import numpy as np

from lowrank_jax.checks import InputError
from lowrank_jax.store.files import check_unpacked, most_unpacked, open_file

__all__ = [
    "as_characters",
    "code_points",
    "is_space",
    "open_text",
    "read_bytes",
    "read_text",
    "source_name",
]
__dir__ = __all__.copy

_OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
_MOST_PIPED = 1 << 30  # bytes of what has no size; the limit of packed files raises it
_BLOCK = 1 << 20
_BROKEN = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
# `str.isspace` of each code point. The highest space is the ideographic space U+3000.
_LAST_SPACE = 0x3000
_SPACES = np.array([chr(code).isspace() for code in range(_LAST_SPACE + 2)])


def source_name(path: str | os.PathLike[str]) -> str:
    """Return the name of a file for messages; ``-`` is standard input."""
    return "standard input" if os.fspath(path) == "-" else os.fspath(path)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Read a file and unpack it if its name ends in ``.gz`` or ``.xz``.

    Args:
      path: File, or ``-`` for standard input (not unpacked).

    Returns:
      The unpacked content.

    Raises:
      InputError: If the file is missing, a folder, not readable or a broken archive.
    """
    name = source_name(path)
    if name == "standard input":
        return _read(sys.stdin.buffer, name, max(_MOST_PIPED, most_unpacked(0)))
    with open_file(path, has_size=False) as raw:
        about = os.fstat(raw.fileno())
        opener = _OPENERS.get(pathlib.Path(path).suffix.lower())
        limit = most_unpacked(about.st_size)
        if not stat.S_ISREG(about.st_mode):
            limit = max(_MOST_PIPED, most_unpacked(0))
        elif opener is None:
            limit = max(limit, about.st_size)
        try:
            with opener(raw, "rb") if opener is not None else raw as stream:
                return _read(stream, name, limit)
        except _BROKEN as error:  # before OSError, the base class of gzip.BadGzipFile
            line = _last_readable_line(path, opener)
            raise InputError(
                f"{name} is a truncated or damaged archive ({error}), readable up to "
                f"line {line}; fetch or pack it again."
            ) from None
        except (OSError, MemoryError) as error:
            reason = getattr(error, "strerror", None) or str(error) or "no memory"
            raise InputError(
                f"{name} cannot be read ({reason}); check its permissions."
            ) from None


def read_text(path: str | os.PathLike[str], encoding: str = "utf-8") -> str:
    r"""Read a text file whole, without its byte order mark.

    Args:
      path: File (plain, ``.gz``, ``.xz``), or ``-`` for standard input.
      encoding: Encoding of the bytes.

    Returns:
      The text; line ends are left as they are (``\n`` or ``\r\n``).

    Raises:
      InputError: As `read_bytes`. Also if a byte is zero or not valid in the encoding;
        the message names the line of the first such byte.
    """
    content = read_bytes(path)
    name = source_name(path)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise InputError(
            f"{name}:{line} is not {encoding} text (byte 0x{byte:02x}); "
            f"convert the file, for example with iconv -t UTF-8."
        ) from None
    except LookupError:
        raise InputError(
            f"`encoding` must be one that Python knows, got {encoding!r}."
        ) from None
    zero = text.find("\0")
    if zero >= 0:
        line = text.count("\n", 0, zero) + 1
        raise InputError(
            f"{name}:{line} holds a zero byte, so it is not a text file; check that "
            f"the right file was given and unpacked."
        )
    return text.removeprefix("\ufeff")


def open_text(path: str | os.PathLike[str], encoding: str = "utf-8") -> IO[str]:
    """Open a text file for reading line by line. Arguments as for `read_text`.

    When this returns, the whole file has been read and checked.
    """
    return io.StringIO(read_text(path, encoding), newline=None)


def _read(stream: IO[bytes], name: str, limit: int) -> bytes:
    """Read to the end, or to the limit."""
    content = bytearray()
    while block := stream.read(_BLOCK):
        content += block
        check_unpacked(name, len(content), limit)
    return bytes(content)


def _last_readable_line(path: str | os.PathLike[str], opener: Any) -> int:
    """Count the complete lines of a broken archive up to its first bad byte."""
    num_lines = 0
    with open_file(path) as raw, opener(raw, "rb") as stream:
        try:
            while block := stream.read(1 << 10):
                num_lines += block.count(b"\n")
        except _BROKEN:
            pass
    return num_lines


def code_points(text: str) -> np.ndarray:
    """Return the code points of a text.

    Args:
      text: Any string.

    Returns:
      (len(text),) uint32 code points.
    """
    return np.frombuffer(text.encode("utf-32-le"), "<u4").astype(np.uint32, copy=False)


def as_characters(codes: np.ndarray) -> np.ndarray:
    """View code points as characters, without a copy.

    Args:
      codes: Code points, (n,) uint32.

    Returns:
      Characters, (n,) ``U1``.
    """
    return np.ascontiguousarray(codes, np.uint32).view(np.dtype("U1"))


def is_space(codes: np.ndarray) -> np.ndarray:
    """Tell which code points are white space, as `str.isspace` does.

    Args:
      codes: Code points, (n,) uint32.

    Returns:
      (n,) bool, True for white space.
    """
    return _SPACES[np.minimum(codes, _LAST_SPACE + 1)]
