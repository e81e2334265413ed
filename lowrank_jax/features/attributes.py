"""Features that come with the tokens: lists of strings, or dicts as CRFsuite has them.

A token is a bag of attributes. An attribute is a text; the weights belong to the text:

===========================  =====================================================
entry of a token             attribute
===========================  =====================================================
``"text"`` of a list or set  ``text``
``{"name": "value"}``        ``name:value``
``{"name": True}``, 1, 1.0   ``name``
``{"name": False}``, 0, 0.0  none
``{"name": 0.5}``            ``name`` with the value 0.5
``{"name": ["a", "b"]}``     ``name:a`` and ``name:b``
``{"name": {"a": 1}}``       ``name:a``
===========================  =====================================================

These are the names and values of python-crfsuite. If every value is 0 or 1,
`Sequences.values` is None and the kernels without values run. Each distinct text is
looked at once; every other step is a call of C code over all entries.

A row of `Sequences.feature_ids` has as many columns as the longest bag. Shorter bags
are filled up with K, which is no feature.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from lowrank_jax import checks
from lowrank_jax.data.corpus import Bags
from lowrank_jax.data.sequences import Sequences, Space
from lowrank_jax.features.codes import Vocabulary
from lowrank_jax.features.encoder import check_training, label_ids, label_names

__all__ = ["AttributeEncoder"]
__dir__ = __all__.copy

_NUMBERS = frozenset((float, int))
_LIMIT = 1e30  # largest size of a value
_CHUNK = 50_000  # tokens whose entries are laid out at once; bounds the memory
_ORDERS = {"template": "0", "zero": "0", "first": "1", "both": "01"}
_BITS = {"0": 1, "1": 2, "01": 3}


@dataclasses.dataclass(frozen=True, eq=False)
class AttributeEncoder:
    """Labels and attributes of the training data. Build it with `fit_transform`.

    Attributes:
      labels: Names of the labels, sorted; label i of `Sequences` is the i-th.
      min_count: Least count; attributes that occur less often in training were dropped.
      order: ``"0"``, ``"1"`` or ``"01"``: which weights each attribute has.
      vocabulary: Attributes; feature i is the i-th. They are sorted by falling count.
      num_columns: Number of attributes of the longest bag of the training data.
    """

    labels: tuple[str, ...]
    min_count: int
    order: str
    vocabulary: Vocabulary
    num_columns: int
    template: None = None

    @property
    def num_features(self) -> int:
        """Number of features, K."""
        return len(self.vocabulary.index)

    @property
    def num_zero_order(self) -> int:
        """Number of features with weights on the label."""
        return self.num_features if "0" in self.order else 0

    @property
    def num_first_order(self) -> int:
        """Number of features with weights on the pair of labels."""
        return self.num_features if "1" in self.order else 0

    @property
    def feature_orders(self) -> np.ndarray:
        """(K,) uint8, as `Encoder.feature_orders`."""
        return np.full(self.num_features, _BITS[self.order], np.uint8)

    @property
    def space(self) -> Space:
        """Sizes of the feature space of the training data."""
        return self._space(self.num_columns)

    @staticmethod
    def fit_transform(
        corpus: Bags, *, orders: str = "template", min_count: int = 1
    ) -> tuple["AttributeEncoder", Sequences]:
        """Learn labels and attributes; return encoder and encoded corpus.

        Args:
          corpus: Training data with labels.
          orders: As for `features.with_orders`; ``"template"`` is ``"zero"``.
          min_count: Least number of occurrences of an attribute.

        Raises:
          InputError: If the corpus is empty, has no labels, or has an entry that is not
            in the table above.
        """
        check_training(corpus, min_count)
        checks.choice(tuple(_ORDERS), orders=orders)
        assert corpus.labels is not None
        index: dict[str, int] = {}
        ids, counts, values = _look_up(
            corpus, lambda text: index.setdefault(text, len(index))
        )
        number = np.bincount(ids[ids >= 0], minlength=len(index))
        kept = np.flatnonzero(number >= min_count)
        kept = kept[np.argsort(-number[kept], kind="stable")]
        new = np.full(len(index) + 1, -1, np.int32)  # the last one serves -1
        new[kept] = np.arange(len(kept), dtype=np.int32)
        rows = _rows(new[ids], counts, values, len(kept))
        texts = list(index)
        encoder = AttributeEncoder(
            labels=label_names(corpus),
            min_count=min_count,
            order=_ORDERS[orders],
            vocabulary=Vocabulary({texts[k]: i for i, k in enumerate(kept.tolist())}),
            num_columns=rows[0].shape[1],
        )
        return encoder, encoder._sequences(corpus, *rows, "error")

    def transform(self, corpus: Bags, *, unseen_label: str = "error") -> Sequences:
        """Return a corpus encoded with the labels and attributes of training.

        Args:
          corpus: Data with or without labels; without, all labels are -1.
          unseen_label: As for `Encoder.transform`.
        """
        checks.choice(("error", "ignore"), unseen_label=unseen_label)
        known = self.vocabulary.index
        found = _look_up(corpus, lambda text: known.get(text, -1))
        # Whole steps of columns, so that few shapes are compiled.
        rows = _rows(*found, self.num_features, least=self.num_columns, step=8)
        return self._sequences(corpus, *rows, unseen_label)

    def feature_names(self, ids: Iterable[int]) -> list[str]:
        """Return the attributes of some features."""
        return [self._texts[i] for i in ids]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of a model folder: plain dtypes, no pickle needed."""
        return self.vocabulary.to_arrays()

    def metadata(self) -> dict[str, Any]:
        """Return the rest of a model folder, ready for JSON."""
        return {
            "format": 1,
            "attributes": self.order,
            "num_columns": self.num_columns,
            "labels": list(self.labels),
            "min_count": self.min_count,
        }

    @staticmethod
    def from_arrays(
        arrays: dict[str, np.ndarray], metadata: dict[str, Any]
    ) -> "AttributeEncoder":
        """Return the encoder that `arrays` and `metadata` describe.

        Raises:
          TypeError: If a part is of another type.
        """
        found = AttributeEncoder(
            labels=tuple(metadata["labels"]),
            min_count=metadata["min_count"],
            order=metadata["attributes"],
            vocabulary=Vocabulary.from_arrays(arrays),
            num_columns=metadata["num_columns"],
        )
        checks.choice(("0", "1", "01"), order=found.order)
        checks.whole(min_count=found.min_count, num_columns=found.num_columns)
        are_texts = all(isinstance(label, str) for label in found.labels)
        if not are_texts or not 0 < len(found.labels) == len(set(found.labels)):
            raise TypeError("the labels")
        return found

    @functools.cached_property
    def _texts(self) -> tuple[str, ...]:
        return self.vocabulary.values

    def _space(self, num_columns: int) -> Space:
        return Space(
            num_features=self.num_features,
            num_labels=len(self.labels),
            orders=(self.order,) * num_columns,
            has_transitions=True,
        )

    def _sequences(
        self,
        corpus: Bags,
        feature_ids: np.ndarray,
        values: np.ndarray | None,
        unseen_label: str,
    ) -> Sequences:
        labels = label_ids(corpus, self.labels, unseen_label)
        offsets = np.asarray(corpus.offsets, np.int32)
        space = self._space(feature_ids.shape[1])
        return Sequences(feature_ids, labels, offsets, space, values)


class _Ids(dict[Any, int]):
    """Id of each distinct entry, -1 for none. An entry is looked at when it is new.

    A number other than 0 and 1 has the id ``-2 - i``: the attribute and the value of
    its i-th occurrence in the chunk. Such an entry is not kept, as most are distinct.
    """

    def __init__(self, id_of: Callable[[str], int]) -> None:
        super().__init__()
        self._id_of = id_of
        self.numbers: list[tuple[int, float]] = []

    def __missing__(self, entry: Any) -> int:
        text, value = _attribute(entry)
        found = -1 if text is None else self._id_of(text)
        if value == 1 or found < 0:
            self[entry] = found
            return found
        self.numbers.append((found, value))
        return -1 - len(self.numbers)

    def take(self, found: np.ndarray) -> np.ndarray | None:
        """Put the ids of numbers in their places; return the values of a chunk."""
        if not self.numbers:
            return None
        values = np.ones(len(found), np.float32)
        is_number = found < -1
        which = -2 - found[is_number]
        mine, amount = zip(*self.numbers, strict=True)
        found[is_number] = np.array(mine, np.int32)[which]
        values[is_number] = np.array(amount, np.float32)[which]
        self.numbers.clear()
        return values


def _attribute(entry: Any) -> tuple[str | None, float]:
    """Return attribute and value of an entry, a text or a pair (name, value)."""
    if isinstance(entry, str):
        return entry, 1.0
    if isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str):
        name, value = entry
        if isinstance(value, str):
            return f"{name}:{value}", 1.0
        if isinstance(value, int | float | np.integer | np.floating | np.bool_):
            try:
                number = float(value)
            except OverflowError:  # an integer of hundreds of digits
                number = np.inf
            if not abs(number) < _LIMIT:
                raise checks.InputError(
                    f"`X` has the feature {name!r} with the value {number!r}; give a "
                    "finite number below 1e30, or leave the feature out."
                )
            return (name, number) if number else (None, 0.0)
    raise checks.InputError(
        f"`X` has the feature {entry!r:.60}; a feature is a string, or in a dict a "
        "name with a string, True, False or a number."
    )


def _look_up(
    corpus: Bags, id_of: Callable[[str], int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return the ids of all entries end to end, their number at each token, values.

    The values are None if all are 1.
    """
    every, counts = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    values: list[np.ndarray] = []
    ids, has_values = _Ids(id_of), False
    (column,) = corpus.columns
    for begin in range(0, len(column), _CHUNK):
        tokens = column[begin : begin + _CHUNK].tolist()
        found = None
        if all(isinstance(token, dict) for token in tokens):
            found = _dicts(tokens, ids)
        if found is None:  # no dicts, or a value that is a list, a set or a dict
            found = _lists([_flat(token) for token in tokens], ids)
        every.append(found[0])
        counts.append(found[1])
        values.append(np.ones(len(found[0]), np.float32))
        if found[2] is not None:
            has_values, values[-1] = True, found[2]
    together = np.concatenate(values) if has_values else None
    return np.concatenate(every), np.concatenate(counts), together


#: Ids of the entries of some tokens, number of entries at each token, values.
_Found = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def _dicts(tokens: list[Any], ids: _Ids) -> _Found | None:
    """Look up the entries of dicts; None if a value is not hashable.

    All numbers of the chunk are looked up together, by their names.
    """
    counts = np.fromiter(map(len, tokens), np.int64, len(tokens))
    names = list(itertools.chain.from_iterable(tokens))
    given = list(itertools.chain.from_iterable(map(dict.values, tokens)))
    others: Iterable[Any] = zip(names, given, strict=True)
    is_number = np.fromiter(map(_NUMBERS.__contains__, map(type, given)), bool)
    some = is_number.any()
    if some:
        others = itertools.compress(others, ~is_number)
    try:
        found = np.fromiter(map(ids.__getitem__, others), np.int32)
    except TypeError:
        ids.numbers.clear()
        return None
    if not some:
        return found, counts, ids.take(found)
    rest, found = found, np.full(len(names), -1, np.int32)
    found[~is_number] = rest
    values = ids.take(found)
    place = np.flatnonzero(is_number)
    try:
        amounts = np.array(list(itertools.compress(given, is_number)), float)
    except OverflowError:  # a whole number beyond every float
        amounts = np.full(len(place), np.inf)
    is_number[place] = amounts != 0
    place, amounts = place[amounts != 0], amounts[amounts != 0]
    texts = list(itertools.compress(names, is_number))
    if not (np.abs(amounts) < _LIMIT).all() or set(map(type, texts)) - {str}:
        for i in place.tolist():
            _attribute((names[i], given[i]))  # the wrong one raises
    found[place] = np.fromiter(map(ids.__getitem__, texts), np.int32, len(place))
    if values is None and (amounts == 1).all():
        return found, counts, None
    values = np.ones(len(names), np.float32) if values is None else values
    values[place] = amounts
    return found, counts, values


def _lists(tokens: list[list[Any]], ids: _Ids) -> _Found:
    """Look up the entries of lists of texts and of pairs (name, value)."""
    counts = np.fromiter(map(len, tokens), np.int64, len(tokens))
    entries = itertools.chain.from_iterable(tokens)
    try:
        found = np.fromiter(map(ids.__getitem__, entries), np.int32, counts.sum())
    except TypeError:
        raise checks.InputError(
            "`X` has a list of features whose entries are not all strings."
        ) from None
    return found, counts, ids.take(found)


def _flat(token: Any) -> list[Any]:
    """Return the entries of a token, lists and dicts inside a dict taken apart."""
    if not isinstance(token, Mapping):
        return sorted(token) if isinstance(token, set | frozenset) else token
    entries: list[Any] = []
    for name, value in token.items():
        if isinstance(value, Mapping):
            entries += _flat({f"{name}:{key}": inner for key, inner in value.items()})
        elif isinstance(value, list | tuple | set | frozenset):
            inside = sorted(value) if isinstance(value, set | frozenset) else value
            entries += [(name, inner) for inner in inside]
        else:
            entries.append((name, value))
    return entries


def _rows(
    ids: np.ndarray,
    counts: np.ndarray,
    values: np.ndarray | None,
    nothing: int,
    least: int = 1,
    step: int = 1,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Lay ids and values out in rows, one per token, without -1.

    Rows are filled up with `nothing` and the value 0.
    """
    token = np.repeat(np.arange(len(counts)), counts)[ids >= 0]
    if values is not None:
        values = values[ids >= 0]
    ids = ids[ids >= 0]
    counts = np.bincount(token, minlength=len(counts))
    longest = int(counts.max(initial=least))
    width = least - (least - longest) // step * step
    rows = np.full((len(counts), width), nothing, np.int32)
    starts = np.cumsum(counts) - counts
    place = np.arange(len(ids)) - starts[token]
    rows[token, place] = ids
    if values is None:
        return rows, None
    amounts = np.zeros(rows.shape, np.float32)
    amounts[token, place] = values
    return rows, amounts
