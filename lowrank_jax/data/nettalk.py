"""NETtalk: English words, letter by letter, with phonemes and stress.

A header ends in a line of dashes. Each line after it has four fields separated by tabs:
letters, phonemes, stress, and a mark for irregular and foreign words. Letters, phonemes
and stress are aligned one to one (SMM-E1 predicts the phonemes). The symbol ``-`` is
the silent phoneme. One word is one sentence.

If an entry has more or fewer output symbols than letters, it cannot be aligned. It is
left out and counted in `Corpus.num_skipped`. The released file has one such entry,
*gunpowder*, whose stress is missing. So 20,008 words have phonemes, and 20,007 of them
have stress too.
"""

import os

import numpy as np

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.data.corpus import Corpus
from lowrank_jax.data.files import (
    as_characters,
    code_points,
    read_text,
    source_name,
)

__all__ = ["read_nettalk"]
__dir__ = __all__.copy

_OUTPUTS = ("phoneme", "stress", "both")
_LEAST_DASHES = 10  # a shorter run could be the phonemes of a word
_LARGEST_SKIPPED_SHARE = 0.01  # a larger share means another format


def read_nettalk(path: str | os.PathLike[str], *, output: str = "phoneme") -> Corpus:
    """Read the NETtalk corpus.

    Args:
      path: File (plain, ``.gz``, ``.xz``), or ``-`` for standard input.
      output: Symbols to use as labels: ``"phoneme"`` (as SMM-E1), ``"stress"``, or
        ``"both"``, which joins phoneme and stress to one label such as ``a1``.

    Returns:
      A corpus with the letters as its only column (``U1``) and labels ``U1`` (``U2``
      for both). `num_skipped` counts the entries that are not aligned.

    Raises:
      InputError: If the file cannot be read, a line has too few fields, or more than
        one entry in a hundred is not aligned.
    """
    checks.choice(_OUTPUTS, output=output)
    name = source_name(path)
    lines = read_text(path, encoding="latin-1").split("\n")
    num_header = next(
        (i + 1 for i, line in enumerate(lines[:100]) if _is_rule(line)), 0
    )
    words: list[str] = []
    phonemes: list[str] = []
    stresses: list[str] = []
    skipped: list[int] = []
    for number, line in enumerate(lines[num_header:], num_header + 1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) < 3:
            raise InputError(
                f"{name}:{number} has {len(fields)} tab-separated fields where "
                f"letters, phonemes and stress are expected; mend or remove the line."
            )
        word, phoneme, stress = fields[:3]
        is_aligned = bool(word)
        if output != "stress":
            is_aligned &= len(phoneme) == len(word)
        if output != "phoneme":
            is_aligned &= len(stress) == len(word)
        if not is_aligned:
            skipped.append(number)
            continue
        words.append(word)
        phonemes.append(phoneme)
        stresses.append(stress)
    if len(skipped) > _LARGEST_SKIPPED_SHARE * len(words):
        raise InputError(
            f"{name}:{skipped[0]} is the first of {len(skipped)} entries whose letters "
            f"and {output} labels differ in number, against {len(words)} aligned ones; "
            f"check that it is a NETtalk file."
        )
    if not words:
        raise InputError(f"{name} holds no entry; check that it is a NETtalk file.")
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    if output == "both":
        labels = np.strings.add(_symbols(phonemes), _symbols(stresses))
    else:
        labels = _symbols(phonemes if output == "phoneme" else stresses)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Corpus((_symbols(words),), labels, offsets, name, len(skipped))


def _is_rule(line: str) -> bool:
    """Return True if a line consists of dashes only."""
    stripped = line.strip()
    return len(stripped) >= _LEAST_DASHES and not stripped.strip("-")


def _symbols(strings: list[str]) -> np.ndarray:
    """Return all characters of all strings, (num_tokens,) ``U1``."""
    return as_characters(code_points("".join(strings)))
