"""`fit` and `predict`: what they report, what they write, and what they refuse."""

import csv
import io
import json
import shutil

import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.cli import main
from lowrank_jax.estimators.classifier import choosing, selection
from lowrank_jax.report import classifier
from tests.cli.conftest import listing
from tests.cli.test_bad_input import refused

#: One program for nearly all tests of this file.
PAPER = ("solver=proximal", "step=lemma", "start=paper", "mu2=0", "nu2=0")
SET = ("--set", "max_iterations=40", *PAPER, "mu1=0.01")
NAMES = np.array(["C3", "Cz", "C4", "O1"])


def trials(seed, num_classes=2):
    rng = np.random.default_rng(seed)
    y = np.arange(20) % num_classes
    means = np.random.default_rng(9).normal(size=(num_classes, 4, 3))
    return 30 * (means[y] + rng.normal(size=(20, 4, 3))), y


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data files, and a model with pictures fitted on `both.npz`; do not change it."""
    folder = tmp_path_factory.mktemp("matrices")
    (x, y), (x_test, y_test) = trials(0), trials(1)
    parts = {"x_train": x, "y_train": y, "x_test": x_test, "y_test": y_test}
    np.savez(folder / "both.npz", **parts, channels=NAMES)
    np.savez(folder / "one.npz", x=x, y=y)
    np.savez(folder / "test.npz", x=x_test, y=y_test)
    np.savez(folder / "unlabelled.npz", x=x_test)
    words = np.array(["back", "down", "up"])[trials(0, 3)[1]]
    np.savez(folder / "three.npz", signals=trials(0, 3)[0], marks=words)
    (folder / "models").mkdir()
    arguments = ["fit", folder / "both.npz", "--model", folder / "models" / "m", *SET]
    assert main([*map(str, arguments), "--json", str(folder / "m.json")]) == 0
    return folder


def test_fit_reports_all_of_the_training_and_test_parts(folder):
    result = json.loads((folder / "m.json").read_text())
    for name in (
        *("train_accuracy", "train_auc", "test_accuracy", "test_auc", "objective"),
        *("train_seconds", "compile_seconds", "stationarity", "peak_memory_mb"),
    ):
        assert isinstance(result[name], float), name
    assert result["measured_on"] == "test"
    assert result["accuracy"] == result["test_accuracy"] > 0.7
    assert result["auc"] == result["test_auc"] > 0.7
    assert result["train_accuracy"] > 0.8
    assert (result["rank"], result["seed"], result["classes"]) == (1, 0, [0, 1])
    assert result["settings"]["mu1"] == 0.01 and result["settings"]["nu1"] == 0.001
    assert result["num_iterations"] <= 40 and isinstance(result["converged"], bool)
    assert 0 < result["left_support"] <= result["left_size"] == 4
    assert 0 < result["right_support"] <= result["right_size"] == 3
    assert {"jax", "numpy", "lowrank_jax"} <= set(result["versions"])
    model = json.loads((folder / "models" / "m" / "model.json").read_text())
    assert model["row_names"] == NAMES.tolist()
    assert model["training"]["test_accuracy"] == result["test_accuracy"]


def test_fit_draws_pictures_beside_the_model(folder):
    names = sorted(path.name for path in (folder / "models" / "m").iterdir())
    assert names == ["convergence.png", "model.json", "patterns.png", "weights.npz"]
    for name in ("convergence.png", "patterns.png"):
        content = (folder / "models" / "m" / name).read_bytes()
        assert content.startswith(b"\x89PNG") and len(content) > 10_000


def test_predict_writes_a_line_a_matrix_and_the_figures_of_fit(cli, folder, tmp_path):
    model, data = folder / "models" / "m", folder / "both.npz"
    done = cli("predict", model, data, "--json", tmp_path / "p.json")
    assert done.status == 0 and "accuracy" in done.err
    rows = list(csv.reader(io.StringIO(done.out)))
    assert rows[0] == ["label", "probability of 0", "probability of 1"]
    assert len(rows) == 21
    for label, p_0, p_1 in rows[1:]:
        assert label == ("1" if float(p_1) > 0.5 else "0")
        assert abs(float(p_0) + float(p_1) - 1) < 1e-5
    of_fit = json.loads((folder / "m.json").read_text())
    result = json.loads((tmp_path / "p.json").read_text())
    assert result["accuracy"] == of_fit["test_accuracy"]
    assert result["auc"] == of_fit["test_auc"]
    assert sum(result["num_predicted"]) == 20
    to_file = cli(
        "predict", model, data, "--split", "test", "--out", tmp_path / "p.csv"
    )
    assert (tmp_path / "p.csv").read_text() == done.out
    assert to_file.out.count("\n") == 1
    on_train = cli("predict", model, data, "--split", "train", "--json", "-")
    assert json.loads(on_train.out)["accuracy"] == of_fit["train_accuracy"]


def test_predict_needs_no_labels(cli, folder):
    done = cli("predict", folder / "models" / "m", folder / "unlabelled.npz")
    assert done.status == 0 and done.err == "" and done.out.count("\n") == 21
    done = cli(
        *("predict", folder / "models" / "m", folder / "unlabelled.npz", "--json", "-")
    )
    assert json.loads(done.out)["accuracy"] is None


def test_a_test_file_counts_as_a_test_part_does(cli, folder, tmp_path):
    done = cli(
        *("fit", folder / "one.npz", "--test", folder / "test.npz", "--no-plots"),
        *("--model", tmp_path / "m", "--json", "-", *SET),
    )
    assert done.status == 0
    result, of_parts = json.loads(done.out), json.loads((folder / "m.json").read_text())
    for name in ("train_accuracy", "train_auc", "test_accuracy", "test_auc"):
        assert result[name] == of_parts[name]
    assert sorted(listing(tmp_path / "m")) == ["model.json", "weights.npz"]


def test_three_classes_one_vs_all_held_out_and_drawn_as_images(cli, folder, tmp_path):
    done = cli(
        *("fit", folder / "three.npz", "--x", "signals", "--y", "marks"),
        *("--split", "0.25", "--seed", "3", "--rank", "2", "--images"),
        *("--model", tmp_path / "m", *SET, "multi_class=one-vs-all", "--json", "-"),
    )
    assert done.status == 0, done.err
    result = json.loads(done.out)
    assert result["classes"] == ["back", "down", "up"] and result["rank"] == 2
    assert result["num_test_matrices"] == 6 and result["num_matrices"] == 14
    assert len(result["num_iterations_by_class"]) == 3
    assert 0 <= result["test_auc"] <= 1
    assert (tmp_path / "m" / "patterns.png").exists()


def test_cross_validation_chooses_reports_and_draws_a_path(
    cli, folder, tmp_path, monkeypatch
):
    for name in ("patterns", "convergence"):  # drawn in other tests
        monkeypatch.setattr(classifier, name, lambda *_, **__: b"")
    done = cli(
        *("fit", folder / "one.npz", "--cv", "2", "--rank", "1", "--json", "-"),
        *("--model", tmp_path / "m", "--set", "mu1=0.01", "nu1=0.001", "nu2=0"),
    )
    assert done.status == 0, done.err
    assert "chosen by cross-validation: rank 1, mu1 0.01, mu2" in done.err
    result = json.loads(done.out)
    rows = result["cv"]["rows"]
    assert {row["mu1"] for row in rows} == {0.01}  # what is given stays
    assert len({row["mu2"] for row in rows}) == len(rows) == 4
    assert result["cv_accuracy"] == max(row["accuracy"] for row in rows)
    assert result["measured_on"] == "cv" and result["accuracy"] == result["cv_accuracy"]
    assert result["settings"]["mu2"] in {row["mu2"] for row in rows}
    assert (tmp_path / "m" / "path.png").read_bytes().startswith(b"\x89PNG")


def test_every_setting_of_the_fit_is_one_of_its_validation(fit, folder, monkeypatch):
    seen = {}

    def choose(*_, **options):
        seen.update(options)
        raise InputError("Seen.")

    monkeypatch.setattr(choosing, "choose", choose)
    monkeypatch.setattr(selection, "select", choose)
    texts = ("solver=proximal", "growth=3", "least_constant=0.1", "scale_start=no")
    refused(fit(folder / "one.npz", "--cv", "2", "--set", *texts), "Seen.")
    assert seen["growth"] == 3 and seen["least_constant"] == 0.1
    assert seen["scale_start"] is False and seen["solver"] == "proximal"
    assert (seen["tolerance"], seen["max_iterations"]) == (1e-3, 1000)
    texts = ("block_tolerance=0.1", "max_block_steps=9", "start=paper")
    refused(fit(folder / "one.npz", "--cv", "2", "--set", *texts), "Seen.")
    assert seen["solver"] == "minimise" and seen["start"] == "paper"
    assert seen["block_tolerance"] == 0.1 and seen["max_block_steps"] == 9
    refused(fit(folder / "one.npz", "--cv", "2", "--grid", "paper"), "Seen.")
    assert (seen["solver"], seen["max_iterations"]) == ("proximal", 500)


def test_strengths_that_leave_no_weight_are_told(cli, folder, tmp_path):
    done = cli(
        *("fit", folder / "one.npz", "--model", tmp_path / "m", "--no-plots", *SET),
        *("mu1=100", "nu1=100"),
    )
    assert done.status == 0 and "all weights are zero" in done.err


@pytest.fixture
def fit(cli, folder, tmp_path):
    """Run `fit` on arrays or a file; check that nothing was written."""

    def run(data, *more):
        if isinstance(data, dict):
            np.savez(tmp_path / "bad.npz", **data)
            data = tmp_path / "bad.npz"
        before = listing(tmp_path)
        done = cli("fit", data, "--model", tmp_path / "out" / "m", *more)
        assert listing(tmp_path) == before and not (tmp_path / "out").exists()
        return done

    return run


def test_bad_data_are_refused(fit, tmp_path):
    x, y = trials(0)
    nan = x.copy()
    nan[3, 2, 1] = np.nan
    refused(fit({"x": nan, "y": y}), "bad.npz", "finite", "nan at (3, 2, 1)")
    refused(fit({"x": x[0], "y": y}), "bad.npz", "three dimensions", "(4, 3)")
    refused(fit({"x": x, "y": y[:3]}), "bad.npz", "(20,)")
    refused(fit({"x": x}), "bad.npz has no labels")
    refused(fit({"x": 0 * x, "y": y}), "zero throughout")
    refused(fit({"x": x, "y": 0 * y}), "at least two classes, got only 0")
    refused(fit({"z": x}), "has no array 'x'")
    refused(fit(tmp_path / "none.npz"), "none.npz does not exist")
    (tmp_path / "text.npz").write_text("words")
    refused(fit(tmp_path / "text.npz"), "not a readable npz file")
    words = np.array(["a", "b"] * 10, object)
    refused(fit({"x": x, "y": words}), "Python objects as y.astype(str)")


def test_bad_settings_are_refused(fit, folder):
    data, three = folder / "one.npz", folder / "three.npz"
    keys = ("--x", "signals", "--y", "marks")
    refused(fit(data, "--rank", "4"), "`rank` must lie in 1..3", "got 4")
    refused(fit(data, "--rank", "4", "--cv", "2"), "`rank` must lie in 1..3")
    refused(fit(data, "--set", "colour=1"), "'colour=1' is not a setting", "mu1")
    refused(fit(data, "--set", "mu1=much"), "must be a number")
    refused(fit(data, "--set", "mu1"), "name=value")
    refused(fit(data, "--set", "mu1=-1"), "`mu1` must be zero or more")
    refused(fit(data, "--set", "start=here"), "`start` must be one of")
    refused(fit(three, *keys, "--set", "multi_class=binary"), "two classes", "got 3")
    for more in ((), ("--cv", "2")):
        idle = ("--set", "solver=minimise", "step=lemma")
        refused(fit(data, *more, *idle), "`step` has no part in solver='minimise'")
        refused(fit(data, *more, "--set", "growth=1"), "`growth` must be above 1")
    refused(fit(data, "--cv", "11"), "--cv must be at most 10", "20 to leave out one")
    refused(fit(data, "--cv", "1"), "--cv must be at least 2")
    one_vs_all = ("--set", "multi_class=one-vs-all")
    refused(fit(three, *keys, "--cv", "2", *one_vs_all), "one model of all classes")
    refused(fit(data, "--grid", "paper"), "--grid paper", "--cv K")
    refused(fit(data, "--images", "--no-plots"), "--images", "--no-plots draws none")
    refused(fit(data, "--split", "1"), "--split must be below 1")
    refused(fit(data, "--test", three), "three.npz has no array 'x'")
    refused(fit(data, "--json", folder), "is a folder")


def test_a_folder_of_something_else_is_left_alone(cli, folder, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    refused(cli("fit", folder / "one.npz", "--model", tmp_path), "holds 'notes.txt'")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_predict_refuses_other_data_and_broken_models(cli, folder, tmp_path):
    model, (x, y) = folder / "models" / "m", trials(1)

    def predict(**arrays):
        np.savez(tmp_path / "bad.npz", **arrays)
        return cli("predict", model, tmp_path / "bad.npz")

    refused(predict(x=x[:, :, :2]), "matrices of 4x2", "fitted on 4x3")
    refused(predict(x=x, channels=NAMES[::-1]), "row 0", "'O1'", "'C3'")
    refused(predict(x=x, y=y + 5), "the label 5", "knows 0, 1")
    refused(predict(x=x, y=np.full(20, "a")), "the label 'a'")
    short = tmp_path / "short"
    shutil.copytree(model, short)
    (short / "weights.npz").write_bytes((model / "weights.npz").read_bytes()[:-20])
    refused(cli("predict", short, folder / "one.npz"), "weights.npz has", "incomplete")
    refused(cli("predict", tmp_path / "no", folder / "one.npz"), "not a model folder")
    twice = (
        "predict",
        tmp_path / "no",
        folder / "one.npz",
        "--out",
        "-",
        "--json",
        "-",
    )
    refused(cli(*twice), "--out and --json both name -")
    tagger = tmp_path / "tagger"
    tagger.mkdir()
    about = {"format_version": 1, "learner": "sp", "files": {"weights.npz": {}}}
    (tagger / "model.json").write_text(json.dumps(about))
    refused(
        cli("predict", tagger, folder / "one.npz"), "is a tagger; use lowrank-jax tag."
    )


def test_help_lists_the_settings(cli):
    done = cli("fit", "--help")
    assert done.status == 0 and "mu1 (default: 0.001)" in done.out
    assert "left_penalty" not in done.out
    assert "row_names" not in done.out and ":math:" not in done.out
