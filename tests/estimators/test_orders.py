"""`orders="auto"` finds the template that needs first-order weights."""

import numpy as np
import pytest

from lowrank_jax import Tagger, loops
from lowrank_jax.checks import InputError
from lowrank_jax.features import parse_template

TEMPLATE = parse_template("U0:%x[0,0]\nU1:%x[0,1]\nB1:%x[0,1]\nU2:%x[-1,1]\nU3")


def turns(num_sentences, seed=0):
    """Labels that turn where the first column says so: a rule on pairs of labels."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(num_sentences):
        length = int(rng.integers(4, 9))
        turn = rng.integers(0, 2, length)
        labels = np.cumsum(turn) % 2
        noise = rng.integers(0, 5, length)
        X.append([(f"c{c}", f"n{n}") for c, n in zip(turn, noise, strict=True)])
        y.append([f"L{label}" for label in labels])
    return X, y


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["sp", "bol"])
def test_the_template_that_helps_is_chosen_by_one_program(
    learner, monkeypatch, tmp_path
):
    compiled = []
    real = loops._compile
    monkeypatch.setattr(loops, "_compile", lambda *g: compiled.append(1) or real(*g))
    X, y = turns(100)
    tagger = Tagger(
        learner, num_passes=5, template=TEMPLATE, orders="auto", format="conllu"
    ).fit(X, y)
    report = tagger.orders_
    assert report["first_order"] == ["B0:%x[0,0]"]
    assert report["score"] > report["score_without"] + 10
    assert report["alone"]["B0:%x[0,0]"] == report["score"]
    assert report["num_templates"] == 3 and report["num_held_out"] == 20
    assert len(compiled) == 2  # all candidates, and the last fit
    tagger.save(tmp_path / "m")
    loaded = Tagger.load(tmp_path / "m")
    assert loaded.encoder_.template.orders == ("01", "0", "0", "0")
    assert loaded.training_["orders"] == report
    test = turns(20, seed=1)
    assert loaded.score(*test) == tagger.score(*test) > 0.9


@pytest.mark.parametrize(
    ("settings", "number", "message"),
    [
        ({"learner": "crf"}, 50, "needs sp, mira, bol or bcd, got 'crf'"),
        ({}, 9, "at least 10 training sentences.*got 9"),
    ],
)
def test_what_cannot_be_chosen_is_one_sentence(settings, number, message):
    tagger = Tagger(template=TEMPLATE, orders="auto", **settings)
    with pytest.raises(InputError, match=message):
        tagger.fit(*turns(number))


def test_tokens_with_features_of_their_own_have_no_templates():
    with pytest.raises(InputError, match="`orders` must be .*got 'auto'"):
        Tagger(orders="auto").fit([[{"a": 1}]], [["x"]])
