"""BOL-E2: chunking on CoNLL-2000, every method on the same templates.

`small` runs a tenth of the training set with two seeds and few passes; `full` has five
seeds, ten passes, all methods on the whole, four shares for the main methods, and
CRFsuite, each fit in a fresh process. Each online run is scored twice: its last iterate
and its mean. Settings come from the paper, the library's defaults or `bol-tasks`:
nothing was tuned on the test set.
"""

import functools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments import crfsuite
from experiments.bol import tagging
from experiments.bol.tagging import Method
from experiments.protocol import Experiment, Result, Setup, Verdict
from experiments.tables import markdown
from lowrank_jax import data, metrics, online

__all__ = ["EXPERIMENT"]

SHARES = (0.1, 0.2, 0.5, 1.0)
# Average of bol, bcd and sp in Figure 3; the curves lie within -0.4 and +0.3 of it.
PAPER = {0.1: 90.2, 0.2: 91.4, 0.5: 92.8, 1.0: 93.6}
FIRST, ZERO, BOTH = "sp, first order", "sp, 0-order", "sp, first and 0-order"
START, BESIDE = "Algorithm 2, first order", "block, start 1, 0-order beside"
#: Methods of the curves, of which each share has fresh draws.
CURVES = (FIRST, ZERO, BOTH, START, BESIDE)
CLAIMS = (
    (START, "last", FIRST, "last"),
    (START, "mean", ZERO, "mean"),
    (BESIDE, "mean", BOTH, "mean"),
    (BESIDE, "mean", ZERO, "mean"),
)
#: Names of a row for the last iterate and for the mean; others are plain.
_NAMES = {
    "BOL block": ("BOL block, last iterate", "BOL block, dual averaging"),
    ZERO: ("sp, last iterate, 0-order", "sp, averaged, 0-order"),
    "MIRA, 0-order": ("MIRA, last iterate, 0-order", "MIRA, averaged, 0-order"),
}


def methods() -> list[Method]:
    """Return the learners that train by passes.

    Rows "first order" have no label transitions. `bol-tasks` has the same starts
    for many labels.
    """
    bol, sp, mira = online.bol, online.perceptron, online.mira
    start = {"variant": "paper", "num_inner_steps": 2, "start": 0.3}
    safe = {"variant": "paper", "num_inner_steps": 4, "divisor_factor": 2.0}
    mean = {"averaging": "weights", "start": 1.0, "num_power_steps": 4}
    return [
        Method("BOL block", bol, {}, "both"),
        Method(BESIDE, bol, mean, "both"),
        Method("block, start 1, first order", bol, mean, "first"),
        Method(START, bol, start, "first", 93.6),
        Method("Algorithm 2, c=2, R=4, first order", bol, safe, "first"),
        Method("bcd, first order", online.bcd, {}, "first", 93.6),
        Method(FIRST, sp, {}, "first", 93.6),
        Method(BOTH, sp, {}, "both"),
        Method(ZERO, sp, {}, "zero"),
        Method("MIRA, 0-order", mira, {}, "zero"),
    ]


def score(predicted: np.ndarray, gold: data.Corpus) -> float:
    """Chunk F1 in percent."""
    return metrics.chunk_scores(np.asarray(gold.labels), predicted, gold.offsets).f1


def run(setup: Setup) -> Result:
    """Train and score all methods; small: one tenth and the whole, three passes."""
    train_file = data.find("conll2000/train.txt.xz", setup.data_dir)
    test_file = data.find("conll2000/test.txt.xz", setup.data_dir)
    train, test = data.read_conll(train_file), data.read_conll(test_file)
    num_seeds, num_passes = (5, 10) if setup.is_full else (2, 3)

    def fit(method: Method, task: Any, seed: int) -> dict[str, Any]:
        return tagging.fit(method, task(), seed=seed, num_passes=num_passes)

    def crf(settings: dict[str, Any], task: Any) -> dict[str, Any]:
        return tagging.fit_crf(settings, task(), 10 * num_passes)

    def task_of(share: float, seed: int) -> Any:
        part = train if share == 1 else data.split_fraction(train, share, seed)
        make = partial(tagging.make_task, part, test, "chunking", score)
        return functools.cache(make)

    rows, curves = [], []
    for share in SHARES if setup.is_full else SHARES[:1]:
        runs: dict[str, list[dict[str, Any]]] = {}
        shared = task_of(share, 0)
        for seed in range(num_seeds):
            task = shared if share == 1 else task_of(share, seed)
            for method in methods():
                if share < 1 and method.name not in CURVES:
                    continue
                found = setup.cell(
                    f"{share}, {seed}, {method.name}", partial(fit, method, task, seed)
                )
                runs.setdefault(method.name, []).append(found)
                setup.say(
                    f"{share} {seed} {method.name:36} last {found['last']:.2f} mean "
                    f"{found['mean']:.2f}  {found['seconds']:.1f} s"
                )
        kept = [
            tagging.summary(name, runs[name], form)
            for name in CURVES
            for form in ("last", "mean")
        ]
        curve = {"share": share, "paper": PAPER[share], "methods": kept}
        curves.append(curve | {"claims": tagging.differences(runs, CLAIMS)})
        for method in methods() if share == 1 else ():
            for i, form in enumerate(("last", "mean")):
                name = f"{method.name}, {('last iterate', 'mean')[i]}"
                name = _NAMES[method.name][i] if method.name in _NAMES else name
                paper = method.paper if form == "last" else None
                rows.append(tagging.summary(name, runs[method.name], form, paper))
    for name, settings in (
        ("crf2 (L2, c=1), 0-order", {"penalty": "l2"}),
        ("crf1 (L1, c=1), 0-order", {"penalty": "l1"}),
    ):
        task = task_of(1.0 if setup.is_full else 0.1, 0)
        found = setup.cell(name, partial(crf, settings, task))
        rows.append(tagging.summary(name, [found], "last"))
        setup.say(_line(rows[-1]))
    if setup.is_full:
        rows += _peers(setup, train_file, test_file, num_seeds)
    return {
        "experiment": "bol-fig3",
        "scale": setup.scale,
        "seeds": num_seeds,
        "passes": num_passes,
        "test": "CoNLL-2000 test, 2,012 sentences",
        "rows": rows,
        "curves": curves,
    }


def _line(row: dict[str, Any]) -> str:
    spread = "" if row["f1_std"] is None else f" +- {row['f1_std']:.2f}"
    return (
        f"{row['method']:40} F1 {row['f1']:.2f}{spread}  {row['train_seconds']:.1f} s"
    )


def _peer(
    algorithm: str, iterations: int, train_file: Path, test_file: Path, seed: int
) -> dict[str, Any]:
    peer = crfsuite.fit(algorithm, iterations, train_file, test_file, seed=seed)
    found = {"last": peer["f1"], "seconds": peer["train_seconds"]}
    return found | {"compile_seconds": 0.0, "mistakes": []}


def _peers(
    setup: Setup, train_file: Path, test_file: Path, num_seeds: int
) -> list[dict[str, Any]]:
    rows = []
    for name, algorithm, iterations, repeats in (
        ("CRFsuite averaged perceptron, 10 passes", "ap", 10, num_seeds),
        ("CRFsuite passive-aggressive, 10 passes", "pa", 10, num_seeds),
        ("CRFsuite L-BFGS, 100 iterations", "lbfgs", 100, 1),
    ):
        runs = [
            setup.cell(
                f"{name}, {seed}",
                partial(_peer, algorithm, iterations, train_file, test_file, seed),
            )
            for seed in range(repeats)
        ]
        rows.append(tagging.summary(name, runs, "last"))
        setup.say(_line(rows[-1]))
    return rows


def verdicts(result: Result) -> list[Verdict]:
    """Return the differences at each share."""
    return [
        found
        for curve in result["curves"]
        for found in tagging.decided(
            f"{curve['share']:.0%} of CoNLL-2000", curve["claims"]
        )
    ]


def table(result: Result) -> str:
    """Write F1, seconds and differences as Markdown."""
    claims = [
        [
            f"{curve['share']:.0%}",
            *(
                f"{one['difference']:+.2f} ± {one['half']:.2f}"
                for one in curve["claims"]
            ),
        ]
        for curve in result["curves"]
    ]
    head = [f"{a}, {b} over {c}, {d}" for a, b, c, d in CLAIMS]
    return (
        f"Test F1, mean of {result['seeds']} seeds, {result['passes']} passes, the "
        'shipped template; seconds to train, compilation apart. Rows "first order" '
        "have no label transitions. The paper reads off Figure 3 (mean of its "
        f"methods).\n\n{tagging.table(result['rows'])}\nPaired differences by share of "
        "the training sentences, fresh draws, 95 % intervals:\n\n"
    ) + markdown(["share", *head], claims)


def picture(figure: Any, result: Result) -> None:
    """Draw F1 against the share of training data."""
    curves = result["curves"]
    figure.set_size_inches(6.4, 4.6)
    axes = figure.subplots()
    shares = [curve["share"] for curve in curves]
    for i, name in enumerate(CURVES):
        found = [
            next(
                one
                for one in curve["methods"]
                if (one["method"], one["form"]) == (name, "mean")
            )
            for curve in curves
        ]
        axes.errorbar(
            shares,
            [one["f1"] for one in found],
            yerr=[one["f1_std"] or 0 for one in found],
            marker="os^vD"[i],
            capsize=2,
            label=f"{name}, mean",
        )
    paper = [curve["paper"] for curve in curves]
    label = "paper: mean of bol, bcd, sp"
    axes.plot(shares, paper, color="0.5", linestyle="--", label=label)
    axes.set_xlabel("share of the training sentences")
    axes.set_ylabel("chunk F1 on the test set (%)")
    axes.set_title("CoNLL-2000 chunking (BOL Figure 3)", loc="left")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)


EXPERIMENT = Experiment(
    "bol-fig3",
    "BOL Figure 3: chunking, F1 against the share of training data",
    "the paper's data",
    "CoNLL-2000",
    run,
    table,
    picture,
    verdicts=verdicts,
)
