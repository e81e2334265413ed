import subprocess
import sys

import numpy as np
import pytest

import lowrank_jax
from lowrank_jax import cli as package
from tests.cli.conftest import command


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["train", "--help"], ["train", "bol", "--passes", "0"]],
)
def test_help_and_argument_errors_do_not_import_jax(arguments):
    program = (
        "import sys\n"
        "from lowrank_jax.cli import main\n"
        "main(sys.argv[1:])\n"
        "assert 'jax' not in sys.modules\n"
    )
    subprocess.run(
        [sys.executable, "-c", program, *arguments], check=True, capture_output=True
    )


COUNT = """
import os, sys
import lowrank_jax
from lowrank_jax.cli import main
root, called = os.path.dirname(lowrank_jax.__file__), set()

def is_import(frame):
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False

def note(frame, event, _):
    path = frame.f_code.co_filename
    if path not in called and path.startswith(root) and not is_import(frame):
        called.add(path)

sys.setprofile(note)
status = main(sys.argv[1:])
sys.setprofile(None)
print(status, sum(name.split(".")[0] == "lowrank_jax" for name in sys.modules),
      len(called), "jax" in sys.modules, file=sys.stderr)
"""


def loaded(*arguments):
    """Run a command in a fresh process.

    Return its status, the number of modules of ours that it loads, the number of files
    of ours in which a function is called (imports apart), and whether it loads JAX.
    """
    done = subprocess.run(
        [sys.executable, "-c", COUNT, *map(str, arguments)],
        check=True,
        capture_output=True,
        text=True,
    )
    status, number, way, has_jax = done.stderr.splitlines()[-1].split()
    return int(status), int(number), int(way), has_jax == "True"


def test_a_command_loads_what_it_needs_and_its_way_is_short(files, tmp_path):
    given = ("--train", files.train, "--test", files.test, "--passes", 1)
    status, number, way, has_jax = loaded(
        "train", "bol", *given, "--model", tmp_path / "m"
    )
    assert status == 0 and has_jax and number <= 63
    assert way <= 48


@pytest.mark.parametrize("name", ["eval", "datasets"])
def test_a_command_that_computes_nothing_loads_no_jax(files, tmp_path, name):
    given = [files.test, files.test] if name == "eval" else ["--data-dir", tmp_path]
    status, number, _, has_jax = loaded(name, *given, "--json", tmp_path / "r.json")
    assert status == 0 and not has_jax and number < 40


def test_every_command_has_help_with_examples(cli):
    shown = cli("--help")
    assert shown.status == 0 and "examples:" in shown.out
    for name in package.COMMANDS:
        assert name in shown.out
        done = cli(name, "--help")
        assert done.status == 0 and "example" in done.out, name


def test_help_on_a_learner_lists_its_hyper_parameters(cli):
    done = cli("train", "bol", "--help")
    assert done.status == 0
    assert "variant (default: block)" in done.out
    assert "num_power_steps (default: 2)" in done.out
    assert ":math:" not in done.out
    assert "--checkpoint-seconds" not in done.out  # the options are not repeated
    assert "lowrank-jax train --help" in done.out


def test_an_unknown_option_points_to_the_help_of_its_command(cli):
    done = cli("train", "bol", "--train", "x", "--model", "y", "--foo")
    assert done.status == 2
    expected = "train: unrecognized arguments: --foo; see lowrank-jax train --help."
    assert done.err == f"lowrank-jax {expected}\n"
    done = cli("train", "bol", "--train", "x", "--model", "y", "--rank", "2")
    assert "--rank 2; give the setting as --set rank=VALUE; see" in done.err


@pytest.mark.slow
def test_a_device_that_is_not_there_is_one_sentence(process, tmp_path, monkeypatch):
    (tmp_path / "t.txt").write_text("the DT B-NP\ncat NN I-NP\n\n")
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    np.savez(tmp_path / "x.npz", x=np.eye(3)[None].repeat(4, 0), y=[0, 1, 0, 1])
    fit = process("fit", tmp_path / "x.npz", "--model", tmp_path / "m")
    given = ("--train", tmp_path / "t.txt", "--model", tmp_path / "m")
    done = process("train", "sp", *given)
    for found in (fit, done):
        assert found.status == 2 and "Traceback" not in found.err
        assert "JAX_PLATFORMS=cuda asks for a device that JAX does" in found.err
    told = process("verify", "--quick")  # the processes that it starts find none
    assert told.status == 2 and told.err == done.err.splitlines(True)[-1]


def test_every_name_of_the_package_is_an_attribute():
    for name in lowrank_jax.__all__:
        assert getattr(lowrank_jax, name) is not None
    assert lowrank_jax.certify.__name__ == "lowrank_jax.certify"


def test_the_version_is_printed(cli):
    assert cli("--version").out.startswith("lowrank-jax 0.")


@pytest.mark.parametrize("arguments", [[], ["fly"], ["train", "nobody"], ["tag"]])
def test_a_wrong_call_is_one_sentence_and_status_2(cli, arguments):
    done = cli(*arguments)
    assert done.status == 2 and done.out == ""
    assert done.err.count("\n") == 1 and "see lowrank-jax" in done.err


def test_an_interrupt_ends_with_130(cli, monkeypatch, files):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("lowrank_jax.cli.files.find_data", interrupt)
    done = cli("eval", files.train, files.train)
    assert done.status == 130 and "Traceback" not in done.err


def test_a_full_disk_is_one_sentence(cli, monkeypatch, files, tmp_path):
    def fail(*_):
        raise OSError(28, "No space left on device", "result.json")

    monkeypatch.setattr("lowrank_jax.cli.files.write_json", fail)
    done = cli("eval", files.train, files.train, "--json", tmp_path / "result.json")
    assert done.status == 2
    sentence = "result.json: No space left on device; make room or name another place."
    assert done.err == f"lowrank-jax: {sentence}\n"


def test_a_reader_that_stops_early_ends_the_command_quietly(files):
    process = subprocess.Popen(
        command("eval", "--json", "-", files.test, files.test),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), errors) == (0, b"")
