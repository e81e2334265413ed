import json

import pytest

from lowrank_jax import data, metrics


@pytest.fixture
def spoilt(files, tmp_path):
    """The test file with some labels changed."""
    path = tmp_path / "spoilt.txt"
    text = files.test.read_text()
    path.write_text(text.replace("VB B-VP", "VB O", 4).replace("DT B-NP", "DT O", 2))
    return path


def test_the_report_is_that_of_conlleval(cli, files, spoilt):
    done = cli("eval", files.test, spoilt)
    gold, found = data.read_conll(files.test), data.read_conll(spoilt)
    expected = metrics.conlleval_report(gold.labels, found.labels, gold.offsets)
    assert (done.status, done.out, done.err) == (0, expected, "")


def test_the_result_is_also_json(cli, files, spoilt, tmp_path):
    cli("eval", files.test, spoilt, "--json", tmp_path / "new" / "r.json")
    found = json.loads((tmp_path / "new" / "r.json").read_text())
    gold, other = data.read_conll(files.test), data.read_conll(spoilt)
    scores = metrics.chunk_scores(gold.labels, other.labels, gold.offsets)
    assert found["f1"] == scores.f1 < 100
    assert found["by_type"]["VP"]["recall"] == scores.by_type["VP"].recall
    assert json.loads(cli("eval", files.test, spoilt, "--json", "-").out) == found


def test_one_file_holds_truth_and_prediction(cli, files, spoilt, tmp_path):
    both = tmp_path / "both.txt"
    pairs = zip(
        files.test.read_text().split("\n"), spoilt.read_text().split("\n"), strict=True
    )
    lines = [f"{a} {b.split()[-1]}" if a else "" for a, b in pairs]
    both.write_text("\n".join(lines))
    assert cli("eval", both).out == cli("eval", files.test, spoilt).out


def test_tagged_text_is_scored_from_standard_input(process, files):
    text = files.test.read_text()
    doubled = "\n".join(
        f"{line} {line.split()[-1]}" if line else "" for line in text.split("\n")
    )
    done = process("eval", "-", given=doubled)
    assert done.status == 0 and "FB1: 100.00" in done.out


def test_words_are_scored_for_segmentation(cli, tmp_path):
    gold, found = tmp_path / "gold.txt", tmp_path / "found.txt"
    gold.write_text("ab  c  de\nf\n")
    found.write_text("ab  c  d  e\nf\n")
    done = cli("eval", gold, found, "--format", "segmentation", "--json", "-")
    scores = json.loads(done.out)
    assert scores["precision"] == pytest.approx(60)  # ab, c, f of five words
    assert scores["recall"] == pytest.approx(75)
    assert scores["f1"] == pytest.approx(2 * 60 * 75 / 135)
