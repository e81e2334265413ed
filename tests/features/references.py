"""Slow twins: texts token by token, dictionaries of texts, sets of ids."""

import collections

import numpy as np

from lowrank_jax.data.corpus import Corpus


def make_corpus(sentences, labels=None, source="toy.txt", dtype=object):
    """Build a corpus from sentences of tuples, one entry a column."""
    tokens = [token for sentence in sentences for token in sentence]
    width = len(tokens[0]) if tokens else 1
    columns = tuple(
        np.array([token[i] for token in tokens] or [""], dtype)[: len(tokens)]
        for i in range(width)
    )
    offsets = np.cumsum([0] + [len(sentence) for sentence in sentences])
    if labels is not None:
        labels = np.array(labels or [""], dtype)[: len(tokens)]
    return Corpus(columns, labels, offsets.astype(np.int64), source)


def value(sentence, place, column):
    """What CRF++ finds at a place of a sentence."""
    if place < 0:
        return f"_B-{-place}"
    if place >= len(sentence):
        return f"_B+{place - len(sentence) + 1}"
    return sentence[place][column]


def expand(sentences, template):
    """Expand every column at every token: a list of texts a token."""
    rows = []
    for sentence in sentences:
        for place in range(len(sentence)):
            row = []
            for column in template.columns:
                text = column.literals[0]
                for (shift, number), literal in zip(
                    column.macros, column.literals[1:], strict=True
                ):
                    text += value(sentence, place + shift, number) + literal
                row.append(text)
            rows.append(row)
    return rows


def count_texts(sentences, template, min_count):
    """Count texts, drop the rare ones, and say where each has weights."""
    counts, orders = collections.Counter(), collections.defaultdict(set)
    for row in expand(sentences, template):
        counts.update(row)
        for text, column in zip(row, template.columns, strict=True):
            orders[text] |= set(column.orders)
    kept = {text: n for text, n in counts.items() if n >= min_count}
    return kept, {text: orders[text] for text in kept}
