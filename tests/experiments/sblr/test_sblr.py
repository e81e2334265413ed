"""The experiments of SBLR on tiny data: right figures, tables and plots are made."""

import json
import math
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from experiments.__main__ import draw
from experiments.bench import sblr as bench
from experiments.protocol import Setup
from experiments.sblr import fig3, plain, table1, table2, table4, tasks
from experiments.sblr.tasks import Method, Task
from lowrank_jax import loops
from lowrank_jax.batch.sblr import bcpd
from lowrank_jax.estimators.classifier import selection
from lowrank_jax.streams.matrices import label_matrices


def _separated(num_matrices=24, num_classes=3, seed=0):
    """Matrices of which each class has a bright row of its own."""
    rng = np.random.default_rng(seed)
    codes = np.arange(num_matrices) % num_classes
    x = 0.1 * rng.normal(size=(num_matrices, 4, 3)).astype(np.float32)
    x[np.arange(num_matrices), codes] += 2
    return x, codes


def test_convex_scores_are_those_of_the_minimum_without_the_held_out():
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, codes = _separated(12, 2)
    kept = np.ones((2, 12))
    kept[0, :3], kept[1, 3:6] = 0, 0
    weights = kept / kept.sum(1, keepdims=True)
    labelled, _ = label_matrices(x, codes)
    found = tasks.convex_scores(labelled, np.array([[0.0, 0.1]]), weights)[0, :, 0]
    flat = x.reshape(12, -1).astype(float)
    for row in weights:
        model = linear_model.LogisticRegression(C=1 / (9 * 0.1), tol=1e-10)
        model.fit(flat[row > 0], codes[row > 0])
        out = row == 0
        # q <= 1e-5 leaves so much of the way to the minimum.
        expected = model.decision_function(flat[out])
        np.testing.assert_allclose(found[out], expected, atol=2e-3)


@pytest.mark.parametrize(
    "method",
    [
        Method("joint", True, np.array([[1e-3, 1e-2, 1e-3, 1e-2]]), is_joint=True),
        Method("one against all", False, np.array([[0.1, 0.0], [0.01, 0.0]])),
    ],
    ids=lambda method: method.name,
)
def test_evaluate_never_sees_the_labels_of_the_test_part(method):
    x, codes = _separated()
    is_train = np.arange(24) < 12
    folds = selection.fold_weights(codes[is_train], num_folds=2)
    right = tasks.evaluate(method, Task(x, codes, is_train, folds))
    wrong = np.where(is_train, codes, (codes + 1) % 3)
    other = tasks.evaluate(method, Task(x, wrong, is_train, folds))
    assert right["accuracy"] == 1 and other["accuracy"] == 0
    assert right["choice"] == other["choice"]


def test_views_to_train_on_are_apart_as_asked_and_folds_leave_one_out():
    codes = np.repeat(np.arange(3), 72)
    images = np.zeros((216, 2, 2), np.float32)
    first, second = table4.view_tasks(images, codes, 4, 18, 2)
    assert (first.is_train != second.is_train).any()
    views = np.flatnonzero(first.is_train[:72])
    assert (np.diff(views) == 18).all() and first.is_train.sum() == 12
    held_out = first.folds == 0
    assert held_out.sum(0).tolist() == [1] * 12
    for row in held_out:  # one view of every object
        assert sorted(codes[first.is_train][row]) == [0, 1, 2]


def _products_by_loop(text, num_results):
    """Count the products with so many results in the body of each while loop."""
    bodies = dict.fromkeys(re.findall(r" while\(.*body=%?([\w.\-]+)", text), 0)
    name = ""
    for line in text.splitlines():
        opens = re.match(r"(?:ENTRY )?%?([\w.\-]+) \(.*{$", line)
        name = opens[1] if opens else name
        product = re.search(r"= f64\[([\d,]+)\]\S* dot\(", line)
        if product and name in bodies:
            results = math.prod(map(int, product[1].split(",")))
            bodies[name] += results in num_results
    return sorted(bodies.values())


def test_plain_algorithm_1_reads_x_in_each_inner_step_and_goes_the_same_way():
    """SBLR-Eq6: no product with X is kept, and no compiler takes it out of the loop."""
    y = np.arange(12) % 2
    x = np.random.default_rng(0).normal(size=(12, 7, 5)) + (2 * y - 1)[:, None, None]
    labelled, _ = label_matrices(x, y)
    options = {"mu1": 0.01, "mu2": 0.1, "nu1": 0.02, "nu2": 0.0, "tolerance": 1e-3}
    options |= {"start": "label"}
    found, products = [], []
    for build in (plain.learner, partial(bcpd.learner, solver="minimise")):
        learner = build(**options)
        state = learner.init(jax.random.key(0), labelled)
        descend = jax.jit(partial(loops.converge, learner, max_iterations=50))
        program = descend.lower(state, labelled).compile()
        found.append(program(state, labelled))
        products.append(_products_by_loop(program.as_text(), {12 * 7, 12 * 5}))
    (ended, trace, number), (kept, kept_trace, kept_number) = found
    assert 3 < number == kept_number < 50
    np.testing.assert_array_equal(trace.num_trials, kept_trace.num_trials)
    assert int(trace.num_trials.sum()) > 10 * int(number)
    for ours, theirs in zip(jax.tree.leaves(ended), jax.tree.leaves(kept), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-13)
    # Both sweeps read X twice; each of the two blocks once in every step, or never.
    assert products == [[1, 1, 2], [0, 0, 2]]


def test_table1_counts_the_start_and_its_plain_form_has_fewer_seeds(monkeypatch):
    names = (table1.PLAIN, table1.ONE_STEP)
    monkeypatch.setitem(table1.PLAIN_SEEDS, 6, 1)
    monkeypatch.setattr(table1, "STARTS", ("label",))
    with jax.enable_x64(False):
        found = table1.size_rows(
            6,
            2,
            lambda line: None,
            {name: table1.ALGORITHMS[name] for name in names},
        )
    columns = ("l2", "start", "algorithm", "seeds")
    assert [tuple(row[column] for column in columns) for row in found] == [
        (l2, "label", name, seeds)
        for l2 in (1, 0)
        for name, seeds in zip(names, (1, 2), strict=True)
    ]
    assert all(len(row["runs"]) == row["seeds"] for row in found)
    assert all(1 <= row["iterations"] <= 500 and row["converged"] for row in found)
    assert all(row["seconds"] > row["start_seconds"] > 0 for row in found)
    assert found[1]["objective"] > found[3]["objective"]  # it has the ridge besides
    json.dumps(found)


def _timed_row(l2, start, size, name, seconds):
    """A row of Table 1 with these seconds, one a seed."""
    return {
        "l2": l2,
        "start": start,
        "size": size,
        "algorithm": name,
        "seeds": len(seconds),
        "seconds": float(np.mean(seconds)),
        "start_seconds": 0.5,
        "iterations": 4,
        "objective": 0.4,
        "paper_seconds": 1.0,
        "paper_iterations": 1,
        "runs": [{"seconds": one} for one in seconds],
    }


def test_table1_takes_ratios_over_common_seeds_and_answers_for_each_form(tmp_path):
    kept, read, one_step = table1.ALGORITHMS
    seconds = {kept: [3, 9], one_step: [1, 3]}
    rows = [
        _timed_row(l2, start, size, name, each)
        for l2, last in ((1.0, [6]), (0.0, [4.9]))
        for start in ("paper", "label")
        for size, of_plain in ((6, [10, 15]), (8, last))
        for name, each in (seconds | {read: of_plain}).items()
    ]
    times = {"iteration_seconds": 2.0, "stream_seconds": 1.0, "ratio": 2.0}
    result = {"num_matrices": 100, "seeds": 2, "remark": "", "rows": rows}
    result["stream"] = times | {"size": 8}
    text = table1.table(result)
    assert f'of 2 seeds ("{read}": 1 at 8), the start' in text
    # Of seed 0 alone: 6 to 1, not 6 to the mean of 1 and 3.
    assert "| 8 | 6 / 4 | 6 / 4 | 2 / 4 | 0.5 | 3.0 | 6.0 |" in text
    few = "no at mu2 = 1 (0 of 2 sizes, ratios 3.0 to 3.0, geometric mean 3.0); no"
    assert f"| paper | {kept} | {few}" in text and f"| label | {kept} | {few}" in text
    first = "yes at mu2 = 1 (2 of 2 sizes, ratios 6.0 to 7.5, geometric mean 6.7)"
    second = "in the mean at mu2 = 0 (1 of 2 sizes, ratios 4.9 to 7.5, geometric mean"
    assert f"| label | {read} | {first}; {second} 6.1) |" in text
    printed = "in the mean at mu2 = 1 (4 of 6 sizes, ratios 2.1 to 26.3, geometric"
    assert f"the paper's own seconds | {printed}" in text
    draw(table1.EXPERIMENT, result, tmp_path / "table1.png")
    assert (tmp_path / "table1.png").stat().st_size > 10_000


def test_true_limit_is_where_the_run_goes_and_its_rate_is_predicted():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    x = rng.normal(size=(40, 4, 3)) + 0.6 * (2 * y - 1)[:, None, None]
    labelled, _ = label_matrices(x, y)
    options = {"mu1": 0.01, "mu2": 0.1, "nu1": 0.01, "nu2": 0.1, "step": "tight"}
    state, vectors, trace = fig3.converge_traced(labelled, 800, **options)
    assert vectors.shape == (801, 8)
    # From rather far away: what Newton's method adds is then seen.
    early = state._replace(params=_as_params(vectors[40], state.params))
    limit = fig3.true_limit(early, labelled, 0.01, 0.1)
    flat = np.concatenate([np.ravel(part) for part in limit])
    distances = np.linalg.norm(vectors - flat, axis=1)
    assert distances[-1] < 1e-12 < distances[40]
    pair = float(trace.left_constant[-1]), float(trace.right_constant[-1])
    rate = fig3.predicted_rate(limit, labelled, 0.01, 0.1, [pair, pair])
    late = distances[60] / distances[50]
    assert late ** (1 / 10) == pytest.approx(rate, rel=1e-2)  # settled, not rounded


def test_a_contraction_near_its_prediction_is_linear():
    run = {"step": "tight", "observed_rate": 0.998, "predicted_rate": 0.9979}
    linear, predicted = fig3.verdicts({"runs": [run]})
    assert linear["verdict"] == "fails" and predicted["verdict"] == "holds"
    run |= {"observed_rate": 0.1}
    found = fig3.verdicts({"runs": [run]})
    assert [one["verdict"] for one in found] == ["holds", "fails"]


def _as_params(vector, like):
    return ravel_pytree(like)[1](jnp.asarray(vector))


def _runs(shifts):
    return {
        name: [
            {"accuracy": 0.5 + shift + 0.01 * i, "auc": 0.6 + shift, "choice": {}}
            for i in range(3)
        ]
        for name, shift in shifts.items()
    }


GAPS = [
    {"mean": mean, "half": half} for mean, half in ((0.2, 0.1), (-0.2, 0.1), (0.1, 0.2))
]


def test_summaries_tell_better_from_worse_and_make_tables_and_plots(tmp_path):
    names = ("LR", "sparse LR", "ridge LR", "BLR", "SBLR")
    runs = _runs(dict(zip(names, (0, 0.1, 0.05, 0.3, 0.2), strict=True)))
    found = table2.summary(runs, 0.3)
    verdicts = {
        (row["from"], row["to"]): row["verdict"] for row in found["differences"]
    }
    assert verdicts["LR", "sparse LR"] == "better"
    assert verdicts["BLR", "SBLR"] == "worse"
    official = [
        {
            "method": name,
            "accuracy": 0.7,
            "auc": 0.8,
            "paper": 0.7,
            "interval": [0.6, 0.8],
        }
        for name in names
    ]
    result = found | {"official": official, "data": "none", "num_train": 1}
    result |= {"num_test": 1, "folds": 2, "repetitions": 3}
    assert "SBLR less BLR" in table2.table(result)
    apart = found | {"differences": [{"from": "LR", "to": "BLR", "accuracy": gap}
                                     for gap in GAPS]}  # fmt: skip
    decided = [one["verdict"] for one in table2.verdicts(apart)]
    assert decided == ["holds", "fails", "not decided"]
    draw(table2.EXPERIMENT, result, tmp_path / "table2.png")

    runs |= _runs({"M-BLR": 0.0, "M-SBLR": 0.1})
    result |= {"protocols": [table4.summary("COIL-20, some", runs)]}
    assert "M-SBLR less M-BLR" in table4.table(result)
    rows = [{"from": "LR", "to": "BLR"} | gap for gap in GAPS]
    apart = {"protocols": [{"name": "some", "differences": rows}]}
    assert [one["verdict"] for one in table4.verdicts(apart)] == decided
    assert table4.verdicts(apart)[0]["claim"] == "BLR above LR: some"
    draw(table4.EXPERIMENT, result, tmp_path / "table4.png")


def test_peer_minimises_the_same_objective():
    x, codes = _separated(24, 2)
    flat = x.reshape(24, -1).astype(float)
    model = bench._peer("saga", 24, 0.05, 0.0, max_iter=5000, tol=1e-10)
    model.fit(flat, codes)
    offset = float(model.intercept_[0])
    best = bench._objective(flat, codes, 0.05, model.coef_[0], offset)
    for scale in (0.9, 1.1):
        assert (
            bench._objective(flat, codes, 0.05, scale * model.coef_[0], offset) > best
        )


def test_protocols_that_were_kept_are_not_run_again(corpus_path, monkeypatch):
    folder = corpus_path("coil20/coil20_32x32.npz").parent.parent
    asked = []

    def evaluate(method, task, rank):
        asked.append(method.name)
        return {"accuracy": 0.5, "choice": {"rank": 1}}

    monkeypatch.setattr(tasks, "evaluate", evaluate)
    kept = {}

    def cell(name, compute):
        if name not in kept:
            kept[name] = compute()
        return kept[name]

    setup = Setup(data_dir=folder, say=lambda line: None, cell=cell)
    whole = table4.run(setup)
    num_methods = len(table4.methods(4))
    assert len(asked) == 2 * num_methods * len(whole["protocols"])
    asked.clear()
    del kept[next(iter(kept))]
    assert table4.run(setup) == whole
    assert len(asked) == num_methods
