"""The README's examples run as printed, and its figures are measured."""

import pathlib
import re
import subprocess
import sys

README = pathlib.Path(__file__).parent.parent / "README.md"


def test_python_examples_run_as_printed(tmp_path):
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    script = tmp_path / "example.py"
    script.write_text("\n".join(examples))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    labels, matrices, run = done.stdout.splitlines()
    assert labels == "[['DET', 'NOUN', 'VERB', 'ADV']]"
    right = re.fullmatch(r"([\d.]+) right, weights \(1, 12, 10\)", matrices)[1]
    assert float(right) > 0.95
    wrong = re.fullmatch(r"wrong sentences in each 500: \[([\d ]+)\]", run)[1].split()
    assert len(wrong) == 4 and 500 > int(wrong[0]) > 1.2 * int(wrong[3])  # it learns


def test_the_first_screen_says_when_how_to_install_and_both_commands():
    """Each example is short; the scan of one's own has ten lines."""
    first = README.read_text().partition("\n## ")[0]
    examples = re.findall(r"```python\n(.*?)```", first, re.DOTALL)
    assert [len(text.splitlines()) for text in examples] == [6, 5, 10]
    assert "lax.scan(" in examples[2]
    reasons = re.findall(r"^\* \*\*.*\d.*$", first, re.MULTILINE)
    assert len(reasons) == 4
    for text in ("CRFsuite", "scikit-learn", "pip install", "make demo", "make test"):
        assert text in first


def test_linked_files_are_there():
    for link in re.findall(r"\]\(((?!http)[^)#]+)\)", README.read_text()):
        assert (README.parent / link).exists(), link


def test_figures_are_those_of_the_result_files():
    script = README.parent / "docs" / "figures.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
