"""The model folder, one form for all kinds of models.

A folder holds ``model.json`` (what the model is, how it was made, size and SHA-256 of
the arrays), one or two files of arrays, and perhaps further files such as pictures. It
is written beside its place and then renamed. There is always one complete model to
read, the old or the new one.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from lowrank_jax import __version__
from lowrank_jax.checks import InputError
from lowrank_jax.store import files
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

#: Name of the certificate that a training may leave beside its model.
CERTIFICATE = "certificate.json"

_FORMAT = 1
_MODEL = "model.json"
_REMAINS = (".part",)  # of a write that was killed
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
        about = json.loads((_place(folder) / _MODEL).read_text(encoding="utf-8"))
        return str(about.get("kind", _TAGGER)) if "format_version" in about else None
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def check_target(folder: Path, kind: str) -> None:
    """Raise `InputError` unless a model of this kind may be written there.

    Args:
      folder: Place of the model. It may be missing, empty, or hold a model of the same
        kind or the checkpoint of one.
      kind: Kind of the model to write.
    """
    folder, about = pathlib.Path(folder), KINDS[kind]
    found = kind_of(folder)
    if found is not None and found != kind:
        raise InputError(
            f"{folder} holds a {_title(found)}; name another folder for a "
            f"{about.title}."
        )
    if folder.is_dir():
        ours = {_MODEL, *_REMAINS, *about.extra, *(f"{a}.npz" for a in about.arrays)}
        if about.resume:
            ours |= {files.CHECKPOINT, f".{files.CHECKPOINT}.part"}
        foreign = sorted({item.name for item in folder.iterdir()} - ours)
        if foreign:
            raise InputError(
                f"{folder} is not the folder of a {about.title}: it holds "
                f"{foreign[0]!r}; name a new or empty folder."
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
      content: What the folder is to hold.
      keep_checkpoint: If true, a checkpoint in the earlier folder stays.

    Raises:
      InputError: If the folder holds a model of another kind or foreign files.
    """
    check_target(folder, kind)
    kept = pathlib.Path(folder) / files.CHECKPOINT

    def put(part: pathlib.Path) -> None:
        about: dict[str, Any] = {"format_version": _FORMAT}
        if kind != _TAGGER:
            about["kind"] = kind
        about |= {"package_version": __version__, **content.about, "files": {}}
        for name, arrays in content.arrays.items():
            path = part / f"{name}.npz"
            files.write_arrays(path, arrays)
            about["files"][path.name] = _describe(path)
        for name, data in content.extra.items():
            (part / name).write_bytes(data)
        if keep_checkpoint and kept.exists():
            shutil.copy2(kept, part / files.CHECKPOINT)
        text = (json.dumps(about, indent=1) + "\n").encode()
        files.replace_file(part / _MODEL, lambda file: _put(file, text))

    files.replace_folder(folder, put, last=_MODEL)


def read(folder: Path, kind: str) -> Content:
    """Read a model that `write` wrote.

    Raises:
      InputError: If there is no model of this kind, or it is unfinished, of another
        version, cut short or damaged.
    """
    shown, folder = folder, _place(folder)
    try:
        about = json.loads((folder / _MODEL).read_text(encoding="utf-8"))
        version, found = about["format_version"], about.get("kind", _TAGGER)
        expected = dict(about["files"])
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(folder, shown, kind) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{folder / _MODEL} is cut short or damaged; train the model again."
        ) from None
    if found != kind and found in KINDS:
        raise InputError(
            f"{shown} is a {_title(found)}; use lowrank-jax {KINDS[found].command}."
        )
    if found != kind or version != _FORMAT:
        what = f"model format {version!r}" if found == kind else f"the kind {found!r}"
        known = _FORMAT if found == kind else repr(kind)
        raise InputError(
            f"{shown} has {what} where this version reads {known}; use the version of "
            f"lowrank_jax that wrote it ({about.get('package_version')}), or train "
            f"again."
        )
    with complete(folder / _MODEL, kind):
        for name in KINDS[kind].arrays:
            _check_file(folder / f"{name}.npz", expected[f"{name}.npz"])
    arrays = {
        name: files.read_arrays(folder / f"{name}.npz") for name in KINDS[kind].arrays
    }
    return Content(about, arrays)


@contextlib.contextmanager
def complete(place: Path, kind: str) -> Iterator[None]:
    """Turn a missing part of a model into one sentence.

    Args:
      place: What was read, for the message.
      kind: Kind of the model.
    """
    try:
        yield
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{os.fspath(place)} is damaged or not of a {_title(kind)} ({error}); "
            "train the model again."
        ) from None


def _place(folder: Path) -> pathlib.Path:
    """Return where the model is if `write` was killed between its two renames."""
    folder = pathlib.Path(folder)
    previous = files.previous_folder(folder)
    return previous if not folder.exists() and previous.exists() else folder


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
    with contextlib.suppress(InputError, KeyError, TypeError):
        # A reranker has settings where a tagger has hyperparameters.
        text = files.read_arrays(path, only=("metadata",))["metadata"].tobytes()
        settings = json.loads(text)["metadata"]["settings"]
        command = "rerank train" if "settings" in settings else "train"
    return InputError(
        f"{shown} holds the checkpoint of an unfinished training and no model; resume "
        f"with {command} --resume."
    )


def _describe(path: pathlib.Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"sha256": digest, "bytes": path.stat().st_size}


def _check_file(path: pathlib.Path, expected: Mapping[str, Any]) -> None:
    if not path.exists():
        raise InputError(
            f"{path} is missing, so the model is incomplete; copy the whole folder or "
            f"train again."
        )
    size = path.stat().st_size
    if size != expected["bytes"]:
        raise InputError(
            f"{path} has {size} bytes where {expected['bytes']} are expected, so the "
            f"model is incomplete; copy the whole folder or train again."
        )
    if _describe(path)["sha256"] != expected["sha256"]:
        raise InputError(
            f"{path} does not have the checksum it was written with; copy the folder "
            f"again or train again."
        )


def _put(file: Any, content: bytes) -> None:
    file.write(content)
