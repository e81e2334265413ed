"""Bad input: one sentence, status 2, no traceback, nothing written."""

import os
import shutil

import pytest

from tests.cli.conftest import listing


def refused(done, *words) -> None:
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith("lowrank-jax") and done.err.count("\n") == 1
    for word in words:
        assert str(word) in done.err, done.err


@pytest.fixture
def train(cli, files, tmp_path):
    """Run `train` with some arguments replaced; check that nothing was written."""

    def run(learner="sp", *more, **replaced):
        given = {"train": files.train, "model": tmp_path / "out" / "m"} | replaced
        before = listing(tmp_path)
        arguments = [x for name, value in given.items() for x in (f"--{name}", value)]
        done = cli("train", learner, *arguments, *more)
        assert listing(tmp_path) == before
        return done

    return run


def test_ragged_rows(train, tmp_path):
    path = tmp_path / "ragged.txt"
    path.write_text("the DT B-NP\ncat NN I-NP\nsat VB\n")
    refused(train(train=path), f"{path}:3", "2 columns where line 1 has 3")


def test_a_column_that_the_template_asks_for_and_the_data_lack(train, tmp_path):
    path = tmp_path / "my.template"
    path.write_text("U00:%x[0,0]\nU01:%x[0,5]\n")
    refused(train(template=path), f"{path}, line 2", "column 5")


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_file(train, tmp_path, content):
    path = tmp_path / "empty.txt"
    path.write_text(content)
    refused(train(train=path), path, "no token")
    refused(train(test=path), path, "no token")
    refused(train(train=path, format="segmentation"), path, "no text")


def test_bytes_that_are_not_utf8(train, tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("the DT B-NP\ncaf\xe9 NN I-NP\n".encode("latin-1"))
    refused(train(train=path), f"{path}:2", "not utf-8", "iconv")
    refused(train(test=path), f"{path}:2")


def test_a_label_that_training_never_saw(train, files, tmp_path):
    path = tmp_path / "test.txt"
    path.write_text("\n\nthe DT B-NP\ncat NN B-XYZ\n")
    strict = ("--unseen-label", "known-type")
    done = train("sp", *strict, test=path)
    refused(done, f"{path}:4", "'B-XYZ'", "--unseen-label ignore")
    words = tmp_path / "words.txt"
    words.write_text("a b\n\nab c\n")
    short = tmp_path / "short.txt"
    short.write_text("a b c\n")
    done = train("sp", *strict, train=short, test=words, format="segmentation")
    refused(done, f"{words}:3", "'B'")


def test_a_file_that_does_not_exist(train, tmp_path):
    refused(train(train=tmp_path / "none.txt"), "none.txt does not exist")
    refused(train(test=tmp_path / "none.txt"), "none.txt does not exist")
    refused(train(template=tmp_path / "none"), "none cannot be read")
    refused(train(train=tmp_path), f"{tmp_path} is a folder")


def test_hyper_parameters_that_are_not_there_or_not_allowed(train):
    refused(train(set="colour=red"), "'colour=red'", "it has step_size, averaging")
    refused(train(set="step_size=-1"), "`step_size` must be positive and finite")
    refused(train(set="averaging=often"), "`averaging` must be one of 'dual', 'none'")
    refused(train("bol", "--set", "variant=paper", "rank=2"), "rank=2")


@pytest.mark.parametrize(
    "option, value",
    [
        ("passes", "0"),
        ("passes", "many"),
        ("fraction", "0"),
        ("fraction", "1.5"),
        ("fraction", "nan"),
        ("seed", "-1"),
        ("seed", "4294967296"),
        ("min-count", "0"),
        ("checkpoint-seconds", "-1"),
        ("format", "xml"),
        ("orders", "third"),
    ],
)
def test_numbers_out_of_range(train, option, value):
    done = train(**{option: value})
    refused(done, f"argument --{option}: ", value)


def test_rank_beyond_the_labels_is_found_before_training(train):
    refused(train("bol", "--set", "rank=30"), "`rank` must lie in 1..4")


def test_bol_without_first_order_features(train):
    refused(train("bol", "--orders", "zero"), "first-order")


def test_a_folder_with_other_files_is_not_overwritten(train, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").write_text("dear")
    refused(train(model=home), home, "'letter.txt'")
    refused(train(model=home / "letter.txt"), "is not a folder")


def test_a_place_that_cannot_be_written(train, tmp_path):
    (tmp_path / "file").write_text("")
    refused(train(model=tmp_path / "file" / "m"), "cannot be written")
    refused(train(json=tmp_path / "file" / "r.json"), "cannot be written")
    refused(train(json=tmp_path), "is a folder")
    refused(train(model="/proc/m"), "/proc/m cannot be written")


def test_no_file_is_left_behind_by_the_probe(train, tmp_path):
    train(set="colour=red")
    assert os.listdir(tmp_path) == []


def test_a_model_folder_cut_short(cli, files, chunker, tmp_path):
    folder = tmp_path / "m"
    shutil.copytree(chunker, folder)
    weights = folder / "weights.npz"
    weights.write_bytes(weights.read_bytes()[:100])
    refused(cli("tag", folder, files.test), weights, "incomplete")
    weights.unlink()
    refused(cli("tag", folder, files.test), weights, "missing")
    refused(cli("tag", tmp_path / "none", files.test), "is not a model folder")


def test_too_few_columns_to_tag(cli, chunker, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("the\ncat\n")
    refused(cli("tag", chunker, path), path, "column 1")
    path.write_text("the DT\ncat\n")
    refused(cli("tag", chunker, path), f"{path}:2")


def test_nothing_to_tag(cli, chunker, segmenter, tmp_path):
    path = tmp_path / "empty.txt"
    path.write_text("\n")
    refused(cli("tag", chunker, path), path, "no token")
    refused(cli("tag", segmenter, path), path, "no text")
    refused(cli("tag", chunker, tmp_path / "none"), "does not exist")


@pytest.mark.parametrize("k", ["0", "-1", "x"])
def test_k_best_of_nothing(cli, chunker, files, k):
    refused(cli("tag", chunker, files.test, "--k-best", k), "argument --k-best")


def test_files_that_do_not_belong_together(cli, files, tmp_path):
    text = files.test.read_text()
    other = tmp_path / "other.txt"
    other.write_text(text.replace("the DT", "a DT", 1))
    refused(cli("eval", files.test, other), "'a'", "'the'", other, files.test)
    other.write_text(text.replace("\n\n", "\n", 1))
    refused(cli("eval", files.test, other), "sentence 1 has")
    other.write_text(text + "the DT B-NP\n")
    refused(cli("eval", files.test, other), "15 sentences", "16")
    refused(cli("eval", "-", "-"), "both be standard input")
    other.write_text("the B-NP\n")
    refused(cli("eval", other), "2 columns", other)
    refused(cli("eval", files.words, "--format", "segmentation"), "two files")
    refused(cli("eval", files.test, other, "--json", tmp_path), "is a folder")


def test_the_same_through_a_process(process, files, tmp_path):
    model = tmp_path / "m"
    given = ("train", "sp", "--train", files.train, "--model", model)
    refused(process(*given, "--set", "colour=red"), "'colour=red'")
    refused(process(*given, "--passes", 0), "argument --passes")
    refused(process("tag", model, given="the DT\n"), "is not a model folder")
    assert not model.exists()
