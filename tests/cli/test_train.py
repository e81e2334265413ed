import json
import os
import signal
import subprocess
import types

import numpy as np
import pytest

from lowrank_jax.estimators import training
from lowrank_jax.estimators.tagger import Tagger
from lowrank_jax.models import bilinear
from lowrank_jax.store import checkpoint
from tests.cli.conftest import command, listing

NAMES = {
    "f1",
    "precision",
    "recall",
    "accuracy",
    "sentence_accuracy",
    "train_seconds",
    "compile_seconds",
    "seconds_per_pass",
    "num_parameters",
    "num_features",
    "num_labels",
    "peak_memory_mb",
    "passes",
    "seed",
    "versions",
    "device",
}


def train(learner, files, model, *more):
    given = ("train", learner, "--train", files.train, "--model", model, "--passes", 2)
    return (*given, *more)


def same_model(left, right) -> bool:
    """Whether two models have the same files but for the time their training took."""
    names = ("weights.npz", "vocabulary.npz")
    return all((left / n).read_bytes() == (right / n).read_bytes() for n in names)


def test_training_writes_a_model_and_a_result(cli, files, tmp_path):
    result = tmp_path / "result.json"
    done = cli(
        *train("sp", files, tmp_path / "m", "--test", files.test, "--json", result),
        *("--seed", 3, "--set", "step_size=0.5"),
    )
    assert done.status == 0
    assert done.err.count("\n") == 2 and done.err.startswith("pass 1/2: ")
    found = json.loads(result.read_text())
    assert NAMES <= set(found)
    assert found["f1"] > 95 and found["accuracy"] > 95 and found["f1"] <= 100
    assert (found["seed"], found["passes"], found["num_labels"]) == (3, 2, 4)
    assert found["hyperparameters"]["step_size"] == 0.5
    assert found["peak_memory_mb"] > 50
    assert len(found["history"]) == 2
    assert f"F1 {found['f1']:.2f}" in done.out
    names = {"model.json", "weights.npz", "vocabulary.npz"}
    assert {item.name for item in (tmp_path / "m").iterdir()} == names
    assert sorted(os.listdir(tmp_path)) == ["m", "result.json"]
    about = json.loads((tmp_path / "m" / "model.json").read_text())
    assert about["learner"] == "sp" and about["training"]["seed"] == 3


def test_weights_and_orders_are_as_asked_for(cli, files, tmp_path):
    more = ("--set", "dtype=float64", "averaging=none", "--orders", "first")
    assert cli(*train("sp", files, tmp_path / "m", *more)).status == 0
    tagger = Tagger.load(tmp_path / "m")
    assert tagger.dtype == np.float64 and tagger.params_.zero is None
    assert set(tagger.encoder_.space.orders) == {"1"}
    assert tagger.hyperparameters_["averaging"] == "none"


@pytest.mark.slow
def test_the_mean_of_w_is_trained_certified_resumed_and_read_back(cli, files, tmp_path):
    """DR-B11, DR-B13: a uniform start, and blocks of full rank."""
    one, two = tmp_path / "one", tmp_path / "two"
    more = ("--set", "averaging=weights", "start=1", "--certify")
    done = cli(*train("bol", files, one, *more, "--test", files.test))
    assert done.status == 0 and "holds" in done.out
    model = Tagger.load(one)
    assert model.model == "linear" and model.params_.first is not None
    short = [*train("bol", files, two, *more, "--keep-checkpoint")]
    short[short.index("--passes") + 1] = 1
    assert cli(*short).status == 0
    assert cli(*train("bol", files, two, *more, "--resume")).status == 0
    assert same_model(one, two)
    refused = cli(
        *train("bol", files, tmp_path / "m", *more[:3], "--certify=hindsight")
    )
    assert refused.status == 2 and "hindsight" in refused.err


def test_transitions_beside_first_order_features_are_told(cli, files, tmp_path):
    done = cli(*train("sp", files, tmp_path / "a", "--orders", "first"))
    assert done.status == 0 and "stand beside the first-order features" in done.err
    done = cli(*train("bol", files, tmp_path / "b", "--set", "variant=paper"))
    assert done.status == 0 and "drown the factors" in done.err
    assert "label transitions" not in cli(*train("sp", files, tmp_path / "c")).err


def test_the_result_without_test_data_has_no_scores(cli, files, tmp_path):
    done = cli(*train("sp", files, tmp_path / "m", "--json", "-"))
    found = json.loads(done.out)
    assert found["f1"] is None and found["accuracy"] is None
    assert "model: " in done.err


def test_segmentation_is_scored_by_words(cli, files, segmenter, tmp_path):
    done = cli(
        *("train", "sp", "--format", "segmentation", "--train", files.words),
        *("--test", files.words_test, "--passes", 2, "--model", tmp_path / "m"),
        *("--json", tmp_path / "r.json"),
    )
    found = json.loads((tmp_path / "r.json").read_text())
    assert done.status == 0 and found["f1_is"] == "word F1"
    assert 50 < found["f1"] < 100 and found["f1"] != found["accuracy"]
    assert same_model(tmp_path / "m", segmenter)


def test_nettalk_is_scored_by_letters(cli, files, tmp_path):
    done = cli(
        *("train", "mira", "--format", "nettalk", "--train", files.nettalk),
        *("--test", files.nettalk, "--passes", 4, "--model", tmp_path / "m"),
        *("--json", tmp_path / "r.json", "--fraction", 0.6),
    )
    found = json.loads((tmp_path / "r.json").read_text())
    assert done.status == 0 and found["f1"] == found["accuracy"] == 100
    assert (found["num_sentences"], found["num_test_sentences"]) == (9, 15)
    assert "letter accuracy" in done.out
    words = tmp_path / "words.txt"
    words.write_text("cat\ntac\n")
    done = cli("tag", tmp_path / "m", words)
    assert done.out == "c k\na @\nt t\n\nt t\na @\nc k\n\n"


def test_a_data_file_is_found_by_name(cli, files, tmp_path, monkeypatch):
    import lzma

    (tmp_path / "data" / "mine").mkdir(parents=True)
    packed = tmp_path / "data" / "mine" / "test.txt.xz"
    packed.write_bytes(lzma.compress(files.test.read_bytes()))
    for name in ("mine/test.txt", "mine/test.txt.xz"):
        done = cli("eval", name, name, "--data-dir", tmp_path / "data")
        assert done.status == 0 and "FB1: 100.00" in done.out
    monkeypatch.setenv("LOWRANK_JAX_DATA", str(tmp_path / "data"))
    assert cli("eval", "mine/test.txt", files.test).status == 0
    done = cli("eval", "mine/other.txt", files.test)
    assert done.status == 2 and str(tmp_path / "data") in done.err


@pytest.fixture(scope="module")
def unbroken(files, tmp_path_factory):
    """Three passes of bol in one go."""
    from lowrank_jax.cli import main

    folder = tmp_path_factory.mktemp("unbroken") / "m"
    given = [*train("bol", files, folder), "--train", files.noisy, "--passes", 3]
    assert main([str(argument) for argument in given]) == 0
    return folder


def test_going_on_gives_the_unbroken_result_bit_for_bit(cli, files, tmp_path, unbroken):
    folder = tmp_path / "m"
    noisy = ("--train", files.noisy)
    done = cli(*train("bol", files, folder, *noisy, "--keep-checkpoint"))
    assert done.status == 0 and (folder / "checkpoint.npz").exists()
    assert not same_model(folder, unbroken)
    done = cli(*train("bol", files, folder, *noisy, "--resume"), "--passes", 3)
    assert done.status == 0 and "2 passes done" in done.err
    assert "pass 3/3" in done.err and "pass 2/3" not in done.err
    assert same_model(folder, unbroken)
    assert not (folder / "checkpoint.npz").exists()
    history = json.loads((folder / "model.json").read_text())["training"]["history"]
    assert len(history) == 3
    tagger = Tagger.load(folder)  # bol has both orders by default
    assert set(tagger.encoder_.space.orders) == {"01"}


@pytest.mark.slow
def test_a_batch_learner_goes_on_and_ends_when_it_has_converged(cli, files, tmp_path):
    more = ("--train", files.noisy, "--test", files.test, "--set", "tolerance=0.01")
    given = (*more, "--passes", 50, "--json", tmp_path / "r.json")
    done = cli(*train("crf", files, tmp_path / "unbroken", *given))
    assert done.status == 0 and done.err.rstrip().split("\n")[-1].count("converged")
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["f1"] > 80 and 4 < found["passes"] < 50
    objectives = [entry["objective"] for entry in found["history"]]
    assert objectives == sorted(objectives, reverse=True)

    folder = tmp_path / "m"
    done = cli(*train("crf", files, folder, *more, "--keep-checkpoint"))
    assert done.status == 0 and "iteration 2/2: objective" in done.err
    given = train("crf", files, folder, *given, "--resume", "--keep-checkpoint")
    assert cli(*given).status == 0
    assert same_model(folder, tmp_path / "unbroken")
    again = cli(*given)  # there is nothing left to do
    assert again.status == 0 and "iteration" not in again.err
    assert same_model(folder, tmp_path / "unbroken")


def test_the_factors_of_bcd_take_turns_from_pass_to_pass(cli, files, tmp_path):
    noisy, folder = ("--train", files.noisy), tmp_path / "m"
    three = (*noisy, "--passes", 3, "--json", tmp_path / "r.json")
    assert cli(*train("bcd", files, tmp_path / "unbroken", *three)).status == 0
    found = json.loads((tmp_path / "r.json").read_text())
    blocks = found["hyperparameters"]["num_rounds_per_block"]
    assert blocks == found["num_sentences"]
    tagger = Tagger.load(tmp_path / "unbroken")
    assert tagger.hyperparameters_["num_rounds_per_block"] == blocks
    rows = bilinear.split(tagger.params_.table, len(tagger.encoder_.labels))
    assert np.ptp(rows.left[:-1]) > 0 and np.ptp(rows.right[:-1]) > 0  # both moved

    assert cli(*train("bcd", files, folder, *noisy, "--keep-checkpoint")).status == 0
    other = ("--set", f"num_rounds_per_block={blocks + 1}")
    done = cli(*train("bcd", files, folder, *three, *other, "--resume"))
    told = f"num_rounds_per_block={blocks} instead of {blocks + 1}"
    assert done.status == 2 and told in done.err
    assert cli(*train("bcd", files, folder, *three, "--resume")).status == 0
    assert same_model(folder, tmp_path / "unbroken")

    (tmp_path / "bad.txt").write_text("not a corpus\n\nof one kind\n")
    bad = ("--train", tmp_path / "bad.txt", "--set", "num_rounds_per_block=0")
    done = cli(*train("bcd", files, tmp_path / "no", *bad))
    assert done.status == 2 and "num_rounds_per_block" in done.err
    done = cli("train", "bcd", "--help")
    assert "num_rounds_per_block (default: the number of training" in done.out


def test_a_checkpoint_of_other_settings_is_refused(cli, files, tmp_path):
    folder = tmp_path / "m"
    cli(*train("sp", files, folder, "--keep-checkpoint", "--set", "step_size=2"))
    before = listing(folder)

    def go_on(*more):
        done = cli(*train("sp", files, folder, "--resume"), *more)
        assert done.status == 2 and done.err.count("\n") == 1
        assert listing(folder) == before
        return done.err

    two = ("--set", "step_size=2")
    assert "step_size=2.0 instead of 1.0" in go_on()
    assert "seed=0 instead of 7" in go_on(*two, "--seed", 7)
    assert "other template" in go_on(*two, "--orders", "both")
    assert "other data" in go_on(*two, "--fraction", 0.9)
    assert "has 2 passes already" in go_on(*two, "--passes", 1)
    assert (
        "learner=sp instead of mira"
        in cli(*train("mira", files, folder, "--resume")).err
    )
    checkpoint_file = folder / "checkpoint.npz"
    checkpoint_file.write_bytes(checkpoint_file.read_bytes()[:-100])
    before = listing(folder)
    assert "cut short" in go_on(*two)


def test_without_a_checkpoint_resume_starts_from_the_beginning(cli, files, tmp_path):
    done = cli(*train("sp", files, tmp_path / "m", "--resume"))
    assert done.status == 0 and "there is no checkpoint" in done.err


def start(files, folder) -> subprocess.Popen:
    """Begin a training that would take long, and wait for a checkpoint."""
    given = train("sp", files, folder, "--checkpoint-seconds", 0)
    process = subprocess.Popen(
        command(*given, "--train", files.noisy, "--passes", 1_000_000),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        if line.startswith("pass 3/"):
            return process
    raise AssertionError(process.communicate())


def test_a_killed_run_goes_on_to_the_unbroken_result(cli, process, files, tmp_path):
    folder = tmp_path / "m"
    killed = start(files, folder)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    record = checkpoint.read_metadata(folder / "checkpoint.npz")
    more = ("--train", files.noisy, "--passes", len(record["history"]) + 2)
    done = process(*train("sp", files, folder, "--resume"), *more)
    assert done.status == 0 and f"{len(record['history'])} passes done" in done.err
    assert cli(*train("sp", files, tmp_path / "unbroken"), *more).status == 0
    assert same_model(folder, tmp_path / "unbroken")


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_an_interrupted_run_leaves_a_checkpoint(files, tmp_path, number):
    folder = tmp_path / "m"
    process = start(files, folder)
    process.send_signal(number)
    try:
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert "go on with --resume" in err and "Traceback" not in err
    record = checkpoint.read_metadata(folder / "checkpoint.npz")
    assert len(record["history"]) >= 3
    assert [item.name for item in folder.iterdir()] == ["checkpoint.npz"]


def test_a_run_that_is_not_due_writes_no_checkpoint(cli, files, tmp_path, monkeypatch):
    saved = []

    def save(path, state, record):
        saved.append((path, state, json.loads(json.dumps(record))))

    monkeypatch.setattr(checkpoint, "save", save)
    cli(*train("sp", files, tmp_path / "m"))
    assert saved == []
    # Start; pass 1: 20 s, not due; pass 2: 40 s, due, written by 50 s; pass 3: 20 s
    # later, not due; pass 4: 40 s later, but it is the last and the model follows.
    clock = iter([0, 20, 40, 50, 70, 90])
    fake = types.SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr(training, "time", fake)
    cli(*train("sp", files, tmp_path / "m"), "--passes", 4)
    assert [len(record["history"]) for _, _, record in saved] == [2]


def test_the_standard_unseen_label_of_conll_counts_as_an_error(cli, files, tmp_path):
    test = tmp_path / "test.txt"
    test.write_text(files.test.read_text() + "noun1 NN I-VP\n")
    given = (*train("sp", files, tmp_path / "m"), "--test", test, "--json", "-")
    done = cli(*given)
    assert done.status == 0
    assert "do not have the label I-VP of 1 test tokens" in done.err
    accuracy = json.loads(done.out)["accuracy"]
    assert 90 < accuracy < 100
    done = cli(*given, "--unseen-label", "error")
    assert done.status == 2 and f"{test}:" in done.err


def test_orders_auto_says_what_it_has_chosen_and_keeps_it(cli, files, tmp_path):
    template = tmp_path / "two.template"
    template.write_text("U0:%x[0,0]\nU1:%x[0,1]\n")
    given = ("--train", files.train, "--template", template, "--passes", 2)
    done = cli(
        *(
            "train",
            "sp",
            *given,
            "--orders",
            "auto",
            "--json",
            tmp_path / "result.json",
        ),
        *("--model", tmp_path / "m"),
    )
    assert done.status == 0 and "first-order weights: " in done.out
    assert " of 2 templates" in done.out and "held-out training sentences" in done.out
    report = json.loads((tmp_path / "result.json").read_text())["orders"]
    kept = json.loads((tmp_path / "m" / "model.json").read_text())
    assert report == kept["training"]["orders"] and len(report["alone"]) == 2
