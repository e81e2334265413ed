"""Pages with code run as written, and show what they say they show."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def numbers(pattern, text):
    """Return the numbers at the groups of a pattern that must be there once."""
    (found,) = re.findall(pattern, text)
    return [float(part) for part in ([found] if isinstance(found, str) else found)]


def quickstart(text):
    assert "learned B-NP E-NP I-NP S-NP S-VP" in text
    (chunks,) = re.findall(r"^chunks (.*)$", text, re.M)
    assert set(chunks.split()) <= {"B-NP", "I-NP", "B-VP"}
    assert numbers(r"as a fraction ([\d.]+)", text)[0] > 0.8
    assert numbers(r"word F1 ([\d.]+)", text)[0] > 85
    assert numbers(r"accuracy ([\d.]+)", text)[0] > 0.9
    assert numbers(r"F1 of words by BOL ([\d.]+)", text)[0] > 85


def coming_from_matrices(text):
    assert numbers(r"AUC ([\d.]+)", text)[0] > 0.9
    assert "chosen {'mu2':" in text


def index(text):
    assert re.search(r"[\d.]+ right, converged: True", text)


def adding_a_learner(text):
    wrong = [float(number) for number in re.findall(r"pass \d: ([\d.]+) % wrong", text)]
    assert len(wrong) == 4 and wrong[-1] < min(2, wrong[0] / 4)
    assert "5 checks passed, no copy of a table" in text


def bol(text):
    for name in ("perceptron", "BOL block"):
        assert numbers(rf"{name} +word F1 +([\d.]+)", text)[0] > 80
    regret, bound = numbers(r"regret ([-\d.]+), at most ([-\d.]+)", text)
    assert regret <= bound
    share = numbers(r"rank one in the perceptron's blocks: ([\d.]+)", text)[0]
    assert 0.25 < share < 1
    most, measured = numbers(r"expected at most ([\d.]+), measured ([\d.]+)", text)
    assert 0 < measured < most


def sblr(text):
    (ours,) = numbers(r"bilinear: test accuracy ([\d.]+)", text)
    (theirs,) = numbers(r"all entries: test accuracy ([\d.]+)", text)
    assert ours > theirs
    assert numbers(r"planted one: ([\d.]+)", text)[0] > 0.7
    assert "a solution exists" in text and "say nothing about this run" in text
    assert "stationary: True, so a global minimum: True" in text


def smm(text):
    plain, spectral = (
        numbers(rf"{name} +([\d.]+) % of test letters right", text)[0]
        for name in ("none", "nuclear")
    )
    assert spectral > plain
    gaps = [float(gap) for gap in re.findall(r"gap ([\d.]+)", text)]
    assert gaps == sorted(gaps, reverse=True) and gaps[-1] < 0.15
    assert re.search(r"46 states: .* largest error of a score 0\.000", text)


def tm(text):
    found = r".* mistake: ([\d.]+) +sub-steps that raised the objective: ([\d.]+)"
    (paper, _), (bcd, rises) = (
        numbers(rf"{step} {found}", text) for step in ("paper", "bcd")
    )
    assert bcd > 0.95 > paper and rises == 0
    planted, mira = (
        numbers(rf"{name} +quality (?:of the chosen candidate )?([\d.]+)", text)[0]
        for name in ("planted", "mira")
    )
    assert planted > mira


def theory(out):
    assert out.split() == "[ 1. -1.] [ True False]".split()


def accelerators(text):
    (right,) = numbers(r"([\d.]+) of the labels are right", text)
    assert right > 0.5  # 0.25 by chance
    sweeps, accuracy = numbers(r"(\d+) sweeps, test accuracy ([\d.]+)", text)
    assert 1 < sweeps < 500 and accuracy > 0.9


def mini_batches(text):
    steps, right = numbers(r"(\d+) steps, ([\d.]+) % of test letters right", text)
    assert steps == 200 and right > 70


def research(text):
    pattern = r"regret ([-\d.]+), certificate ([\d.]+), bound ([\d.]+) True"
    found = numbers(pattern, text)
    assert found == sorted(found)
    assert "exported update equal to the bit: True" in text
    assert "sweeps, rows [0, 1]" in text
    for name, share in (("CRF", 0.2), ("layer", 0.1)):
        first, last = numbers(rf"{name}: loss ([\d.]+) at the .*, ([\d.]+) after", text)
        assert last < share * first


def running(text):
    assert "same bits: True" in text and "holds: True" in text
    curves = numbers(r"\n([\d.e+-]+) ([\d.e+-]+) ([\d.e+-]+) ([\d.e+-]+) holds", text)
    assert curves == sorted(curves)
    assert len(re.search(r"mistakes by start: \[(.*)\]", text)[1].split(",")) == 4


def coming_from(shown: str) -> None:
    assert "same labels: True" in shown and "same classes: True" in shown
    assert float(shown.split("probability ")[1].split()[0]) < 0.1
    assert shown.rstrip().endswith("[['DET', 'NOUN'], ['DET', 'NOUN']]")


PAGES = {
    "coming-from-matrices.md": coming_from_matrices,
    "accelerators.md": accelerators,
    "coming-from.md": coming_from,
    "index.md": index,
    "papers/smm.md": mini_batches,
    "quickstart.md": quickstart,
    "research.md": research,
    "running.md": running,
    "adding-a-learner.md": adding_a_learner,
    "theory.md": theory,
    "tutorials/bol.md": bol,
    "tutorials/sblr.md": sblr,
    "tutorials/smm.md": smm,
    "tutorials/tm.md": tm,
}


def blocks_of(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def test_no_page_with_code_is_left_out():
    pages = [p for p in DOCS.rglob("*.md") if p.relative_to(DOCS).parts[0] != "api"]
    with_code = {str(p.relative_to(DOCS)) for p in pages if blocks_of(p)}
    assert with_code == set(PAGES)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_code_of_the_page_runs_as_written_and_shows_what_the_page_says(name, tmp_path):
    blocks = blocks_of(DOCS / name)
    assert max(len(line) for block in blocks for line in block.split("\n")) <= 88
    script = tmp_path / "page.py"
    script.write_text("\n\n".join(blocks))
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(DOCS.parent)},  # pages on experiments
    )
    assert done.returncode == 0, done.stderr[-2000:]
    PAGES[name](done.stdout)
