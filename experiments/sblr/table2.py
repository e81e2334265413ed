"""SBLR-E3: EEG trials of two classes, one method after the other (Table 2).

BCI Competition II data set IV (finger movements, 28 channels x 50 samples, 316 + 100
trials) stands in for data set IVb of BCI Competition III (118 x 100, 210 trials), of
which no copy was found: the paper's figures beside ours are of other data.

Two protocols. *Official split*: rank and strengths are chosen by 10-fold
cross-validation on the 316 training trials, and the 100 test trials are scored once.
*Random splits*: all 416 trials are split at random into 316 and 100, many times. Rank
and strengths are chosen anew in each training part, by 5-fold cross-validation on a
coarser grid. Trials are in units of 50 microvolts, a constant, and the mean of the
training part is taken off; nothing else is done to them.

LR has no penalty and its data are separable: FISTA goes towards the widest margin and
is stopped at q <= 1e-5 or 1000 iterations, as the other convex fits are. BLR and SBLR
stop as in the paper, at q <= 1e-3 or 500 sweeps.
"""

from functools import partial
from typing import Any

import numpy as np

from experiments.intervals import Mean, decide, mean_of, verdict, wilson
from experiments.protocol import Experiment, Result, Setup, Verdict
from experiments.sblr import tasks
from experiments.sblr.tasks import Method, Task
from experiments.tables import markdown, number
from lowrank_jax import data
from lowrank_jax.estimators.classifier import selection

__all__ = ["EXPERIMENT"]

UNIT = 50.0  # microvolts
COARSE: dict[str, Any] = {
    "mu1": (0.0, 1e-3, 1e-2),
    "mu2": (1e-4, 1e-2, 1.0),
    "nu1": (0.0, 1e-3, 1e-2),
    "nu2": (1e-4, 1e-2, 1.0),
}
CLAIM = ("LR", "sparse LR", "BLR", "SBLR")  # in the paper's order


def methods(grid: dict[str, Any], num_strengths: int) -> list[Method]:
    """Return the methods of Table 2, and logistic regression with a ridge."""
    none = np.zeros(num_strengths)
    absolute = np.stack([np.geomspace(0.1, 1e-4, num_strengths), none], axis=1)
    ridge = np.stack([none, np.geomspace(100.0, 1e-3, num_strengths)], axis=1)
    ranks = (1, 2, 3)
    return [
        Method("LR", False, np.zeros((1, 2)), paper=0.75),
        Method("sparse LR", False, absolute, paper=0.76),
        Method("ridge LR", False, ridge),
        Method("BLR", True, np.zeros((1, 4)), ranks, paper=0.84),
        Method("SBLR", True, selection.grid_points(grid), ranks, paper=0.89),
    ]


def run(setup: Setup) -> Result:
    """Score all methods by both protocols."""
    path = data.find("bci2_iv/sp1s_aa_100hz.npz", setup.data_dir)
    parts = [data.read_matrices(path, split=split) for split in ("train", "test")]
    x = np.concatenate([part.x for part in parts]).astype(np.float32) / UNIT
    labels = [part.y for part in parts if part.y is not None]
    codes = np.concatenate(labels).astype(int)
    num_train = len(labels[0])
    small: dict[str, Any] = {name: (1e-3, 1e-2) for name in selection.NAMES}
    fine, coarse, num_repetitions, num_strengths = small, small, 3, 5
    num_folds, num_inner = 3, 3
    if setup.is_full:
        fine, coarse, num_repetitions, num_strengths = selection.GRID, COARSE, 20, 11
        num_folds, num_inner = 10, 5

    result: Result = {
        "experiment": "sblr-table2",
        "scale": setup.scale,
        "data": "BCI Competition II data set IV, stand-in for BCI III data set IVb",
        "num_train": num_train,
        "num_test": len(codes) - num_train,
        "folds": num_folds,
        "repetitions": num_repetitions,
        "inner_folds": num_inner,
        "grid": {name: list(values) for name, values in fine.items()},
        "coarse_grid": {name: list(values) for name, values in coarse.items()},
    }
    is_train = np.arange(len(codes)) < num_train
    folds = selection.fold_weights(codes[is_train], num_folds=num_folds)
    task = Task(x, codes, is_train, folds)
    result["official"] = official = []
    paper = {method.name: method.paper for method in methods(fine, num_strengths)}
    evaluate = partial(tasks.evaluate_by_name, methods(fine, num_strengths), task)
    for name, found in setup.cell("official split", evaluate).items():
        row = {"method": name} | found
        row["paper"] = paper[name]
        row["interval"] = wilson(row["accuracy"], result["num_test"])
        official.append(row)
        setup.say(
            f"official split: {name:10} accuracy {row['accuracy']:.3f}  "
            f"AUC {row['auc']:.3f}  {row['choice']}"
        )

    runs: dict[str, list[dict[str, Any]]] = {}
    for repetition in range(num_repetitions):
        order = np.random.default_rng(repetition).permutation(len(codes))
        is_train = np.zeros(len(codes), bool)
        is_train[order[:num_train]] = True
        folds = selection.fold_weights(
            codes[is_train], num_folds=num_inner, seed=repetition
        )
        task = Task(x, codes, is_train, folds)
        line = []
        evaluate = partial(tasks.evaluate_by_name, methods(coarse, num_strengths), task)
        for name, found in setup.cell(f"split {repetition}", evaluate).items():
            runs.setdefault(name, []).append(found)
            line.append(f"{name} {found['accuracy']:.2f}")
        setup.say(f"split {repetition + 1} of {num_repetitions}: " + ", ".join(line))
        if repetition:
            result |= summary(runs, result["num_test"] / num_train)
    return result


def summary(
    runs: dict[str, list[dict[str, Any]]], test_over_train: float
) -> dict[str, Any]:
    """Return means, intervals, paired differences and which of the claims hold."""

    def spread(values: list[float]) -> dict[str, float]:
        return mean_of(values, test_over_train=test_over_train)._asdict()

    rows = []
    for name, found in runs.items():
        accuracy = [one["accuracy"] for one in found]
        rows.append(
            {
                "method": name,
                "accuracy": spread(accuracy),
                "auc": spread([one["auc"] for one in found]),
                "accuracies": accuracy,
                "choices": [one["choice"] for one in found],
            }
        )
    pairs = list(zip(CLAIM[:-1], CLAIM[1:], strict=True))
    pairs += [("ridge LR", "SBLR"), ("sparse LR", "SBLR")]
    differences = []
    for low, high in pairs:
        row: dict[str, Any] = {"from": low, "to": high}
        for figure in ("accuracy", "auc"):
            row[figure] = spread(
                [
                    b[figure] - a[figure]
                    for a, b in zip(runs[low], runs[high], strict=True)
                ]
            )
        row["verdict"] = verdict(Mean(**row["accuracy"]))
        differences.append(row)
    return {"random": rows, "differences": differences}


def table(result: Result) -> str:
    """Write accuracies and paired differences as Markdown."""
    rows = []
    for one, many in zip(result["official"], result["random"], strict=True):
        low, high = one["interval"]
        rows.append(
            [
                one["method"],
                f"{one['accuracy']:.2f} ({low:.2f}-{high:.2f})",
                f"{one['auc']:.3f}",
                _spread(many["accuracy"]),
                _spread(many["auc"]),
                number(one["paper"], ".2f"),
            ]
        )
    head = ["method", "accuracy, official", "AUC, official"]
    head += ["accuracy, random splits", "AUC, random splits", "paper (IVb)"]
    differences = [
        [
            f"{row['to']} less {row['from']}",
            _spread(row["accuracy"], "+"),
            _spread(row["auc"], "+"),
            row["verdict"],
        ]
        for row in result["differences"]
    ]
    return (
        f"{result['data']}: the paper's figures are of other data. Official split, "
        f"{result['num_train']} / {result['num_test']} trials, {result['folds']}-fold "
        f"selection on the training part; mean and 95 % interval of "
        f"{result['repetitions']} random splits of the same sizes, selection inside."
        "\n\n"
        + markdown(head, rows)
        + "\n"
        + markdown(["paired difference", "accuracy", "AUC", "in accuracy"], differences)
    )


def _spread(value: dict[str, float], sign: str = "") -> str:
    return Mean(**value).shown(sign, digits=3, mark="±")


def verdicts(result: Result) -> list[Verdict]:
    """Decide each step of the paper's order by the accuracy on random splits."""
    return [
        decide(f"{row['to']} above {row['from']}", Mean(**row["accuracy"]))
        for row in result["differences"]
    ]


def picture(figure: Any, result: Result) -> None:
    """Draw one dot and interval per method, beside the paper's figures."""
    names = [row["method"] for row in result["official"]]
    places = np.arange(len(names))[::-1]
    figure.set_size_inches(8.4, 3.4)
    axes = figure.subplots(1, 2, width_ratios=(3, 2))
    axes[0].errorbar(
        [row["accuracy"]["mean"] for row in result["random"]],
        places + 0.15,
        xerr=[row["accuracy"]["half"] for row in result["random"]],
        fmt="o",
        color="C0",
        capsize=3,
        label=f"{result['repetitions']} random splits",
    )
    official = np.array([row["accuracy"] for row in result["official"]])
    ends = np.array([row["interval"] for row in result["official"]]).T
    axes[0].errorbar(
        official,
        places - 0.15,
        xerr=[official - ends[0], ends[1] - official],
        fmt="s",
        color="C1",
        markersize=5,
        capsize=3,
        label="official split",
    )
    papers = [np.nan if r["paper"] is None else r["paper"] for r in result["official"]]
    axes[0].plot(
        papers, places, "D", color="0.4", markerfacecolor="none", label="paper, on IVb"
    )
    axes[0].set_yticks(places, names)
    axes[0].set_xlabel("accuracy, 95 % interval")
    axes[0].set_title("EEG, two classes (SBLR Table 2)", loc="left")
    axes[0].grid(axis="x", alpha=0.3)
    axes[0].legend(
        frameon=False,
        fontsize=8,
        ncols=3,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.2),
    )
    rows = result["differences"]
    heights = np.arange(len(rows))[::-1]
    axes[1].axvline(0, color="0.6", linewidth=1)
    axes[1].errorbar(
        [row["accuracy"]["mean"] for row in rows],
        heights,
        xerr=[row["accuracy"]["half"] for row in rows],
        fmt="o",
        color="C0",
        capsize=3,
    )
    axes[1].set_yticks(heights, [f"{row['to']} − {row['from']}" for row in rows])
    axes[1].set_ylim(-0.6, len(rows) - 0.4)
    axes[1].set_xlabel("accuracy, paired difference")
    axes[1].set_title("random splits", loc="left")
    axes[1].grid(axis="x", alpha=0.3)


EXPERIMENT = Experiment(
    "sblr-table2",
    "SBLR Table 2: EEG trials of two classes, accuracy and AUC",
    "a stand-in",
    "BCI Competition II data set IV (stand-in for BCI III data set IVb)",
    run,
    table,
    picture,
    verdicts=verdicts,
)
