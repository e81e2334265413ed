"""Word segmentation: words separated by spaces, one sentence per line.

The tokens are the characters. The label of a character is its place in its word
(BOL-E1): ``B`` first, ``I`` inside, ``E`` last, ``S`` the only one. Any run of white
space (one space, two spaces, U+3000) separates two words. So the four corpora of SIGHAN
2005 are all read in the same way. Lines without a word are skipped.
"""

import os
from collections.abc import Iterable, Sequence

import numpy as np

from lowrank_jax.checks import InputError
from lowrank_jax.data.characters import character_columns
from lowrank_jax.data.corpus import Corpus
from lowrank_jax.data.files import (
    as_characters,
    code_points,
    is_space,
    read_text,
    source_name,
)

__all__ = [
    "labels_from_words",
    "read_raw_text",
    "read_segmentation",
    "words_from_labels",
]
__dir__ = __all__.copy

_LABELS = np.array(["I", "B", "E", "S"])  # indexed by `_place_in_word`
_NEWLINE, _SLASH = ord("\n"), ord("/")


def read_segmentation(
    path: str | os.PathLike[str], *, tagged: bool | None = None, classes: bool = True
) -> Corpus:
    """Read segmented text.

    Args:
      path: File (plain, ``.gz``, ``.xz``), or ``-`` for standard input.
      tagged: True if each word is ``word/TAG`` (the format of the PFR corpus); the word
        ends before the last slash. None means True if more than half of the words have
        a slash after their first character.
      classes: True to append the columns of `character_columns`.

    Returns:
      A corpus with labels B, I, E, S. Column 0 holds the characters. With `classes`,
      columns 1 and 2 hold their classes and half-width forms. All have dtype ``U1``.

    Raises:
      InputError: If the file cannot be read or has no word. With tags, also if a word
        has no tag or a tag no word.
    """
    text, name = read_text(path), source_name(path)
    codes = code_points(text)
    is_gap = is_space(codes)
    if tagged is None:
        tagged = _looks_tagged(codes, is_gap)
    if tagged:
        is_gap = is_gap | _is_tag(codes, is_gap, text, name)
    return _corpus(codes, is_gap, _place_in_word(*_edges(is_gap)), name, classes)


def read_raw_text(path: str | os.PathLike[str], *, classes: bool = True) -> Corpus:
    """Read text that is not segmented, one sentence per line.

    White space is dropped, because it is not part of a word. Blank lines are dropped.

    Args:
      path: File (plain, ``.gz``, ``.xz``), or ``-`` for standard input.
      classes: True to append the columns of `character_columns`.

    Returns:
      A corpus as from `read_segmentation`, without labels.

    Raises:
      InputError: If the file cannot be read or is empty.
    """
    text, name = read_text(path), source_name(path)
    codes = code_points(text)
    return _corpus(codes, is_space(codes), None, name, classes)


def words_from_labels(
    characters: Iterable[str] | np.ndarray,
    labels: Iterable[str] | np.ndarray,
    offsets: Sequence[int] | np.ndarray,
) -> list[list[str]]:
    """Join characters to words.

    A word ends at E or S, before B or S, and at the end of its sentence. Any other
    label counts as I. So every sequence of labels, even an impossible one, has exactly
    one reading, and no character is lost.

    Args:
      characters: (num_tokens,) strings.
      labels: (num_tokens,) strings.
      offsets: (num_sentences + 1,) integers.

    Returns:
      The words of each sentence.
    """
    text, position = _join(characters)
    tags = np.asarray(labels if isinstance(labels, np.ndarray) else list(labels))
    bounds = np.asarray(offsets, np.int64)
    if not position.size - 1 == tags.size == bounds[-1]:
        raise InputError(
            f"`characters` and `labels` must have as many values as the offsets say "
            f"({bounds[-1]}), got {position.size - 1} and {tags.size}."
        )
    is_end = np.zeros(tags.size + 1, bool)  # a word ends before this position
    is_single = tags == "S"
    is_end[1:] = (tags == "E") | is_single
    is_end[:-1] |= (tags == "B") | is_single
    is_end[bounds] = True
    ends = np.flatnonzero(is_end)
    cuts = position[ends].tolist()
    words = [text[a:b] for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    first_word = np.searchsorted(ends, bounds).tolist()
    return [words[a:b] for a, b in zip(first_word[:-1], first_word[1:], strict=True)]


def labels_from_words(
    sentences: Sequence[Sequence[str]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split words into characters; the inverse of `words_from_labels`.

    Args:
      sentences: Words of each sentence; no word may be empty.

    Returns:
      ``(characters, labels, offsets)``: (num_tokens,) ``U1`` for the first two and
      (num_sentences + 1,) int64.
    """
    words = [word for sentence in sentences for word in sentence]
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    if lengths.size and lengths.min() == 0:
        raise InputError("`sentences` must not hold an empty word; leave it out.")
    ends = np.cumsum(lengths)
    num_tokens = int(lengths.sum())
    is_first, is_last = np.zeros(num_tokens, bool), np.zeros(num_tokens, bool)
    is_first[ends - lengths] = True
    is_last[ends - 1] = True
    num_words = np.fromiter(map(len, sentences), np.int64, len(sentences))
    last_word = np.concatenate([[0], np.cumsum(num_words)])
    offsets = np.concatenate([[0], ends])[last_word].astype(np.int64)
    characters = as_characters(code_points("".join(words)))
    return characters, _LABELS[_place_in_word(is_first, is_last)], offsets


def _join(characters: Iterable[str] | np.ndarray) -> tuple[str, np.ndarray]:
    """Return the joined strings, and the (n + 1,) int64 starts and end of them."""
    if isinstance(characters, np.ndarray) and characters.dtype == np.dtype("U1"):
        codes = np.ascontiguousarray(characters).view(np.uint32).astype("<u4")
        return codes.tobytes().decode("utf-32-le"), np.arange(characters.size + 1)
    items = list(characters)
    lengths = np.fromiter(map(len, items), np.int64, len(items))
    return "".join(items), np.concatenate([[0], np.cumsum(lengths)])


def _place_in_word(is_first: np.ndarray, is_last: np.ndarray) -> np.ndarray:
    """Return the index into `_LABELS` of each character, uint8."""
    return is_first.astype(np.uint8) + 2 * is_last.astype(np.uint8)


def _edges(is_gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tell which positions are the first and the last of a word."""
    is_first, is_last = ~is_gap, ~is_gap
    is_first[1:] &= is_gap[:-1]
    is_last[:-1] &= is_gap[1:]
    return is_first, is_last


def _looks_tagged(codes: np.ndarray, is_gap: np.ndarray) -> bool:
    """Return True if most words have a slash after their first character."""
    is_first, _ = _edges(is_gap)
    first = np.flatnonzero(is_first)
    slashes = np.flatnonzero((codes == _SLASH) & ~is_first)
    words = np.searchsorted(first, slashes, side="right")  # ascending
    num_with_slash = np.count_nonzero(np.diff(words, prepend=-1))
    return bool(2 * num_with_slash > first.size)


def _is_tag(codes: np.ndarray, is_gap: np.ndarray, text: str, name: str) -> np.ndarray:
    """Tell which positions belong to a tag: the last slash of a word and the rest."""
    is_first, is_last = _edges(is_gap)
    first, last = np.flatnonzero(is_first), np.flatnonzero(is_last)
    slashes = np.flatnonzero(codes == _SLASH)
    # The last slash at or before the last character of each word, -1 if there is none.
    order = np.searchsorted(slashes, last, side="right")
    cut = np.concatenate([[-1], slashes])[order]
    bad = np.flatnonzero(cut <= first)
    if bad.size:
        start = int(first[bad[0]])
        word = text[start : int(last[bad[0]]) + 1]
        line = text.count("\n", 0, start) + 1
        raise InputError(
            f"{name}:{line} has {word!r} where word/TAG is expected; mend it, or read "
            f"the file as not tagged."
        )
    # +1 at the slash and -1 behind the word: the running sum is 1 on the tag.
    steps = np.zeros(codes.size + 1, np.int8)
    steps[cut] += 1
    steps[last + 1] -= 1
    return np.cumsum(steps[:-1], dtype=np.int8).astype(bool)


def _corpus(
    codes: np.ndarray,
    is_gap: np.ndarray,
    place: np.ndarray | None,
    name: str,
    classes: bool,
) -> Corpus:
    """Drop the gaps; a sentence begins where the line changes."""
    kept = np.flatnonzero(~is_gap)
    if kept.size == 0:
        raise InputError(f"{name} holds no text; check that it is the right file.")
    line = np.searchsorted(np.flatnonzero(codes == _NEWLINE), kept)
    starts = np.flatnonzero(np.diff(line)) + 1
    offsets = np.concatenate([[0], starts, [kept.size]]).astype(np.int64)
    labels = None if place is None else _LABELS[place[kept]]
    characters = as_characters(codes[kept])
    columns = (characters, *(character_columns(characters) if classes else ()))
    return Corpus(columns, labels, offsets, name)
