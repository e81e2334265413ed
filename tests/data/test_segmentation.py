"""Segmented text against a plain loop over words."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from lowrank_jax.checks import InputError
from lowrank_jax.data import (
    character_classes,
    fold_width,
    labels_from_words,
    read_raw_text,
    read_segmentation,
    words_from_labels,
)


def slow_labels(sentences):
    """B, I, E, S of each word by its length."""
    labels = []
    for sentence in sentences:
        for word in sentence:
            inside = "I" * (len(word) - 2)
            labels += list("S" if len(word) == 1 else f"B{inside}E")
    return labels


def slow_words(characters, labels, offsets):
    """Read the labels one by one."""
    sentences = []
    for start, end in zip(offsets[:-1], offsets[1:], strict=True):
        words, current = [], ""
        for character, label in zip(
            characters[start:end], labels[start:end], strict=True
        ):
            if label in ("B", "S") and current:
                words.append(current)
                current = ""
            current += character
            if label in ("E", "S"):
                words.append(current)
                current = ""
        if current:
            words.append(current)
        sentences.append(words)
    return sentences


def write(tmp_path, text):
    path = tmp_path / "a.utf8"
    path.write_bytes(text.encode())
    return path


def words_of(corpus):
    return words_from_labels(corpus.columns[0], corpus.labels, corpus.offsets)


WORD = st.text("ab世纪/\U0001f600", min_size=1, max_size=5)
SENTENCES = st.lists(st.lists(WORD, min_size=1, max_size=5), min_size=1, max_size=4)
QUICK = hypothesis.settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)


@hypothesis.given(sentences=SENTENCES, gap=st.sampled_from([" ", "  ", "\u3000", "\t"]))
@QUICK
def test_reader_equals_a_loop_over_words(tmp_path, sentences, gap):
    lines = [gap + gap.join(words) + "  " for words in sentences]
    path = write(tmp_path, "\ufeff" + "\r\n\n".join(lines))
    corpus = read_segmentation(path, tagged=False)
    assert words_of(corpus) == sentences
    assert corpus.labels.tolist() == slow_labels(sentences)
    text = "".join(word for words in sentences for word in words)
    assert corpus.columns[0].tolist() == list(text)
    assert corpus.columns[1].tolist() == character_classes(list(text)).tolist()
    assert corpus.columns[2].tolist() == fold_width(list(text)).tolist()
    assert corpus.offsets.tolist() == [
        0,
        *np.cumsum([len("".join(words)) for words in sentences]),
    ]


@hypothesis.given(sentences=SENTENCES, tags=st.lists(st.sampled_from(["n", "", "vn"])))
@QUICK
def test_tags_are_cut_at_the_last_slash(tmp_path, sentences, tags):
    cycle = [*tags, "w"]
    lines = [
        "  ".join(f"{word}/{cycle[i % len(cycle)]}" for i, word in enumerate(words))
        for words in sentences
    ]
    path = write(tmp_path, "\n".join(lines) + "\n")
    assert words_of(read_segmentation(path, tagged=True)) == sentences
    assert words_of(read_segmentation(path)) == sentences


def test_a_slash_here_and_there_is_no_tag(tmp_path):
    path = write(tmp_path, "1/2  的  /  a/\n")
    assert words_of(read_segmentation(path)) == [["1/2", "的", "/", "a/"]]


@pytest.mark.parametrize("bad", ["世纪", "/n"])
def test_a_word_without_tag_or_a_tag_without_word_is_named(tmp_path, bad):
    path = write(tmp_path, f"的/u\n\n新/a  {bad}  的/u\n")
    with pytest.raises(InputError, match=rf"a\.utf8:3 has '{bad}' where word/TAG"):
        read_segmentation(path)


def test_raw_text_is_the_segmented_text_without_gaps(tmp_path):
    segmented = read_segmentation(write(tmp_path, "共同  创造\n\n \n新  世纪"))
    raw = read_raw_text(write(tmp_path, "共同创造\n\n \n新 世纪"))
    assert raw.labels is None
    assert raw.offsets.tolist() == segmented.offsets.tolist() == [0, 4, 7]
    for left, right in zip(raw.columns, segmented.columns, strict=True):
        assert left.tolist() == right.tolist()


def test_classes_can_be_left_out(tmp_path):
    path = write(tmp_path, "共同  创造")
    assert len(read_segmentation(path, classes=False).columns) == 1
    assert len(read_raw_text(path, classes=False).columns) == 1


@pytest.mark.parametrize("reader", [read_segmentation, read_raw_text])
def test_a_file_without_text_is_named(tmp_path, reader):
    with pytest.raises(InputError, match=r"a\.utf8 holds no text"):
        reader(write(tmp_path, "\n \u3000\n"))


@hypothesis.given(st.lists(st.sampled_from("BIESX"), max_size=20), st.data())
@hypothesis.settings(max_examples=200, deadline=None)
def test_any_sequence_of_labels_has_one_reading(labels, data):
    cut = data.draw(st.integers(0, len(labels)))
    offsets = [0, cut, len(labels)]
    characters = [chr(0x4E00 + i) for i in range(len(labels))]
    expected = slow_words(characters, labels, offsets)
    assert words_from_labels(characters, labels, offsets) == expected
    arrays = np.array(characters, "U1"), np.array(labels, "U1")
    assert words_from_labels(*arrays, np.array(offsets)) == expected
    joined = "".join(word for words in expected for word in words)
    assert joined == "".join(characters)


def test_impossible_labels_worked_by_hand():
    assert words_from_labels("abcdef", "IBISEB", [0, 6]) == [["a", "bc", "d", "e", "f"]]
    assert words_from_labels("abcd", "BIBI", [0, 2, 4]) == [["ab"], ["cd"]]
    assert words_from_labels(["ab", "c"], ["B", "E"], [0, 2]) == [["abc"]]


@hypothesis.given(SENTENCES)
@hypothesis.settings(max_examples=100, deadline=None)
def test_words_to_labels_and_back_changes_nothing(sentences):
    characters, labels, offsets = labels_from_words(sentences)
    assert labels.tolist() == slow_labels(sentences)
    assert words_from_labels(characters, labels, offsets) == sentences


def test_only_full_width_forms_are_folded():
    given = "！１９９８Ａｚ～年，。　ｱA1"
    assert "".join(fold_width(list(given))) == "!1998Az~年,。　ｱA1"
    assert fold_width([]).size == 0


def test_bad_arguments_are_named():
    with pytest.raises(InputError, match="empty word"):
        labels_from_words([["a", ""]])
    with pytest.raises(InputError, match=r"\(3\), got 2 and 2"):
        words_from_labels("ab", "SS", [0, 3])
    characters, labels, offsets = labels_from_words([])
    assert (characters.size, labels.size, offsets.tolist()) == (0, 0, [0])


def test_pfr_has_its_counts(corpus_path):
    path = corpus_path("pfr199801/199801_tagged.txt.xz")
    corpus = read_segmentation(path)
    assert corpus.num_sentences == 19484
    assert corpus.num_tokens == 1841657
    starts_word = (corpus.labels == "B") | (corpus.labels == "S")
    assert np.count_nonzero(starts_word) == 1121447
    assert words_of(corpus.take([0]))[0][:4] == ["迈向", "充满", "希望", "的"]


@pytest.mark.parametrize(
    ("gold", "raw", "num_lines", "num_words", "num_characters"),
    [
        ("as_testing_gold", "as_test", 14429, 122610, 197681),
        ("cityu_test_gold", "cityu_test", 1492, 40936, 67689),
        ("msr_test_gold", "msr_test", 3985, 106873, 184355),
        ("pku_test_gold", "pku_test", 1944, 104372, 172733),
    ],
)
def test_sighan2005_has_its_official_counts(
    corpus_path, gold, raw, num_lines, num_words, num_characters
):
    corpus = read_segmentation(corpus_path(f"sighan2005/{gold}.utf8.xz"))
    assert corpus.num_sentences == num_lines
    assert corpus.num_tokens == num_characters
    assert sum(map(len, words_of(corpus))) == num_words
    test = read_raw_text(corpus_path(f"sighan2005/{raw}.utf8.xz"))
    assert test.num_tokens == num_characters
    assert test.num_sentences == num_lines
