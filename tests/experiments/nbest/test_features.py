import collections

import numpy as np
import pytest

from experiments.nbest import entries as module
from experiments.nbest.features import (
    ATTRIBUTES,
    TEMPLATES,
    FeatureTable,
    instances,
)
from experiments.nbest.units import chunkings, count_chunks
from lowrank_jax import metrics
from lowrank_jax.data import read_conll
from tests.experiments.nbest.examples import (
    LABELS,
    candidates_of,
    random_corpus,
    random_labellings,
    relative_rows,
)

KINDS = ("", "NP", "PP", "VP")
MIN_COUNT = 3


def rows_by_name(corpus, found, table, min_count=MIN_COUNT):
    cut = chunkings(corpus, found, LABELS, KINDS)
    scores = np.zeros(len(found.scores), np.float32)
    parts = instances(corpus, cut, table)
    rows, num_raw = module.make_rows(
        parts, cut.list_offsets, scores, table, min_count=min_count
    )
    names = table.names()
    named = [names[i] for i in rows.feature_ids.tolist()]
    entries = list(zip(named, rows.values.tolist(), strict=True))
    bounds = zip(rows.offsets[:-1], rows.offsets[1:], strict=True)
    return [dict(entries[a:b]) for a, b in bounds], num_raw


@pytest.mark.parametrize("block", [4, 500])
def test_rows_equal_counting_candidate_by_candidate(block, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", block)
    train = random_corpus(0, num_sentences=40)
    found = random_labellings(train, 1)
    expected = relative_rows(train, found)
    seen = collections.Counter()
    for rows in expected:
        seen.update(set().union(*rows))
    kept = {name for name, lists in seen.items() if lists >= MIN_COUNT}
    table = FeatureTable()
    rows, num_raw = rows_by_name(train, found, table)

    assert 0 < len(kept) < len(seen) <= num_raw
    assert set(table.names()) == kept | {"score"}
    assert len(table.names()) == len(kept) + 1  # no name twice
    assert rows == [
        {name: count for name, count in row.items() if name in kept}
        for group in expected
        for row in group
    ]

    # New sentences, with words that training has not: only its features count.
    new = random_corpus(5, num_sentences=15)
    new.columns[0][::7] = "unheard"
    found = random_labellings(new, 6)
    rows, _ = rows_by_name(new, found, table)
    assert rows == [
        {name: count for name, count in row.items() if name in kept}
        for group in relative_rows(new, found)
        for row in group
    ]


def test_the_score_is_feature_0_and_leads_each_row():
    corpus = random_corpus(2, num_sentences=8)
    found = random_labellings(corpus, 3)
    cut = chunkings(corpus, found, LABELS, KINDS)
    table, scores = FeatureTable(), found.scores.copy()
    scores[cut.list_offsets[:-1]] = 0
    parts = instances(corpus, cut, table)
    rows, _ = module.make_rows(parts, cut.list_offsets, scores, table, min_count=2)
    is_first = np.isin(np.arange(len(scores)), cut.list_offsets[:-1])
    sizes = np.diff(rows.offsets)
    assert (sizes[is_first] == 0).all()
    heads = rows.offsets[:-1][~is_first]
    assert (rows.feature_ids[heads] == 0).all()
    np.testing.assert_array_equal(rows.values[heads], scores[~is_first])
    assert (rows.feature_ids == 0).sum() == len(heads)
    for begin, end in zip(rows.offsets[:-1], rows.offsets[1:], strict=True):
        assert (np.diff(rows.feature_ids[begin:end]) > 0).all()


def test_chunk_counts_equal_conlleval_on_each_candidate():
    corpus = random_corpus(4, num_sentences=30)
    corpus.labels[corpus.offsets[3] : corpus.offsets[4]] = "O"
    # Inside labels that open a chunk, as conlleval reads them.
    longest = corpus.offsets[corpus.lengths.argmax()]
    corpus.labels[longest : longest + 4] = ["I-VP", "O", "I-NP", "I-VP"]
    found = random_labellings(corpus, 5)
    counts = count_chunks(corpus, chunkings(corpus, found, LABELS, KINDS))
    place = 0
    for i, group in enumerate(candidates_of(corpus, found)):
        gold = corpus.labels[corpus.offsets[i] : corpus.offsets[i + 1]]
        for labels in group:
            scores = metrics.chunk_scores(gold, labels, [0, len(gold)])
            assert counts.num_correct[place] == scores.num_correct
            assert counts.num_predicted[place] == scores.num_predicted
            assert counts.num_gold[i] == scores.num_gold
            place += 1
    assert counts.num_correct.sum() > 0
    assert counts.num_gold[3] == 0


def test_rows_of_real_sentences_equal_counting(corpus_path):
    corpus = read_conll(corpus_path("conll2000/train.txt.xz")).take(np.arange(40))
    found = random_labellings(corpus, 7, most=4)
    rows, num_raw = rows_by_name(corpus, found, FeatureTable(), min_count=1)
    assert rows == [row for group in relative_rows(corpus, found) for row in group]
    assert num_raw > 10_000


def test_templates_name_known_attributes_of_their_units_once():
    for order, templates in TEMPLATES.items():
        assert len(set(templates)) == len(templates)
        for template in templates:
            assert len(set(template)) == len(template)
            assert all(0 <= place < max(order, 1) for place, _ in template)
            if order:
                assert {name for _, name in template} <= set(ATTRIBUTES)
