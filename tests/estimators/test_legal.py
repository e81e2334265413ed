"""Schemes of chunks in a tagger, and legal labels alone: against enumeration."""

import itertools

import numpy as np
import pytest

from lowrank_jax import Tagger, data
from lowrank_jax.checks import InputError
from lowrank_jax.estimators.tagger import small
from tests.data.test_chunks import draw, write


def task(scheme, num_sentences=60):
    """Sentences whose words tell little of the labels, so that paths go wrong."""
    rng = np.random.default_rng(0)
    sentences = [s for seed in range(1, num_sentences) if seed % 4 for s in draw(seed)]
    sentences = [s for s in sentences if 0 < sum(n for n, _ in s) <= 5]
    labels, offsets = write(sentences, scheme)
    y = [labels[a:b] for a, b in itertools.pairwise(offsets)]
    words = [[f"w{rng.integers(6)}" for _ in part] for part in y]
    return words, y


def shake(tagger):
    """Add noise to the weights, so that most best paths are illegal."""
    rng = np.random.default_rng(1)
    shaken = {}
    for name, array in tagger._weights.items():
        noise = rng.normal(size=array.shape) * (array.ndim > 0)
        if name != "transitions" and array.ndim:
            noise[-1] = 0  # the row of no feature
        shaken[name] = (array + noise).astype(array.dtype)
    tagger._weights, tagger._params = shaken, None


def legal_paths(tagger, words):
    """Score all legal paths of a sentence, from the scores of its positions."""
    names = tagger.encoder_.labels
    corpus = data.corpus.corpus_of([words])
    sequences = tagger._encode(corpus)
    tokens = np.arange(len(words))
    unary, pairs = small.position_scores(tagger._weights, tokens, sequences)
    pairs = np.broadcast_to(pairs, (len(words), *pairs.shape[-2:]))
    for path in itertools.product(range(len(names)), repeat=len(words)):
        labels = [names[i] for i in path]
        try:
            scheme = data.scheme_of(labels, np.array([0, len(labels)]))
        except InputError:
            continue
        if scheme == tagger.scheme_["own"] or set(labels) == {"O"}:
            before = (len(names), *path[:-1])
            place = range(len(path))
            yield (
                path,
                sum(unary[i, path[i]] + pairs[i, path[i], before[i]] for i in place),
            )


@pytest.fixture(scope="module", params=["iob1", "iob2", "iobes"])
def scheme(request):
    return request.param


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["sp", "bol"])
def test_the_best_legal_paths_are_found_and_no_other(scheme, learner, monkeypatch):
    X, y = task(scheme)
    free = Tagger(learner, num_passes=1).fit(X, y)
    tagger = Tagger(learner, num_passes=1, legal_only=True).fit(X, y)
    assert tagger.scheme_ == {"given": scheme, "own": scheme, "legal_only": True}
    for name, array in free._weights.items():  # training is the same
        np.testing.assert_array_equal(tagger._weights[name], array)
    shake(tagger)
    short = [words for words in X if len(words) <= 3][:12]
    every = [dict(legal_paths(tagger, words)) for words in short]
    for is_small in (True, False):  # in NumPy, then compiled
        monkeypatch.setattr(small, "is_small", lambda *_, small=is_small: small)
        found = tagger.predict(short)
        marginals = tagger.predict_marginals(short)
        for labels, paths, rows in zip(found, every, marginals, strict=True):
            path = tuple(map(tagger.encoder_.labels.index, labels))
            assert path in paths
            np.testing.assert_allclose(
                paths[path], max(paths.values()), rtol=1e-5, atol=1e-5
            )
            weights = np.exp(np.array(list(paths.values())) - max(paths.values()))
            expected = np.zeros((len(path), len(tagger.classes_)))
            for labels_, weight in zip(paths, weights / weights.sum(), strict=True):
                expected[np.arange(len(path)), labels_] += weight
            given = [list(row.values()) for row in rows]
            np.testing.assert_allclose(given, expected, atol=1e-5)
        for labels in tagger.predict(X):
            told = data.scheme_of(labels, np.array([0, len(labels)]))
            assert told == scheme or set(labels) == {"O"}
    k_best = []
    for is_small in (True, False):
        monkeypatch.setattr(small, "is_small", lambda *_, small=is_small: small)
        k_best.append(tagger.k_best(short, 4))
    for paths, labellings in zip([*every, *every], sum(k_best, []), strict=True):
        best = sorted(paths.values(), reverse=True)[:4]
        np.testing.assert_allclose(
            [found.score for found in labellings], best, rtol=1e-5, atol=1e-5
        )
        for found in labellings:
            assert tuple(map(tagger.encoder_.labels.index, found.labels)) in paths


def test_without_it_illegal_paths_come_out(scheme):
    """Else the test above shows nothing."""
    X, y = task(scheme)
    tagger = Tagger(num_passes=1).fit(X, y)
    shake(tagger)
    found = tagger.predict(X)
    flat = list(itertools.chain.from_iterable(found))
    with pytest.raises(InputError, match="neither IOB1 nor"):
        data.scheme_of(flat, np.cumsum([0, *map(len, found)]))


@pytest.mark.slow
def test_a_scheme_is_learned_and_given_back(scheme, tmp_path):
    X, y = task(scheme)
    for i, words in enumerate(X):  # words that tell the chunk
        X[i] = [f"{w}-{label}" for w, label in zip(words, y[i], strict=True)]
    tagger = Tagger(num_passes=8, labels="iobes", legal_only=True)
    tagger.fit(X, y, X[:5], y[:5])
    assert {label[0] for label in tagger.classes_} == set("BIESO")
    assert tagger.score(X, y) > 0.95
    predicted = tagger.predict(X)
    offsets = np.cumsum([0, *map(len, X)])
    assert data.scheme_of(list(itertools.chain(*predicted)), offsets) == scheme
    tagger.save(tmp_path / "m")
    again = Tagger.load(tmp_path / "m")
    assert again.scheme_ == tagger.scheme_ and again.legal_only
    assert again.predict(X) == predicted
    assert [f[0].labels.tolist() for f in again.k_best(X[:5], 1)] == predicted[:5]
    assert again.explain(X[0])[0].label in again.classes_
    again.partial_fit(X[:9], y[:9])
    assert set(again.classes_) == set(tagger.classes_)
    again.calibrate(X, y)


def test_plain_labels_are_refused():
    X, y = [["a", "b"]], [["DET", "NOUN"]]
    for given in ({"labels": "iobes"}, {"legal_only": True}):
        with pytest.raises(InputError, match="'DET' at the start"):
            Tagger(**given).fit(X, y)
    with pytest.raises(InputError, match="`labels` must be"):
        Tagger(labels="bilou").fit(X, y)
    with pytest.raises(InputError, match="can fill a sentence"):
        Tagger(labels="iobes", legal_only=True).fit(X, [["B-X", "I-X"]])


def test_segmentation_has_legal_labels_too():
    train, test, _ = data.segmentation_task(60, 30, seed=0)
    given = {"num_passes": 1, "template": "segmentation", "format": "segmentation"}
    found = Tagger(legal_only=True, **given).fit(train).predict(test)
    assert data.scheme_of(found, test.offsets) == "iobes"
