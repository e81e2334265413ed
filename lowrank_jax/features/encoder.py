"""Features and labels as integers: fit on training data, apply to any data.

A feature is the text that a template line gives at a token, without its letter. The
``U`` weights and the ``B`` weights of one text have the same id, in two tables. Lines
with the same literals (``U:%x[-1,0]`` and ``U:%x[1,0]``) share features, as in CRF++.

Ids are sorted by falling count in the training data, so that the most used rows of a
table of weights lie side by side. Features of equal count keep the order of the
template and, within a line, the order in which their values first appear.

All steps work on whole arrays: one code per value and one 64-bit key per tuple of
values (`codes`), and one sort per template. Texts are built only for the few features
whose text two tuples could share (`compile`).
"""

import dataclasses
import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from lowrank_jax import checks
from lowrank_jax.data.sequences import Sequences, Space
from lowrank_jax.features.codes import KeyTable, Vocabulary, codes_of, fit_keys
from lowrank_jax.features.compile import (
    Doubts,
    check_corpus,
    count_keys,
    doubtful_features,
    expand_texts,
    first_of_text,
    group_columns,
    number_features,
    open_windows,
    tuples_of_codes,
)
from lowrank_jax.features.templates import Template, parse_template

if TYPE_CHECKING:
    from lowrank_jax.data.corpus import Corpus

__all__ = ["Encoder", "check_training", "label_ids"]
__dir__ = __all__.copy

_FORMAT = 1
_ORDER_BITS = {"0": 1, "1": 2, "01": 3}


@dataclasses.dataclass(frozen=True, eq=False)
class Encoder:
    """Labels, values and features of the training data. Build it with `Encoder.fit`.

    Attributes:
      template: Template that defines the features and their orders.
      labels: Names of the labels, sorted; label i of `Sequences` is the i-th.
      min_count: Least count; features that occur less often in training were dropped.
      vocabulary: Values of the training data.
      tables: Tuples of values seen, one table per distinct tuple of literals.
      table_ids: Feature id of each key, one (num_keys,) int32 array per table.
      feature_orders: (K,) uint8: 1 for a feature in 0-order columns, 2 for one in
        first-order columns, 3 for one in both.
    """

    template: Template
    labels: tuple[str, ...]
    min_count: int
    vocabulary: Vocabulary
    tables: tuple[KeyTable, ...]
    table_ids: tuple[np.ndarray, ...]
    feature_orders: np.ndarray

    @property
    def num_features(self) -> int:
        """Number of features, K."""
        return len(self.feature_orders)

    @property
    def num_zero_order(self) -> int:
        """Number of features in 0-order columns."""
        return int(np.count_nonzero(self.feature_orders & _ORDER_BITS["0"]))

    @property
    def num_first_order(self) -> int:
        """Number of features in first-order columns."""
        return int(np.count_nonzero(self.feature_orders & _ORDER_BITS["1"]))

    @property
    def space(self) -> Space:
        """Sizes of the feature space."""
        return Space(
            num_features=self.num_features,
            num_labels=len(self.labels),
            orders=self.template.orders,
            has_transitions=self.template.has_transitions,
        )

    @staticmethod
    def fit(corpus: "Corpus", template: Template, *, min_count: int = 1) -> "Encoder":
        """Learn labels, values and features. Arguments as for `fit_transform`."""
        return Encoder.fit_transform(corpus, template, min_count=min_count)[0]

    @staticmethod
    def fit_transform(
        corpus: "Corpus", template: Template, *, min_count: int = 1
    ) -> tuple["Encoder", Sequences]:
        """Learn labels, values and features; return encoder and encoded corpus.

        Args:
          corpus: Training data with labels.
          template: Template of the features to make.
          min_count: Least number of occurrences of a feature, over all columns.

        Raises:
          InputError: If the corpus is empty or has no labels, or the template asks for
            a column it lacks.
        """
        check_training(corpus, min_count)
        assert corpus.labels is not None
        windows = open_windows(corpus, template, Vocabulary())
        vocabulary = Vocabulary({v: i for i, v in enumerate(windows.new_values)})
        groups = group_columns(template)
        tables, places, counts, orders = [], [], [], []
        for columns in groups.values():
            codes = tuples_of_codes(windows, template, columns)
            table, place = fit_keys(codes, len(windows.new_values))
            tables.append(table)
            places.append(place.reshape(len(columns), -1))
            bits = [_ORDER_BITS[template.columns[column].orders] for column in columns]
            count, order = count_keys(places[-1], len(table.keys), bits)
            counts.append(count)
            orders.append(order)
        same = first_of_text(tuple(groups), tables, vocabulary)
        ids, feature_orders = number_features(same, counts, orders, min_count)
        num_features = len(feature_orders)

        feature_ids = np.empty((windows.num_tokens, len(template.columns)), np.int32)
        for columns, place, table_ids in zip(groups.values(), places, ids, strict=True):
            feature_ids[:, columns] = table_ids[place].T
        is_kept = [table_ids < num_features for table_ids in ids]
        encoder = Encoder(
            template=template,
            labels=label_names(corpus),
            min_count=min_count,
            vocabulary=vocabulary,
            tables=tuple(
                dataclasses.replace(table, keys=table.keys[kept])
                for table, kept in zip(tables, is_kept, strict=True)
            ),
            table_ids=tuple(i[kept] for i, kept in zip(ids, is_kept, strict=True)),
            feature_orders=feature_orders,
        )
        return encoder, encoder._sequences(corpus, feature_ids, "error")

    def transform(self, corpus: "Corpus", *, unseen_label: str = "error") -> Sequences:
        """Return a corpus encoded with the labels and features of the training data.

        Args:
          corpus: Data with or without labels; without, all labels are -1.
          unseen_label: Treatment of a label that training never saw: ``"error"``
            raises, ``"ignore"`` makes it -1.

        Raises:
          InputError: If a label was never seen, or the corpus lacks a column.
        """
        checks.choice(("error", "ignore"), unseen_label=unseen_label)
        windows = open_windows(corpus, self.template, self.vocabulary)
        groups = self._groups
        doubts = self._doubts.extend(windows.new_values)
        feature_ids = np.empty(
            (windows.num_tokens, len(self.template.columns)), np.int32
        )
        for number, (literals, columns) in enumerate(groups.items()):
            codes = tuples_of_codes(windows, self.template, columns)
            place = self.tables[number].find(codes)
            missing = np.flatnonzero(place < 0)
            if len(self.table_ids[number]):
                ids = self.table_ids[number][place]
                ids[missing] = self.num_features
            else:
                ids = np.full(len(place), self.num_features, np.int32)
            if len(missing) and doubts.exist(number):
                missing = missing[doubts.of(number, codes[:, missing])]
            else:
                missing = missing[:0]
            if len(missing):
                tuples, back = np.unique(codes[:, missing], axis=1, return_inverse=True)
                values = self.vocabulary.values + windows.new_values
                texts = expand_texts(literals, tuples, values)
                found = [self._doubtful_ids.get(t, self.num_features) for t in texts]
                ids[missing] = np.array(found, np.int32)[back]
            feature_ids[:, columns] = ids.reshape(len(columns), -1).T
        return self._sequences(corpus, feature_ids, unseen_label)

    def feature_names(self, ids: Iterable[int]) -> list[str]:
        """Return the texts of some features as in CRF++, such as ``U05:the/cat``.

        The letter is ``U`` if the feature has 0-order weights, else ``B``.
        """
        wanted = np.asarray(list(ids), np.int64)
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < self.num_features:
            raise checks.InputError(
                f"`ids` must lie in 0..{self.num_features - 1}, got "
                f"{wanted.min()}..{wanted.max()}."
            )
        starts, first = self._first_keys
        keys = first[wanted]
        names = np.empty(len(wanted), object)
        for number, literals in enumerate(group_columns(self.template)):
            here = (starts[number] <= keys) & (keys < starts[number + 1])
            tuples = self.tables[number].digits(keys[here] - starts[number])
            names[here] = expand_texts(literals, tuples, self.vocabulary.values)
        is_zero = self.feature_orders[wanted] & _ORDER_BITS["0"] > 0
        letters = np.where(is_zero, "U", "B").tolist()
        return [letter + name for letter, name in zip(letters, names, strict=True)]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of a model folder: plain dtypes, no pickle needed."""
        result = self.vocabulary.to_arrays() | {"feature_orders": self.feature_orders}
        for i, (table, ids) in enumerate(zip(self.tables, self.table_ids, strict=True)):
            result |= {f"keys_{i}": table.keys, f"ids_{i}": ids}
            result |= {f"prefix_{i}_{j}": p for j, p in enumerate(table.prefixes)}
        return result

    def metadata(self) -> dict[str, Any]:
        """Return the rest of a model folder, ready for JSON."""
        return {
            "format": _FORMAT,
            "template": self.template.to_text(),
            "labels": list(self.labels),
            "min_count": self.min_count,
        }

    @staticmethod
    def from_arrays(
        arrays: dict[str, np.ndarray], metadata: dict[str, Any]
    ) -> "Encoder":
        """Return the encoder that `arrays` and `metadata` describe.

        Raises:
          InputError: If an entry is missing, the format is of another version, or the
            arrays do not fit together.
        """
        version = metadata.get("format") if isinstance(metadata, dict) else None
        if version != _FORMAT:
            raise checks.InputError(
                f"the encoder has format {version!r}, this version reads format "
                f"{_FORMAT}: train the model again."
            )
        try:
            template = parse_template(metadata["template"], "the model's template")
            vocabulary = Vocabulary.from_arrays(arrays)
            tables, table_ids = [], []
            for i, literals in enumerate(group_columns(template)):
                names = [n for n in arrays if n.startswith(f"prefix_{i}_")]
                prefixes = tuple(arrays[f"prefix_{i}_{j}"] for j in range(len(names)))
                keys = arrays[f"keys_{i}"]
                base, num_digits = len(vocabulary.values), len(literals) - 1
                tables.append(KeyTable(base, num_digits, prefixes, keys))
                table_ids.append(arrays[f"ids_{i}"])
            encoder = Encoder(
                template=template,
                labels=tuple(metadata["labels"]),
                min_count=metadata["min_count"],
                vocabulary=vocabulary,
                tables=tuple(tables),
                table_ids=tuple(table_ids),
                feature_orders=arrays["feature_orders"],
            )
            wrong = _wrong_part(encoder)
        except KeyError as error:
            raise checks.InputError(
                f"the encoder lacks the entry {error}: the model is incomplete."
            ) from None
        except checks.InputError:
            raise
        except Exception as error:  # arrays of any shape and type may be there
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            raise checks.InputError(
                f"the encoder is damaged ({wrong}); train the model again."
            )
        return encoder

    @functools.cached_property
    def _groups(self) -> dict[tuple[str, ...], list[int]]:
        """Columns of the template by their literals."""
        return group_columns(self.template)

    @functools.cached_property
    def _first_keys(self) -> tuple[np.ndarray, np.ndarray]:
        """Start of each table, end to end, and the first key of each feature."""
        starts = np.cumsum([0, *map(len, self.table_ids)])
        first = np.empty(self.num_features, np.int64)
        backwards = np.concatenate([*self.table_ids, np.empty(0, np.int32)])[::-1]
        first[backwards] = np.arange(len(backwards))[::-1]
        return starts, first

    @functools.cached_property
    def _doubts(self) -> Doubts:
        """Tuples of known values that can share their text."""
        return Doubts(tuple(group_columns(self.template)), self.vocabulary.values)

    @functools.cached_property
    def _doubtful_ids(self) -> dict[str, int]:
        """Map from text to feature id, for the features whose tuple is in doubt."""
        result: dict[str, int] = {}
        skeletons = tuple(group_columns(self.template))
        values = self.vocabulary.values
        for number, place, texts in doubtful_features(skeletons, self.tables, values):
            ids = self.table_ids[number][place].tolist()
            result.update(zip(texts, ids, strict=True))
        return result

    def _sequences(
        self, corpus: "Corpus", feature_ids: np.ndarray, unseen_label: str
    ) -> Sequences:
        """Add labels and offsets to the features."""
        labels = label_ids(corpus, self.labels, unseen_label)
        offsets = np.asarray(corpus.offsets, np.int32)
        return Sequences(feature_ids, labels, offsets, self.space)


def check_training(corpus: "Corpus", min_count: int) -> None:
    """Raise `InputError` unless an encoder can learn from this corpus."""
    checks.whole(min_count=min_count)
    check_corpus(corpus)
    if corpus.labels is None:
        raise checks.InputError(f"{corpus.source} has no labels to learn from.")
    if len(corpus.labels) == 0:
        raise checks.InputError(f"{corpus.source} has no tokens to learn from.")
    if not label_names(corpus):
        raise checks.InputError(
            f"{corpus.source} has no known label: all are {corpus.unknown_label!r}."
        )


def label_names(corpus: "Corpus") -> tuple[str, ...]:
    """Return the distinct labels of a corpus, sorted, without the unknown one."""
    assert corpus.labels is not None
    return tuple(sorted(set(corpus.labels.tolist()) - {corpus.unknown_label}))


def label_ids(
    corpus: "Corpus", names: tuple[str, ...], unseen_label: str
) -> np.ndarray:
    """Return the place of each label in `names`, (num_tokens,) int32.

    Args:
      corpus: Data with or without labels; without, all labels are -1.
      names: Labels of the training data.
      unseen_label: ``"error"`` raises if a label is not in `names`, ``"ignore"`` makes
        it -1.
    """
    if corpus.labels is None:
        return np.full(corpus.num_tokens, -1, np.int32)
    index = dict.fromkeys(corpus.labels.tolist(), -1)
    index |= {label: i for i, label in enumerate(names)}
    labels = codes_of(corpus.labels, index)
    is_unseen = labels < 0
    if corpus.unknown_label is not None:
        is_unseen &= corpus.labels != corpus.unknown_label
    unseen = np.flatnonzero(is_unseen)
    if len(unseen) and unseen_label == "error":
        sentence = np.searchsorted(corpus.offsets, unseen[0], side="right")
        raise checks.InputError(
            f"{corpus.source}, sentence {sentence}: the label "
            f"{str(corpus.labels[unseen[0]])!r} does not occur in the training "
            "data; correct it, or have unseen labels ignored "
            '(unseen_label="ignore").'
        )
    return labels.astype(np.int32)


def _wrong_part(encoder: Encoder) -> str:
    """Name the part of an encoder from a file that does not fit, "" if all parts do."""
    labels, orders = encoder.labels, encoder.feature_orders
    if not labels or not all(isinstance(label, str) for label in labels):
        return "the labels"
    if len(set(labels)) < len(labels) or not isinstance(encoder.min_count, int):
        return "the labels or the least count"
    if orders.ndim != 1 or orders.dtype.kind not in "iu":
        return "the orders"
    if not np.isin(orders, tuple(_ORDER_BITS.values())).all():
        return "the orders"
    is_used = np.zeros(len(orders), bool)
    for number, (table, ids) in enumerate(
        zip(encoder.tables, encoder.table_ids, strict=True)
    ):
        if not table.is_sound() or ids.shape != table.keys.shape:
            return f"the keys of table {number}"
        if ids.dtype.kind not in "iu" or (
            ids.size and not 0 <= ids.min() <= ids.max() < len(orders)
        ):
            return f"the ids of table {number}"
        is_used[ids] = True
    return "" if is_used.all() else "a feature without a key"
