"""CoNLL-U, schemes of chunks and legal labels, from the command line."""

import dataclasses
import json

import pytest

from lowrank_jax import data
from lowrank_jax.estimators.tagger import Tagger
from tests.data.test_conllu import TEXT


@pytest.fixture
def treebank(tmp_path):
    path = tmp_path / "made.conllu"
    path.write_text(TEXT * 10)
    return path


def test_a_treebank_is_learned_tagged_and_scored(cli, treebank, tmp_path):
    model, out = tmp_path / "m", tmp_path / "out.conllu"
    result = tmp_path / "r.json"
    done = cli(
        *("train", "sp", "--format", "conllu", "--train", treebank, "--test", treebank),
        *("--model", model, "--passes", 3, "--json", result),
    )
    assert done.status == 0, done.err
    found = json.loads(result.read_text())
    assert (found["f1"], found["f1_is"]) == (100, "token accuracy")
    treebank.write_text(TEXT.replace("PRON", "_").replace("VERB\tV", "X\tV"))
    done = cli("tag", model, treebank)
    assert (done.status, done.out, done.err) == (0, TEXT, "")
    out.write_text(done.out)
    assert "100.00" in cli("eval", "--format", "conllu", out, out).out
    done = cli("eval", "--format", "conllu", treebank, out)
    assert "50.00" in done.out
    done = cli("tag", model, treebank, "--k-best", 2)
    assert "New York\tPROPN" in done.out
    assert "Vamos" in cli("show", model, "--explain", treebank).out


def test_the_label_column_is_kept_with_the_model(cli, treebank, tmp_path):
    model = tmp_path / "m"
    given = ("train", "sp", "--format", "conllu", "--train", treebank, "--passes", 3)
    done = cli(*given, "--label-column", "deprel", "--model", model)
    assert done.status == 0, done.err
    treebank.write_text(TEXT.replace("\tobl\t", "\t_\t"))
    assert cli("tag", model, treebank).out == TEXT
    done = cli(*given, "--from", model, "--model", tmp_path / "n")
    assert done.status == 2 and "has learned --label-column deprel" in done.err
    done = cli(*given, "--label-column", "head", "--model", model)
    assert done.status == 2 and "`label_column` must be" in done.err


def test_a_label_column_needs_its_format(cli, files):
    done = cli("eval", files.test, files.test, "--label-column", "upos")
    assert done.status == 2 and "needs --format conllu" in done.err
    done = cli("eval", "--format", "conllu", files.test)
    assert done.status == 2 and "needs two files" in done.err


def test_bol_says_that_u_lines_get_pairs(cli, files, tmp_path):
    given = ("--train", files.train, "--passes", 1, "--model", tmp_path / "m")
    told = "gives `U` lines first-order weights too"
    assert cli("train", "bol", *given).err.count(told) == 1
    assert told not in cli("train", "bol", *given, "--orders", "both").err
    assert told not in cli("train", "sp", *given).err


def test_a_scheme_is_learned_and_tagged_back(cli, files, tmp_path):
    model, out = tmp_path / "m", tmp_path / "out.txt"
    done = cli(
        *("train", "sp", "--train", files.train, "--test", files.test, "--passes", 3),
        *("--labels", "iobes", "--legal-only", "--model", model),
    )
    assert done.status == 0, done.err
    assert "S-VP" in Tagger.load(model).classes_
    done = cli("tag", model, files.test)
    out.write_text(done.out)
    found = data.read_conll(out)
    assert data.scheme_of(found.labels, found.offsets) == "iob2"
    plain = cli("eval", out).out
    other = data.convert_labels(found.labels, found.offsets, "iobes")
    corpus = data.read_conll(files.test)
    assert corpus.labels is not None
    with out.open("w") as stream:
        corpus = dataclasses.replace(corpus, labels=None)
        data.write_conll(stream, corpus, [other])
    assert cli("eval", files.test, out, "--labels", "iob1").out == plain
    assert cli("eval", files.test, out).out != plain  # the accuracy of tokens
    done = cli("eval", "--format", "conllu", out, out, "--labels", "iob1")
    assert done.status == 2 and "needs --format conll" in done.err
    more = ("--from", model, "--model", tmp_path / "n")
    done = cli("train", "sp", "--train", files.train, *more, "--labels", "iobes")
    assert done.status == 2 and "has no meaning beside --from" in done.err
    done = cli("train", "sp", "--train", files.train, "--passes", 1, *more)
    assert done.status == 0 and "S-VP" in Tagger.load(tmp_path / "n").classes_


def test_a_label_of_no_scheme_is_named_with_its_line(cli, tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("a x B-NP\nb x O\n\nc x O\nd x I-NP\n")
    for option in (("--labels", "iobes"), ("--legal-only",)):
        done = cli("train", "sp", "--train", path, "--model", tmp_path / "m", *option)
        assert done.status == 2 and f"{path}:5 has the label 'I-NP'" in done.err
