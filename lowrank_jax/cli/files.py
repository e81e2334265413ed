"""Where the commands read and write: data by name, targets checked beforehand."""

import argparse
import importlib
import json
import os
import pathlib
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from lowrank_jax.checks import InputError
from lowrank_jax.store.files import check_path

if TYPE_CHECKING:
    from lowrank_jax.data.corpus import Corpus

__all__ = [
    "add_data_dir",
    "add_label_column",
    "check_file",
    "check_json",
    "check_outputs",
    "check_place",
    "find_data",
    "place_of_token",
    "read_corpus",
    "write_json",
    "write_text",
]
__dir__ = __all__.copy

_SUFFIXES = ("", ".xz", ".gz")


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """Add the options of all commands that read data."""
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help="folder of data files such as conll2000/train.txt, for names that are not "
        "a path; default: $LOWRANK_JAX_DATA, else the user's cache folder",
    )
    parser.add_argument(
        "--max-unpacked",
        metavar="BYTES",
        type=_set_limit,
        help="largest size of an unpacked file; default: $LOWRANK_JAX_MAX_UNPACKED, "
        "else 50 times the packed size and at least 16 MiB",
    )


def _set_limit(text: str) -> int:
    """Read the limit and set it for this process."""
    from lowrank_jax.cli.options import count
    from lowrank_jax.store.files import MAX_UNPACKED

    value = count(text)
    os.environ[MAX_UNPACKED] = str(value)
    return value


def find_data(name: str, data_dir: str | None = None) -> str:
    """Return the path of a data file: as given, or in the data folder.

    Args:
      name: Path, ``-`` for standard input, or path below the data folder, with or
        without ``.xz`` or ``.gz``.
      data_dir: Value of ``--data-dir``.
    """
    if name == "-" or os.path.exists(check_path(name)):
        return name
    from lowrank_jax.data import data_folders

    folders = data_folders(data_dir)
    if not os.path.isabs(name):
        plain = name.removesuffix(".xz").removesuffix(".gz")
        for folder in folders:
            for form in (name, *(plain + suffix for suffix in _SUFFIXES)):
                if (folder / form).is_file():
                    return str(folder / form)
    places = " or ".join(str(folder) for folder in folders)
    raise InputError(f"{name} does not exist, nor is it in {places}; check the path.")


def read_corpus(path: str, arguments: argparse.Namespace) -> "Corpus":
    """Read a labelled corpus.

    Args:
      path: File to read.
      arguments: Values of ``--format``, one of `estimators.learners.FORMATS`, and of
        ``--label-column``.
    """
    name, column = arguments.format, arguments.label_column
    if column is not None and name != "conllu":
        raise InputError(
            f"--label-column {column} needs --format conllu, got {name}; leave it out."
        )
    module = importlib.import_module(f"lowrank_jax.data.{name}")
    given = {} if column is None else {"label_column": column}
    return getattr(module, f"read_{name}")(path, **given)


def add_label_column(parser: argparse.ArgumentParser) -> None:
    """Add ``--label-column``."""
    parser.add_argument(
        "--label-column",
        metavar="NAME",
        help="column of --format conllu that is the label: upos (the default), xpos, "
        "feats, lemma, deprel or misc",
    )


def place_of_token(path: str, corpus: "Corpus", file_format: str, token: int) -> str:
    """Name file and line of a token, for a message."""
    from lowrank_jax import data

    sentence = int((corpus.offsets <= token).sum()) - 1
    if path == "-" or file_format == "nettalk":
        return f"{corpus.source}, sentence {sentence + 1}"
    lines = data.read_text(path).split("\n")
    if file_format == "conllu":
        from lowrank_jax.data.conllu import token_lines

        return f"{corpus.source}:{token_lines(lines, path)[0][token] + 1}"
    filled = [number for number, line in enumerate(lines, 1) if line.strip()]
    line = filled[token if file_format == "conll" else sentence]
    return f"{corpus.source}:{line}"


def check_place(path: str | os.PathLike[str]) -> None:
    """Raise `InputError` unless a file or folder can be made at this path.

    The nearest folder that exists is tried out by making a folder in it. Permission
    bits alone do not tell (read-only disks, quotas, the superuser).
    """
    place = check_path(path).absolute()
    above = place if place.is_dir() else place.parent
    while not above.exists():
        above = above.parent
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".lowrank-jax-", dir=above))
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({above}: {error.strerror}); name another place."
        ) from None


def check_json(path: str | None, model: str | None = None) -> None:
    """Raise `InputError` unless `write_json` can write there.

    Args:
      path: Path of the file; ``-`` is standard output.
      model: The model folder. The file must lie outside it.
    """
    if path is None or path == "-":
        return
    if model is not None:
        place, folder = pathlib.Path(path).resolve(), pathlib.Path(model).resolve()
        if place == folder or folder in place.parents:
            raise InputError(
                f"{path} is in the folder of the model, {model}; name a file outside "
                "it."
            )
    check_file(path, "the JSON result")


def check_outputs(out: str | None, json_path: str | None, model: str) -> None:
    """Raise `InputError` unless answers and figures have one place each.

    Args:
      out: Value of ``--out``, where the answers go; None is standard output.
      json_path: Value of ``--json``, where the figures go.
      model: The model folder. Both files must lie outside it.
    """
    check_json(json_path, model)
    check_json(out, model)
    if out is not None and json_path is not None:
        if pathlib.Path(out) == pathlib.Path(json_path):
            raise InputError(
                f"--out and --json both name {out}; give each a place of its own."
            )


def check_file(path: str, content: str) -> None:
    """Raise `InputError` unless `write_text` can write there.

    Args:
      path: Path of the file.
      content: Name of the content, for the message.
    """
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder; name a file for {content}.")
    check_place(path)


def write_json(path: str | None, result: dict[str, Any]) -> None:
    """Write a result atomically; ``-`` is standard output, None does nothing."""
    if path is None:
        return
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return
    write_text(path, text)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file atomically, and the folders above it."""
    from lowrank_jax.store.files import write_bytes

    pathlib.Path(path).absolute().parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, text.encode("utf-8", "backslashreplace"))
