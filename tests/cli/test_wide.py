"""``train --batch-size B --devices N``: the command line of wide rounds."""

import json

import pytest

from tests.cli.conftest import train_arguments


def weights_of(folder):
    return (folder / "weights.npz").read_bytes()


@pytest.mark.slow
def test_two_devices_need_no_environment_variable(process, files, tmp_path):
    """Two cores make the model of one, with a certificate and its figures."""
    made = []
    for number in (1, 2):
        folder, path = tmp_path / str(number), tmp_path / f"{number}.json"
        done = process(
            *train_arguments("bol", files.train, folder),
            *("--batch-size", 8, "--devices", number, "--certify", "--json", path),
        )
        assert done.status == 0, done.err
        assert "certificate (DR-B10)" in done.out and "holds" in done.out
        result = json.loads(path.read_text())
        assert result["batch_size"] == 8
        assert result["certificate"]["statement"] == "DR-B10"
        made.append((weights_of(folder), [e["loss"] for e in result["history"]]))
    assert made[0] == made[1]


@pytest.mark.slow
def test_a_wide_run_resumes_to_the_same_bits(cli, files, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    more = ("--batch-size", "2,8", "--keep-checkpoint")
    assert cli(*train_arguments("mira", files.train, whole), *more).status == 0
    first = [*train_arguments("mira", files.train, parts), "--passes", 1, *more]
    assert cli(*first).status == 0
    again = [*train_arguments("mira", files.train, parts), *more, "--resume"]
    assert cli(*again).status == 0
    assert weights_of(whole) == weights_of(parts)
    other = [*train_arguments("mira", files.train, parts), "--resume"]
    refused = cli(*other, "--batch-size", 4)
    assert refused.status == 2 and "batch_size=2,8 instead of 4" in refused.err


@pytest.mark.parametrize(
    ("learner", "more", "words"),
    [
        ("sp", ("--batch-size", "99"), "at most 40, the number of training sentences"),
        ("sp", ("--batch-size", "8,x"), "numbers with commas such as 8,16,64, got"),
        ("sp", ("--batch-size", "8,4"), "must not fall from pass to pass"),
        ("sp", ("--devices", "999"), "must"),
        ("crf", ("--batch-size", "8"), "are for bol, sp and mira, got crf"),
        ("bol", ("--batch-size", "8", "--set", "variant=paper"), "need variant=block"),
        ("bol", ("--batch-size", "8", "--certify", "hindsight"), "of one sentence"),
    ],
)
def test_bad_input_is_one_sentence(cli, files, tmp_path, learner, more, words):
    done = cli(*train_arguments(learner, files.train, tmp_path / "m"), *more)
    assert done.status == 2
    assert words in done.err and done.err.strip().count("\n") == 0
