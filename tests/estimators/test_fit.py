"""Fit, predict, score, save and load from Python, for all kinds of models."""

import json

import numpy as np
import pytest

import lowrank_jax
from lowrank_jax import data
from lowrank_jax.checks import InputError
from lowrank_jax.cli import main
from lowrank_jax.data import made
from lowrank_jax.estimators import Reranker, Speller, Tagger, load
from tests.cli.conftest import chunk_lines

SENTENCES = [[("the", "DT"), ("cat", "NN"), ("sat", "VB")], [("cats", "NN")]] * 3
LABELS = [["B-NP", "I-NP", "B-VP"], ["B-NP"]] * 3


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """One estimator per kind with its data, and the folder of the same command."""
    place = tmp_path_factory.mktemp("fitted")
    (place / "train.txt").write_text(chunk_lines(30, 2, noise=0.2))
    words = ["cat\tk@t\t>1<\t0", "cab\tk@b\t>1<\t0", "tac\tt@k\t>1<\t0"] * 3
    (place / "words.txt").write_text("\n".join(words) + "\n")
    lists = made.lists.reranking_task(40, 1, seed=0, sizes=(6, 6))[0]
    names = {f"f{i}": i for i in range(36)}
    data.write_json_lists(place / "lists.jsonl", lists, names)

    def run(text):
        assert main(text.format(d=place).split()) == 0

    run(
        "train bol --train {d}/train.txt --passes 2 --seed 3 --set rank=2 --model {d}/s"
    )
    run("train smm --train {d}/words.txt --format nettalk --passes 4 --model {d}/w")
    run(
        "rerank train {d}/lists.jsonl --epochs 2 --learner tm --set num_components=2 "
        "--model {d}/l"
    )
    lists, names = data.read_json_lists(place / "lists.jsonl")
    corpus = data.read_conll(place / "train.txt")
    spelled = data.read_nettalk(place / "words.txt")
    return {
        "tagger": (
            Tagger("bol", num_passes=2, seed=3, rank=2).fit(corpus),
            corpus,
            place / "s",
        ),
        "speller": (Speller(num_passes=4).fit(spelled), spelled, place / "w"),
        "reranker": (
            Reranker("tm", num_passes=2, num_components=2).fit(lists, names=names),
            lists,
            place / "l",
        ),
    }


KINDS = pytest.mark.parametrize("kind", ["tagger", "speller", "reranker"])


@pytest.mark.slow
@KINDS
def test_fit_gives_the_model_of_the_command_bit_for_bit(fitted, tmp_path, kind):
    model, _, folder = fitted[kind]
    model.save(tmp_path / "m")
    for path in folder.glob("*.npz"):
        assert (tmp_path / "m" / path.name).read_bytes() == path.read_bytes()
    mine, theirs = (
        json.loads((place / "model.json").read_text())
        for place in (tmp_path / "m", folder)
    )
    assert mine.keys() == theirs.keys()
    assert set(mine["training"]) < set(theirs["training"])
    assert len(model.history_) == len(theirs["training"]["history"])


@KINDS
def test_load_returns_the_right_estimator_which_can_be_fitted_again(fitted, kind):
    model, given, folder = fitted[kind]
    loaded = load(folder)
    assert type(loaded) is type(model)
    for one, other in zip(loaded.predict(given), model.predict(given), strict=True):
        np.testing.assert_array_equal(one, other)
    assert loaded.score(given) == model.score(given)
    again = type(loaded)(**loaded.get_params())
    if kind == "speller":  # the number of iterations is not one of its settings
        again.set_params(num_passes=4)
    more = {"names": loaded.names_} if kind == "reranker" else {}
    again.fit(given, **more)
    np.testing.assert_array_equal(
        np.asarray(again.params_[0]), np.asarray(model.params_[0])
    )


@KINDS
def test_settings_are_those_of_scikit_learn(fitted, kind):
    base = pytest.importorskip("sklearn.base")
    model, given, _ = fitted[kind]
    copy = base.clone(model)
    assert copy.get_params() == model.get_params()
    assert repr(copy) == repr(model) and "\n" not in repr(model)
    with pytest.raises(AttributeError, match="has no params_ yet; call fit or load"):
        _ = copy.params_
    assert not hasattr(copy, "history_")
    assert copy.set_params(seed=7, dtype="float64") is copy
    assert (copy.seed, copy.hyperparameters["dtype"]) == (7, "float64")
    assert "dtype" not in model.hyperparameters
    with pytest.raises(
        InputError, match=f"`colour` is not a setting of {copy.learner}"
    ):
        copy.set_params(colour="red").fit(given)
    near = "the nearest is `num_passes`, and it has"
    with pytest.raises(InputError, match=f"`num_pass` is not a setting of .*; {near}"):
        base.clone(model).set_params(num_pass=1).fit(given)
    with pytest.raises(InputError, match="`dtype` must have a value, got None"):
        base.clone(model).set_params(dtype=None).fit(given)
    with pytest.raises(InputError, match="`learner` must be one of"):
        type(model)("nobody").fit(given)


def test_repr_names_what_is_not_the_default():
    assert repr(Tagger("sp", seed=1, averaging="none")) == (
        "Tagger(learner='sp', seed=1, averaging='none')"
    )


def test_sentences_may_be_lists():
    tagger = lowrank_jax.Tagger("bol", num_passes=3)
    assert tagger.fit(SENTENCES, LABELS) is tagger
    assert tagger.predict(SENTENCES) == LABELS
    assert tagger.score(SENTENCES, LABELS) == 1
    assert set(tagger.classes_) == {"B-NP", "I-NP", "B-VP"}
    assert tagger.k_best(SENTENCES, 2)[1][0].labels.tolist() == ["B-NP"]
    found = tagger.predict_marginals(SENTENCES)
    assert [len(part) for part in found] == [3, 1] * 3
    assert found[0][0].keys() == set(tagger.classes_)
    words = [[word for word, _ in sentence] for sentence in SENTENCES]
    plain = lowrank_jax.Tagger("sp", num_passes=3).fit(words, LABELS)  # one column
    assert plain.predict(words) == LABELS
    letters = [list("cat"), list("tac")]
    outputs = [list("k@t"), list("t@k")]
    speller = Speller(num_passes=20).fit(letters, outputs)
    assert speller.predict(letters) == outputs and speller.score(letters, outputs) == 1


@pytest.mark.parametrize(
    ("X", "y", "sentence"),
    [
        (
            SENTENCES,
            LABELS[:-1],
            "`y` must have one label per token of the 6 sentences",
        ),
        (SENTENCES, None, "`X` has no labels to learn from"),
        ([["a", ("b", "c")]], [["x", "y"]], "equally many columns"),
        (["a"], [["x"]], "got the string 'a' as sentence 0"),
        ([["a"]], [[1]], "`y` must hold strings, got 1"),
        ([["a", {"b": 1}]], [["x", "y"]], "tokens of one kind"),
        ([[3]], [["x"]], "tokens of one kind.*got 3"),
        ([[["a"]]], [["x"]], "`template` 'nettalk' needs tokens of columns"),
        ([{"a": 1}], [["x"]], "put it into a list"),
        ([], [], "no tokens"),
    ],
)
def test_sentences_that_do_not_fit_are_named(X, y, sentence):
    with pytest.raises(InputError, match=sentence):
        Tagger("sp", template="nettalk").fit(X, y)


def test_qualities_may_be_given_apart(fitted):
    model, lists, _ = fitted["reranker"]
    first = np.zeros(lists.num_candidates)
    first[lists.list_offsets[:-1]] = 1
    copy = Reranker(num_passes=2).fit(lists, first)
    assert copy.score(lists, first) > model.score(lists, first)
    scores = model.decision_function(lists)
    assert scores.shape == (lists.num_candidates,)


def test_load_returns_a_classifier_too(tmp_path):
    x = np.random.default_rng(0).normal(size=(12, 3, 2))
    model = lowrank_jax.BilinearClassifier(max_iterations=5).fit(x, np.arange(12) % 2)
    model.save(tmp_path / "m")
    loaded = lowrank_jax.load(tmp_path / "m")
    assert type(loaded) is lowrank_jax.BilinearClassifier
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
