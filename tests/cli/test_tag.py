import subprocess

import numpy as np
import pytest

from lowrank_jax import data
from lowrank_jax.estimators.tagger import Tagger
from tests.cli.conftest import command


def columns(text: str) -> list[list[str]]:
    return [line.split(" ") for line in text.split("\n") if line]


def test_one_more_column_is_written(cli, chunker, files):
    done = cli("tag", chunker, files.test)
    assert done.status == 0 and done.err == ""
    rows = columns(done.out)
    assert [row[:3] for row in rows] == columns(files.test.read_text())
    corpus = data.read_conll(files.test)
    assert [row[3] for row in rows] == Tagger.load(chunker).predict(corpus).tolist()
    blanks = done.out.count("\n\n")
    assert blanks == corpus.num_sentences


def test_the_label_column_may_be_missing(cli, chunker, files, tmp_path):
    with_labels = cli("tag", chunker, files.test)
    bare = tmp_path / "bare.txt"
    lines = files.test.read_text().split("\n")
    bare.write_text("\n".join(" ".join(line.split()[:2]) for line in lines))
    done = cli("tag", chunker, bare)
    found = [row[2] for row in columns(done.out)]
    assert found == [row[3] for row in columns(with_labels.out)]


def test_a_fresh_process_reads_standard_input_and_gives_the_same(
    cli, process, chunker, files
):
    done = process("tag", chunker, given=files.test.read_text())
    assert done.status == 0 and done.err == ""
    assert done.out == cli("tag", chunker, files.test).out


def test_a_closed_pipe_ends_quietly(chunker, files, tmp_path):
    long = tmp_path / "long.txt"
    long.write_text(files.test.read_text() * 200)
    process = subprocess.Popen(
        command("tag", chunker, long), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), errors) == (0, b"")


def test_k_best_blocks_begin_with_number_and_score(cli, chunker, files):
    done = cli("tag", chunker, files.test, "--k-best", 3)
    blocks = done.out.strip("\n").split("\n\n")
    corpus = data.read_conll(files.test)
    assert len(blocks) == 3 * corpus.num_sentences
    best = Tagger.load(chunker).k_best(corpus, 3)
    for i, block in enumerate(blocks):
        head, *rows = block.split("\n")
        mark, rank, score = head.split(" ")
        expected = best[i // 3][i % 3]
        assert (mark, int(rank)) == ("#", i % 3)
        np.testing.assert_allclose(float(score), expected.score, rtol=1e-5)
        assert [row.split(" ")[3] for row in rows] == expected.labels.tolist()


def test_marginals_follow_the_label_and_sum_to_one(cli, chunker, files):
    done = cli("tag", chunker, files.test, "--marginals")
    labels = Tagger.load(chunker).encoder_.labels
    plain = columns(cli("tag", chunker, files.test).out)
    for row, expected in zip(columns(done.out), plain, strict=True):
        assert row[:4] == expected
        pairs = [cell.rsplit("/", 1) for cell in row[4:]]
        assert tuple(label for label, _ in pairs) == labels
        assert sum(float(p) for _, p in pairs) == pytest.approx(1, abs=1e-5)


def test_text_is_segmented_line_by_line(cli, segmenter, files, tmp_path):
    gold = data.read_segmentation(files.words_test)
    raw = tmp_path / "raw.txt"
    lines = files.words_test.read_text(encoding="utf-8").split("\n")
    bare = ["".join(line.split()) for line in lines]
    bare.insert(2, "")  # an empty line stays where it is
    raw.write_text("\n".join(bare), encoding="utf-8")
    done = cli("tag", segmenter, raw)
    shown = done.out.split("\n")
    assert ["".join(line.split()) for line in shown] == bare
    labels = Tagger.load(segmenter).predict(gold)
    words = data.words_from_labels(gold.columns[0], labels, gold.offsets)
    assert [line.split("  ") for line in shown if line] == words


def test_segmentation_has_k_best_and_marginals_too(cli, segmenter, tmp_path):
    raw = tmp_path / "raw.txt"
    raw.write_text("一丁丂\n", encoding="utf-8")
    head, words, *_ = cli("tag", segmenter, raw, "--k-best", 2).out.split("\n")
    assert head.startswith("# 0 ") and words.replace("  ", "") == "一丁丂"
    rows = columns(cli("tag", segmenter, raw, "--marginals").out)
    assert [row[0] for row in rows] == list("一丁丂")
    assert len(rows[0]) == 2 + len(Tagger.load(segmenter).encoder_.labels)


def test_k_best_and_marginals_exclude_each_other(cli, chunker, files):
    done = cli("tag", chunker, files.test, "--k-best", 2, "--marginals")
    assert done.status == 2 and "not allowed with" in done.err
