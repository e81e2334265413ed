import dataclasses
import functools
import itertools

import jax
import numpy as np
import pytest

from experiments import nbest
from experiments.nbest.jackknife import contiguous_folds, jackknife, k_best, train_base
from lowrank_jax import features, metrics, streams
from lowrank_jax.checks import InputError
from lowrank_jax.data import write_conll
from lowrank_jax.data.lists import oracle
from tests.experiments.nbest.examples import corpus_f1, random_corpus

NUM_BEST, NUM_FOLDS, NUM_PASSES = 6, 3, 2
SETTINGS = {
    "num_best": NUM_BEST,
    "num_folds": NUM_FOLDS,
    "num_passes": NUM_PASSES,
    "min_count": 2,
    "score_scale": 5.0,
    "seed": 0,
}


def corpora():
    train = random_corpus(0, num_sentences=31)
    others = [random_corpus(seed, num_sentences=n) for seed, n in ((1, 9), (2, 7))]
    return train, *others


@functools.lru_cache
def made():
    return nbest.make_chunk_lists(*corpora(), **SETTINGS)


def encoded(train):
    template = features.read_template("chunking")
    return features.Encoder.fit_transform(train, template)


def lists_by_jackknife(train):
    encoder, sequences = encoded(train)
    found = jackknife(
        sequences,
        labels=encoder.labels,
        num_best=NUM_BEST,
        num_folds=NUM_FOLDS,
        num_passes=NUM_PASSES,
        key=jax.random.key(3),
    )
    sizes = np.repeat(train.lengths, np.diff(found.list_offsets))
    rows = np.split(found.labels, np.cumsum(sizes)[:-1])
    bounds = itertools.pairwise(found.list_offsets.tolist())
    return [
        ([tuple(row.tolist()) for row in rows[a:b]], found.scores[a:b].tolist())
        for a, b in bounds
    ]


def test_no_list_depends_on_the_labels_of_its_own_fold():
    train = corpora()[0]
    before = lists_by_jackknife(train)
    folds = contiguous_folds(train.num_sentences, NUM_FOLDS)
    assert np.concatenate(folds).tolist() == list(range(train.num_sentences))
    left_out = folds[1]
    labels = train.labels.copy()
    tokens = slice(train.offsets[left_out[0]], train.offsets[left_out[-1] + 1])
    labels[tokens] = labels[tokens][::-1]
    after = lists_by_jackknife(dataclasses.replace(train, labels=labels))
    is_same = [a == b for a, b in zip(before, after, strict=True)]
    assert all(is_same[i] for i in left_out)
    assert not any(is_same[i] for i in folds[0])
    assert not any(is_same[i] for i in folds[2])


def test_k_best_equals_enumeration_of_valid_labellings():
    train = corpora()[0]
    encoder, sequences = encoded(train)
    everything = np.arange(train.num_sentences)
    params = train_base(
        streams.sentences.stream(sequences),
        everything,
        key=jax.random.key(0),
        num_passes=2,
    )
    short = np.flatnonzero(train.lengths <= 4)
    found = k_best(params, sequences, short, labels=encoder.labels, num_best=NUM_BEST)
    weights, transitions = (np.asarray(params.zero), np.asarray(params.transitions))
    names, num_labels = encoder.labels, len(encoder.labels)
    assert len(found) == len(short) > 3
    for sentence, (labels, scores) in zip(short, found, strict=True):
        begin, end = sequences.offsets[sentence : sentence + 2]
        unary = weights[sequences.feature_ids[begin:end]].sum(axis=1)
        expected = {}
        for path in itertools.product(range(num_labels), repeat=end - begin):
            before = ("O", *(names[label] for label in path))
            pairs = itertools.pairwise(before)
            if any(b[0] == "I" and a[2:] != b[2:] for a, b in pairs):
                continue
            steps = zip(path, (num_labels, *path), strict=False)
            score = sum(transitions[step] for step in steps)
            expected[path] = score + unary[np.arange(len(path)), path].sum()
        best = sorted(expected.values(), reverse=True)[:NUM_BEST]
        np.testing.assert_allclose(scores, best, rtol=1e-5, atol=1e-5)
        paths = [tuple(row) for row in labels.tolist()]
        assert len(set(paths)) == len(paths) == min(NUM_BEST, len(expected))
        own = [expected[path] for path in paths]
        np.testing.assert_allclose(scores, own, rtol=1e-5, atol=1e-5)


def test_quality_is_the_f1_of_the_sentence_and_sums_to_that_of_the_corpus():
    for split, corpus in zip(made()[:3], corpora(), strict=True):
        lists = split.lists
        assert lists.num_lists == corpus.num_sentences
        assert lists.num_features == made().train.lists.num_features
        assert lists.quality.dtype == lists.values.dtype == np.float32
        assert lists.feature_ids.dtype == np.int32
        assert (np.diff(lists.list_offsets) <= NUM_BEST).all()
        gold = np.repeat(split.num_gold, np.diff(lists.list_offsets))
        right = split.num_correct
        for i in range(lists.num_candidates):
            precision = right[i] / max(split.num_predicted[i], 1)
            recall = right[i] / max(gold[i], 1)
            f1 = 2 * precision * recall / max(precision + recall, 1e-9)
            if gold[i] == split.num_predicted[i] == 0:
                f1 = 1
            assert lists.quality[i] == pytest.approx(f1, abs=1e-6)
        best, first = oracle(lists), np.zeros(lists.num_lists, int)
        assert 0 < corpus_f1(split, first) < corpus_f1(split, best) <= 100


def test_the_score_falls_below_the_first_by_its_scale_on_average():
    lists = made().train.lists
    scores = lists.values[lists.feature_ids == 0]
    assert (scores < 0).all()
    mean = scores.sum(dtype=float) / lists.num_candidates
    assert mean == pytest.approx(-SETTINGS["score_scale"], rel=1e-5)


@pytest.mark.parametrize("base", ["perceptron", "mira"])
def test_first_candidates_score_as_the_tagger_does(base):
    train, development, _ = corpora()
    encoder, sequences = encoded(train)
    key = jax.random.split(jax.random.key(SETTINGS["seed"]))[1]
    params = train_base(
        streams.sentences.stream(sequences),
        np.arange(train.num_sentences),
        key=key,
        num_passes=NUM_PASSES,
        base=base,
    )
    split = made().development
    if base == "mira":
        other = nbest.make_chunk_lists(*corpora(), **SETTINGS, base=base).development
        assert not np.array_equal(other.lists.values, split.lists.values)
        split = other
    best = k_best(
        params,
        encoder.transform(development),
        np.arange(development.num_sentences),
        labels=encoder.labels,
        num_best=NUM_BEST,
    )
    codes = np.concatenate([labels[0] for labels, _ in best])
    predicted = np.array(encoder.labels, object)[codes]
    expected = metrics.chunk_scores(development.labels, predicted, development.offsets)
    first = np.zeros(split.lists.num_lists, int)
    assert corpus_f1(split, first) == pytest.approx(expected.f1)


def arrays(split):
    own = vars(split.lists)
    return [own[name] for name in own if name != "num_features"] + list(split[1:])


def test_lists_are_made_once_and_read_back_the_same(tmp_path):
    train, development, test = corpora()
    folder = tmp_path / "data" / "conll2000"
    folder.mkdir(parents=True)
    for name, parts in (("train", (train, development)), ("test", (test,))):
        with open(folder / f"{name}.txt", "w") as file:
            for part in parts:
                write_conll(file, part)
    settings = SETTINGS | {"num_train": 31, "num_development": 9}
    said: list[str] = []
    for _ in range(2):
        result = nbest.chunk_lists(
            tmp_path / "data", **settings, cache=tmp_path / "cache", say=said.append
        )
        assert result.num_raw_features == made().num_raw_features
        for split, expected in zip(result[:3], made()[:3], strict=True):
            assert split.lists.num_features == expected.lists.num_features
            for ours, theirs in zip(arrays(split), arrays(expected), strict=True):
                np.testing.assert_array_equal(ours, theirs, strict=True)  # and dtypes
    assert sum("jack" in line or "fold 1 of" in line for line in said) == 1
    assert sum(line.startswith("reading") for line in said) == 1
    assert len(list((tmp_path / "cache").iterdir())) == 1
    with pytest.raises(InputError, match="at most 40 together"):
        nbest.chunk_lists(tmp_path / "data", num_train=32, num_development=9)
    with pytest.raises(InputError, match="`num_test` must be at most 7"):
        nbest.chunk_lists(tmp_path / "data", num_train=9, num_development=9, num_test=8)
