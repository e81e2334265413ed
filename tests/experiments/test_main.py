"""`python -m experiments`: files written, interrupted runs resumed, bad input."""

import json
import sys
import types

import pytest

from experiments import catalogue, cells
from experiments.__main__ import listing, main
from experiments.intervals import Mean, decide
from experiments.protocol import Experiment
from tests.cli.conftest import Done


@pytest.fixture
def run(capsys):
    """Run the command in this process."""

    def call(*arguments: object) -> Done:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        return Done(status, *capsys.readouterr())

    return call


def refused(done, *words) -> None:
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith("experiments: ") and done.err.count("\n") == 1
    for word in words:
        assert str(word) in done.err, done.err


class Toy:
    """An experiment of three cells that stops after two, the first time."""

    def __init__(self):
        self.num_runs = 0
        self.value = 1.0

    def run(self, setup):
        self.num_runs += 1
        rows = []
        for number in range(3):

            def compute(number=number):
                if self.num_runs == 1 and number == 2:
                    raise KeyboardInterrupt
                setup.say(f"row {number}")
                return (number, {number: "row"})  # JSON: a list, a key that is text

            rows.append(setup.cell(f"row {number}", compute))
        return {"scale": setup.scale, "rows": rows, "value": self.value}

    def verdicts(self, result):
        return [decide("the toy is above 0", Mean(result["value"], 0.5))]


def add(monkeypatch, name, experiment):
    """Put an experiment into the catalogue, as its module would."""
    module = types.SimpleNamespace(EXPERIMENT=experiment)
    monkeypatch.setitem(sys.modules, f"experiments.{name.replace('-', '.')}", module)
    monkeypatch.setattr(catalogue, "NAMES", (*catalogue.NAMES, name))


@pytest.fixture
def toy(monkeypatch):
    made = Toy()
    experiment = Experiment(
        "bol-toy",
        "a toy",
        "a stand-in",
        "made data",
        made.run,
        lambda result: f"{len(result['rows'])} rows\n",
        lambda figure, result: figure.subplots().plot([1, 2]),
        verdicts=made.verdicts,
    )
    add(monkeypatch, "bol-toy", experiment)
    return made


def test_an_interrupted_experiment_resumes_where_it_stopped(toy, run, tmp_path):
    out = ("--out", tmp_path)
    stopped = run("bol-toy", *out)
    assert stopped.status == 130 and stopped.err == "experiments: interrupted.\n"
    kept = tmp_path / "bol-toy.cells.json"
    assert set(json.loads(kept.read_text())["cells"]) == {"row 0", "row 1"}
    refused(run("bol-toy", "--scale", "full", *out), kept, "--scale small", "--fresh")
    done = run("bol-toy", *out)
    assert done.status == 0 and "row 2" in done.out and "row 1" not in done.out
    found = json.loads((tmp_path / "bol-toy.json").read_text())
    assert found["rows"] == [[n, {str(n): "row"}] for n in range(3)]
    assert found["command"] == "python -m experiments bol-toy --scale small"
    assert found["starts"] == 2 and found["seconds"] > 0
    assert found["sources"] == cells.sources() and found["machine"]["num_cores"]
    assert found["verdicts"][0]["verdict"] == "holds"
    assert (tmp_path / "bol-toy.md").read_text() == "3 rows\n"
    assert not kept.exists()
    for text in ("{", "{}", "[]", "3", '{"head": {"scale": "small"}, "cells": {}}'):
        kept.write_text(text)
        refused(run("bol-toy", *out), kept, "not the cells of a stopped run", "--fresh")
    assert run("bol-toy", "--fresh", *out).status == 0


def test_cells_of_other_sources_are_refused(toy, run, tmp_path, monkeypatch):
    out = ("--out", tmp_path)
    assert run("bol-toy", *out).status == 130
    changed = cells.sources() | {"lowrank_jax": "another"}
    monkeypatch.setattr(cells, "sources", lambda: changed)
    refused(run("bol-toy", *out), "other sources (lowrank_jax have", "--fresh")
    done = run("bol-toy", "--fresh", *out)
    assert done.status == 0 and "row 0" in done.out


def test_the_hash_of_the_sources_follows_a_changed_file(tmp_path, monkeypatch):
    (tmp_path / "one.py").write_text("1\n")
    monkeypatch.setattr(cells.lowrank_jax, "__file__", str(tmp_path / "__init__.py"))
    before = cells.sources()
    assert cells.sources() == before
    (tmp_path / "one.py").write_text("2\n")
    after = cells.sources()
    assert after["lowrank_jax"] != before["lowrank_jax"]
    assert after["experiments"] == before["experiments"]


def test_all_says_how_long_each_takes_and_runs_nothing_twice(
    toy, run, tmp_path, monkeypatch
):
    monkeypatch.setattr(catalogue, "NAMES", ("bol-toy", "bench-tm"))
    toy.num_runs = 1
    out = ("--out", tmp_path)
    done = run("all", *out)
    assert done.status == 0 and "minutes" in done.out and toy.num_runs == 2
    assert run("all", *out).status == 0 and toy.num_runs == 2
    assert run("all", "--fresh", *out).status == 0 and toy.num_runs == 3
    assert run("all", "--scale", "full", *out).status == 0 and toy.num_runs == 4


def test_check_fails_where_a_verdict_has_changed(toy, run, tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "NAMES", ("bol-toy",))
    toy.num_runs = 1
    out = ("--out", tmp_path)
    first = run("check", *out)
    assert first.status == 0 and "wrote" in first.out
    kept = json.loads((tmp_path / "verdicts-small.json").read_text())
    assert kept == {"bol-toy": {"the toy is above 0": "holds"}}
    assert run("check", *out).status == 0
    for value, verdict in ((-1.0, "fails"), (0.2, "not decided")):
        toy.value = value
        done = run("check", *out)
        assert done.status == 1 and f"holds before, {verdict} now" in done.err
    refused(run("check", "--scale", "full", *out), "--scale")


def test_a_refusal_leaves_no_folder_behind(toy, run, tmp_path):
    out = ("--out", tmp_path / "new" / "results")
    refused(run("table9", *out), "table9")
    refused(run("bol-toy", "--json", tmp_path / "found.json", *out), "--json")
    plain = tmp_path / "plain"
    plain.touch()
    for place in (plain, plain / "below"):
        refused(run("bol-toy", "--out", place), place, "name")
    assert toy.num_runs == 0 and list(tmp_path.iterdir()) == [plain]
    toy.num_runs = 1  # does not stop
    assert run("bol-toy", *out).status == 0
    picture = tmp_path / "new" / "results" / "bol-toy.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_name_that_is_not_there_is_named(run, tmp_path):
    refused(run("table9", "--out", tmp_path), "table9", "bol-fig3")
    refused(run("--out", tmp_path), "NAME", "--list")


def test_a_bench_writes_its_figures_and_wants_its_peers(monkeypatch, run, tmp_path):
    def measure(setup):
        setup.say("1 s")
        return {"found": 1}

    bench = Experiment("bench-toy", "", "made data", "", measure, str)
    add(monkeypatch, "bench-toy", bench)
    file = tmp_path / "new" / "found.json"
    done = run("bench-toy", "--json", file)
    assert done.status == 0 and done.out == "1 s\n"
    found = json.loads(file.read_text())
    assert found["found"] == 1 and found["command"] == "python -m experiments bench-toy"
    for option in (("--scale", "full"), ("--out", tmp_path), ("--fresh",)):
        refused(run("bench-toy", *option), option[0], "leave it out")
    needy = bench._replace(needs={"no_such_module": "some peer"})
    add(monkeypatch, "bench-toy", needy)
    refused(run("bench-toy"), "some peer", "pip install")


def test_every_experiment_is_in_its_module_and_listed():
    text = listing()
    for name in catalogue.NAMES:
        experiment = catalogue.load(name)
        assert experiment.name == name
        assert name in text and experiment.title in text
        assert name.startswith("bench-") == (experiment.picture is None)
    for absent in catalogue.NOT_RUN:
        assert absent.title in text
    assert set(catalogue.ONE_CORE) <= set(catalogue.NAMES)


def test_every_paper_has_its_experiments_and_benches_name_their_peers():
    names = set(catalogue.NAMES)
    assert {"sblr-table1", "sblr-fig3", "sblr-table2", "sblr-table4"} <= names
    assert {"tm-table1", "tm-fig3", "tm-fig4"} <= names
    assert {"smm-fig1", "smm-fig2", "smm-operators"} <= names
    bol = ("table1", "fig1", "fig2", "fig3", "tasks", "why", "regret")
    assert {f"bol-{name}" for name in bol} <= names
    assert catalogue.load("bench-sblr").needs == {"sklearn": "scikit-learn"}
    for name in ("bench-sequence", "bench-smm"):
        assert catalogue.load(name).needs == {"pycrfsuite": "CRFsuite"}
    assert catalogue.load("bench-tm").needs == {}


def test_a_bench_may_not_name_its_figures_as_the_file_names_the_run(
    monkeypatch, tmp_path
):
    file = tmp_path / "bench.json"
    for name in ("seconds", "rows"):
        made = Experiment("bench-tm", "", "", "", lambda _, n=name: {n: 1}, str)
        monkeypatch.setattr(catalogue, "load", lambda _, made=made: made)
        if name == "rows":
            assert main(["bench-tm", "--json", str(file)]) == 0
            assert json.loads(file.read_text())["rows"] == 1
        else:
            with pytest.raises(ValueError, match="seconds"):
                main(["bench-tm", "--json", str(file)])
            assert not file.exists()
