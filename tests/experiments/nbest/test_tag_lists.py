"""Lists of tag sequences: files apart, and tags counted as chunks of one token."""

import dataclasses

import numpy as np

from experiments import nbest
from experiments.nbest.tag_lists import places, reduced
from experiments.tm import scores
from tests.experiments.nbest.examples import random_corpus


def test_files_are_apart_and_parts_have_their_sizes():
    sizes = np.random.default_rng(0).integers(40, 90, size=100).tolist()
    owner = np.repeat(np.arange(100), sizes)
    parts = places(sizes, (150, 60, 120))
    assert [len(part) for part in parts] == [150, 60, 120]
    files = [set(owner[part]) for part in parts]
    assert files[2] <= set(range(9, 100, 10)) and len(files[2]) == 10
    assert not files[0] & files[1] and not files[0] & files[2]
    assert not files[1] & files[2] and len(files[0]) == 5


def test_marks_of_titles_and_foreign_words_are_taken_off():
    tags = {"FW-NN-TL": "NN", "NN-TL-HL": "NN", "--": "--", "VB-NC": "VB", "*": "*"}
    assert {tag: reduced(tag) for tag in tags} == tags


def test_f1_of_tags_is_the_share_of_right_tags():
    def tagged(seed, number):
        corpus = random_corpus(seed, num_sentences=number)
        kinds = [f"B-{label[-2:]}" for label in corpus.labels.tolist()]
        return dataclasses.replace(corpus, labels=np.array(kinds, object))

    train, others = tagged(0, 20), tagged(1, 6)
    made = nbest.make_chunk_lists(
        train, others, others, num_best=3, num_folds=2, num_passes=1, min_count=1,
        seed=0,
    )  # fmt: skip
    lengths = np.diff(train.offsets)
    np.testing.assert_array_equal(made.train.num_gold, lengths)
    owner = np.repeat(np.arange(20), np.diff(made.train.lists.list_offsets))
    np.testing.assert_array_equal(made.train.num_predicted, lengths[owner])
    shares = made.train.num_correct / lengths[owner]
    np.testing.assert_allclose(made.train.lists.quality, shares, rtol=1e-6)
    first = scores.outcome(made.train, np.zeros((1, 20), int))
    right = made.train.num_correct[made.train.lists.list_offsets[:-1]]
    assert scores.f1_of(first)[0] == 100 * right.sum() / lengths.sum()
