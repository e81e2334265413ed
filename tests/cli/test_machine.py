"""Online learners run each operation on one core, which JAX must be told in time."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import os, sys
from lowrank_jax.cli import main
status = main(sys.argv[1:])
print(status, os.environ.get("PJRT_NPROC"))
"""


def told(arguments, folder, **more):
    """Train in a fresh process; return the status and what JAX was told."""
    given = {key: text for key, text in os.environ.items() if "NPROC" not in key}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=folder,
        env=given | more,
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


@pytest.mark.parametrize(
    ("learner", "more", "cores"),
    [
        ("sp", {}, "1"),
        ("bol", {"PJRT_NPROC": "2"}, "2"),  # what the user says counts
        ("crf", {}, "None"),  # a batch learner: all there are
    ],
)
def test_one_core_for_each_operation_of_an_online_learner(folder, learner, more, cores):
    command = ["train", learner, "--train", "train.txt", "--passes", "1"]
    assert told([*command, "--model", learner], folder, **more) == ["0", cores]


def test_after_jax_is_loaded_nothing_is_changed(monkeypatch):
    from lowrank_jax.cli import machine

    monkeypatch.delenv("PJRT_NPROC", raising=False)
    machine.use_one_core()
    assert "PJRT_NPROC" not in os.environ
