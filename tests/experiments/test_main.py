"""`lowrank-jax reproduce`: files written, interrupted runs gone on with, bad input."""

import json
import sys

import pytest

from experiments.__main__ import listing
from experiments.protocol import EXPERIMENTS, Experiment
from tests.cli.test_bad_input import refused


class Module:
    """An experiment of three rows that stops after two, the first time."""

    def __init__(self):
        self.num_runs = 0

    def run(self, scale, data_dir, say, keep, *, before=None):
        self.num_runs += 1
        result = {"scale": scale, "rows": list(before["rows"]) if before else []}
        for number in range(len(result["rows"]), 3):
            if self.num_runs == 1 and number == 2:
                raise KeyboardInterrupt
            say(f"row {number}")
            result["rows"].append({"number": number})
            keep(result)
        return result

    def table(self, result):
        return f"{len(result['rows'])} rows\n"

    def plot(self, result, path):
        path.write_bytes(b"a picture")


@pytest.fixture
def module(monkeypatch):
    made = Module()
    monkeypatch.setitem(sys.modules, "toy", made)
    toy = Experiment("toy", "a toy", "a stand-in", "made data")
    monkeypatch.setitem(EXPERIMENTS, "toy", toy)
    return made


def test_an_interrupted_experiment_goes_on_where_it_stopped(module, cli, tmp_path):
    out = ("--out", tmp_path)
    assert cli("reproduce", "toy", *out).status == 130
    kept = tmp_path / "toy.partial.json"
    assert len(json.loads(kept.read_text())["rows"]) == 2
    refused(cli("reproduce", "toy", "--resume", "--scale", "full", *out), "--scale")
    done = cli("reproduce", "toy", "--resume", *out)
    assert done.status == 0 and "row 2" in done.out and "row 1" not in done.out
    found = json.loads((tmp_path / "toy.json").read_text())
    assert [row["number"] for row in found["rows"]] == [0, 1, 2]
    assert found["command"] == "lowrank-jax reproduce toy --scale small"
    assert (tmp_path / "toy.md").read_text() == "3 rows\n"
    assert not kept.exists()
    refused(cli("reproduce", "toy", "--resume", *out), kept, "nothing to resume")
    kept.write_text("{")
    refused(cli("reproduce", "toy", "--resume", *out), kept, "not whole")
    for text in ("{}", "[]", "3", '{"scale": "small"}', '{"scale": 1, "rows": []}'):
        kept.write_text(text)
        done = cli("reproduce", "toy", "--resume", *out)
        refused(done, kept, "not what an interrupted run kept", "leave out")


def test_a_refusal_leaves_no_folder_behind(module, cli, tmp_path):
    out = ("--out", tmp_path / "new" / "results")
    refused(cli("reproduce", "toy", "--resume", *out), "nothing to resume")
    refused(cli("reproduce", "table9", *out), "table9")
    plain = tmp_path / "plain"
    plain.touch()
    for place in (plain, plain / "below"):
        refused(cli("reproduce", "toy", "--out", place), place, "name")
    assert module.num_runs == 0 and list(tmp_path.iterdir()) == [plain]
    module.num_runs = 1  # does not stop
    assert cli("reproduce", "toy", *out).status == 0
    assert (tmp_path / "new" / "results" / "toy.png").exists()


def test_what_cannot_be_resumed_says_so(cli, tmp_path):
    done = cli("reproduce", "sblr-fig3", "--resume", "--out", tmp_path)
    refused(done, "--resume", "sblr-fig3 cannot be resumed")
    refused(cli("reproduce", "table9", "--out", tmp_path), "table9", "bol-fig3")


def test_every_experiment_is_listed():
    text = listing()
    for name, experiment in EXPERIMENTS.items():
        assert name in text and experiment.title in text
