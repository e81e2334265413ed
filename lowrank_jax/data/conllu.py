"""CoNLL-U files of Universal Dependencies: ten columns separated by tabs.

Comments, multiword tokens (``1-2``) and empty nodes (``1.1``) are no tokens of the
corpus. `write_conllu` copies them as they are.
"""

import os
import re
from typing import IO

import numpy as np

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.data.corpus import Corpus
from lowrank_jax.data.files import read_text, source_name

__all__ = [
    "LABEL_COLUMNS",
    "corpus_of_text",
    "read_conllu",
    "token_lines",
    "write_conllu",
]
__dir__ = __all__.copy

#: Columns that can be the label, and their places in a line.
LABEL_COLUMNS = {"lemma": 2, "upos": 3, "xpos": 4, "feats": 5, "deprel": 7, "misc": 9}
_NUMBER = re.compile(r"[1-9][0-9]*")
_OTHER = re.compile(r"[1-9][0-9]*-[1-9][0-9]*|[0-9]+\.[1-9][0-9]*")


def read_conllu(
    path: str | os.PathLike[str],
    *,
    label_column: str = "upos",
    has_labels: bool = True,
) -> Corpus:
    """Read a CoNLL-U file; the one column of the corpus is FORM.

    Args:
      path: File (plain, ``.gz``, ``.xz``), or ``-`` for standard input.
      label_column: Column that is the label, one of `LABEL_COLUMNS`.
      has_labels: If false, labels are not read.

    Raises:
      InputError: If the file cannot be read, has no token, has a line of another form,
        or has ``_`` for every label.
    """
    checks.choice(tuple(LABEL_COLUMNS), label_column=label_column)
    return corpus_of_text(
        read_text(path), source_name(path), label_column if has_labels else None
    )


def corpus_of_text(text: str, name: str, label_column: str | None) -> Corpus:
    """Return the corpus of a text in CoNLL-U; a label column of None reads no labels.

    Args:
      text: Content of the file.
      name: Name of the file, for messages.
      label_column: Column that is the label, or None.
    """
    lines = text.split("\n")
    numbers, ends = token_lines(lines, name)
    rows = [lines[number].rstrip("\r").split("\t") for number in numbers]
    labels = None
    if label_column is not None:
        labels = _objects([row[LABEL_COLUMNS[label_column]] for row in rows])
        if set(labels.tolist()) == {"_"}:
            raise InputError(
                f"{name} has _ for every {label_column}; name a column that is filled "
                "in."
            )
    offsets = np.array([0, *ends], np.int64)
    words = _objects([row[1] for row in rows])
    return Corpus((words,), labels, offsets, name, separator="\t")


def token_lines(lines: list[str], name: str) -> tuple[list[int], list[int]]:
    """Find the tokens of a CoNLL-U file.

    Args:
      lines: Lines of the file.
      name: Name of the file, for messages.

    Returns:
      ``(numbers, ends)``: the line of each token, from 0, and the number of tokens up
      to the end of each sentence.

    Raises:
      InputError: If there is no token, or a line of another form.
    """
    numbers: list[int] = []
    ends: list[int] = []
    for number, line in enumerate([*lines, ""]):
        if not line.strip():
            if len(numbers) > (ends[-1] if ends else 0):
                ends.append(len(numbers))
        elif not line.startswith("#"):
            width, first = line.count("\t") + 1, line.partition("\t")[0]
            is_token = _NUMBER.fullmatch(first) is not None
            if width != 10 or not (is_token or _OTHER.fullmatch(first)):
                raise InputError(
                    f"{name}:{number + 1} has {width} columns and begins with "
                    f"{first!r:.40}, where CoNLL-U has 10 columns separated by tabs "
                    "and begins with a number; check that it is the right format."
                )
            if is_token:
                numbers.append(number)
    if not numbers:
        raise InputError(f"{name} holds no token; check that it is the right file.")
    return numbers, ends


def write_conllu(
    stream: IO[str], text: str, labels: np.ndarray, *, label_column: str = "upos"
) -> None:
    """Write a CoNLL-U text with other labels; all else stays as it is.

    Args:
      stream: Text stream to write to.
      text: Content of the file that the labels are for.
      labels: (num_tokens,) strings.
      label_column: Column to put them in, one of `LABEL_COLUMNS`.
    """
    checks.choice(tuple(LABEL_COLUMNS), label_column=label_column)
    lines = text.split("\n")
    numbers, _ = token_lines(lines, "`text`")
    if len(labels) != len(numbers):
        raise InputError(
            f"`labels` must have {len(numbers)} values, one per token, got "
            f"{len(labels)}."
        )
    for number, label in zip(numbers, labels, strict=True):
        row = lines[number].split("\t")
        at_end = "\r" if label_column == "misc" and row[-1].endswith("\r") else ""
        row[LABEL_COLUMNS[label_column]] = str(label) + at_end
        lines[number] = "\t".join(row)
    stream.write("\n".join(lines))


def _objects(values: list[str]) -> np.ndarray:
    return np.fromiter(values, object, len(values))
