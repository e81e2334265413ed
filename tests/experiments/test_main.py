"""`python -m experiments`: files written, interrupted runs resumed, bad input."""

import json
import sys
import types

import pytest

from experiments import catalogue
from experiments.__main__ import listing, main
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
    """An experiment of three rows that stops after two, the first time."""

    def __init__(self):
        self.num_runs = 0

    def run(self, setup):
        self.num_runs += 1
        rows = list(setup.before["rows"]) if setup.before else []
        result = {"scale": setup.scale, "rows": rows}
        for number in range(len(rows), 3):
            if self.num_runs == 1 and number == 2:
                raise KeyboardInterrupt
            setup.say(f"row {number}")
            rows.append({"number": number})
            setup.keep(result)
        return result


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
        can_resume=True,
    )
    add(monkeypatch, "bol-toy", experiment)
    return made


def test_an_interrupted_experiment_resumes_where_it_stopped(toy, run, tmp_path):
    out = ("--out", tmp_path)
    stopped = run("bol-toy", *out)
    assert stopped.status == 130 and stopped.err == "experiments: interrupted.\n"
    kept = tmp_path / "bol-toy.partial.json"
    assert len(json.loads(kept.read_text())["rows"]) == 2
    refused(run("bol-toy", "--resume", "--scale", "full", *out), "--scale")
    done = run("bol-toy", "--resume", *out)
    assert done.status == 0 and "row 2" in done.out and "row 1" not in done.out
    found = json.loads((tmp_path / "bol-toy.json").read_text())
    assert [row["number"] for row in found["rows"]] == [0, 1, 2]
    assert found["command"] == "python -m experiments bol-toy --scale small"
    assert (tmp_path / "bol-toy.md").read_text() == "3 rows\n"
    assert not kept.exists()
    refused(run("bol-toy", "--resume", *out), kept, "nothing to resume")
    kept.write_text("{")
    refused(run("bol-toy", "--resume", *out), kept, "not whole")
    for text in ("{}", "[]", "3", '{"scale": "small"}', '{"scale": 1, "rows": []}'):
        kept.write_text(text)
        done = run("bol-toy", "--resume", *out)
        refused(done, kept, "not what an interrupted run kept", "leave out")


def test_a_refusal_leaves_no_folder_behind(toy, run, tmp_path):
    out = ("--out", tmp_path / "new" / "results")
    refused(run("bol-toy", "--resume", *out), "nothing to resume")
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


def test_what_cannot_be_resumed_says_so(run, tmp_path):
    done = run("sblr-fig3", "--resume", "--out", tmp_path)
    refused(done, "--resume", "sblr-fig3 cannot be resumed")
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
    for option in (("--scale", "full"), ("--out", tmp_path), ("--resume",)):
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
    resumable = {name for name in catalogue.NAMES if catalogue.load(name).can_resume}
    assert resumable == {"bol-tasks", "smm-fig1", "sblr-table4"}


def test_every_paper_has_its_experiments_and_benches_name_their_peers():
    names = set(catalogue.NAMES)
    assert {"sblr-table1", "sblr-fig3", "sblr-table2", "sblr-table4"} <= names
    assert {"tm-table1", "tm-fig3", "tm-fig4"} <= names
    assert {"smm-fig1", "smm-fig2", "smm-operators"} <= names
    assert {"bol-table1", "bol-fig1", "bol-fig2", "bol-fig3", "bol-tasks"} <= names
    assert catalogue.load("bench-sblr").needs == {"sklearn": "scikit-learn"}
    for name in ("bench-sequence", "bench-smm"):
        assert catalogue.load(name).needs == {"pycrfsuite": "CRFsuite"}
    assert catalogue.load("bench-tm").needs == {}
