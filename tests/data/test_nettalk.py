"""NETtalk: header, fields, and the entry that is not aligned."""

import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.data import read_nettalk

HEADER = "\tA title\nwith a rule\n\n--------------------\n\n"
ENTRIES = ["ab\txy\t1<\t0", "c\t-\t0\t2 "] + ["de\tzz\t>1\t0"] * 150


def write(tmp_path, text):
    path = tmp_path / "nettalk.data"
    path.write_text(text, encoding="latin-1")
    return path


@pytest.mark.parametrize("header", ["", HEADER])
@pytest.mark.parametrize(
    ("output", "labels"),
    [
        ("phoneme", ["x", "y", "-"]),
        ("stress", ["1", "<", "0"]),
        ("both", ["x1", "y<", "-0"]),
    ],
)
def test_labels_are_what_was_asked_for(tmp_path, header, output, labels):
    corpus = read_nettalk(write(tmp_path, header + "\n".join(ENTRIES)), output=output)
    assert corpus.columns[0][:3].tolist() == ["a", "b", "c"]
    assert corpus.labels[:3].tolist() == labels
    assert corpus.offsets[:3].tolist() == [0, 2, 3]
    assert corpus.num_sentences == 152
    assert corpus.num_skipped == 0


def test_an_entry_without_stress_is_left_out_only_where_stress_is_asked(tmp_path):
    path = write(tmp_path, "\n".join([*ENTRIES, "fgh\txyz\t0\t"]))
    both = read_nettalk(path, output="both")
    assert (both.num_sentences, both.num_skipped) == (152, 1)
    phoneme = read_nettalk(path)
    assert (phoneme.num_sentences, phoneme.num_skipped) == (153, 0)


def test_many_misaligned_entries_are_an_error_with_the_first_line(tmp_path):
    path = write(tmp_path, HEADER + "ab\txy\t1<\t0\nabc\txy\t1<\t0\n")
    with pytest.raises(InputError, match=r"nettalk\.data:7 is the first of 1 entries"):
        read_nettalk(path)


def test_too_few_fields_are_named(tmp_path):
    path = write(tmp_path, "ab\txy\t1<\t0\nab xy 1<\n")
    with pytest.raises(InputError, match=r"nettalk\.data:2 has 1 tab-separated fields"):
        read_nettalk(path)


def test_empty_files_and_unknown_outputs_are_named(tmp_path):
    with pytest.raises(InputError, match="holds no entry"):
        read_nettalk(write(tmp_path, HEADER))
    with pytest.raises(InputError, match="`output` must be one of 'phoneme'"):
        read_nettalk(write(tmp_path, "ab\txy\t1<\t0"), output="sound")


def test_nettalk_has_its_official_counts(corpus_path):
    path = corpus_path("nettalk/nettalk.data.xz")
    corpus = read_nettalk(path)
    assert corpus.num_sentences == 20008
    assert corpus.num_tokens == 146943
    assert len(np.unique(corpus.columns[0])) == 26
    assert len(np.unique(corpus.labels)) == 51
    assert corpus.num_skipped == 0
    first = corpus.take([0])
    assert "".join(first.columns[0]) == "aardvark"
    assert "".join(first.labels) == "a-rdvark"
    stress = read_nettalk(path, output="stress")
    assert (stress.num_sentences, stress.num_skipped) == (20007, 1)
    assert np.unique(stress.labels).tolist() == ["0", "1", "2", "<", ">"]
