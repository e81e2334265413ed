"""Brown in small: tags, the split by files, and one fit of ours and of CRFsuite."""

import lzma

import numpy as np
import pytest

from experiments.__main__ import draw
from experiments.bol import brown
from lowrank_jax import data


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("NN-TL", "NN"),
        ("FW-NN-TL-NC", "NN"),
        ("---HL", "--"),
        ("IN+AT-T", "IN+AT-T"),
        ("NP$", "NP$"),
    ],
)
def test_tags_lose_their_marks(tag, expected):
    assert brown.simplified(tag) == expected


def test_files_stay_together_and_the_test_is_the_same_for_all_seeds():
    files = np.repeat(np.arange(30), 4)
    whole, test = brown.split(files, 1.0, 0)
    np.testing.assert_array_equal(np.unique(files[test]), [9, 19, 29])
    assert sorted([*whole, *test]) == list(range(120))
    few, same = brown.split(files, 0.1, 1)
    np.testing.assert_array_equal(same, test)
    assert len(few) == 12 and len(np.unique(files[few])) == 3
    assert few.tolist() != sorted(few.tolist())


@pytest.fixture(scope="module")
def corpus():
    """Words whose tag is their first letter."""
    rng = np.random.default_rng(0)
    words = [f"{tag}{rng.integers(3)}" for tag in rng.choice(list("abc"), 300)]
    return data.Corpus(
        (np.array(words, object),),
        np.array([word[0].upper() for word in words], object),
        np.arange(0, 301, 10),
        "made",
    )


@pytest.mark.parametrize("method", ["bol, no tag pairs alone", "CRFsuite ap"])
def test_a_fit_is_measured(corpus, method):
    pytest.importorskip("pycrfsuite")
    train, test = corpus[:25], corpus[25:]
    found = brown.measure(method, train, test, 3, 0)
    assert found["accuracy"] > 95 and found["labels"] == 3
    assert found["sentences"] == 25 and found["seconds"] > 0 and found["MB"] > 20


def test_a_fit_in_a_process_reads_the_folder(corpus, tmp_path):
    pytest.importorskip("pycrfsuite")
    lines = [
        f"{w}\t{t}-TL" for w, t in zip(*corpus.columns, corpus.labels, strict=True)
    ]
    text = "".join("\n".join(lines[i : i + 10]) + "\n\n" for i in range(0, 300, 10))
    with lzma.open(tmp_path / "brown.txt.xz", "wt") as stream:
        stream.write(text)
    files = [f"f{i}\tmade\t{3 * i}\t3" for i in range(10)]
    (tmp_path / "sections.tsv").write_text("\n".join(["head", *files]) + "\n")
    found = brown._process("CRFsuite ap", 1.0, 0, 3, tmp_path)
    assert found["sentences"] == 27 and found["labels"] == 3
    assert found["accuracy"] > 95


def test_table_and_picture_come_from_the_result(tmp_path):
    one = {"accuracy": 90.0, "seconds": 2.0, "MB": 500.0, "sentences": 25}
    runs = {
        name: [one, one | {"accuracy": 91.0, "MB": 510.0}] for name in brown.METHODS
    }
    claims = brown.differences(runs, brown.CLAIMS)
    rows = [{"share": 0.05, "runs": runs, "claims": claims}]
    result = {"seeds": 2, "passes": 5, "rows": rows}
    assert "| 5 %, 25 | bol | 90.50 ± 0.71 | 2.0 | 510 |" in brown.table(result)
    assert len(brown.verdicts(result)) == len(brown.METHODS) - 1
    draw(brown.EXPERIMENT, result, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000
