"""Taggers of sentences with unknown labels, costs of labels and weights."""

import numpy as np
import pytest

from lowrank_jax import Tagger, cli, data
from lowrank_jax.checks import InputError
from tests.cli.conftest import chunk_lines


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    path = tmp_path_factory.mktemp("partial") / "train.txt"
    path.write_text(chunk_lines(60, 2, noise=0.05))
    corpus = data.read_conll(path)
    bounds = zip(corpus.offsets[:-1], corpus.offsets[1:], strict=True)
    parts = [slice(a, b) for a, b in bounds]
    X = [
        list(zip(*(c[part].tolist() for c in corpus.columns), strict=True))
        for part in parts
    ]
    return X, [corpus.labels[part].tolist() for part in parts], path


def opened(y, unknown, share=0.4):
    """Return labels of which some are unknown."""
    rng = np.random.default_rng(0)
    return [[unknown if rng.random() < share else label for label in s] for s in y]


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["sp", "mira", "bol", "crf"])
def test_half_of_the_labels_train_a_model_of_all(sentences, learner):
    X, y, _ = sentences
    settings = {"num_passes": 5} | ({"template": "chunking"} if learner else {})
    tagger = Tagger(learner, **settings).fit(X, opened(y, None))
    assert tagger.score(X, y) > 0.75
    assert "?" not in tagger.classes_
    assert tagger.training_["unknown_label"] == "?"
    others = Tagger(learner, **settings, unknown_label="??").fit(X, opened(y, "??"))
    assert others.predict(X) == tagger.predict(X)


def test_what_unknown_labels_cannot_do_is_one_sentence(sentences):
    X, y, _ = sentences
    partial = opened(y, "?")
    tagger = Tagger("sp", num_passes=1).fit(X, partial)
    with pytest.raises(InputError, match="F1 of --format conll needs all labels"):
        tagger.score(X, partial)
    tokens = Tagger("sp", num_passes=1, format="conllu").fit(X, partial)
    known = [
        (a, b)
        for s, t in zip(partial, tokens.predict(X), strict=True)
        for a, b in zip(s, t, strict=True)
        if a != "?"
    ]
    accuracy = np.mean([a == b for a, b in known])
    np.testing.assert_allclose(tokens.score(X, partial), accuracy, rtol=1e-12)
    with pytest.raises(InputError, match="scheme of chunks"):
        Tagger("sp", labels="iobes").fit(X, partial)
    with pytest.raises(InputError, match="no known label"):
        Tagger("sp").fit(X, opened(y, None, 1.1))
    with pytest.raises(InputError, match="`y` must hold strings, got None"):
        Tagger("sp", unknown_label=None).fit(X, opened(y, None))


@pytest.mark.parametrize("learner", ["sp", "crf"])
def test_a_sentence_of_weight_zero_teaches_nothing(sentences, learner):
    X, y, _ = sentences
    wrong = [["O"] * len(labels) for labels in y]
    weights = np.repeat([1.0, 0.0], len(X))
    tagger = Tagger(learner, num_passes=5).fit(X + X, y + wrong, sample_weight=weights)
    assert tagger.score(X, y) > 0.9
    with pytest.raises(InputError, match="`sample_weight` must be 60 numbers"):
        Tagger(learner).fit(X, y, sample_weight=[1.0])


def test_costs_by_label_keep_the_label_that_costs_most(sentences, tmp_path):
    X, y, _ = sentences
    noisy = opened(y, "O", 0.3)  # three tenths of the tokens are O by mistake
    settings = {"num_passes": 5, "decoding": "cost", "max_step_size": 0.1}
    plain = Tagger("mira", **settings).fit(X, noisy)
    cost = {label: 5.0 for label in plain.classes_ if label != "O"}
    tagger = Tagger("mira", **settings, label_cost=cost).fit(X, noisy)
    number = [sum(row.count("O") for row in t.predict(X)) for t in (plain, tagger)]
    assert number[1] < number[0]
    tagger.save(tmp_path / "m")
    loaded = Tagger.load(tmp_path / "m")
    assert loaded.hyperparameters["label_cost"] == cost
    pairs = {"O": {"B-NP": 0.1}}
    Tagger("sp", num_passes=1, label_cost=pairs).fit(X, y)
    with pytest.raises(InputError, match="the label 'X', and the training data"):
        Tagger("sp", label_cost={"X": 1.0}).fit(X, y)


def test_the_command_knows_unknown_labels_and_costs(sentences, tmp_path, capsys):
    _, _, path = sentences
    lines = path.read_text().splitlines()
    some = [
        line.rpartition(" ")[0] + " ?" if line and i % 3 == 0 else line
        for i, line in enumerate(lines)
    ]
    train = tmp_path / "partial.txt"
    train.write_text("\n".join(some) + "\n")
    words = ["train", "sp", "--train", str(train), "--test", str(path)]
    words += ["--passes", "3", "--model", str(tmp_path / "m")]
    assert cli.main([*words, "--set", 'label_cost={"O": 2}']) == 0
    assert "their labels are unknown" in capsys.readouterr().err
    assert cli.main([*words, "--certify"]) == 2
    assert "leave --certify out" in capsys.readouterr().err
    assert (
        cli.main([*words[:4], "--model", str(tmp_path / "n"), "--labels", "iob2"]) == 2
    )
    assert cli.main([*words, "--set", "label_cost=2"]) == 2
    assert "JSON object" in capsys.readouterr().err
