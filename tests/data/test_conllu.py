"""CoNLL-U: tokens alone are read, and all else is written back as it was."""

import io

import pytest

from lowrank_jax import data
from lowrank_jax.checks import InputError

TEXT = (
    "# sent_id = 1\n"
    "# text = Vámonos al mar\n"
    "1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tVamos\tir\tVERB\tV\t_\t0\troot\t_\t_\n"
    "2\tnos\tyo\tPRON\tP\tCase=Acc\t1\tobj\t_\t_\n"
    "2.1\tvamos\tir\tVERB\t_\t_\t_\t_\t_\t_\n"
    "3\tNew York\tNew York\tPROPN\tN\t_\t1\tobl\t_\tSpaceAfter=No\n"
    "\n\n"
    "# sent_id = 2\n"
    "1\t#\t#\tSYM\tS\t_\t0\troot\t_\t_\n"
    "\n"
)


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "made.conllu"
    place.write_bytes(TEXT.encode())
    return place


def test_comments_multiword_tokens_and_empty_nodes_are_no_tokens(path):
    corpus = data.read_conllu(path)
    assert corpus.columns[0].tolist() == ["Vamos", "nos", "New York", "#"]
    assert corpus.labels.tolist() == ["VERB", "PRON", "PROPN", "SYM"]
    assert corpus.offsets.tolist() == [0, 3, 4]
    assert data.read_conllu(path, has_labels=False).labels is None


def test_another_column_can_be_the_label(path):
    found = data.read_conllu(path, label_column="deprel").labels.tolist()
    assert found == ["root", "obj", "obl", "root"]
    found = data.read_conllu(path, label_column="misc").labels.tolist()
    assert found == ["_", "_", "SpaceAfter=No", "_"]
    with pytest.raises(InputError, match="label_column"):
        data.read_conllu(path, label_column="head")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_do_not_matter_and_are_kept(path, end):
    text = TEXT.replace("\n", end)
    path.write_bytes(text.encode())
    corpus = data.read_conllu(path, label_column="misc")
    assert corpus.labels.tolist() == ["_", "_", "SpaceAfter=No", "_"]
    assert corpus.offsets.tolist() == [0, 3, 4]
    for column in ("upos", "misc"):
        labels = data.read_conllu(path, label_column=column).labels
        stream = io.StringIO()
        data.write_conllu(stream, text, labels, label_column=column)
        assert stream.getvalue() == text


def test_labels_alone_are_replaced():
    stream = io.StringIO()
    data.write_conllu(stream, TEXT, ["A", "B", "C", "D"])
    expected = TEXT.replace("ir\tVERB\tV", "ir\tA\tV").replace("PRON", "B")
    assert stream.getvalue() == expected.replace("PROPN", "C").replace("SYM", "D")
    with pytest.raises(InputError, match="4 values"):
        data.write_conllu(stream, TEXT, ["A"])


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("3\tNew", "x\tNew", "made.conllu:7 has 10 columns and begins with 'x'"),
        ("\troot\t_\t_\n2", "\troot\t_\n2", "made.conllu:4 has 9 columns"),
    ],
)
def test_a_line_of_another_form_is_named(path, old, new, told):
    path.write_bytes(TEXT.replace(old, new).encode())
    with pytest.raises(InputError, match=told):
        data.read_conllu(path)


def test_a_file_without_tokens_or_labels_is_refused(path):
    path.write_text("# nothing\n\n")
    with pytest.raises(InputError, match="no token"):
        data.read_conllu(path)
    path.write_text("1\tword" + "\t_" * 8 + "\n\n")
    with pytest.raises(InputError, match="_ for every upos"):
        data.read_conllu(path)
    assert data.read_conllu(path, has_labels=False).num_tokens == 1
