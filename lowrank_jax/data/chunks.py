"""Chunks as labels of tokens: the schemes IOB1, IOB2 and IOBES.

A label is ``O``, or a tag and a type such as ``B-NP``; the type may be missing. The
schemes differ in the tags of a chunk:

* ``iob1``: all tokens have ``I``. The first has ``B`` if a chunk of the same type ends
  just before it.
* ``iob2``: the first token has ``B``, the others ``I``.
* ``iobes``: a chunk of one token has ``S``. Else the first has ``B``, the last ``E``,
  and those between ``I``.

A sequence with a chunk is legal in at most one scheme, so labels tell their scheme.
"""

from collections.abc import Callable, Sequence

import numpy as np

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.data.corpus import encode

__all__ = [
    "SCHEMES",
    "chunk_edges",
    "convert_labels",
    "legal_pairs",
    "scheme_of",
    "split_labels",
]
__dir__ = __all__.copy

#: The schemes and the tags of each.
SCHEMES = {"iob1": "BI", "iob2": "BI", "iobes": "BIES"}

Labels = Sequence[str] | np.ndarray
Edges = tuple[np.ndarray, np.ndarray, np.ndarray]  # is_start, is_end, kind


def legal_pairs(labels: Sequence[str], scheme: str) -> np.ndarray:
    """Return which labels may follow each other.

    Args:
      labels: S distinct labels.
      scheme: ``"iob1"``, ``"iob2"`` or ``"iobes"``.

    Returns:
      (S + 1, S + 1) booleans: row = current label, column = previous label. The last
      row is the end of a sentence, the last column the start of a sentence.
    """
    checks.choice(tuple(SCHEMES), scheme=scheme)
    known = [*SCHEMES[scheme], "O"]
    names = [*labels, "O"]  # start and end of a sentence are as O
    tags, kinds, _ = split_labels(names)
    now, before = tags[:, None], tags[None, :]
    is_same = (kinds[:, None] == kinds[None, :]) & (before != "O")
    if scheme == "iob1":
        legal = (now != "B") | is_same
    elif scheme == "iob2":
        legal = (now != "I") | is_same
    else:  # an open chunk goes on, and nothing else does
        goes_on = np.isin(now, ["I", "E"])
        legal = np.where(np.isin(before, ["B", "I"]), goes_on & is_same, ~goes_on)
    is_label = [
        tag in known and (tag != "O" or name == "O")
        for tag, name in zip(tags.tolist(), names, strict=True)
    ]
    return legal & np.outer(is_label, is_label)


def scheme_of(
    labels: Labels,
    offsets: np.ndarray,
    place: Callable[[int], str] | None = None,
) -> str:
    """Return the scheme of labels; labels without a chunk count as ``"iob2"``.

    Args:
      labels: (num_tokens,) labels.
      offsets: (num_sentences + 1,) starts of the sentences.
      place: Function from a token to its file and line, for the message.

    Raises:
      InputError: If the labels are legal in no scheme. The message names the first
        token that IOBES does not allow if there are tags E or S. Else it names the
        token at which the last of IOB1 and IOB2 fails.
    """
    codes, values = encode(labels)
    wrong = {}
    tags = split_labels(values)[0]
    for scheme in ("iobes",) if np.isin(tags, ["E", "S"]).any() else ("iob2", "iob1"):
        found = _first_wrong(codes, offsets, legal_pairs(values, scheme))
        if found is None:
            return scheme
        wrong[scheme] = found
    scheme = max(wrong, key=wrong.__getitem__)
    token = wrong[scheme]
    sentence = int(np.searchsorted(offsets, token, side="right"))
    number = token - int(offsets[sentence - 1])
    where = f"token {number + 1} of sentence {sentence}"
    before = f"after {values[codes[token - 1]]!r}" if number else "at the start"
    after = "the end" if token + 1 in offsets else repr(values[codes[token + 1]])
    raise InputError(
        f"{place(token) if place else where} has the label {values[codes[token]]!r} "
        f"{before} and before {after}, and the labels are neither IOB1 nor IOB2 nor "
        "IOBES; correct it."
    )


def convert_labels(labels: Labels, offsets: np.ndarray, scheme: str) -> np.ndarray:
    """Write the chunks of labels in another scheme.

    Chunks are read as conlleval reads them, so labels that are legal in no scheme, such
    as predicted ones, have a meaning too. The result is legal.

    Args:
      labels: (num_tokens,) labels of any scheme.
      offsets: (num_sentences + 1,) starts of the sentences.
      scheme: ``"iob1"``, ``"iob2"`` or ``"iobes"``.

    Returns:
      (num_tokens,) strings of dtype ``object``.

    Raises:
      InputError: If a label is neither O nor B, I, E or S with or without a type.
    """
    checks.choice(tuple(SCHEMES), scheme=scheme)
    codes, values = encode([*labels, "O"])
    tags, kinds, _ = split_labels(values)
    for value, tag in zip(values, tags.tolist(), strict=True):
        if tag not in ("B", "I", "E", "S") and value != "O":
            raise InputError(
                f"`labels` must be O, or B, I, E or S with a type, got {value!r}."
            )
    # An O before each sentence, and one at the end.
    bounds = np.asarray(offsets, np.int64)
    stream = np.append(np.insert(codes[:-1], bounds[:-1], codes[-1]), codes[-1])
    number = len(codes) - 1
    rows = np.arange(number) + np.searchsorted(bounds, np.arange(number), "right")
    starts, ends, kind = chunk_edges(stream, tags, kinds)
    is_first, is_last = starts[rows - 1], ends[rows]
    tag = np.where(is_first, "B", "I")
    if scheme == "iob1":
        goes_before = (tags[stream[rows - 1]] != "O") & (kind[rows] == kind[rows - 1])
        tag = np.where(is_first & goes_before, "B", "I")
    elif scheme == "iobes":
        tag = np.where(is_last, np.where(is_first, "S", "E"), tag)
    result = [
        "O" if old == "O" else new + old[1:]
        for old, new in zip((values[c] for c in codes[:-1]), tag.tolist(), strict=True)
    ]
    return np.fromiter(result, object, number)


def split_labels(values: list[str]) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Split labels at the first hyphen.

    Args:
      values: Distinct labels.

    Returns:
      ``(tags, kinds, types)``: (num_values,) tag, a single letter or ``""`` for any
      other tag; (num_values,) index of the type; and the distinct types.
    """
    parts = [value.partition("-") for value in values]
    known = ("B", "I", "O", "E", "S", ".")
    tags = np.array([tag if tag in known else "" for tag, _, _ in parts])
    kinds, types = encode([kind for _, _, kind in parts])
    return tags, kinds, types


def chunk_edges(stream: np.ndarray, tags: np.ndarray, kinds: np.ndarray) -> Edges:
    """Apply the rules of conlleval to each pair of neighbours, by a table over pairs.

    Args:
      stream: (n + 1,) label codes.
      tags: (num_values,) tag of each code.
      kinds: (num_values,) type of each code.

    Returns:
      ``(is_start, is_end, kind)``: (n,) bool, True if a chunk begins at position i + 1
      of the stream; (n,) bool, True if a chunk ends before it; (n + 1,) type of each.
    """
    before, after = tags[:, None], tags[None, :]
    is_change = kinds[:, None] != kinds[None, :]
    opens = np.isin(after, ["B", "S"])
    resumes = np.isin(before, ["O", "E", "S"]) & np.isin(after, ["I", "E"])
    starts = opens | resumes | (is_change & ~np.isin(after, ["O", "."]))
    closes = np.isin(before, ["E", "S"])
    stops = np.isin(before, ["B", "I"]) & np.isin(after, ["B", "S", "O"])
    ends = closes | stops | (is_change & ~np.isin(before, ["O", "."]))
    pair = (stream[:-1], stream[1:])
    return starts[pair], ends[pair], kinds[stream]


def _first_wrong(
    codes: np.ndarray, offsets: np.ndarray, legal: np.ndarray
) -> int | None:
    """Return the first token that may not stand where it stands, None if none."""
    edge = len(legal) - 1
    lengths = np.diff(offsets)
    first = np.asarray(offsets)[:-1][lengths > 0]
    last = np.asarray(offsets)[1:][lengths > 0] - 1
    before = np.concatenate([[edge], codes[:-1]])[: len(codes)]
    before[first] = edge
    is_right = legal[codes, before]
    is_right[last] &= legal[edge, codes[last]]
    wrong = np.flatnonzero(~is_right)
    return int(wrong[0]) if wrong.size else None
