import subprocess
import sys

import pytest

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
    assert done.err == "lowrank-jax: result.json: No space left on device.\n"


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
