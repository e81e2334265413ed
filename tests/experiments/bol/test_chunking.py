"""Settings chosen on held-out sentences; entities that stand in for named ones."""

import numpy as np

from experiments.__main__ import draw
from experiments.bol import chunking
from lowrank_jax import data
from tests.cli.conftest import chunk_lines


def test_runs_of_proper_nouns_become_chunks():
    words = np.array(["The", "New", "York", "Times", "May", "May"], object)
    tags = np.array(["AT", "NP-TL", "NP", "NNS", "NP", "NP$"], object)
    corpus = data.Corpus((words, words), tags, np.array([0, 5, 6]), "made")
    found = chunking.proper_nouns(corpus)
    expected = ["O", "B-NAME", "I-NAME", "O", "B-NAME", "B-NAME"]
    assert found.labels.tolist() == expected and len(found.columns) == 1


def test_a_candidate_has_a_score_for_each_pass(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(chunk_lines(40, 2, noise=0.1))
    corpus = data.read_conll(path)
    train, held_out = corpus[:30], corpus[30:]
    name = next(n for n in chunking.CANDIDATES if n.startswith("mira"))
    curve = chunking.choose(name, train, held_out, 2)
    assert len(curve) == 2 and curve[-1] > 50
    scores = chunking.final(name, train, held_out, 2, 3)
    assert len(scores) == 4 and min(one["f1"] for one in scores) > 50


def test_table_and_picture_come_from_the_result(tmp_path):
    result = {
        "held_out": {"one": [90.0, 91.0], "two": [92.5, 92.0]},
        "chosen": "two",
        "passes": 1,
        "test": [{"f1": 93.0}, {"f1": 94.0}, {"f1": 95.0}],
        "entities": [{"sp": 80.0}, {"sp": 82.0}],
    }
    text = chunking.table(result)
    assert "Test F1 95.00 with the mean weights of 2 orders" in text
    assert "93.50 is the mean F1 of the single models (93.00, 94.00)" in text
    assert text.index("two") < text.index("one") and "81.00" in text
    draw(chunking.EXPERIMENT, result, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
