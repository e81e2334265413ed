"""Column files against a plain loop over lines."""

import io
import lzma

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from lowrank_jax.checks import InputError
from lowrank_jax.data import read_conll, write_conll


def slow_sentences(text):
    """Split line by line at spaces and tabs."""
    sentences, current = [], []
    for line in text.split("\n"):
        row = [
            field for field in line.replace("\t", " ").strip("\r").split(" ") if field
        ]
        if row:
            current.append(tuple(row))
        elif current:
            sentences.append(current)
            current = []
    return sentences + [current] if current else sentences


def rows(corpus):
    columns = corpus.columns
    if corpus.labels is not None:
        columns = (*columns, corpus.labels)
    tokens = list(zip(*columns, strict=True))
    bounds = corpus.offsets
    return [tokens[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def read(tmp_path, text, **options):
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())
    return read_conll(path, **options)


TOKEN = st.text("ab世\u3000\u00a0\x1c-#", min_size=1, max_size=3)
GAP = st.sampled_from([" ", "\t", "  ", " \t"])
BREAK = st.sampled_from(["\n\n", "\r\n\r\n", "\n \t\n", "\n\n\n\n"])


@st.composite
def column_files(draw):
    width = draw(st.integers(2, 4))
    text = draw(st.sampled_from(["", "\n\n"]))
    for _ in range(draw(st.integers(1, 4))):
        lines = []
        for _ in range(draw(st.integers(1, 4))):
            tokens = [draw(TOKEN) for _ in range(width)]
            lines.append(draw(GAP).join(tokens) + draw(st.sampled_from(["", " "])))
        text += draw(st.sampled_from(["\n", "\r\n"])).join(lines) + draw(BREAK)
    return text if draw(st.booleans()) else text.rstrip("\r\n \t")


@hypothesis.given(text=column_files())
@hypothesis.settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
def test_reader_equals_a_loop_over_lines(tmp_path, text):
    corpus = read(tmp_path, text)
    assert rows(corpus) == slow_sentences(text)
    assert corpus.offsets.dtype == np.int64
    bare = read(tmp_path, text, has_labels=False)
    assert bare.labels is None
    assert rows(bare) == slow_sentences(text)


def test_last_column_is_the_label(tmp_path):
    corpus = read(tmp_path, "the DT B-NP\ndog NN I-NP\n\nit PRP B-NP\n")
    assert [list(column) for column in corpus.columns] == [
        ["the", "dog", "it"],
        ["DT", "NN", "PRP"],
    ]
    assert list(corpus.labels) == ["B-NP", "I-NP", "B-NP"]
    assert corpus.offsets.tolist() == [0, 2, 3]
    assert corpus.source.endswith("a.txt")


def test_a_ragged_row_is_named_with_both_lines(tmp_path):
    with pytest.raises(InputError, match=r"a\.txt:4 has 2 columns where line 2 has 3"):
        read(tmp_path, "\na b c\n\na b\n")


@pytest.mark.parametrize("text", ["", "\n\n", " \t\r\n"])
def test_a_file_without_tokens_is_named(tmp_path, text):
    with pytest.raises(InputError, match=r"a\.txt holds no token"):
        read(tmp_path, text)


def test_one_column_cannot_have_labels(tmp_path):
    with pytest.raises(InputError, match="one column, so it has no labels"):
        read(tmp_path, "a\nb\n")
    assert read(tmp_path, "a\nb\n", has_labels=False).num_tokens == 2


@pytest.mark.parametrize("has_labels", [True, False])
def test_writing_and_reading_again_changes_nothing(tmp_path, has_labels):
    text = "the DT B-NP\ndog NN I-NP\n\nit PRP B-NP\n\n"
    corpus = read(tmp_path, text, has_labels=has_labels)
    stream = io.StringIO()
    write_conll(stream, corpus)
    assert stream.getvalue() == text
    again = read(tmp_path, stream.getvalue(), has_labels=has_labels)
    assert rows(again) == rows(corpus)


def test_extra_columns_are_written_last(tmp_path):
    corpus = read(tmp_path, "a x\nb y\n\nc z\n")
    stream = io.StringIO()
    write_conll(stream, corpus, [np.array(["p", "q", "r"]), [1, 2, 3]], separator="\t")
    assert stream.getvalue() == "a\tx\tp\t1\nb\ty\tq\t2\n\nc\tz\tr\t3\n\n"
    with pytest.raises(InputError, match=r"`extra_columns\[0\]` must have 3 .* got 2"):
        write_conll(stream, corpus, [["p", "q"]])


@pytest.mark.parametrize(
    ("split", "num_sentences", "num_tokens", "num_tags", "num_chunks"),
    [("train", 8936, 211727, 22, 106978), ("test", 2012, 47377, 19, 23852)],
)
def test_conll2000_has_its_official_counts(
    corpus_path, split, num_sentences, num_tokens, num_tags, num_chunks
):
    corpus = read_conll(corpus_path(f"conll2000/{split}.txt.xz"))
    assert corpus.num_sentences == num_sentences
    assert corpus.num_tokens == num_tokens
    assert len(set(corpus.labels)) == num_tags
    assert sum(label[0] == "B" for label in corpus.labels) == num_chunks
    assert len(corpus.columns) == 2


def test_conll2000_equals_a_loop_over_lines(corpus_path):
    path = corpus_path("conll2000/train.txt.xz")
    corpus = read_conll(path)
    text = lzma.open(path).read().decode()
    assert rows(corpus) == slow_sentences(text)


@pytest.mark.parametrize("between", [" ", "\t"])
def test_a_file_is_written_with_the_separator_it_was_read_with(tmp_path, between):
    path = tmp_path / "f.txt"
    path.write_text(f"\nthe{between}DT\ncat{between}NN\n\n")
    out = io.StringIO()
    write_conll(out, read_conll(path, has_labels=False), [["x", "y"]])
    assert (
        out.getvalue()
        == between.join(["the", "DT", "x"])
        + "\n"
        + between.join(["cat", "NN", "y"])
        + "\n\n"
    )
