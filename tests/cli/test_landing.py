"""The ways in that the landing page shows as commands run as they stand there."""

import json
import pathlib
import re
import shlex

import pytest

INDEX = pathlib.Path(__file__).parents[2] / "docs" / "index.md"


def ways():
    """Return the code blocks of the section on ways in, with their languages."""
    text = INDEX.read_text("utf-8").partition("## Three ways in\n")[2]
    return re.findall(r"```(\w*)\n(.*?)```", text.partition("\n![")[0], re.DOTALL)


@pytest.fixture
def follow(cli, files, tmp_path, monkeypatch):
    """Return a function that runs the lines of a block where its files are."""
    (tmp_path / "train.txt").write_text(files.train.read_text())
    lines = [line.rpartition(" ")[0] for line in files.test.read_text().splitlines()]
    (tmp_path / "new.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)

    def run(block):
        shown = ""
        for line in block.splitlines():
            command, _, target = line.partition(" > ")
            program, *arguments = shlex.split(command)
            assert program == "lowrank-jax"
            done = cli(*arguments)
            assert done.status == 0, done.err
            shown += done.out
            if target:
                pathlib.Path(target).write_text(done.out)
        return shown

    return run


def test_there_are_three_ways_of_at_most_five_lines():
    blocks = [(kind, text) for kind, text in ways() if kind in ("", "python")]
    assert [kind for kind, _ in blocks] == ["", "python", ""]
    for _, text in blocks:
        assert len(list(filter(None, text.splitlines()))) <= 5


def test_a_file_is_tagged(follow, files, tmp_path):
    follow(ways()[0][1])
    tagged = (tmp_path / "tagged.txt").read_text().splitlines()
    gold = files.test.read_text().splitlines()
    assert len(tagged) == len(gold)
    right = [
        one.split() == other.split() for one, other in zip(tagged, gold, strict=True)
    ]
    assert sum(right) > 0.95 * len(gold)


def test_a_run_is_certified(follow, tmp_path):
    shown = follow(ways()[2][1])
    assert "certificate (DR-B4)" in shown
    found = json.loads((tmp_path / "chunker" / "certificate.json").read_text())
    assert found["holds"] and found["regret"] <= found["certificate"]
