"""`rerank train` and `rerank apply`: what they report, write and refuse."""

import json
import shutil

import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.cli import main
from lowrank_jax.data import read_json_lists, write_json_lists
from lowrank_jax.data.made.lists import reranking_task
from lowrank_jax.estimators.reranker import Reranker
from lowrank_jax.store import folder as model_folder
from tests.cli.conftest import listing
from tests.cli.test_bad_input import refused


def as_svmlight(lists):
    lines, queries = (
        [],
        np.repeat(np.arange(lists.num_lists), np.diff(lists.list_offsets)),
    )
    for c, query in enumerate(queries):
        part = slice(*lists.candidate_offsets[c : c + 2])
        pairs = zip(lists.feature_ids[part], lists.values[part], strict=True)
        features = " ".join(f"{i}:{value:g}" for i, value in pairs)
        lines.append(f"{lists.quality[c]} qid:{query} {features}\n")
    return "".join(lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Lists in both formats, and a tensor model with its figures; do not change it."""
    folder = tmp_path_factory.mktemp("lists")
    train, test, _ = reranking_task(60, 25, seed=0, sizes=(6, 6), num_shared=3)
    names = {f"f{i}": i for i in range(36)}
    write_json_lists(folder / "train.jsonl", train, names)
    write_json_lists(folder / "test.jsonl.gz", test, names)
    (folder / "train.svm").write_text(as_svmlight(train))
    (folder / "test.svm").write_text(as_svmlight(test))
    given = ["rerank", "train", folder / "train.jsonl", "--model", folder / "m"]
    given += ["--test", folder / "test.jsonl.gz", "--epochs", 3, "--learner", "tm"]
    assert main([*map(str, given), "--json", str(folder / "m.json")]) == 0
    return folder


def test_train_reports_sizes_settings_epochs_and_quality(folder):
    result = json.loads((folder / "m.json").read_text())
    assert result["sizes"] == [6, 6] and result["num_parameters"] == 12
    assert (result["num_lists"], result["num_features"]) == (60, 36)
    assert result["epochs"] == len(result["history"]) == 3
    assert result["settings"]["step"] == "bcd"
    assert result["settings"]["decoding"] == "cost"
    assert result["settings"]["start"] == "constant"  # one component
    assert result["test_oracle_quality"] == 1
    assert 1 > result["test_quality"] > 0.8 > 0.6 > result["test_first_quality"]
    assert result["train_quality"] > 0.8
    assert all(entry["lists"] == 60 for entry in result["history"])
    assert {"jax", "numpy", "lowrank_jax"} <= set(result["versions"])
    names = sorted(path.name for path in (folder / "m").iterdir())
    assert names == ["model.json", "weights.npz"]


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["mira", "tm"])
def test_batches_resume_to_the_same_bits_and_are_in_the_settings(
    cli, folder, tmp_path, learner
):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    given = ["rerank", "train", folder / "train.jsonl", "--learner", learner]
    given += ["--batch-size", "2,8", "--keep-checkpoint"]
    assert cli(*given, "--model", whole, "--epochs", 3).status == 0
    for epochs, more in ((1, ()), (3, ("--resume",))):
        done = cli(*given, "--model", parts, "--epochs", epochs, *more)
        assert done.status == 0, done.err
    one, other = ((f / "weights.npz").read_bytes() for f in (whole, parts))
    assert one == other
    model = Reranker.load(whole)
    assert model.get_params()["batch_size"] == "2,8"
    assert model.training_["run"]["batch_size"] == "2,8"


def test_a_batch_of_more_lists_than_there_are_is_refused(cli, folder, tmp_path):
    given = ["rerank", "train", folder / "train.jsonl", "--model", tmp_path / "m"]
    done = cli(*given, "--batch-size", 61)
    assert done.status == 2
    assert "at most 60, the number of training lists, got 61" in done.err


def test_apply_gives_the_scores_of_the_model_and_the_quality_of_train(
    cli, folder, tmp_path
):
    test, out = folder / "test.jsonl.gz", tmp_path / "new" / "chosen.jsonl"
    done = cli("rerank", "apply", folder / "m", test, "--json", tmp_path / "a.json")
    assert done.status == 0 and "mean quality" in done.err
    rows = [json.loads(line) for line in done.out.splitlines()]
    model = Reranker.load(folder / "m")
    lists, _ = read_json_lists(test, names=model.names_)
    flat = [score for row in rows for score in row["scores"]]
    np.testing.assert_allclose(flat, model.decision_function(lists), rtol=1e-5)
    assert all(row["chosen"] == np.argmax(row["scores"]) for row in rows)
    result = json.loads((tmp_path / "a.json").read_text())
    trained = json.loads((folder / "m.json").read_text())
    assert result["quality"] == trained["test_quality"]
    again = cli("rerank", "apply", folder / "m", test, "--out", out)
    assert out.read_text() == done.out and "mean quality" in again.out

    # The scores are those of the dense tensor, feature by feature.
    weights = np.einsum("hi,hj->ij", *(np.asarray(part) for part in model.params_))
    table = np.zeros((lists.num_candidates, 36))
    owner = np.repeat(np.arange(lists.num_candidates), np.diff(lists.candidate_offsets))
    np.add.at(table, (owner, lists.feature_ids), lists.values)
    expected = table @ weights.ravel(order="F")[model.place_]
    np.testing.assert_allclose(flat, expected, rtol=1e-4, atol=1e-5)


def test_unknown_quality_is_no_hindrance_to_apply(cli, folder, tmp_path):
    path = tmp_path / "new.jsonl"
    path.write_text('{"candidates": [{"features": {"f1": 1, "other": 2}}]}\n')
    done = cli("rerank", "apply", folder / "m", path)
    assert done.status == 0 and done.err == ""
    assert json.loads(done.out)["chosen"] == 0


def test_resume_gives_the_model_of_an_unbroken_run(cli, folder, tmp_path):
    given = ["rerank", "train", folder / "train.jsonl", "--model", tmp_path / "m"]
    given += ["--learner", "tm"]
    first = cli(*given, "--epochs", 1, "--keep-checkpoint")
    assert first.status == 0 and "pass 1/1" in first.err and "lists/s" in first.err
    refused(cli(*given, "--epochs", 3, "--resume", "--seed", 1), "seed=0 instead of 1")
    refused(
        cli(*given, "--epochs", 3, "--resume", "--set", "max_step_size=0.2"),
        "max_step_size=0.1 instead of 0.2",
    )
    text = (folder / "train.jsonl").read_text()
    for old, new in (('"f1"', '"other"'), ('"f2": 1.0', '"f2": 2.0')):
        (tmp_path / "other.jsonl").write_text(text.replace(old, new))
        other = ["rerank", "train", tmp_path / "other.jsonl", *given[3:]]
        refused(cli(*other, "--epochs", 3, "--resume"), "other data")
    part = f".lowrank-jax-{'0a' * 16}.part"  # of a run that was killed
    (tmp_path / "m" / part).touch()
    done = cli(*given, "--epochs", 3, "--resume")
    assert done.status == 0 and "going on from" in done.err and "pass 2/3" in done.err
    for name in ("weights.npz",):
        one, other = tmp_path / "m" / name, folder / "m" / name
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("learner", "settings"),
    [
        ("mira", ["max_step_size=0.05"]),
        ("perceptron", ["averaging=none"]),
        ("tm", ["num_components=2", "mapping=sequential", "order=3"]),
    ],
)
def test_each_learner_takes_svmlight(cli, folder, tmp_path, learner, settings):
    given = ["rerank", "train", folder / "train.svm", "--model", tmp_path / "m"]
    given += ["--test", folder / "test.svm", "--learner", learner, "--epochs", 2]
    done = cli(*given, "--set", *settings, "--json", "-")
    assert done.status == 0
    result = json.loads(done.out)
    assert result["learner"] == learner
    assert result["test_quality"] > result["test_first_quality"] + 0.1
    if learner == "tm":
        assert result["settings"]["start"] == "positive"
        assert result["sizes"] == [3, 3, 4] and result["num_parameters"] == 20
    applied = cli("rerank", "apply", tmp_path / "m", folder / "test.svm", "--json", "-")
    assert json.loads(applied.out)["quality"] == result["test_quality"]


BAD = {
    "empty.jsonl": ('{"candidates": []}\n', "without candidates"),
    "unknown.jsonl": (
        '{"candidates": [{"features": {"a": 1}}]}\n',
        "without a quality",
    ),
    "nothing.jsonl": ("\n", "no list"),
    "lists.txt": ("", "--format"),
    "broken.jsonl": ("{", "not JSON"),
    "bare.jsonl": (
        '{"candidates": [{"features": {}, "quality": 1}]}\n',
        "no candidate a feature",
    ),
    "large.jsonl": (
        '{"candidates": [{"features": {"a": 1e39}, "quality": 1}]}\n',
        ":1 gives feature 'a' the value 1e+39",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_training_lists_are_refused(cli, tmp_path, name):
    content, words = BAD[name]
    (tmp_path / name).write_text(content)
    before = listing(tmp_path)
    done = cli("rerank", "train", tmp_path / name, "--model", tmp_path / "m")
    refused(done, tmp_path / name, words)
    assert listing(tmp_path) == before


def test_bad_arguments_and_models_are_refused(cli, folder, tmp_path):
    model, train = tmp_path / "m", folder / "train.jsonl"
    given = ("rerank", "train", train, "--model", model, "--learner", "tm")
    refused(cli(*given, "--set", "foo=1"), "foo=1", "order, num_components, mapping")
    refused(cli(*given, "--set", "mapping=other"), "`mapping` must be one of")
    refused(cli(*given, "--set", "order=0"), "`order`")
    refused(cli(*given, "--set", "order=100000000"), "`order` must be at most 64")
    for number in (10**11, 10**9):  # the second is too many once V is known
        many = cli(*given, "--set", f"num_components={number}")
        refused(many, "at most 2147483647 parameters", f"num_components {number}")
    refused(cli(*given, "--num-features", 500), "--num-features 500", "leave it out")
    for place in (model, model / "a.json", tmp_path / "x" / ".." / "m" / "a.json"):
        refused(cli(*given, "--json", place), place, "folder of the model", "outside")
    refused(cli(*given, "--learner", "mira", "--set", "order=2"), "setting of mira")
    refused(cli(*given, "--test", folder / "test.svm"), "format json")
    path = tmp_path / "wide.svm"
    path.write_text("0.5 qid:1 99:1\n")
    svm = ("rerank", "train", folder / "train.svm", "--model", model)
    refused(cli(*svm, "--test", path), f"{path}:1", "feature id 99", "0..35")
    refused(cli("rerank", "apply", folder / "m", path), "format svmlight")
    assert not model.exists()
    shutil.copytree(folder / "m", model)
    about = json.loads((model / "model.json").read_text())
    (model / "model.json").write_text(json.dumps(about | {"format_version": 99}))
    refused(cli("rerank", "apply", model, train), model, "model format 99")
    (model / "model.json").write_text(json.dumps(about | {"kind": "tagger"}))
    refused(cli("rerank", "apply", model, train), "is a tagger; use lowrank-jax tag")
    refused(cli("rerank", "apply", tmp_path / "none", train), "not a model folder")


def test_choices_and_figures_do_not_share_a_place(cli, folder, tmp_path):
    given = ("rerank", "apply", folder / "m", folder / "test.jsonl.gz")
    refused(cli(*given, "--out", "-", "--json", "-"), "--out and --json both name -")
    place = tmp_path / "a"
    refused(cli(*given, "--out", place, "--json", place), place, "a place of its own")
    about = folder / "m" / "model.json"
    refused(cli(*given, "--out", about), about, "in the folder of the model")
    assert not place.exists()
    done = cli(*given, "--out", place, "--json", "-")
    assert json.loads(done.out)["num_lists"] == len(place.read_text().splitlines())
    text = " ".join(cli("rerank", "apply", "--help").out.split())
    assert "instead of the choices if --out is not given" in text


def test_scores_that_are_not_finite_are_refused(cli, folder, tmp_path):
    path, model = tmp_path / "x.jsonl", Reranker.load(folder / "m")
    params = tuple(1e10 * np.abs(part) for part in model.params_)
    model.params_ = params
    model.save(tmp_path / "m")
    line = '{{"candidates": [{{"features": {{"f1": {0}}}}}, {{"features": {{}}}}]}}\n'
    path.write_text(line.format(1) + line.format(1e38))
    done = cli("rerank", "apply", tmp_path / "m", path, "--out", tmp_path / "out")
    refused(done, f"{path}: list 2 has a score that is not finite")
    assert not (tmp_path / "out").exists()


def test_a_model_of_another_kind_is_not_overwritten(cli, folder, tmp_path):
    titles = {"word tagger": "speller", "matrix classifier": "classifier"}
    for kind, title in (titles | {"tagger": "tagger"}).items():
        model = tmp_path / kind
        shutil.copytree(folder / "m", model)
        about = json.loads((model / "model.json").read_text()) | {"kind": kind}
        if kind == "tagger":  # its folder does not tell
            del about["kind"]
            (model / "vocabulary.npz").touch()
        (model / "model.json").write_text(json.dumps(about))
        before = (model / "model.json").read_bytes()
        done = cli("rerank", "train", folder / "train.jsonl", "--model", model)
        refused(done, f"{model} holds a {title}; name another folder")
        with pytest.raises(InputError, match=f"holds a {title}; name another folder"):
            Reranker.load(folder / "m").save(model)
        assert (model / "model.json").read_bytes() == before
    empty = model_folder.Content({}, {"weights": {}})
    model = tmp_path / "m"
    shutil.copytree(folder / "m", model)
    with pytest.raises(InputError, match="m holds a reranker; name another folder"):
        model_folder.write(model, "word tagger", empty)
    assert Reranker.load(model).num_features_ == 36
    (model / "model.json").write_text("{")  # cut short: nothing to keep
    model_folder.write(model, "word tagger", empty)
    assert model_folder.read(model, "word tagger").arrays == {"weights": {}}


def test_help_tells_of_the_settings(cli):
    done = cli("rerank", "train", "--learner", "tm", "--help")
    assert done.status == 0
    for word in ("num_components (default: 1)", "step (default: bcd)", "surrogate"):
        assert word in done.out


def test_fields_are_kept_sorted_and_cut(cli, folder, tmp_path):
    rows = [
        {
            "id": "s1",
            "source": "ein Satz",
            "candidates": [
                {"features": {"f0": 1.0}, "text": "a sentence"},
                {"features": {"f7": 2.0}, "text": "the sentence"},
                {"features": {"f1": 1.0}, "text": "one"},
            ],
        }
    ]
    path = tmp_path / "new.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    plain = json.loads(cli("rerank", "apply", folder / "m", path).out)
    assert (plain["id"], plain["source"]) == ("s1", "ein Satz")
    order = np.argsort(-np.array(plain["scores"]), kind="stable").tolist()
    done = json.loads(cli("rerank", "apply", folder / "m", path, "--sort").out)
    texts = [rows[0]["candidates"][i]["text"] for i in order]
    assert [c["text"] for c in done["candidates"]] == texts
    assert [c["place"] for c in done["candidates"]] == order
    assert [c["score"] for c in done["candidates"]] == sorted(plain["scores"])[::-1]
    done = json.loads(cli("rerank", "apply", folder / "m", path, "--k-best", 2).out)
    assert [c["text"] for c in done["candidates"]] == texts[:2]


def test_grades_of_letor_are_trained_on_and_measured(cli, folder, tmp_path):
    grades = (folder / "train.svm").read_text().splitlines()
    words = [line.split(" ", 1) for line in grades]
    text = "".join(f"{round(4 * float(q)) - 1} {rest}\n" for q, rest in words)
    (tmp_path / "grades.svm").write_text(text)
    done = cli(
        *("rerank", "train", tmp_path / "grades.svm", "--model", tmp_path / "m"),
        *("--json", tmp_path / "m.json"),
    )
    assert done.status == 0 and "MRR" in done.out and "NDCG" in done.out, done.err
    result = json.loads((tmp_path / "m.json").read_text())
    assert result["learner"] == "mira"
    assert result["train_quality"] > result["train_first_quality"]
    assert 0 < result["train_ndcg"] <= 1 and 0 < result["train_mrr"] <= 1
    out = cli("rerank", "apply", tmp_path / "m", tmp_path / "grades.svm").out
    assert json.loads(out.splitlines()[0])["id"] == "0"
