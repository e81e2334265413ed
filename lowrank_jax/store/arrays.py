"""Arrays in one ``.npz`` file: the one reader and the one writer of such files.

Weights of sequence models are mostly zero (99.8 % of the dual of CoNLL-2000 chunking).
An array is therefore stored by the places and values of its entries if that is smaller.
An entry counts as zero if all its bits are zero, so -0.0 survives.

A file is read with suspicion. Sizes are compared with the headers before memory is
taken, pickled objects are refused, and whatever is wrong ends in `InputError`.
"""

import json
import math
import os
import zipfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from lowrank_jax.checks import InputError
from lowrank_jax.store.files import (
    Path,
    check_unpacked,
    most_unpacked,
    open_file,
    replace_file,
)

__all__ = [
    "check_arrays",
    "pack",
    "read_arrays",
    "read_json",
    "read_npz",
    "unpack",
    "write_arrays",
]
__dir__ = __all__.copy

_PLACES, _VALUES, _SHAPE = ".places", ".values", ".shape"
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_MOST_JSON = 1 << 28  # bytes of a text that is read whole
_MOST_ZEROS, _RATIO = 1 << 30, 1000  # bytes of what a file has by its entries


def pack(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Replace arrays that are mostly zero by places, values and shape."""
    packed: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        packed |= _pack_one(name, np.asarray(array))
    return packed


def unpack(packed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Undo `pack`."""
    arrays: dict[str, np.ndarray] = {}
    for name, array in packed.items():
        if name.endswith(_VALUES):
            name = name.removesuffix(_VALUES)
            shape = tuple(packed[name + _SHAPE].tolist())
            flat = np.zeros(math.prod(shape), array.dtype)  # no memory until written
            flat[packed[name + _PLACES]] = array
            arrays[name] = flat.reshape(shape)
        elif not name.endswith((_PLACES, _SHAPE)):
            arrays[name] = array
    return arrays


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays into one ``.npz`` file, packed, atomically."""
    packed = dict(sorted(pack(arrays).items()))  # read and written again: same bits
    # numpy's stub takes every keyword for its own option.
    replace_file(path, lambda file: np.savez(file, **packed))  # type: ignore[arg-type]


def read_arrays(
    path: Path, *, only: tuple[str, ...] | None = None
) -> dict[str, np.ndarray]:
    """Read what `write_arrays` wrote.

    Args:
      path: Path of the file.
      only: Names of arrays stored whole; None reads all arrays.

    Raises:
      InputError: If the file is missing, cut short or damaged.
    """
    words = ("is cut short or damaged", "delete it and make it again")
    packed = read_npz(path, only=only, words=words)
    try:
        size = sum(part.nbytes for part in packed.values())
        limit = max(_MOST_ZEROS, _RATIO * size, most_unpacked(size))
        check_unpacked(path, _num_bytes(packed), limit)
        return unpack(packed)
    except InputError:
        raise
    except Exception as error:
        raise _damaged(path, error, words) from None


def read_npz(
    path: Path, *, only: tuple[str, ...] | None = None, words: tuple[str, str]
) -> dict[str, np.ndarray]:
    """Read the arrays of an npz file as they are.

    Args:
      path: Path of the file.
      only: Names of the arrays to read; None reads all arrays.
      words: Words for a damaged file, and what to do about it.

    Raises:
      InputError: Whatever is wrong with the file.
    """
    with open_file(path) as raw:
        try:
            size = os.fstat(raw.fileno()).st_size
            if raw.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
                raise ValueError("one bare array and no archive")
            with zipfile.ZipFile(raw) as archive:
                infos = {i.filename.removesuffix(".npy"): i for i in archive.infolist()}
                wanted = infos if only is None else only
                _check_sizes(path, [infos[name] for name in wanted], size)
                found = {}
                for name in wanted:
                    with archive.open(infos[name]) as stream:
                        found[name] = _read_array(stream, infos[name].file_size)
                return found
        except InputError:
            raise
        except Exception as error:  # a parser of hostile bytes: any of dozens of kinds
            raise _damaged(path, error, words) from None


def read_json(path: Path) -> Any:
    """Read a JSON file that a program wrote.

    Raises:
      InputError: If the file is missing or no regular file.
      ValueError: If the content is not JSON, whatever the reason.
    """
    with open_file(path) as file:
        content = file.read(_MOST_JSON + 1)
    try:
        if len(content) > _MOST_JSON:
            raise ValueError("too long")
        return json.loads(content)
    except (ValueError, RecursionError, MemoryError) as error:
        raise ValueError(str(error) or type(error).__name__) from None


def check_arrays(
    place: Path,
    arrays: Mapping[str, np.ndarray],
    shapes: Mapping[str, tuple[int | None, ...]],
    kind: str = "f",
) -> None:
    """Raise `InputError` unless arrays have these shapes and are finite numbers.

    Args:
      place: Name of the file, for the message.
      arrays: Arrays by name.
      shapes: Shape of each array to look at; None stands for any size.
      kind: Kinds of dtype allowed, as in ``numpy.dtype.kind``.
    """
    for name, shape in shapes.items():
        found = arrays.get(name)
        if found is None:
            raise InputError(
                f"{os.fspath(place)} is damaged: it has no array {name!r}; train the "
                "model again."
            )
        fits = len(shape) == found.ndim and all(
            want in (None, have) for want, have in zip(shape, found.shape, strict=True)
        )
        is_half = found.dtype == np.float16
        if not fits or found.dtype.kind not in kind or is_half:
            asked = ", ".join("any" if n is None else str(n) for n in shape)
            raise InputError(
                f"{os.fspath(place)} is damaged: its array {name!r} is "
                f"{found.dtype}{list(found.shape)} where the shape [{asked}] is "
                "expected; train the model again."
            )
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise InputError(
                f"{os.fspath(place)} is damaged: its array {name!r} is not finite; "
                "train the model again."
            )


def _num_bytes(packed: Mapping[str, np.ndarray]) -> int:
    """Return the bytes that the arrays stored by their entries have as a whole."""
    return sum(
        math.prod(packed[name.removesuffix(_VALUES) + _SHAPE].tolist())
        * values.dtype.itemsize
        for name, values in packed.items()
        if name.endswith(_VALUES)
    )


def _damaged(path: Path, error: Exception, words: tuple[str, str]) -> InputError:
    reason = str(error).rstrip(".") or type(error).__name__
    return InputError(f"{os.fspath(path)} {words[0]} ({reason}); {words[1]}.")


def _check_sizes(path: Path, infos: list[zipfile.ZipInfo], size: int) -> None:
    """Raise unless the sizes that the archive claims are possible."""
    check_unpacked(path, sum(i.file_size for i in infos), most_unpacked(size))
    for info in infos:
        is_plain = info.compress_type == zipfile.ZIP_STORED
        if info.compress_size > size or (is_plain and info.file_size > size):
            raise ValueError(f"{info.filename} claims {info.file_size} bytes")


def _read_array(stream: IO[bytes], size: int) -> np.ndarray:
    """Read one array of an archive, of so many bytes with its header."""
    version = npy.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"array format {version}")
    shape, is_fortran, dtype = _HEADERS[version](stream)
    if dtype.hasobject:
        raise ValueError("an array of Python objects")
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize + stream.tell() != size:
        raise ValueError(f"an array of shape {shape} in {size} bytes")
    if dtype.itemsize == 0:
        return np.zeros(shape, dtype)
    content = stream.read()  # to the end, so that the checksum is compared
    array = np.frombuffer(bytearray(content), dtype, count)
    return array.reshape(shape, order="F" if is_fortran else "C")


def _pack_one(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    size = array.dtype.itemsize
    if size not in (1, 2, 4, 8) or array.ndim == 0:
        return {name: array}
    flat = np.ascontiguousarray(array).reshape(-1)
    places = np.flatnonzero(flat.view(f"u{size}"))
    index = np.dtype(np.uint32 if array.size < 2**32 else np.uint64)
    if places.size * (index.itemsize + size) >= array.nbytes:
        return {name: array}
    return {
        name + _PLACES: places.astype(index),
        name + _VALUES: flat[places],
        name + _SHAPE: np.array(array.shape, np.int64),
    }
