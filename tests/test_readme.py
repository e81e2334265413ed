"""The README's example runs as printed, and its commands exist."""

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
    labels, run = done.stdout.splitlines()
    assert labels == "[['DET', 'NOUN', 'VERB', 'ADV']]"
    mistakes, dual = re.fullmatch(r"(\d+) mistakes, dual (-?[\d.]+)", run).groups()
    assert 50 < int(mistakes) < 200 and float(dual) < 200


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
