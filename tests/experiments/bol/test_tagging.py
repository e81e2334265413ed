"""The experiments' own machinery on a small synthetic task."""

import dataclasses

import jax
import numpy as np
import pytest

from experiments.__main__ import draw
from experiments.bol import fig1, fig3, table1, tagging
from lowrank_jax import data, features, loops, metrics, models, online, streams
from lowrank_jax.estimators import labelling


def word_f1(predicted, gold):
    return metrics.word_scores_from_labels(gold.labels, predicted, gold.offsets).f1


@pytest.fixture(scope="module")
def task():
    train, test, _ = data.segmentation_task(120, 40, seed=0)
    return tagging.make_task(train, test, "segmentation", word_f1)


@pytest.mark.slow
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
    runs = [
        tagging.fit(method, task, seed=seed, num_passes=4, scored_at=(2,))
        for seed in range(2)
    ]
    assert runs[0]["mistakes"] != runs[1]["mistakes"]  # another order of sentences
    for run in runs:
        assert run["mean"] > 75 and run["last"] > 65 and len(run["mistakes"]) == 4
        assert list(run["by_pass"]) == ["2"] and run["labels"] == 4
    row = tagging.summary(method.name, runs, "mean", method.paper)
    f1 = np.array([run["mean"] for run in runs])
    np.testing.assert_allclose(row["f1"], f1.mean())
    np.testing.assert_allclose(row["f1_std"], f1.std(ddof=1))
    text = tagging.table([row])
    assert f"| one | {f1.mean():.2f} ± {f1.std(ddof=1):.2f} |" in text
    assert "| 94.3 |" in text


def test_a_crf_is_trained_on_labels_and_transitions(task):
    found = tagging.fit_crf({"penalty": "l2"}, task, 15)
    assert found["last"] > 75 and found["iterations"] <= 15
    row = tagging.summary("crf2", [found], "last")
    assert row["f1_std"] is None and row["f1"] == found["last"]


def test_sizes_that_are_rounded_up_change_no_label(task):
    """Padded tokens and features belong to no sentence; unseen features stay unseen."""
    template = features.with_orders(task.template, "zero")
    space = dataclasses.replace(
        task.encoder.space, orders=template.orders, has_transitions=True
    )
    found = []
    for make in (tagging.stream, streams.sentences.stream):
        train = make(dataclasses.replace(task.train, space=space))
        test = make(dataclasses.replace(task.test, space=space))
        *_, done = loops.passes(
            online.perceptron.learner(), train, key=jax.random.key(0), num_passes=2
        )
        params = online.perceptron.final_params(done.state)
        ids = labelling.predict(models.linear.scores, params, test)
        found.append(np.asarray(ids)[: len(task.test.labels)])
    assert tagging._rounded(1000) == 1024 and tagging._rounded(1025) == 1152
    np.testing.assert_array_equal(*found)


def test_methods_have_names_of_their_own_and_settings_that_their_learner_takes():
    names = [method.name for method in fig3.methods()]
    assert len(set(names)) == len(names)
    for method in fig3.methods() + table1.methods():
        method.module.learner(**method.settings)


def run_of(last, mean):
    seconds = {"seconds": 1.0, "compile_seconds": 1.0}
    return {"last": last, "mean": mean, "mistakes": [9, 5]} | seconds


def runs_of(names):
    """Two runs of each method, the first method above the others."""
    return {
        name: [run_of(90.0 + (i == 0), 91.0), run_of(91.1 + (i == 0), 91.5)]
        for i, name in enumerate(dict.fromkeys(names))
    }


def rows_of(names):
    return [
        tagging.summary(name, runs, form)
        for name, runs in runs_of(names).items()
        for form in ("last", "mean")
    ]


def table1_result():
    names = [method.name for method in table1.methods()]
    claims = tagging.differences(runs_of([table1.START, *names]), table1.CLAIMS)
    row = {"size": "a tenth", "orders": "first order"}
    return {
        "test": "pku",
        "passes": 2,
        "chosen": {"a tenth": {"method": "one", "passes": 2, "sp_passes": 3}},
        "rows": [one | row for one in rows_of(names)],
        "claims": [{"size": "a tenth"} | claim for claim in claims],
    }


def fig1_result():
    claims = tagging.differences(runs_of([table1.START, *fig1.NAMES]), fig1.CLAIMS)
    row = {"num_sentences": 9, "paper": None, "methods": rows_of(fig1.NAMES)}
    rows = [
        row | {"point": "10% of PFR", "share": 0.1, "claims": claims},
        row | {"point": "tenth of pku", "share": None, "claims": claims},
    ]
    return {"test": "pku", "passes": 2, "seeds": 2, "rows": rows}


def fig3_result():
    claims = tagging.differences(runs_of([fig3.START, *fig3.CURVES]), fig3.CLAIMS)
    curve = {"share": 0.1, "paper": 90.2, "methods": rows_of(fig3.CURVES)}
    curves = [curve | {"claims": claims}, curve | {"share": 1.0, "claims": claims}]
    return {"seeds": 2, "passes": 3, "rows": rows_of(["one"]), "curves": curves}


@pytest.mark.parametrize(
    ("module", "make"),
    [(fig1, fig1_result), (fig3, fig3_result), (table1, table1_result)],
)
def test_table_picture_and_verdicts_come_from_the_result(module, make, tmp_path):
    result = make()
    assert "+1.00 ± 0.00" in module.table(result)
    draw(module.EXPERIMENT, result, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000
    claims = [found["claim"] for found in module.verdicts(result)]
    assert len(set(claims)) == len(claims) > 0


def test_points_are_counted_in_the_terms_of_the_paper():
    result = fig1_result()
    higher, _, total = fig1.points_won(result, 0)
    assert (higher, total) == (2, 2)
    assert fig1.verdicts(result)[0]["verdict"] == "holds"
    result["rows"][1]["claims"] = [
        claim | {"difference": -1.0} for claim in result["rows"][1]["claims"]
    ]
    assert fig1.points_won(result, 0)[0] == 1
    assert fig1.verdicts(result)[0]["verdict"] == "fails"


def test_differences_are_paired_and_decided_by_their_intervals():
    def runs(values):
        return [{"last": value, "mean": 0.0} for value in values]

    found = tagging.differences(
        {"a": runs([90.5, 91.4, 92.6]), "b": runs([90.0, 91.0, 92.0])},
        [
            ("a", "last", "b", "last"),
            ("a", "mean", "b", "mean"),
            ("a", "last", "c", ""),
        ],
    )
    assert len(found) == 2
    np.testing.assert_allclose(found[0]["difference"], 0.5)
    assert [one["verdict"] for one in found] == ["better", "not told apart"]
    decided = tagging.decided("x", found)
    assert [one["verdict"] for one in decided] == ["holds", "not decided"]


def test_draws_of_a_tenth_are_fresh_and_held_out_sentences_lie_outside():
    train, _, _ = data.segmentation_task(400, 1, seed=0)
    (one, rest), (two, _) = (table1.part_of(train, 0.1, seed) for seed in (0, 1))
    assert one.num_sentences == two.num_sentences == 40
    assert one.labels.shape != two.labels.shape or (one.labels != two.labels).any()
    assert rest.num_sentences == 360


def test_a_method_with_fewer_seeds_is_paired_with_the_first_ones_of_the_other():
    crf = "crf2 (L2, c=1), 0-order"
    runs = runs_of([table1.START, table1.SP]) | {crf: [run_of(89.0, 89.0)]}
    found = {(one["method"], one["over"]): one for one in table1.paired(runs)}
    above = found[f"{table1.START}, last", f"{table1.SP}, last"]
    assert (above["seeds"], above["difference"]) == (2, pytest.approx(1.0))
    above = found[f"{table1.START}, last", f"{crf}, last"]
    assert (above["seeds"], above["half"]) == (1, 0) and len(found) == 2
    assert above["difference"] == pytest.approx(91.0 - 89.0)
