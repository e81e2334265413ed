"""The model folder, one form for all kinds of models.

A folder holds ``model.json`` and one or two files of arrays. ``model.json`` says what
the model is and how it was made, and holds size and SHA-256 of the arrays. Further
files, such as pictures, may stand beside them.

There is always one complete model to read, the old or the new one, also if the folder
is a mount point. New arrays are written beside the old ones as ``NAME.new.npz``. Then
``model.json`` is replaced by one rename, which is the moment of change. Then the new
arrays are renamed. A reader takes the file that has the checksum in ``model.json``.
"""

import contextlib
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from lowrank_jax import __version__
from lowrank_jax.checks import InputError
from lowrank_jax.store import files
from lowrank_jax.store.arrays import read_arrays, read_json, write_arrays
from lowrank_jax.store.files import Path

__all__ = [
    "CERTIFICATE",
    "KINDS",
    "Content",
    "Kind",
    "check_target",
    "complete",
    "kind_of",
    "read",
    "write",
]
__dir__ = __all__.copy

#: Name of the certificate that a training may leave beside its model.
CERTIFICATE = "certificate.json"

_FORMAT = 1
_MODEL = "model.json"
_TAGGER = "tagger"  # the kind of a folder that names none


class Kind(NamedTuple):
    """One kind of model.

    Attributes:
      title: Name of the model in messages.
      command: Command that applies the model.
      resume: Command that resumes an unfinished training, "" if none can be resumed.
      arrays: Names of the files of arrays, without ``.npz``.
      extra: Names of further files that may be in the folder.
    """

    title: str
    command: str
    resume: str = ""
    arrays: tuple[str, ...] = ("weights",)
    extra: tuple[str, ...] = ()


#: The kinds by the name that ``model.json`` gives them.
KINDS: Mapping[str, Kind] = {
    _TAGGER: Kind("tagger", "tag", "train", ("weights", "vocabulary"), (CERTIFICATE,)),
    "word tagger": Kind("speller", "tag", "train"),
    "matrix classifier": Kind(
        "classifier",
        "predict",
        extra=("patterns.png", "convergence.png", "path.png"),
    ),
    "reranker": Kind("reranker", "rerank apply", "rerank train"),
}


class Content(NamedTuple):
    """What a folder holds.

    Attributes:
      about: Description of the model, ready for JSON.
      arrays: Arrays by name, for each file of arrays.
      extra: Content of further files by name; `read` leaves it empty.
    """

    about: dict[str, Any]
    arrays: Mapping[str, dict[str, np.ndarray]]
    extra: Mapping[str, bytes] = {}


def kind_of(folder: Path) -> str | None:
    """Return the kind of the model in a folder, None if there is no model."""
    try:
        about = read_json(pathlib.Path(folder) / _MODEL)
        return str(about.get("kind", _TAGGER)) if "format_version" in about else None
    except (ValueError, TypeError, AttributeError):
        return None


def check_target(folder: Path, kind: str) -> None:
    """Raise `InputError` unless a model of this kind may be written there.

    Args:
      folder: Place of the model. It may be missing, empty, or hold a model of the same
        kind or the checkpoint of one.
      kind: Kind of the model to write.
    """
    folder, about = files.check_path(folder), KINDS[kind]
    found = kind_of(folder)
    if found is not None and found != kind:
        raise InputError(
            f"{folder} holds a {_title(found)}; name another folder for a "
            f"{about.title}."
        )
    if folder.is_dir():
        ours = {_MODEL, files.LOCK, *about.extra}
        ours |= {name for array in about.arrays for name in _names(array)}
        ours |= {files.CHECKPOINT} if about.resume else set()
        for item in sorted(folder.iterdir()):
            is_ours = item.name in ours or files.PARTS.fullmatch(item.name)
            if not is_ours or (item.is_dir() and not item.is_symlink()):
                raise InputError(
                    f"{folder} is not the folder of a {about.title}: it holds "
                    f"{item.name!r}; name a new or empty folder."
                )
    elif folder.exists() or folder.is_symlink():
        raise InputError(f"{folder} is not a folder; name another place for the model.")


def write(
    folder: Path, kind: str, content: Content, *, keep_checkpoint: bool = False
) -> None:
    """Write a model, replacing an earlier one when this one is complete.

    Args:
      folder: Place of the model; made if it is missing.
      kind: Kind of the model; `read` asks for the same.
      content: Content that the folder gets.
      keep_checkpoint: If true, a checkpoint in the earlier folder stays.

    Raises:
      InputError: If the folder holds a model of another kind or foreign files, or
        another process writes to it.
    """
    check_target(folder, kind)
    about: dict[str, Any] = {"format_version": _FORMAT}
    if kind != _TAGGER:
        about["kind"] = kind
    about |= {"package_version": __version__, **content.about, "files": {}}
    with files.hold(folder), files.Folder(pathlib.Path(folder).resolve()) as place:
        _mend(place, kind)
        for name, arrays in content.arrays.items():
            plain, new = _names(name)
            write_arrays(place.path / new, arrays)
            about["files"][plain] = _describe(place.path / new)
        for name in KINDS[kind].extra:  # files of the earlier model
            place.remove(name)
        text = json.dumps(about, indent=1) + "\n"
        files.write_bytes(place.path / _MODEL, text.encode())  # the moment of change
        for name in content.arrays:
            place.rename(*reversed(_names(name)))
        for name, data in content.extra.items():
            files.write_bytes(place.path / name, data)
        if not keep_checkpoint:
            place.remove(files.CHECKPOINT)
        place.sync()


def read(folder: Path, kind: str) -> Content:
    """Read a model that `write` wrote.

    Raises:
      InputError: If there is no model of this kind, or it is unfinished, of another
        version, cut short or damaged.
    """
    shown, folder = folder, files.check_path(folder)
    if not os.path.lexists(folder / _MODEL):
        raise _missing(folder, shown, kind)
    try:
        about = read_json(folder / _MODEL)
        version, found = about["format_version"], about.get("kind", _TAGGER)
        expected = dict(about["files"])
        known = found in KINDS
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{folder / _MODEL} is cut short or damaged; train the model again."
        ) from None
    if found != kind and known:
        raise InputError(
            f"{shown} is a {_title(found)}; use lowrank-jax {KINDS[found].command}."
        )
    if found != kind or version != _FORMAT:
        what = f"model format {version!r}" if found == kind else f"the kind {found!r}"
        reads = _FORMAT if found == kind else repr(kind)
        raise InputError(
            f"{shown} has {what} where this version reads {reads}; use the version of "
            f"lowrank_jax that wrote it ({about.get('package_version')}), or train "
            f"again."
        )
    arrays = {}
    for name in KINDS[kind].arrays:
        with complete(folder / _MODEL, kind):
            wanted = expected[f"{name}.npz"]
            size, digest = int(wanted["bytes"]), str(wanted["sha256"])
        arrays[name] = read_arrays(_find(folder, name, size, digest))
    return Content(about, arrays)


@contextlib.contextmanager
def complete(place: Path, kind: str) -> Iterator[None]:
    """Turn a missing part of a model into one sentence.

    Args:
      place: Name of the file, for the message.
      kind: Kind of the model.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # content of any type and size may be there
        raise InputError(
            f"{os.fspath(place)} is damaged or not of a {_title(kind)} "
            f"({type(error).__name__}: {error}); train the model again."
        ) from None


def _names(array: str) -> tuple[str, str]:
    """Return the names of a file of arrays: in place, and before its rename."""
    return f"{array}.npz", f"{array}.new.npz"


def _mend(place: files.Folder, kind: str) -> None:
    """Finish or clear away what an earlier write left when it was killed."""
    for item in place.path.iterdir():
        if files.PARTS.fullmatch(item.name) and item.is_file():
            place.remove(item.name)
    try:
        expected = dict(read_json(place.path / _MODEL)["files"])
    except (ValueError, KeyError, TypeError):  # no model, or a damaged one
        expected = {}
    for name in KINDS[kind].arrays:
        plain, new = _names(name)
        if not os.path.lexists(place.path / new):
            continue
        if (place.path / new).is_file() and expected.get(plain) == _describe(
            place.path / new
        ):
            place.rename(new, plain)
        else:
            place.remove(new)


def _title(kind: str) -> str:
    return KINDS[kind].title if kind in KINDS else f"model of the kind {kind!r}"


def _missing(folder: pathlib.Path, shown: Path, kind: str) -> InputError:
    """Say what a folder without a model is."""
    path = folder / files.CHECKPOINT
    if not path.exists():
        return InputError(
            f"{shown} is not a model folder: it has no {_MODEL}; check the path."
        )
    command = KINDS[kind].resume or "train"
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        # A reranker has settings where a tagger has hyperparameters.
        text = read_arrays(path, only=("metadata",))["metadata"].tobytes()
        settings = json.loads(text)["metadata"]["settings"]
        command = "rerank train" if "settings" in settings else "train"
    return InputError(
        f"{shown} holds the checkpoint of an unfinished training and no model; resume "
        f"with {command} --resume."
    )


def _describe(path: pathlib.Path) -> dict[str, Any]:
    with files.open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        digest = hashlib.file_digest(file, "sha256")  # type: ignore[arg-type]
    return {"sha256": digest.hexdigest(), "bytes": size}


def _find(folder: pathlib.Path, name: str, size: int, digest: str) -> pathlib.Path:
    """Return the file of arrays with this size and checksum."""
    paths = [folder / form for form in _names(name)]
    there = [path for path in paths if os.path.lexists(path)]
    for path in there:
        with files.open_file(path) as file:
            found = os.fstat(file.fileno()).st_size
        if found == size and _describe(path)["sha256"] == digest:
            return path
    if paths[0] not in there:
        raise InputError(
            f"{paths[0]} is missing, so the model is incomplete; copy the whole folder "
            f"or train again."
        )
    with files.open_file(paths[0]) as file:
        found = os.fstat(file.fileno()).st_size
    if found != size:
        raise InputError(
            f"{paths[0]} has {found} bytes where {size} are expected, so the model is "
            f"incomplete; copy the whole folder or train again."
        )
    raise InputError(
        f"{paths[0]} does not have the checksum it was written with; copy the folder "
        f"again or train again."
    )
