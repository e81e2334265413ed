"""Taggers as users of scikit-learn and sklearn-crfsuite call them."""

import pickle

import numpy as np
import pytest

from lowrank_jax import Tagger, data
from lowrank_jax.checks import InputError
from tests.cli.conftest import chunk_lines


def features_of(words, i):
    """The dict of a token, in the manner of the tutorial of sklearn-crfsuite."""
    found = {"bias": 1.0, "word": words[i], "is_title": words[i].istitle()}
    if i > 0:
        found["-1:word"] = words[i - 1]
    else:
        found["BOS"] = True
    return found


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokens") / "train.txt"
    path.write_text(chunk_lines(60, 2, noise=0.1))
    corpus = data.read_conll(path)
    bounds = zip(corpus.offsets[:-1], corpus.offsets[1:], strict=True)
    parts = [slice(a, b) for a, b in bounds]
    words = [corpus.columns[0][part].tolist() for part in parts]
    X = [[features_of(s, i) for i in range(len(s))] for s in words]
    y = [corpus.labels[part].tolist() for part in parts]
    return X, y


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["sp", "mira", "crf", "bol"])
def test_dicts_of_features_train_every_learner(sentences, learner, tmp_path):
    X, y = sentences
    tagger = Tagger(learner, num_passes=5).fit(X, y)
    assert tagger.score(X, y) > 0.8
    tagger.save(tmp_path / "m")
    loaded = Tagger.load(tmp_path / "m")
    assert loaded.predict(X) == tagger.predict(X)
    assert loaded.get_params() | {"num_passes": 5} == tagger.get_params() | {
        "orders": loaded.orders,
        **loaded.hyperparameters,
    }
    again = Tagger(**loaded.get_params()).set_params(num_passes=5).fit(X, y)
    assert again.predict(X) == tagger.predict(X)


def test_lists_of_strings_are_dicts_of_true(sentences):
    X, y = sentences
    lists = [
        [
            [f"{k}:{v}" if isinstance(v, str) else k for k, v in t.items() if v]
            for t in s
        ]
        for s in X
    ]
    one, two = (Tagger(num_passes=3).fit(part, y) for part in (X, lists))
    np.testing.assert_array_equal(one.params_.zero, two.params_.zero)
    assert one.predict(lists) == two.predict(X)


def test_templates_and_dicts_of_the_same_features_give_one_model(sentences):
    """A template of one line and the dict it stands for move alike."""
    X, y = sentences
    words = [[t["word"] for t in s] for s in X]
    dicts = [[{"word": w} for w in s] for s in words]
    from lowrank_jax.features import parse_template

    template = parse_template("Uword:%x[0,0]\nB\n")
    one = Tagger(num_passes=3, template=template).fit(words, y)
    two = Tagger(num_passes=3).fit(dicts, y)
    assert one.predict(words) == two.predict(dicts)
    np.testing.assert_array_equal(
        np.sort(np.asarray(one.params_.zero), axis=None),
        np.sort(np.asarray(two.params_.zero), axis=None),
    )


def test_labels_may_be_flat(sentences):
    X, y = sentences
    flat = np.array([label for part in y for label in part])
    offsets = np.cumsum([0, *map(len, y)])
    best = Tagger(num_passes=2).fit(X, y).predict(X)
    assert Tagger(num_passes=2).fit(X, flat).predict(X) == best
    assert Tagger(num_passes=2).fit(X, flat.astype(object)).predict(X) == best
    assert Tagger(num_passes=2).fit(X, (flat, offsets)).predict(X) == best
    with pytest.raises(InputError, match="one label per token"):
        Tagger().fit(X, (flat, offsets + 1))
    with pytest.raises(InputError, match="one label per token"):
        Tagger().fit(X, flat[1:])


def test_tokens_must_be_of_the_kind_of_training(sentences):
    X, y = sentences
    words = [[t["word"] for t in s] for s in X]
    with pytest.raises(InputError, match="are strings or tuples .* trained on lists"):
        Tagger(num_passes=1).fit(X, y).predict(words)
    with pytest.raises(InputError, match="are lists or dicts .* trained on strings"):
        Tagger(num_passes=1).fit(words, y).predict(X)


def test_a_copy_by_pickle_predicts_alike(sentences):
    X, y = sentences
    tagger = Tagger(num_passes=2).fit(X, y)
    copy = pickle.loads(pickle.dumps(tagger))
    assert copy.predict(X) == tagger.predict(X)
    np.testing.assert_array_equal(copy.params_.zero, tagger.params_.zero)


def test_answers_have_the_form_of_sklearn_crfsuite(sentences):
    crfsuite = pytest.importorskip("sklearn_crfsuite")
    X, y = sentences
    peer = crfsuite.CRF("lbfgs", c2=1.0, max_iterations=100).fit(X, y)
    ours = Tagger("crf", strength=0.5).fit(X, y)
    assert set(ours.classes_) == set(peer.classes_)
    mine, theirs = ours.predict(X), peer.predict(X)
    assert [list(map(type, part)) for part in mine] == [
        list(map(type, part)) for part in theirs
    ]
    total = sum(map(len, y))
    same = sum(
        a == b
        for s, t in zip(mine, theirs, strict=True)
        for a, b in zip(s, t, strict=True)
    )
    assert same > 0.97 * total
    mine, theirs = ours.predict_marginals(X), peer.predict_marginals(X)
    for s, t in zip(mine, theirs, strict=True):
        for a, b in zip(s, t, strict=True):
            assert a.keys() == b.keys()
            # one objective; CRFsuite stops earlier and has no weights for the start
            assert max(abs(a[k] - b[k]) for k in a) < 0.25


@pytest.mark.slow
def test_model_selection_of_scikit_learn_takes_a_tagger(sentences):
    selection = pytest.importorskip("sklearn.model_selection")
    pipeline = pytest.importorskip("sklearn.pipeline")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    X, y = sentences
    tagger = Tagger("sp", num_passes=2)
    scores = selection.cross_val_score(tagger, X, y, cv=3)
    assert scores.shape == (3,) and scores.min() > 0.5
    search = selection.GridSearchCV(
        tagger, {"num_passes": [1, 3], "averaging": ["none", "dual"]}, cv=2
    ).fit(X, y)
    assert search.best_params_.keys() == {"num_passes", "averaging"}
    assert search.predict(X) == search.best_estimator_.predict(X)
    words = [[t["word"] for t in s] for s in X]
    maker = preprocessing.FunctionTransformer(
        lambda X: [[features_of(s, i) for i in range(len(s))] for s in X]
    )
    whole = pipeline.make_pipeline(maker, tagger).fit(words, y)
    assert whole.score(words, y) == Tagger("sp", num_passes=2).fit(X, y).score(X, y)


def test_two_processes_give_the_scores_of_one(sentences):
    selection = pytest.importorskip("sklearn.model_selection")
    X, y = sentences
    tagger = Tagger("sp", num_passes=1)
    one = selection.cross_val_score(tagger, X, y, cv=2)
    two = selection.cross_val_score(tagger, X, y, cv=2, n_jobs=2)
    np.testing.assert_array_equal(one, two)


def test_numbers_are_the_values_of_features(sentences, tmp_path):
    """The meaning of sklearn-crfsuite; folders and reasons know it too."""
    X, y = sentences
    valued = [[t | {"size": 0.5 * len(t)} for t in s] for s in X]
    corpus = data.corpus.corpus_of(valued, y)
    from lowrank_jax.features import AttributeEncoder

    encoder, encoded = AttributeEncoder.fit_transform(corpus)
    name = encoder.feature_names(range(encoder.num_features)).index("size")
    is_size = encoded.feature_ids == name
    assert (is_size.sum(axis=1) == 1).all()
    expected = [0.5 * len(t) for s in X for t in s]
    np.testing.assert_array_equal(encoded.values[is_size], np.float32(expected))
    is_none = encoded.feature_ids == encoder.num_features
    assert (encoded.values[~is_size & ~is_none] == 1).all()
    assert (encoded.values[is_none] == 0).all()
    plain = AttributeEncoder.fit_transform(data.corpus.corpus_of(X, y))[1]
    assert plain.values is None
    for learner in ("sp", "crf"):
        tagger = Tagger(learner, num_passes=4).fit(valued, y)
        assert tagger.score(valued, y) > 0.8
        tagger.save(tmp_path / learner)
        loaded = Tagger.load(tmp_path / learner)
        assert loaded.predict(valued) == tagger.predict(valued)
        reasons = loaded.explain(valued[1])
        assert [r.label for r in reasons] == loaded.predict(valued)[1]
    with pytest.raises(InputError, match="finite number"):
        Tagger("sp").fit([[{"size": float("nan")}]], [["O"]])
