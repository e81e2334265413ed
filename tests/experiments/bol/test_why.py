"""Alignment of factors, groups of rare features, and what is drawn of a result."""

import numpy as np
import pytest

from experiments.__main__ import draw
from experiments.bol import tagging, why
from lowrank_jax import data, metrics


def word_f1(predicted, gold):
    return metrics.word_scores_from_labels(gold.labels, predicted, gold.offsets).f1


@pytest.fixture(scope="module")
def task():
    train, test, _ = data.segmentation_task(120, 40, seed=0)
    return tagging.make_task(train, test, "segmentation", word_f1)


def test_groups_are_quarters_ordered_by_the_share_of_rare_features(task):
    groups = why.rarity_groups(task)
    counts = np.bincount(groups)
    assert counts.max() - counts.min() <= 1 and len(counts) == why.NUM_GROUPS
    ids, num_features = task.test.feature_ids, task.encoder.space.num_features
    seen = [np.sum(task.train.feature_ids == k) for k in range(num_features)] + [0]
    shares = np.array([np.mean([seen[k] <= why.RARE for k in row]) for row in ids])
    for group in range(why.NUM_GROUPS - 1):
        assert shares[groups == group].max() <= shares[groups == group + 1].min()


def test_a_run_tells_errors_and_alignment_and_a_random_start_is_another_run(task):
    base = why.fit("start 0", task, 0, 2)
    other = why.fit(why.RANDOM, task, 0, 2)
    for found in (base, other):
        assert 0 <= found["cosine_top"] <= 1 + 1e-6 and found["touched"] > 10
        assert len(found["errors"]) == why.NUM_GROUPS
    assert base["cosine_ones"] > other["cosine_ones"]  # the factors begin at ones
    assert base["f1"] > 60


def test_table_picture_and_verdicts_come_from_the_result(tmp_path):
    def one(f1):
        found = {"f1": f1, "mistakes": 9, "errors": [1.0, 2.0, 3.0, 9.0 - f1 / 100]}
        return found | {"cosine_top": 0.9, "cosine_ones": 0.8, "slope": 1.0}

    runs = {name: [one(80.0), one(81.0)] for name in ("sp", *why.settings())}
    runs[why.BASE] = [one(82.0), one(83.1)]
    result = {"runs": runs, "passes": 2, "share": 0.02, "seeds": 2, "test": "pku"}
    assert f"| {why.BASE} | 82.55" in why.table(result)
    assert why.verdicts(result)[0]["verdict"] == "holds"
    draw(why.EXPERIMENT, result, tmp_path / "why.png")
    assert (tmp_path / "why.png").stat().st_size > 10_000
