"""Files that are replaced as a whole, and arrays packed into one of them.

A file or a folder is written beside its place and then renamed. A process that is
killed while writing leaves the earlier content intact.

Weights of sequence models are mostly zero (99.8 % of the dual of CoNLL-2000 chunking).
An array is therefore stored by the places and values of its entries if that is smaller.
An entry counts as zero if all its bits are zero, so -0.0 survives.
"""

import functools
import os
import pathlib
import shutil
import zipfile
from collections.abc import Callable, Mapping
from typing import IO

import numpy as np

from lowrank_jax.checks import InputError

__all__ = [
    "CHECKPOINT",
    "Path",
    "pack",
    "previous_folder",
    "read_arrays",
    "replace_file",
    "replace_folder",
    "sync_folder",
    "unpack",
    "write_arrays",
]

#: Name of the checkpoint of an unfinished training in a model folder.
CHECKPOINT = "checkpoint.npz"

_PLACES, _VALUES, _SHAPE = ".places", ".values", ".shape"
_BROKEN = (zipfile.BadZipFile, EOFError, ValueError, KeyError, OSError)

Path = str | os.PathLike[str]


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
            shape = packed[name + _SHAPE].tolist()
            flat = np.zeros(int(np.prod(shape)), array.dtype)
            flat[packed[name + _PLACES]] = array
            arrays[name] = flat.reshape(shape)
        elif not name.endswith((_PLACES, _SHAPE)):
            arrays[name] = array
    return arrays


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays into one ``.npz`` file, packed, atomically."""
    packed = pack(arrays)
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
    try:
        # Opened here: numpy leaves a file open that turns out not to be an archive.
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            return unpack({name: file[name] for name in only or file.files})
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; check the path.") from None
    except _BROKEN as error:
        raise InputError(
            f"{path} is cut short or damaged ({error}); delete it and make it again."
        ) from None


def replace_file(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Write a file beside its place, force it to the disk, then rename it."""
    path = pathlib.Path(path)
    part = path.with_name(f".{path.name}.part")
    try:
        with open(part, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def replace_folder(
    folder: Path, write: Callable[[pathlib.Path], None], *, last: str
) -> None:
    """Write a folder of files beside its place, then rename it.

    There is always one complete folder: the old one, the new one, or, for the moment
    between two renames, the old one under the name of `previous_folder`. Where the
    folder cannot be renamed (a mount point), its files are replaced one by one.

    Args:
      folder: Place of the folder; made if it is missing. Its content is replaced.
      write: Function that puts the files into an empty folder.
      last: Name of the file without which the others count for nothing.
    """
    folder = pathlib.Path(folder).resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = _make_part(folder)
    try:
        write(part)
        sync_folder(part)
        _take_place(part, folder, last)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def previous_folder(folder: Path) -> pathlib.Path:
    """Return the place of the earlier folder while the new one is renamed."""
    folder = pathlib.Path(folder).resolve()
    return folder.with_name(f".{folder.name}.previous")


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk if the system can do that."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # pragma: no cover  (systems that cannot open folders)
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make_part(folder: pathlib.Path) -> pathlib.Path:
    """Make an empty folder to write to: beside, else inside."""
    try:
        return _make_empty(folder.with_name(f".{folder.name}.part"))
    except OSError:  # the parent may not be written
        if not folder.exists():
            raise
        return _make_empty(folder / ".part")


def _make_empty(folder: pathlib.Path) -> pathlib.Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def _take_place(part: pathlib.Path, folder: pathlib.Path, last: str) -> None:
    """Replace the old folder by the complete new one."""
    previous = previous_folder(folder)
    if folder.exists() and (part.parent == folder or not _move(folder, previous)):
        _copy_into(part, folder, last)
        return
    try:
        os.rename(part, folder)
    except OSError:
        if previous.exists():
            os.rename(previous, folder)
        raise
    sync_folder(folder.parent)
    shutil.rmtree(previous, ignore_errors=True)


def _move(folder: pathlib.Path, target: pathlib.Path) -> bool:
    """Rename a folder; return False if that cannot be done (a mount point)."""
    shutil.rmtree(target, ignore_errors=True)
    try:
        os.rename(folder, target)
    except OSError:
        return False
    return True


def _copy_into(part: pathlib.Path, folder: pathlib.Path, last: str) -> None:
    """Replace the files one by one, `last` being missing meanwhile."""
    (folder / last).unlink(missing_ok=True)
    names = {item.name for item in part.iterdir()} - {last}
    for old in {item.name for item in folder.iterdir() if item.is_file()} - names:
        (folder / old).unlink()
    for name in (*sorted(names), last):
        with open(part / name, "rb") as source:
            replace_file(folder / name, functools.partial(shutil.copyfileobj, source))


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
