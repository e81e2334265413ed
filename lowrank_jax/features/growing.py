"""Encoders that take in new data: features keep their ids, new ones follow.

A model can then go on learning. Its weights stay where they are, and new rows follow.
"""

import dataclasses

import numpy as np

from lowrank_jax import checks
from lowrank_jax.data.corpus import Bags, Corpus
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.features.attributes import AttributeEncoder
from lowrank_jax.features.codes import Vocabulary, fit_keys
from lowrank_jax.features.compile import (
    count_keys,
    first_of_text,
    open_windows,
    tuples_of_codes,
)
from lowrank_jax.features.encoder import Encoder, check_training, label_names

__all__ = ["grow", "with_labels"]
__dir__ = __all__.copy

_ORDER_BITS = {"0": 1, "1": 2, "01": 3}


def with_labels(
    encoder: Encoder | AttributeEncoder, labels: tuple[str, ...], corpus: Corpus
) -> tuple[Encoder | AttributeEncoder, Sequences]:
    """Return an encoder with these labels, and the corpus encoded by it."""
    wider = dataclasses.replace(encoder, labels=labels)
    return wider, wider.transform(corpus)  # type: ignore[arg-type]


def grow(
    encoder: Encoder | AttributeEncoder, corpus: Corpus
) -> tuple[Encoder | AttributeEncoder, Sequences]:
    """Return an encoder that also has the features of new data, and the data encoded.

    Args:
      encoder: Encoder of earlier data.
      corpus: New data with labels. A new feature must occur as often as `min_count` of
        the encoder says, in the new data alone.

    Raises:
      InputError: If the data have a label that the encoder does not have.
    """
    check_training(corpus, encoder.min_count)
    for label in label_names(corpus):
        if label not in encoder.labels:
            raise checks.InputError(
                f"{corpus.source} has the label {label!r}, and the model has "
                f"{', '.join(encoder.labels)}; name all labels when the training "
                "begins (`classes` of `partial_fit`)."
            )
    if isinstance(encoder, AttributeEncoder):
        assert isinstance(corpus, Bags)
        grown: Encoder | AttributeEncoder = _with_attributes(encoder, corpus)
    else:
        grown = _with_tuples(encoder, corpus)
    return grown, grown.transform(corpus)  # type: ignore[arg-type]


def _with_attributes(encoder: AttributeEncoder, corpus: Bags) -> AttributeEncoder:
    fresh, rows = AttributeEncoder.fit_transform(corpus, min_count=encoder.min_count)
    vocabulary = encoder.vocabulary.extend([fresh.vocabulary.values])
    width = max(encoder.num_columns, rows.feature_ids.shape[1])
    return dataclasses.replace(encoder, vocabulary=vocabulary, num_columns=width)


def _with_tuples(encoder: Encoder, corpus: Corpus) -> Encoder:
    template = encoder.template
    windows = open_windows(corpus, template, encoder.vocabulary)
    vocabulary = encoder.vocabulary.extend([windows.new_values])
    tables, ids, counts, orders = [], [], [], []
    for old, old_ids, columns in zip(
        encoder.tables, encoder.table_ids, encoder._groups.values(), strict=True
    ):
        known = old.digits(np.arange(len(old.keys)))
        codes = tuples_of_codes(windows, template, columns)
        table, places = fit_keys(
            np.concatenate([known, codes], axis=1), len(vocabulary.values)
        )
        bits = [_ORDER_BITS[template.columns[column].orders] for column in columns]
        here = places[len(old_ids) :].reshape(len(columns), -1)
        count, order = count_keys(here, len(table.keys), bits)
        each = np.full(len(table.keys), -1, np.int64)
        each[places[: len(old_ids)]] = old_ids
        tables.append(table)
        ids.append(each)
        counts.append(count)
        orders.append(order)
    # Keys of one text have one id: the id that one of them has already, or a new one.
    same = first_of_text(tuple(encoder._groups), tables, Vocabulary(vocabulary.index))
    sizes = [len(each) for each in ids]
    flat = np.full(len(same), -1, np.int64)
    total = np.zeros(len(same), np.int64)
    bits_of = np.zeros(len(same), np.uint8)
    np.maximum.at(flat, same, np.concatenate(ids))
    np.add.at(total, same, np.concatenate(counts))
    np.bitwise_or.at(bits_of, same, np.concatenate(orders))
    fresh = np.flatnonzero((flat < 0) & (total >= encoder.min_count))
    fresh = fresh[np.argsort(-total[fresh], kind="stable")]
    flat[fresh] = encoder.num_features + np.arange(len(fresh))
    feature_orders = np.zeros(encoder.num_features + len(fresh), np.uint8)
    feature_orders[: encoder.num_features] = encoder.feature_orders
    roots = np.flatnonzero((flat >= 0) & (same == np.arange(len(same))))
    np.bitwise_or.at(feature_orders, flat[roots], bits_of[roots])
    found = np.split(flat[same], np.cumsum(sizes)[:-1])
    return dataclasses.replace(
        encoder,
        vocabulary=vocabulary,
        tables=tuple(
            dataclasses.replace(table, keys=table.keys[each >= 0])
            for table, each in zip(tables, found, strict=True)
        ),
        table_ids=tuple(each[each >= 0].astype(np.int32) for each in found),
        feature_orders=feature_orders,
    )
