"""Online learners run each operation on one core, which JAX must be told in time."""

import os
import subprocess
import sys

import pytest

from lowrank_jax.cli import output

SCRIPT = """
import os, sys
from lowrank_jax.cli import main
status = main(sys.argv[1:])
print(status, os.environ.get("PJRT_NPROC"))
"""


def told(arguments, folder):
    """Train in a fresh process; return the status and what JAX was told."""
    given = {key: text for key, text in os.environ.items() if "NPROC" not in key}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=folder,
        env=given,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1].split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a few sentences."""
    path = tmp_path_factory.mktemp("one-core")
    sentence = "The DT B-NP\ndog NN I-NP\nbarks VBZ B-VP\n\n"
    (path / "train.txt").write_text(4 * sentence)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(("learner", "cores"), [("sp", "1"), ("crf", "None")])
def test_one_core_for_each_operation_of_an_online_learner(folder, learner, cores):
    command = ["train", learner, "--train", "train.txt", "--passes", "1"]
    assert told([*command, "--model", learner], folder) == ["0", cores]


def test_what_the_user_says_counts_and_a_loaded_jax_is_left_alone(monkeypatch):
    monkeypatch.delenv("PJRT_NPROC", raising=False)
    output.use_one_core()
    assert "PJRT_NPROC" not in os.environ
    monkeypatch.delitem(sys.modules, "jax")
    monkeypatch.setenv("PJRT_NPROC", "2")
    output.use_one_core()
    assert os.environ["PJRT_NPROC"] == "2"
