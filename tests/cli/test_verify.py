import json

import jax.numpy as jnp
import pytest

from lowrank_jax.theory.certificate import at_most
from lowrank_jax.verify import Found, Statement, catalogue, curves, page


def statement(id, observed, status="proved", form=""):
    def check(certify, effort):
        number = effort.trials(2, 20)
        yield Found(certify(jnp.full(number, observed), 1.0), "a case")

    words = "observed is at most the bound, said in so many words that they go on"
    return Statement(id, words, status, at_most, check, form=form)


TRUE = (statement("A-1", 0.5), statement("A-2", 0.25, "checked"))
PRINTED = statement("B-1", 2.0, "printed-form-fails", "printed")


@pytest.fixture
def told(monkeypatch):
    """Replace the catalogue."""

    def tell(*statements):
        monkeypatch.setattr(catalogue, "statements", lambda: statements)

    return tell


def test_a_table_of_all_statements(cli, told):
    told(*TRUE, PRINTED)
    done = cli("verify", "--quick")
    assert done.status == 0 and done.err == ""
    lines = done.out.splitlines()
    assert lines[1].split() == ["A-1", "proved", "2", "5.0e-01"]
    assert lines[2] == f"    {TRUE[0].words}"
    assert lines[5].split() == ["B-1", "printed", "printed-form-fails", "2", "-5.0e-01"]
    assert "1 proved and hold, 1 checked and hold, 1 fail as printed" in done.out
    assert max(map(len, lines)) <= 88


def test_full_effort_makes_more_trials(cli, told):
    told(TRUE[0])
    assert "20 trials" in cli("verify").out


@pytest.mark.parametrize(
    "wrong",
    [
        statement("C-1", 2.0),
        statement("C-1", 2.0, "checked"),
        statement("C-1", 0.5, "printed-form-fails"),
        statement("C-1", float("nan")),
    ],
    ids=["proved", "checked", "printed", "nan"],
)
def test_status_1_if_a_statement_does_not_come_out_as_expected(cli, told, wrong):
    told(*TRUE, wrong)
    done = cli("verify", "--quick", "--json", "-")
    assert done.status == 1
    assert "NOT AS EXPECTED" in done.err and "a case" in done.err
    found = json.loads(done.out, parse_constant=lambda word: pytest.fail(word))
    assert not found["as_expected"]
    assert [s["as_expected"] for s in found["statements"]] == [True, True, False]


def test_json_and_page_of_some_statements(cli, told, tmp_path, monkeypatch):
    told(*TRUE, PRINTED)
    seeds = []
    monkeypatch.setattr(curves, "compute", seeds.append)
    monkeypatch.setattr(page, "pictures", lambda curves: ["<p>plots</p>"])
    files = tmp_path / "new" / "found.json", tmp_path / "new" / "page.html"
    done = cli(
        *("verify", "--only", "a-2", "B-1", "--seed", 7),
        *("--json", files[0], "--html", files[1]),
    )
    assert done.status == 0 and seeds == [7]
    found = json.loads(files[0].read_text())
    assert [s["id"] for s in found["statements"]] == ["A-2", "B-1"]
    assert found["seed"] == 7 and not found["is_quick"] and found["seconds"] >= 0
    assert found["versions"]["jax"]
    first, second = found["statements"]
    assert (first["status"], first["trials"], first["holds"]) == ("checked", 20, True)
    assert first["function"] == "lowrank_jax.theory.certificate.at_most"
    assert first["worst_slack"] == 0.75 and second["worst_slack"] == -0.5
    assert not second["holds"] and second["as_expected"] and second["failures"] == 20
    text = files[1].read_text()
    assert "A-2" in text and "printed: observed" in text and "<p>plots</p>" in text


def test_a_statement_of_the_catalogue(cli):
    done = cli("verify", "--quick", "--only", "TM-N2")
    assert done.status == 0 and "TM-N2" in done.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "A-3"], "--only A-3: no statement has this id; try A-"),
        (["--only", "zzzzzz"], "try A-1, A-2."),
        (["--seed", "x"], "whole number"),
        (["--json", "{}"], "is a folder; name a file for the JSON result"),
        (["--html", "{}"], "is a folder; name a file for the page"),
        (["--html", "{}/file/x.html"], "cannot be written"),
    ],
)
def test_bad_input_is_told_before_the_work(cli, told, tmp_path, arguments, words):
    told(*TRUE)
    (tmp_path / "file").write_text("")
    done = cli("verify", *(text.format(tmp_path) for text in arguments))
    assert done.status == 2 and done.out == ""
    assert done.err.count("\n") == 1 and words in done.err
