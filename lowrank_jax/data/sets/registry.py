"""The data sets that the experiments use: where they are, what they must contain.

Nothing is downloaded and no data set is part of the project. A file is looked for as
``<folder>/<data set>/<file>``, plain or with ``.xz`` or ``.gz`` after its name. If a
folder is given, it is the only one. Else the folder in the environment variable
``LOWRANK_JAX_DATA`` comes first, then ``lowrank_jax`` in the user's cache folder
(``XDG_CACHE_HOME`` or ``~/.cache``).
"""

import hashlib
import os
import pathlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from lowrank_jax.checks import InputError
from lowrank_jax.data.conll import read_conll
from lowrank_jax.data.files import read_bytes, read_text
from lowrank_jax.data.matrices import read_matrices
from lowrank_jax.data.nettalk import read_nettalk
from lowrank_jax.data.segmentation import (
    read_raw_text,
    read_segmentation,
    words_from_labels,
)
from lowrank_jax.data.sets.catalogue import DATASETS
from lowrank_jax.data.sets.dataset import DataFile, Dataset

__all__ = ["Status", "count", "data_folders", "find", "check_files"]
__dir__ = __all__.copy

_SUFFIXES = ("", ".xz", ".gz")


class Status(NamedTuple):
    """What `check_files` found about one file.

    Attributes:
      name: Name of the data set.
      file: Name of the file without ``.xz`` or ``.gz``.
      present: True if the file was found.
      checksum_ok: True if the checksum of its unpacked content is right; None if the
        file is not present.
      counts_ok: True if the readers find the known counts; None if it is not present.
      message: One sentence: where the file is, what is wrong, or where to get it.
    """

    name: str
    file: str
    present: bool
    checksum_ok: bool | None
    counts_ok: bool | None
    message: str


def data_folders(
    data_dir: str | os.PathLike[str] | None = None,
) -> list[pathlib.Path]:
    """Return the folders where data sets are looked for, in order.

    Args:
      data_dir: The only folder to look in, if given.
    """
    if data_dir is not None:
        return [pathlib.Path(data_dir)]
    folders = []
    if os.environ.get("LOWRANK_JAX_DATA"):
        folders.append(pathlib.Path(os.environ["LOWRANK_JAX_DATA"]))
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folders.append(pathlib.Path(cache).expanduser() / "lowrank_jax")
    return folders


def find(name: str, data_dir: str | os.PathLike[str] | None = None) -> pathlib.Path:
    """Find a data set or one of its files.

    Args:
      name: Data set (``"conll2000"``) or file of one (``"conll2000/train.txt"``, with
        or without ``.xz`` or ``.gz``).
      data_dir: The only folder to look in, if given.

    Returns:
      The folder of the data set, or the file.

    Raises:
      InputError: If there is no such data set or it is not present.
    """
    set_name, _, file_name = name.partition("/")
    if set_name not in DATASETS:
        raise InputError(
            f"{set_name!r} is not a known data set; there are {', '.join(DATASETS)}."
        )
    dataset = DATASETS[set_name]
    plain_name = file_name.removesuffix(".xz").removesuffix(".gz")
    known = [file.name for file in dataset.files]
    if plain_name and plain_name not in known:
        raise InputError(
            f"{plain_name!r} is not a file of {set_name}; it has {', '.join(known)}."
        )
    folders = data_folders(data_dir)
    for folder in folders:
        path = _in_folder(folder / set_name, plain_name)
        if path is not None:
            return path
    places = " or ".join(str(folder / set_name) for folder in folders)
    raise InputError(
        f"{name} is not in {places}; get it from {dataset.origin} and put it there, or "
        f"set LOWRANK_JAX_DATA to the folder that holds {set_name}."
    )


def check_files(
    names: Iterable[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> list[Status]:
    """Check the files of data sets: present, checksum, counts.

    Args:
      names: Data sets to check; None means all.
      data_dir: The only folder to look in, if given.

    Returns:
      One status per file.

    Raises:
      InputError: If a name is not a known data set.
    """
    statuses = []
    for name in DATASETS if names is None else names:
        if name not in DATASETS:
            raise InputError(
                f"{name!r} is not a known data set; there are {', '.join(DATASETS)}."
            )
        dataset = DATASETS[name]
        statuses += [_status(dataset, file, data_dir) for file in dataset.files]
    return statuses


def count(path: str | os.PathLike[str], file_format: str) -> dict[str, int]:
    """Count what a file holds, with the reader of its format.

    Args:
      path: File to count.
      file_format: One of the formats of `DataFile`.

    Returns:
      The counts by name, as in `DataFile.counts`.
    """
    return _COUNTERS[file_format](path)


def _in_folder(folder: pathlib.Path, file_name: str) -> pathlib.Path | None:
    """Return the folder if no file is named, else the file, plain or packed."""
    if not file_name:
        return folder if folder.is_dir() else None
    forms = (folder / (file_name + suffix) for suffix in _SUFFIXES)
    return next((path for path in forms if path.is_file()), None)


def _status(
    dataset: Dataset, file: DataFile, data_dir: str | os.PathLike[str] | None
) -> Status:
    """Return the status of one file."""
    try:
        path = find(f"{dataset.name}/{file.name}", data_dir)
    except InputError as error:
        return Status(dataset.name, file.name, False, None, None, str(error))
    try:
        digest = hashlib.sha256(read_bytes(path)).hexdigest()
        counted = count(path, file.format)
    except InputError as error:
        return Status(dataset.name, file.name, True, False, False, str(error))
    checksum_ok, counts_ok = digest == file.sha256, counted == file.counts
    if counts_ok and checksum_ok:
        message = f"{path} is as expected."
    elif counts_ok:
        message = (
            f"{path} is another edition: its counts are as expected, its checksum "
            f"{digest} is not."
        )
    else:
        wrong = ", ".join(
            f"{what} {counted.get(what)} where {expected} are expected"
            for what, expected in file.counts.items()
            if counted.get(what) != expected
        )
        message = f"{path} has {wrong}; get it again from {dataset.origin}."
    return Status(dataset.name, file.name, True, checksum_ok, counts_ok, message)


def _count_conll(path: str | os.PathLike[str]) -> dict[str, int]:
    corpus = read_conll(path)
    assert corpus.labels is not None
    labels = corpus.labels.tolist()
    return {
        "sentences": corpus.num_sentences,
        "tokens": corpus.num_tokens,
        "tags": len(set(labels)),
        "chunks": sum(label.startswith("B-") for label in labels),  # the tags are IOB2
    }


def _count_segmentation(path: str | os.PathLike[str]) -> dict[str, int]:
    corpus = read_segmentation(path, classes=False)
    assert corpus.labels is not None
    (characters,), labels = corpus.columns, corpus.labels
    sentences = words_from_labels(characters, labels, corpus.offsets)
    return {
        "lines": corpus.num_sentences,
        "words": sum(map(len, sentences)),
        "word types": len({word for sentence in sentences for word in sentence}),
        "characters": corpus.num_tokens,
    }


def _count_raw(path: str | os.PathLike[str]) -> dict[str, int]:
    corpus = read_raw_text(path, classes=False)
    return {"lines": corpus.num_sentences, "characters": corpus.num_tokens}


def _count_words(path: str | os.PathLike[str]) -> dict[str, int]:
    lines = map(str.strip, read_text(path).split("\n"))  # a word may hold U+3000
    return {"word types": len(set(lines) - {""})}


def _count_nettalk(path: str | os.PathLike[str]) -> dict[str, int]:
    corpus = read_nettalk(path)
    assert corpus.labels is not None
    with_stress = read_nettalk(path, output="both")
    return {
        "words": corpus.num_sentences,
        "words with stress": with_stress.num_sentences,
        "letters": corpus.num_tokens,
        "phonemes": len(np.unique(corpus.labels)),
    }


def _count_matrices(path: str | os.PathLike[str]) -> dict[str, int]:
    first = read_matrices(path)
    counts = {"matrices": first.x.shape[0]}
    with np.load(path) as arrays:
        if "x_test" in arrays:
            counts["test matrices"] = read_matrices(path, split="test").x.shape[0]
    counts |= {"rows": first.x.shape[1], "columns": first.x.shape[2]}
    assert first.y is not None
    return counts | {"classes": len(np.unique(first.y))}


def _count_arrays(path: str | os.PathLike[str]) -> dict[str, int]:
    with np.load(path) as arrays:
        longest = max(len(arrays[name]) for name in arrays)
        return {"arrays": len(arrays.files), "rows": longest}


def _count_text(path: str | os.PathLike[str]) -> dict[str, int]:
    return {"lines": read_text(path, encoding="latin-1").count("\n")}


_COUNTERS: dict[str, Callable[[str | os.PathLike[str]], dict[str, int]]] = {
    "conll": _count_conll,
    "segmentation": _count_segmentation,
    "raw": _count_raw,
    "words": _count_words,
    "nettalk": _count_nettalk,
    "matrices": _count_matrices,
    "arrays": _count_arrays,
    "text": _count_text,
}
