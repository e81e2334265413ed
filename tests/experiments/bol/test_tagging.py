"""The experiments' own machinery on a small synthetic task."""

import numpy as np
import pytest

from experiments.__main__ import draw
from experiments.bol import fig3, table1, tagging
from lowrank_jax import data, metrics, online


def word_f1(predicted, gold):
    return metrics.word_scores_from_labels(gold.labels, predicted, gold.offsets).f1


@pytest.fixture(scope="module")
def task():
    train, test, _ = data.segmentation_task(120, 40, seed=0)
    return tagging.make_task(train, test, "segmentation", word_f1)


@pytest.mark.parametrize(
    ("module", "settings", "orders"),
    [
        (online.perceptron, {}, "template"),
        (online.bol, {}, "both"),
        (online.bol, {"averaging": "weights", "start": 1.0}, "both"),
    ],
)
def test_a_method_is_trained_and_scored_once_a_seed(task, module, settings, orders):
    method = tagging.Method("one", module, settings, orders, paper=94.3)
    runs = tagging.fit(method, task, num_seeds=2, num_passes=4)
    assert [run.seed for run in runs] == [0, 1]
    assert runs[0].mistakes != runs[1].mistakes  # another order of sentences
    assert all(run.f1 > 75 and len(run.mistakes) == 4 for run in runs)
    row = tagging.summary(method.name, runs, method.paper)
    f1 = np.array([run.f1 for run in runs])
    np.testing.assert_allclose(row["f1"], f1.mean())
    np.testing.assert_allclose(row["f1_std"], f1.std(ddof=1))
    text = tagging.table([row])
    assert f"| one | {f1.mean():.2f} ± {f1.std(ddof=1):.2f} |" in text
    assert "| 94.3 |" in text


def test_methods_have_names_of_their_own_and_settings_that_their_learner_takes():
    names = [method.name for method in fig3.methods()]
    assert len(set(names)) == len(names)
    for method in fig3.methods() + table1.methods():
        method.module.learner(**method.settings)


@pytest.mark.parametrize("module", [fig3, table1])
def test_plots_are_drawn_from_the_result(module, tmp_path):
    rows = [
        {
            "method": "one",
            "size": "a tenth",
            "mistakes_by_pass": [9, 5, 2],
        }
    ]
    curves = {
        "shares": [0.1, 1.0],
        "f1": {"a": [90.0, 93.0], "b": [90.5, 93.5], "c": [91.0, 93.2]},
        "paper_mean": [90.2, 93.6],
    }
    result = {"rows": rows, "shares": curves}
    draw(module.EXPERIMENT, result, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_claims_are_paired_differences():
    def row(method, runs):
        return {"size": "a tenth", "method": method, "f1_runs": runs}

    names = dict.fromkeys(name for pair in table1.CLAIMS for name in pair)
    rows = [row(name, [90.0, 91.0, 92.0]) for name in names]
    rows[0] = row("Algorithm 2, c=1, R=2, last", [90.5, 91.4, 92.6])
    found = table1._claims(rows)
    assert len(found) == len(table1.CLAIMS)
    np.testing.assert_allclose(found[0]["difference"], 0.5)
    assert found[0]["verdict"] == "better" and found[1]["verdict"] == "not told apart"


def test_draws_of_a_tenth_are_fresh_and_held_out_sentences_lie_outside():
    train, _, _ = data.segmentation_task(400, 1, seed=0)
    (one, rest), (two, _) = (table1.tenth(train, seed) for seed in (0, 1))
    assert one.num_sentences == two.num_sentences == 40
    assert one.labels.shape != two.labels.shape or (one.labels != two.labels).any()
    assert rest.num_sentences == 360
