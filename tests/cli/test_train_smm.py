import json
import shutil

import numpy as np
import pytest

from lowrank_jax import data
from lowrank_jax.cli import main, output
from lowrank_jax.estimators.speller import Speller
from tests.cli.conftest import listing
from tests.cli.test_bad_input import refused
from tests.cli.test_train import NAMES

SETTINGS = ("strength=0.1", "step_size=0.5", "tolerance=0")


@pytest.fixture(scope="module")
def spelled(tmp_path_factory):
    """Words in which c is k or s: what follows tells."""
    path = tmp_path_factory.mktemp("words") / "words.txt"
    words = ("cat\tk@t", "cit\tsIt", "tac\tt@k", "cab\tk@b")
    path.write_text("".join(f"{word}\t>1<\t0\n" for word in words * 3))
    return path


def train(spelled, model, *more, settings=SETTINGS):
    given = ("train", "smm", "--format", "nettalk", "--train", spelled)
    return (*given, "--model", model, "--passes", 6, "--set", *settings, *more)


@pytest.fixture(scope="module")
def speller(spelled, tmp_path_factory):
    """A model folder and its result; do not change them."""
    folder = tmp_path_factory.mktemp("smm")
    more = ("--test", spelled, "--json", folder / "r.json")
    arguments = train(spelled, folder / "m", *more)
    assert main([str(argument) for argument in arguments]) == 0
    return folder / "m", json.loads((folder / "r.json").read_text())


def weights(folder):
    return (folder / "weights.npz").read_bytes()


def test_training_writes_a_model_and_a_result(speller):
    folder, found = speller
    assert NAMES <= set(found)
    assert found["accuracy"] == found["f1"] == found["sentence_accuracy"] == 100
    assert (found["passes"], len(found["history"]), found["rank"] > 0) == (6, 6, True)
    assert found["hyperparameters"]["iterate"] == "last"
    assert found["lower_bound"] <= found["best_objective"]
    assert {item.name for item in folder.iterdir()} == {"model.json", "weights.npz"}
    about = json.loads((folder / "model.json").read_text())
    assert about["kind"] == "word tagger" and about["learner"] == "smm"
    # a, b, c (twice), i and t, the boundary and the unknown letter
    assert found["num_features"] == about["num_symbols"] == 8
    assert found["num_parameters"] == 8**3


def test_words_and_nettalk_files_are_tagged_alike(cli, speller, spelled, tmp_path):
    folder, _ = speller
    words = tmp_path / "words.txt"
    words.write_text("cat\n\ncit\n")
    done = cli("tag", folder, words)
    assert (done.status, done.err) == (0, "")
    assert done.out == "c k\na @\nt t\n\nc s\ni I\nt t\n\n"
    whole = tmp_path / "whole.txt"
    head = "A corpus\n\t\tsomeone\n" + "-" * 20 + "\n\n"
    whole.write_text(head + "cat\tk@t\t>1<\t0\ncit\tsIt\t>1<\t0\n")
    assert cli("tag", folder, whole).out == done.out
    corpus = data.read_nettalk(spelled)
    predicted = Speller.load(folder).predict(corpus)
    assert predicted.tolist() == corpus.labels.tolist()


def test_a_letter_never_seen_is_told_of_and_gets_the_commonest_label(
    cli, speller, tmp_path
):
    folder, _ = speller
    words = tmp_path / "words.txt"
    words.write_text("cxt\n")
    done = cli("tag", folder, words)
    assert done.status == 0 and done.out == "c k\nx @\nt t\n\n"
    assert done.err.count("\n") == 1 and "the letter x of " in done.err


def test_a_run_cut_short_goes_on_to_the_same_model(
    cli, speller, spelled, tmp_path, monkeypatch
):
    folder, _ = speller
    calls = []

    class Stop:
        def __init__(self, message):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        @property
        def number(self):
            calls.append(1)
            return 15 if len(calls) > 3 else None

    with monkeypatch.context() as patch:
        patch.setattr(output, "StopRequest", Stop)
        assert cli(*train(spelled, tmp_path / "m")).status == 128 + 15
    assert {item.name for item in (tmp_path / "m").iterdir()} == {"checkpoint.npz"}
    other = ("strength=0.2", *SETTINGS[1:])
    done = cli(*train(spelled, tmp_path / "m", "--resume", settings=other))
    refused(done, "strength=0.1 instead of 0.2")
    done = cli(*train(spelled, tmp_path / "m", "--resume"))
    assert done.status == 0 and "going on from" in done.err
    assert weights(tmp_path / "m") == weights(folder)


def test_the_iterate_and_the_checkpoint_are_as_asked_for(
    cli, speller, spelled, tmp_path
):
    folder, _ = speller
    settings = (*SETTINGS, "iterate=average")
    more = ("--keep-checkpoint",)
    assert cli(*train(spelled, tmp_path / "m", *more, settings=settings)).status == 0
    names = {item.name for item in (tmp_path / "m").iterdir()}
    assert names == {"model.json", "weights.npz", "checkpoint.npz"}
    left, right = Speller.load(folder), Speller.load(tmp_path / "m")
    assert np.abs(left.params_[0] - right.params_[0]).max() > 0
    done = cli(*train(spelled, tmp_path / "m", "--resume"))  # the last one after all
    assert done.status == 0 and weights(tmp_path / "m") == weights(folder)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--set", "colour=red"), ("'colour=red'", "iterate")),
        (("--set", "iterate=first"), ("`iterate`", "'first'")),
        (("--set", "order=4"), ("`order`", "4")),
        (("--set", "block_strengths=1,2"), ("block_strengths",)),
        (("--format", "conll"), ("nettalk", "conll")),
        (("--template", "nettalk"), ("--template",)),
        (("--min-count", "2"), ("--min-count",)),
        (("--certify",), ("--certify", "smm")),
        (("--certify-every", "3"), ("--certify-every", "smm")),
    ],
)
def test_bad_arguments_are_told_in_one_sentence(cli, spelled, tmp_path, more, words):
    refused(cli(*train(spelled, tmp_path / "m"), *more), *words)
    assert not (tmp_path / "m").exists()


def test_a_folder_cut_short_or_of_another_kind_is_told_of(
    cli, speller, spelled, tmp_path
):
    folder = tmp_path / "m"
    shutil.copytree(speller[0], folder)
    (folder / "weights.npz").write_bytes(weights(folder)[:100])
    refused(cli("tag", folder, spelled), folder / "weights.npz", "incomplete")
    before = listing(folder)
    (folder / "notes.txt").write_text("mine")
    refused(cli(*train(spelled, folder)), "notes.txt")
    assert listing(folder) == before | {"notes.txt": b"mine"}
    refused(cli("tag", speller[0], spelled, "--k-best", 2), "--k-best")
    refused(cli("tag", speller[0], spelled, "--marginals"), "--marginals")
