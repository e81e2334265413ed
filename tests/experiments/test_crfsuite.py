"""The peer gets the same features as we do, and its figures come back."""

import numpy as np

from experiments import crfsuite
from lowrank_jax.data.sequences import Sequences, Space


def test_attributes_are_our_ids_without_the_unseen():
    space = Space(5, 2, ("0", "0"))
    ids = np.array([[0, 3], [5, 4], [2, 5]], np.int32)
    sequences = Sequences(ids, np.zeros(3, np.int32), np.array([0, 2, 3]), space)
    assert crfsuite.attributes(sequences) == [[["0", "3"], ["4"]], [["2"]]]


def test_a_fit_in_a_fresh_process_learns_and_reports(tmp_path):
    words = ["the DT B-NP", "cat NN I-NP", "sat VBD B-VP", "on IN B-PP", "it PRP B-NP"]
    text = ("\n".join(words) + "\n\n") * 20
    (tmp_path / "train.txt").write_text(text)
    peer = crfsuite.fit("ap", 3, tmp_path / "train.txt", tmp_path / "train.txt")
    assert peer["f1"] == 100.0 == peer["accuracy"]
    assert 1 <= len(peer["seconds_per_pass"]) <= 3
    assert peer["tokens_per_second"] > 0 < peer["tokens_per_second_strings"]
