"""A model as a folder: one JSON text, one file of arrays, and pictures.

The JSON text says what the model is and holds size and SHA-256 of the arrays. The
folder is written beside its place and then renamed: there is always one complete
model to read, the old or the new one.
"""

import contextlib
import hashlib
import json
import os
import pathlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from lowrank_jax import __version__
from lowrank_jax.checks import InputError
from lowrank_jax.store import checkpoint

__all__ = ["Content", "check_target", "complete", "read", "write"]

_FORMAT = 1
_MODEL, _ARRAYS = "model.json", "weights.npz"
_REMAINS = (".part",)  # of a write that was killed

Path = str | os.PathLike[str]


class Content(NamedTuple):
    """What a folder holds.

    Attributes:
      about: ready for JSON.
      arrays: by name.
    """

    about: dict[str, Any]
    arrays: dict[str, np.ndarray]


def check_target(
    folder: Path, extra: Collection[str] = (), *, kind: str | None = None
) -> None:
    """Raise `InputError` unless a model may be written there.

    Args:
      folder: may be missing, empty, or hold a model.
      extra: names of further files that a model may have.
      kind: of the model to write; one of another kind is not replaced. None leaves
        that to `write`, which asks again.
    """
    folder = pathlib.Path(folder)
    found = _kind_of(folder)
    if kind is not None and found not in (None, kind):
        raise InputError(f"{folder} holds a {found}; name another folder for a {kind}.")
    if folder.is_dir():
        ours = {_MODEL, _ARRAYS, *_REMAINS, *extra}
        foreign = sorted({item.name for item in folder.iterdir()} - ours)
        if foreign:
            raise InputError(
                f"{folder} is not a folder of such a model: it holds {foreign[0]!r}; "
                f"name a new or empty folder."
            )
    elif folder.exists() or folder.is_symlink():
        raise InputError(f"{folder} is not a folder; name another place for the model.")


@contextlib.contextmanager
def complete(place: Path, kind: str) -> Iterator[None]:
    """Tell in one sentence of what a model lacks while it is put together.

    Args:
      place: what was read, for the message.
      kind: of the model.
    """
    try:
        yield
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{os.fspath(place)} is damaged or not of a {kind} ({error}); train the "
            "model again."
        ) from None


def write(
    folder: Path,
    kind: str,
    content: Content,
    extra: Mapping[str, bytes] | None = None,
) -> None:
    """Write a model, replacing an earlier one when this one is complete.

    Args:
      folder: where; made if it is not there.
      kind: of the model; `read` asks for the same.
      content: of the model.
      extra: further files by name.

    Raises:
      InputError: if a model of another kind is there.
    """
    extra = extra or {}
    found = _kind_of(pathlib.Path(folder))
    if found not in (None, kind):
        raise InputError(f"{folder} holds a {found}; name another folder for a {kind}.")

    def put(part: pathlib.Path) -> None:
        checkpoint.write_arrays(part / _ARRAYS, content.arrays)
        for name, data in extra.items():
            (part / name).write_bytes(data)
        about = {
            "format_version": _FORMAT,
            "kind": kind,
            "package_version": __version__,
            **content.about,
            "files": {_ARRAYS: _describe(part / _ARRAYS)},
        }
        text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
        (part / _MODEL).write_text(text, encoding="utf-8")

    checkpoint.replace_folder(folder, put, last=_MODEL)


def read(folder: Path, kind: str) -> Content:
    """Read a model that `write` wrote.

    Raises:
      InputError: if it is no such model, of another version, cut short or damaged.
    """
    shown, folder = folder, pathlib.Path(folder)
    previous = checkpoint.previous_folder(folder)
    if not folder.exists() and previous.exists():
        folder = previous  # killed between the two renames of `write`
    try:
        about = json.loads((folder / _MODEL).read_text(encoding="utf-8"))
        version, found = about["format_version"], about.get("kind", "tagger")
        expected = about["files"].get(_ARRAYS, {})
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{shown} is not a model folder: it has no {_MODEL}; check the path."
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{folder / _MODEL} is cut short or damaged; make the model again."
        ) from None
    if found != kind:
        raise InputError(
            f"{shown} holds a {found} where a {kind} is expected; name another folder."
        )
    if version != _FORMAT:
        raise InputError(
            f"{shown} has model format {version!r} where this version reads {_FORMAT}; "
            f"use the version of lowrank_jax that wrote it "
            f"({about.get('package_version')}), or make the model again."
        )
    path = folder / _ARRAYS
    if not path.exists() or _describe(path) != expected:
        state = "is missing" if not path.exists() else "is cut short or damaged"
        raise InputError(
            f"{path} {state}; copy the whole folder again or make the model again."
        )
    return Content(about, checkpoint.read_arrays(path))


def _kind_of(folder: pathlib.Path) -> str | None:
    """Return the kind of the model that a folder says it holds, None if none."""
    if not folder.exists():
        folder = checkpoint.previous_folder(folder)
    try:
        about = json.loads((folder / _MODEL).read_text(encoding="utf-8"))
        return str(about.get("kind", "tagger")) if "format_version" in about else None
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _describe(path: pathlib.Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"sha256": digest, "bytes": path.stat().st_size}
