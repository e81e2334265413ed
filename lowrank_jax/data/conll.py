"""Column files: one token per line, an empty line after each sentence.

Columns are separated by any run of spaces or tabs. Other Unicode spaces, such as U+00A0
or U+3000, are part of a token. The last column is the label. This is the format of the
CoNLL shared tasks, CRF++ and CRFsuite.
"""

import os
import re
from collections.abc import Iterable, Sequence
from typing import IO

import numpy as np

from lowrank_jax.checks import InputError
from lowrank_jax.data.corpus import Corpus
from lowrank_jax.data.files import code_points, is_space, read_text, source_name

__all__ = ["read_conll", "write_conll"]
__dir__ = __all__.copy

_ASCII_SPACE = " \t\n\r\v\f"
_TOKEN = re.compile(f"[^{_ASCII_SPACE}]+")


def read_conll(path: str | os.PathLike[str], *, has_labels: bool = True) -> Corpus:
    """Read a column file.

    Args:
      path: File (plain, ``.gz``, ``.xz``), or ``-`` for standard input.
      has_labels: True if the last column is the label.

    Returns:
      A corpus; its columns and labels have dtype ``object``.

    Raises:
      InputError: If the file cannot be read, has no token, or has a line whose number
        of columns differs from the first line.
    """
    text, name = read_text(path), source_name(path)
    tokens, num_columns = _split(text)
    lines = np.flatnonzero(num_columns)  # lines with a token, counted from 0
    if lines.size == 0:
        raise InputError(f"{name} holds no token; check that it is the right file.")
    width = int(num_columns[lines[0]])
    ragged = np.flatnonzero(num_columns[lines] != width)
    if ragged.size:
        line = lines[ragged[0]]
        raise InputError(
            f"{name}:{line + 1} has {num_columns[line]} columns where line "
            f"{lines[0] + 1} has {width}; give every token the same columns and leave "
            f"an empty line between sentences."
        )
    if has_labels and width == 1:
        raise InputError(
            f"{name} has one column, so it has no labels; add them as the last column, "
            f"or read it as a file without labels."
        )
    table = np.array(tokens, dtype=object).reshape(-1, width).T
    columns = tuple(np.ascontiguousarray(column) for column in table)
    # A sentence ends where the next token is not on the next line.
    ends = np.flatnonzero(np.diff(lines) > 1) + 1
    offsets = np.concatenate([[0], ends, [lines.size]]).astype(np.int64)
    between = "\t" if "\t" in text.lstrip("\n").partition("\n")[0] else " "
    if has_labels:
        return Corpus(columns[:-1], columns[-1], offsets, name, separator=between)
    return Corpus(columns, None, offsets, name, separator=between)


def write_conll(
    stream: IO[str],
    corpus: Corpus,
    extra_columns: Sequence[Iterable[object]] = (),
    *,
    separator: str | None = None,
) -> None:
    """Write a corpus as a column file, an empty line after each sentence.

    Args:
      stream: Text stream to write to.
      corpus: Corpus; its columns are written first, then its labels if it has any.
      extra_columns: Further columns of num_tokens values, such as predicted labels.
      separator: Text between two columns; None takes the separator of the corpus.

    Raises:
      InputError: If the length of a column differs from the number of tokens.
    """
    columns = [column.tolist() for column in corpus.columns]
    if corpus.labels is not None:
        columns.append(corpus.labels.tolist())
    for position, extra in enumerate(extra_columns):
        column = list(map(str, extra))
        if len(column) != corpus.num_tokens:
            raise InputError(
                f"`extra_columns[{position}]` must have {corpus.num_tokens} values, "
                f"one per token of {corpus.source}, got {len(column)}."
            )
        columns.append(column)
    between = corpus.separator if separator is None else separator
    lines = list(map(between.join, zip(*columns, strict=True)))
    bounds = corpus.offsets.tolist()
    for start, end in zip(bounds[:-1], bounds[1:], strict=True):
        stream.write("\n".join(lines[start:end]) + "\n\n")


def _split(text: str) -> tuple[list[str], np.ndarray]:
    """Split a text into tokens and count the tokens of each line.

    Args:
      text: Content of the file.

    Returns:
      ``(tokens, counts)``: all tokens in order, and (num_lines,) int64 tokens per line.
    """
    codes = code_points(text)
    is_gap = (codes == 32) | ((codes >= 9) & (codes <= 13))  # _ASCII_SPACE
    if np.array_equal(is_gap, is_space(codes)):
        tokens = text.split()  # the faster way, but it also splits at U+00A0, U+3000
    else:
        tokens = _TOKEN.findall(text)
    is_first = ~is_gap
    is_first[1:] &= is_gap[:-1]
    ends = np.flatnonzero(codes == 10)
    line_of_token = np.searchsorted(ends, np.flatnonzero(is_first))
    return tokens, np.bincount(line_of_token, minlength=ends.size + 1)
