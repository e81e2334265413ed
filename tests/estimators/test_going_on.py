"""Held-out data, the best pass, and training that goes on."""

import json

import jax
import numpy as np
import pytest

from lowrank_jax import Tagger, data
from lowrank_jax.checks import InputError
from lowrank_jax.cli import main
from tests.cli.conftest import chunk_lines


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("going-on")
    for seed, name in enumerate(("one", "two", "dev")):
        (place / name).write_text(chunk_lines(30, seed + 2, noise=0.2))
    return place


@pytest.fixture(scope="module")
def parts(place):
    return [data.read_conll(place / name) for name in ("one", "two", "dev")]


def same(one, two):
    for a, b in zip(*map(jax.tree.leaves, (one, two)), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["sp", "mira", "bol"])
def test_two_partial_fits_are_one_fit_of_two_passes(parts, learner):
    whole = Tagger(learner, num_passes=2).fit(parts[0])
    halves = Tagger(learner).partial_fit(parts[0]).partial_fit(parts[0])
    same(whole.params_, halves.params_)
    assert halves.training_["passes"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["sp", "bol"])
def test_new_data_bring_new_features_and_old_ones_stay(parts, learner):
    one, two, _ = parts
    tagger = Tagger(learner, num_passes=3).fit(one)
    known, score = tagger.encoder_.num_features, tagger.score(two)
    names = tagger.encoder_.feature_names(range(known))
    for _ in range(3):
        tagger.partial_fit(two)
    assert tagger.encoder_.num_features > known
    assert tagger.encoder_.feature_names(range(known)) == names
    assert tagger.score(two) > score


def test_labels_are_named_at_the_first_call(parts):
    X, y = [["a", "b"]], [["x", "y"]]
    tagger = Tagger().partial_fit(X, y, classes=["x", "y", "z"])
    assert tagger.classes_.tolist() == ["x", "y", "z"]
    tagger.partial_fit([["c"]], [["z"]])
    with pytest.raises(InputError, match="has the label 'new'"):
        tagger.partial_fit([["c"]], [["new"]])
    with pytest.raises(InputError, match="needs all data at once"):
        Tagger("crf").partial_fit(X, y)


def test_the_best_pass_on_held_out_data_is_kept(parts):
    one, _, dev = parts
    tagger = Tagger(num_passes=6).fit(one, X_dev=dev)
    scores = [entry["dev"] for entry in tagger.history_]
    best = scores.index(max(scores)) + 1
    assert tagger.training_["best_pass"] == best
    assert tagger.score(dev) == pytest.approx(max(scores) / 100)
    same(tagger.params_, Tagger(num_passes=best).fit(one).params_)
    patient = Tagger(num_passes=20, patience=1).fit(one, X_dev=dev)
    found = [entry["dev"] for entry in patient.history_]
    assert len(found) < 20 and found[-1] <= max(found[:-1])


def test_the_command_keeps_the_best_pass_and_resumes(place, parts):
    given = f"train sp --train {place}/one --dev {place}/dev --passes"
    assert main(f"{given} 5 --model {place}/a".split()) == 0
    assert main(f"{given} 2 --model {place}/b --keep-checkpoint".split()) == 0
    assert main(f"{given} 5 --model {place}/b --resume".split()) == 0
    same(Tagger.load(place / "a").params_, Tagger.load(place / "b").params_)
    same(
        Tagger.load(place / "a").params_,
        Tagger(num_passes=5).fit(parts[0], X_dev=parts[2]).params_,
    )
    about = json.loads((place / "a" / "model.json").read_text())["training"]
    assert 1 <= about["best_pass"] <= 5
    assert (
        main(f"train sp --train {place}/one --patience 2 --model {place}/c".split())
        == 2
    )


def test_the_command_goes_on_from_a_model(place, parts):
    assert (
        main(f"train sp --train {place}/one --passes 3 --model {place}/x".split()) == 0
    )
    more = f"train sp --train {place}/two --passes 2 --from {place}/x --model {place}/y"
    assert main(more.split()) == 0
    old, new = Tagger.load(place / "x"), Tagger.load(place / "y")
    assert new.encoder_.num_features > old.encoder_.num_features
    assert new.score(parts[1]) > old.score(parts[1])
    assert main((more + " --template chunking").split()) == 2
    assert main(more.replace("train sp", "train mira").split()) == 2
