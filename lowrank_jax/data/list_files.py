r"""Read candidate lists, from JSON lines or the ranking format of SVMlight.

JSON lines have one list per line, ``{"candidates": [{"features": {"name": 1.0, ...},
"quality": 0.93}, ...]}``. The model keeps the names with their ids. Lists can also be
written as JSON lines. SVMlight files have one candidate per line, ``quality qid:3
17:0.5 29:1``, and the lines of a list are adjacent. Files may be plain, ``.gz`` or
``.xz``.
"""

import array
import gzip
import itertools
import json
import lzma
import math
import os
import pathlib
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.data.files import open_text, source_name
from lowrank_jax.data.lists import Lists
from lowrank_jax.store.files import write_bytes

__all__ = ["lists_from", "read_json_lists", "read_svmlight_lists", "write_json_lists"]
__dir__ = __all__.copy

_MOST = 2**30  # most features: a tensor of any order holds them in int32 cells
_LARGEST = 1e38  # largest value: differences of values stay finite in float32
_PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
}


def read_json_lists(
    path: str | os.PathLike[str],
    *,
    names: dict[str, int] | None = None,
    training: bool = True,
    keep: list[dict[str, Any]] | None = None,
) -> tuple[Lists, dict[str, int]]:
    """Read lists from JSON lines.

    Args:
      path: File, or ``-`` for standard input.
      names: Names of the features and their ids 0, 1, 2 and so on, as an earlier
        call returned them. Other names become id V, which scores 0. None collects the
        names of this file, in order of appearance.
      training: True if every candidate must have a quality. If False, the quality may
        be left out.
      keep: List to which the content of each line is appended, or None.

    Returns:
      ``(lists, names)``.

    Raises:
      InputError: If a line is not a list in this format. The message names file and
        line.
    """
    source = source_name(path)
    rows = ((f"{source}:{n}", n, _content(f"{source}:{n}", t)) for n, t in _lines(path))
    return _from_rows(rows, source, names, training, keep)


def lists_from(
    rows: Sequence[Any],
    *,
    names: dict[str, int] | None = None,
    training: bool = True,
) -> tuple[Lists, dict[str, int]]:
    """Return lists from Python objects that look as a line of JSON does.

    Args:
      rows: One entry per list: its candidates, or an object with "candidates".
      names: As in `read_json_lists`.
      training: As in `read_json_lists`.

    Returns:
      ``(lists, names)``.
    """
    whole = ({"candidates": r} if isinstance(r, list | tuple) else r for r in rows)
    places = ((f"list {i}", i, row) for i, row in enumerate(whole))
    return _from_rows(places, "list", names, training, None)


def _from_rows(
    rows: Iterable[tuple[str, int, Any]],
    source: str,
    names: dict[str, int] | None,
    training: bool,
    keep: list[dict[str, Any]] | None,
) -> tuple[Lists, dict[str, int]]:
    """Build lists from the content of lines, each with its place and number."""
    known = {} if names is None else names
    made = _Builder(source, training, is_text=False)
    for place, number, content in rows:
        found = content.get("candidates") if isinstance(content, dict) else None
        if not isinstance(found, list | tuple):
            raise InputError(
                f'{place} has no array "candidates"; write '
                '{"candidates": [{"features": {...}, "quality": 0.9}]}.'
            )
        if not found:
            raise InputError(f"{place} is a list without candidates; leave it out.")
        made.open_list()
        if keep is not None:
            keep.append(content)
        for candidate in found:
            features = (
                candidate.get("features") if isinstance(candidate, dict) else None
            )
            if not isinstance(features, dict):
                raise InputError(
                    f'{place} has a candidate without an object "features"; '
                    "map names to numbers in it."
                )
            made.open_candidate(number, candidate.get("quality"))
            for name, value in features.items():
                if names is None:
                    index = known.setdefault(name, len(known))
                else:
                    index = known.get(name, len(known))
                made.add(number, index, value, name)
    return made.lists(len(known)), known


def read_svmlight_lists(
    path: str | os.PathLike[str],
    *,
    num_features: int | None = None,
    training: bool = True,
    keep: list[dict[str, Any]] | None = None,
) -> Lists:
    """Read lists from the ranking format of SVMlight.

    Ids are taken as they are. If they begin at 1, id 0 is a feature that no candidate
    has. Text after ``#`` is a comment. An unknown quality is written as ``nan``.

    Args:
      path: File, or ``-`` for standard input.
      num_features: Number of features V, above every id. None takes the largest id
        plus 1.
      training: True if every candidate must have a quality.
      keep: List to which an object with the qid of each list is appended, or None.

    Raises:
      InputError: If a line is not a candidate in this format. The message names file
        and line.
    """
    if num_features is not None:
        checks.whole(num_features=num_features)
        if num_features > _MOST:
            raise InputError(
                f"`num_features` must be at most {_MOST}, got {num_features}; number "
                "the features without gaps."
            )
    most = _MOST if num_features is None else num_features
    todo = "check that it is the file this model was made for"
    if training:
        todo = "number the features without gaps"
        if num_features is not None:
            todo = "raise the number of features"
    source = source_name(path)
    made = _Builder(source, training, is_text=True)
    seen: dict[str, int] = {}
    current = None
    for number, line in _lines(path):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) < 2 or not words[1].startswith("qid:"):
            raise InputError(
                f"{source}:{number} has no qid in its second place; write lines as "
                "`quality qid:3 17:0.5`."
            )
        query = words[1][4:]
        if query != current:
            if query in seen:
                raise InputError(
                    f"{source}:{number} comes back to qid {query} of line "
                    f"{seen[query]}; put the candidates of a list together."
                )
            seen[query], current = number, query
            made.open_list()
            if keep is not None:
                keep.append({"id": query})
        made.open_candidate(number, words[0])
        present: set[int] = set()
        for word in words[2:]:
            name, colon, value = word.partition(":")
            try:
                index = int(name)
            except ValueError:
                colon = ""
            if not colon or "_" in name:
                raise InputError(
                    f"{source}:{number} has {reprlib.repr(word)} where an id:value "
                    "should be."
                ) from None
            if not 0 <= index < most:
                raise InputError(
                    f"{source}:{number} has the feature id {reprlib.repr(index)}; ids "
                    f"must lie in 0..{most - 1}; "
                    f"{todo if index > 0 else 'number the features from 0'}."
                )
            if index in present:
                raise InputError(
                    f"{source}:{number} has feature {index} twice in a candidate; sum "
                    "its values up."
                )
            present.add(index)
            made.add(number, index, value, index)
    if num_features is None:
        num_features = 1 + max(made.ids, default=0)
    return made.lists(num_features)


def write_json_lists(
    path: str | os.PathLike[str], lists: Lists, names: Mapping[str, int]
) -> None:
    """Write lists as JSON lines, in the format of `read_json_lists`.

    Entries of id V and unknown qualities are left out. Values are float32, written so
    that the same bits are read back.

    Args:
      path: File to write; ``.gz`` and ``.xz`` are packed.
      lists: Lists in which no candidate has a feature twice.
      names: Map from the name of each feature to its id.

    Raises:
      InputError: If an id has no name, or a candidate has a feature twice.
    """
    texts = {index: name for name, index in names.items()}
    of_candidates = np.asarray(lists.candidate_offsets).tolist()
    of_lists = np.asarray(lists.list_offsets).tolist()
    ids = np.asarray(lists.feature_ids).tolist()
    values = [_short(value) for value in np.asarray(lists.values, np.float32)]
    quality = [_short(value) for value in np.asarray(lists.quality, np.float32)]

    def candidate(index: int) -> dict[str, Any]:
        begin, end = of_candidates[index], of_candidates[index + 1]
        features: dict[str, float] = {}
        for entry in range(begin, end):
            if ids[entry] == lists.num_features:
                continue
            name = texts.get(ids[entry])
            if name is None or name in features:
                lack = "without a name" if name is None else "twice"
                raise InputError(
                    f"Candidate {index} (counted from 0) has feature {ids[entry]} "
                    f"{lack}; {path} was not written."
                )
            features[name] = values[entry]
        found: dict[str, Any] = {"features": features}
        if not math.isnan(quality[index]):
            found["quality"] = quality[index]
        return found

    lines = (
        json.dumps({"candidates": [candidate(c) for c in range(*bounds)]})
        for bounds in itertools.pairwise(of_lists)
    )
    content = "".join(line + "\n" for line in lines).encode()
    suffix = pathlib.Path(path).suffix
    packed = _PACKERS[suffix](content) if suffix in _PACKERS else content
    write_bytes(path, packed)


def _short(value: np.float32) -> float:
    """Return the double with the fewest digits that rounds to this float32."""
    return float(str(value))


def _lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, and their numbers from 1."""
    with open_text(path) as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                yield number, line


class _Repeated(ValueError):
    """A JSON object has a name twice; the argument is the name."""


def _content(place: str, line: str) -> Any:
    """Return the content of one line of JSON; raise `InputError` with the place."""
    try:
        return json.loads(line, object_pairs_hook=_object)
    except _Repeated as error:
        raise InputError(
            f"{place} has the name {error.args[0]!r} twice in one object; keep one of "
            "them."
        ) from None
    except json.JSONDecodeError as error:
        why = error.msg
    except RecursionError:
        why = "brackets nested too deeply"
    except ValueError:  # raised by Python for an integer of thousands of digits
        why = "a number of too many digits"
    raise InputError(f"{place} is not JSON ({why}); write one list per line.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Repeated(next(name for name in names if names.count(name) > 1))
    return found


def _shown(number: Any) -> str:
    """Return a number, or its text, shortened for a message."""
    return reprlib.repr(number).strip("'")


class _Builder:
    """Grows the flat arrays of `Lists`, and checks each number."""

    def __init__(self, source: str, training: bool, *, is_text: bool) -> None:
        self.source, self.training, self.is_text = source, training, is_text
        self.ids, self.values = array.array("i"), array.array("f")
        self.quality = array.array("f")
        self.candidate_offsets, self.list_offsets = array.array("q"), array.array("q")

    def open_list(self) -> None:
        self.list_offsets.append(len(self.quality))

    def open_candidate(self, number: int, quality: Any) -> None:
        self.candidate_offsets.append(len(self.ids))
        value = math.nan if quality is None else self._number(number, quality)
        if math.isnan(value) and self.training:
            raise InputError(
                f"{self.source}:{number} has a candidate without a quality, and "
                "training needs one; add a quality, or leave the list out."
            )
        if abs(value) > _LARGEST:
            raise InputError(
                f"{self.source}:{number} has the quality {_shown(quality)}, and it "
                "must be finite; mend it."
            )
        self.quality.append(value)

    def add(self, number: int, index: int, value: Any, name: str | int) -> None:
        found = self._number(number, value)
        if not abs(found) <= _LARGEST:
            is_finite = math.isfinite(found) or isinstance(value, int)
            lack = (
                f"beyond {_LARGEST:g}; scale it" if is_finite else "not finite; mend it"
            )
            raise InputError(
                f"{self.source}:{number} gives feature {name!r} the value "
                f"{_shown(value)}, which is {lack}."
            )
        self.ids.append(index)
        self.values.append(found)

    def lists(self, num_features: int) -> Lists:
        if not self.list_offsets:
            raise InputError(f"{self.source} holds no list; check the file.")
        if self.training and not self.ids:
            raise InputError(
                f"{self.source} gives no candidate a feature, and training needs some; "
                "check the file."
            )
        self.list_offsets.append(len(self.quality))
        self.candidate_offsets.append(len(self.ids))
        return Lists(
            feature_ids=np.array(self.ids, np.int32),
            values=np.array(self.values, np.float32),
            candidate_offsets=np.array(self.candidate_offsets, np.int32),
            list_offsets=np.array(self.list_offsets, np.int32),
            quality=np.array(self.quality, np.float32),
            num_features=num_features,
        )

    def _number(self, number: int, value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        try:
            if is_number or (self.is_text and "_" not in value):
                return float(value)
        except OverflowError:  # an integer of hundreds of digits
            return math.inf if value > 0 else -math.inf
        except ValueError:
            pass
        raise InputError(
            f"{self.source}:{number} has {reprlib.repr(value)} where a number should "
            "be."
        )
