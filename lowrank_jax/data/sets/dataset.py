"""What is known of a public data set: files, counts, checksums, origin and terms."""

from collections.abc import Mapping
from typing import NamedTuple

__all__ = [
    "DataFile",
    "Dataset",
    "arrays",
    "chunks",
    "raw",
    "segmented",
    "words",
]
__dir__ = __all__.copy


class DataFile(NamedTuple):
    """One file of a data set.

    Attributes:
      name: File name without ``.xz`` or ``.gz``.
      format: ``"conll"``, ``"segmentation"``, ``"raw"`` (not segmented), ``"words"``
        (one per line), ``"nettalk"``, ``"matrices"``, ``"arrays"`` (npz) or ``"text"``.
      sha256: Checksum of the unpacked content.
      counts: Counts that the reader of the format finds in the file.
    """

    name: str
    format: str
    sha256: str
    counts: Mapping[str, int]


class Dataset(NamedTuple):
    """One data set.

    Attributes:
      name: Name of its folder.
      title: Short description.
      files: Files of the data set.
      citation: Publication to cite.
      terms: Terms of use.
      origin: Place to get it from.
    """

    name: str
    title: str
    files: tuple[DataFile, ...]
    citation: str
    terms: str
    origin: str


def segmented(
    name: str, sha256: str, lines: int, words: int, types: int, characters: int
) -> DataFile:
    """Return a file of segmented sentences."""
    counts = {"lines": lines, "words": words, "word types": types}
    return DataFile(name, "segmentation", sha256, counts | {"characters": characters})


def raw(name: str, sha256: str, lines: int, characters: int) -> DataFile:
    """Return a file of sentences that are not segmented."""
    return DataFile(name, "raw", sha256, {"lines": lines, "characters": characters})


def words(name: str, sha256: str, types: int) -> DataFile:
    """Return a file with one word per line."""
    return DataFile(name, "words", sha256, {"word types": types})


def chunks(
    name: str, sha256: str, sentences: int, tokens: int, tags: int, chunks: int
) -> DataFile:
    """Return a file of columns with chunks."""
    counts = {"sentences": sentences, "tokens": tokens, "tags": tags, "chunks": chunks}
    return DataFile(name, "conll", sha256, counts)


def arrays(name: str, sha256: str, arrays: int, rows: int) -> DataFile:
    """Return an npz."""
    return DataFile(name, "arrays", sha256, {"arrays": arrays, "rows": rows})
