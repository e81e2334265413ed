"""Three paths from the landing page: at most five lines each, and they run."""

import pathlib
import re
import shlex

import pytest

from lowrank_jax.cli import main

INDEX = pathlib.Path(__file__).parents[2] / "docs" / "index.md"


def paths():
    """Return the code below each of the three lines that say what it does."""
    text = INDEX.read_text().partition("## Three ways in")[2]
    found = re.findall(r"\n(\w+ [^\n]*):\n\n```\w*\n(.*?)```", text, re.DOTALL)
    return {name.split(",")[0]: code.splitlines() for name, code in found}


def test_three_paths_of_at_most_five_lines():
    assert list(paths()) == ["Tag a file", "Classify matrices", "Certify a run"]
    assert all(1 <= len(lines) <= 5 for lines in paths().values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Tag a file", "Certify a run"])
def test_the_commands_of_a_path_run_as_written(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    chunk = [("the", "DT", "B-NP"), ("dog", "NN", "I-NP"), ("barks", "VB", "B-VP")]
    lines = "\n".join(" ".join(token) for token in chunk)
    pathlib.Path("train.txt").write_text(f"{lines}\n\n" * 20)
    pathlib.Path("new.txt").write_text("the DT\ndog NN\nbarks VB\n\n")
    shown = ""
    for line in paths()[name]:
        command, _, target = line.partition(" > ")
        assert main(shlex.split(command)[1:]) == 0
        shown = capsys.readouterr().out
        if target:
            pathlib.Path(target).write_text(shown)
    if name == "Tag a file":
        rows = pathlib.Path("tagged.txt").read_text().split("\n")
        assert [row.split()[-1] for row in rows[:3]] == ["B-NP", "I-NP", "B-VP"]
    else:
        regret, bound = re.search(
            r"regret ([\d.]+), at most ([\d.]+): holds", shown
        ).groups()
        assert float(regret) <= float(bound)
