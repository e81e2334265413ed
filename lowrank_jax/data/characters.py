"""The class of a character, and columns of characters for segmentation."""

import unicodedata
from collections.abc import Sequence

import numpy as np

from lowrank_jax.data.files import as_characters

__all__ = [
    "CHARACTER_CLASSES",
    "character_classes",
    "character_columns",
    "fold_width",
]
__dir__ = __all__.copy

#: Classes that `character_classes` returns, and their meaning.
CHARACTER_CLASSES = {
    "D": "digit, full-width or half-width",
    "L": "Latin letter, full-width or half-width",
    "N": "Chinese numeral, or character of a date or time",
    "P": "punctuation or symbol",
    "O": "other",
}

_NUMERALS = frozenset("〇○零一二三四五六七八九十百千万萬亿億兆两兩廿卅年月日时時分秒")


def character_classes(characters: Sequence[str] | np.ndarray) -> np.ndarray:
    """Return the class of each character, one of `CHARACTER_CLASSES`.

    Full-width and half-width forms are treated the same. Each distinct character is
    looked up once. If a string has several characters, the first one counts.

    Args:
      characters: Characters, (n,) strings.

    Returns:
      Classes ``D``, ``L``, ``N``, ``P`` or ``O``, (n,) ``U1``.
    """
    first = np.asarray(characters, dtype="U1")
    codes = np.ascontiguousarray(first).view(np.uint32)
    if codes.size == 0:
        return first
    is_present = np.zeros(int(codes.max()) + 1, bool)
    is_present[codes] = True
    distinct = np.flatnonzero(is_present)
    table = np.zeros(is_present.size, "U1")
    table[distinct] = [_class_of(chr(code)) for code in distinct.tolist()]
    return table[codes]


def fold_width(characters: Sequence[str] | np.ndarray) -> np.ndarray:
    """Write full-width digits, letters and signs as their half-width forms.

    U+FF01..U+FF5E become U+0021..U+007E; all other characters stay. The training file
    of PKU has full-width digits and letters, and its test file half-width ones. Without
    folding, a model would have seen none of the digits in the test file.

    Args:
      characters: Single characters, (n,).

    Returns:
      Folded characters, (n,) ``U1``.
    """
    given = np.ascontiguousarray(np.asarray(characters, dtype="U1"))
    if given.size == 0:
        return given
    codes = given.view(np.uint32)
    is_wide = (codes >= 0xFF01) & (codes <= 0xFF5E)
    return as_characters(np.where(is_wide, codes - np.uint32(0xFEE0), codes))


def character_columns(
    characters: Sequence[str] | np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return columns 1 and 2 of segmented text: the classes, and the folded characters.

    Args:
      characters: Single characters of column 0, (n,).
    """
    return character_classes(characters), fold_width(characters)


def _class_of(character: str) -> str:
    """Return the class of one character."""
    if unicodedata.east_asian_width(character) in ("F", "H"):
        character = unicodedata.normalize("NFKC", character)[0]
    category = unicodedata.category(character)
    if character in _NUMERALS:
        return "N"
    if category.startswith("N"):
        return "D"
    if category.startswith("L") and unicodedata.name(character, "").startswith("LATIN"):
        return "L"
    if category.startswith(("P", "S")):
        return "P"
    return "O"
