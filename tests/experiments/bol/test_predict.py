"""What tells where blocks win: correlations, and the numbers of one run."""

import functools

import numpy as np
import pytest
from scipy import stats

from experiments.__main__ import draw
from experiments.bol import predict, tagging, tasks
from lowrank_jax import data, features


def made_result(sign):
    """Return points whose certificate rises with the gain, and flatness falls."""
    rng = np.random.default_rng(0)
    rows = []
    for number, task in enumerate(["a", "b", "c", "d"]):
        for share in (0.1, 1.0):
            gain = number + 0.2 * share
            near = number + 0.2 * (1.1 - share) if task == "a" else gain
            runs = [
                {
                    "gain": gain + 0.01 * seed,
                    "score": 90.0,
                    "regret": 0.0,
                    "flatness": -sign * near,
                    "mean rank": rng.normal(),
                    "certificate": sign * near,
                    "first pass": 1.0,
                }
                for seed in range(3)
            ]
            rows.append({"task": task, "share": share, "runs": runs})
    names = {"experiment": "bol-predict", "scale": "small"}
    return names | {"seeds": 3, "passes": 2, "rows": rows}


def test_rank_correlation_is_spearmans_ties_included():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 5, size=(2, 30)).astype(float)
    expected = stats.spearmanr(first, second).statistic
    assert predict.rank_correlation(first, second) == pytest.approx(expected)
    assert predict.rank_correlation(first, np.ones(30)) == 0


@pytest.mark.parametrize(("sign", "said"), [(1, "holds"), (-1, "fails")])
def test_verdicts_follow_the_sign_of_the_correlation(sign, said, tmp_path):
    result = made_result(sign)
    found = {one["claim"]: one for one in predict.EXPERIMENT.verdicts(result)}
    for key in ("more certificate", "less flatness"):
        one = found[f"{key} goes with more gain of the blocks over sp"]
        assert one["verdict"] == said
        assert 0.9 < sign * one["value"] < 1
        assert one["interval"][0] <= one["value"] <= one["interval"][1]
    assert len(found) == len(predict.PREDICTORS)
    constant = found["more first pass goes with more gain of the blocks over sp"]
    assert constant["verdict"] == "not decided"
    assert predict.within(result, "certificate").mean == 0  # equal over seeds
    assert predict.EXPERIMENT.table(result).count("| a ") == 2
    draw(predict.EXPERIMENT, result, tmp_path / "predict.png")
    assert (tmp_path / "predict.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_numbers_of_one_run():
    train, test, _ = data.segmentation_task(60, 30, seed=0)
    template = features.read_template("segmentation")
    made = functools.cache(
        lambda: tagging.make_task(train, test, template, tasks.accuracy)
    )
    sp, block = (predict.certified(name, made, 0, 2) for name in ("sp", "block"))
    for one in (sp, block):
        assert one["holds"]
        assert one["regret"] <= one["certificate"]
        assert 50 < one["score"] <= 100
        assert 0 < one["first pass"] < 100
    labels = len(made().encoder.labels)
    assert 1 <= block["mean rank"] <= labels
    assert 0 <= block["flatness"] <= 1
    found = predict._compared(sp, block)
    assert found["gain"] == block["score"] - sp["score"]
    assert found["certificate"] == sp["certificate"] - block["certificate"]
    with pytest.raises(RuntimeError):
        predict._compared(sp, block | {"holds": False})
