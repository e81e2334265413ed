"""BOL-E2: chunking on CoNLL-2000, every method on the same templates.

`small` runs the full training set with one seed and few passes; `full` has five seeds,
ten passes, the shares of Figure 3 for the main methods, and CRFsuite, each fit in a
fresh process.
Settings are the paper's or the library's defaults: nothing was tuned on the test set.
"""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments import crfsuite
from experiments.bol import tagging
from experiments.bol.tagging import Method
from experiments.protocol import Experiment, Result, Say, Setup
from lowrank_jax import batch, data, loops, metrics, models, online, streams
from lowrank_jax.estimators import labelling

__all__ = ["EXPERIMENT"]

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
# Average of bol, bcd and sp in Figure 3; the curves lie within -0.4 and +0.3 of it.
PAPER = (90.2, 91.4, 92.2, 92.7, 92.8, 93.0, 93.2, 93.3, 93.4, 93.6)


def methods() -> list[Method]:
    """Return the learners that train by passes."""
    bol, sp, mira = online.bol, online.perceptron, online.mira
    none = {"averaging": "none"}
    paper = {"variant": "paper", "divisor": "global"}
    return [
        Method("BOL block, dual averaging", bol, {}, "both"),
        Method("BOL block, factors averaged", bol, {"averaging": "factors"}, "both"),
        Method("BOL block, last iterate", bol, none, "both"),
        Method("BOL block, rank 2, dual", bol, {"rank": 2}, "both"),
        Method("BOL paper (R=4), factors averaged", bol, paper, "both", 93.6),
        Method("BOL paper (R=4), last iterate", bol, paper | none, "both"),
        Method("bcd", online.bcd, {}, "both", 93.6),
        Method("sp, averaged, first and 0-order", sp, {}, "both", 93.6),
        Method("sp, last iterate, first and 0-order", sp, none, "both"),
        Method("sp, averaged, 0-order", sp, {}, "template"),
        Method("sp, last iterate, 0-order", sp, none, "template"),
        Method("MIRA, averaged, 0-order", mira, {}, "template"),
        Method("MIRA, averaged, first and 0-order", mira, {}, "both"),
    ]


def score(predicted: np.ndarray, gold: data.Corpus) -> float:
    """Chunk F1 in percent."""
    return metrics.chunk_scores(np.asarray(gold.labels), predicted, gold.offsets).f1


def run(setup: Setup) -> Result:
    """Train and score all methods."""
    say = setup.say
    train_file = data.find("conll2000/train.txt.xz", setup.data_dir)
    test_file = data.find("conll2000/test.txt.xz", setup.data_dir)
    train, test = data.read_conll(train_file), data.read_conll(test_file)
    num_seeds, num_passes = (5, 10) if setup.is_full else (1, 3)
    task = tagging.make_task(train, test, "chunking", score)
    rows = []
    for method in methods():
        runs = tagging.fit(method, task, num_seeds=num_seeds, num_passes=num_passes)
        rows.append(tagging.summary(method.name, runs, method.paper))
        say(_line(rows[-1]))
    for name, settings in (
        ("crf2 (L2, c=1), 0-order", {"penalty": "l2"}),
        ("crf1 (L1, c=1), 0-order", {"penalty": "l1"}),
    ):
        rows.append(_crf(name, settings, task, 100 if setup.is_full else 10))
        say(_line(rows[-1]))
    if setup.is_full:
        rows += _peers(train_file, test_file, num_seeds, say)
    return {
        "experiment": "bol-fig3",
        "scale": setup.scale,
        "seeds": num_seeds,
        "passes": num_passes,
        "test": "CoNLL-2000 test, 2,012 sentences",
        "rows": rows,
        "shares": _shares(train, test, num_passes, setup),
    }


def _line(row: dict[str, Any]) -> str:
    spread = "" if row["f1_std"] is None else f" +- {row['f1_std']:.2f}"
    return (
        f"{row['method']:40} F1 {row['f1']:.2f}{spread}  {row['train_seconds']:.1f} s"
    )


def _crf(
    name: str, settings: dict[str, Any], task: tagging.Task, num_iterations: int
) -> dict[str, Any]:
    learner, seconds, compile_seconds = batch.crf.learner(**settings), 0.0, 0.0
    for done in loops.passes(
        learner,
        streams.Whole(streams.lanes.lanes(task.train)),
        key=jax.random.key(0),
        num_passes=num_iterations,
    ):
        seconds += done.seconds
        compile_seconds += done.compile_seconds
    params = batch.crf.final_params(done.state)
    labels = labelling.predict_batch(models.linear, params, task.test)
    f1 = score(np.array(task.encoder.labels)[labels], task.gold)
    scored = tagging.Scored(0, f1, seconds, compile_seconds, [])
    row = tagging.summary(name, [scored], None)
    return row | {
        "iterations": done.pass_index + 1,
        "num_nonzero": int(done.trace.num_nonzero),
    }


def _peers(
    train_file: Path, test_file: Path, num_seeds: int, say: Say
) -> list[dict[str, Any]]:
    rows = []
    for name, algorithm, iterations, repeats in (
        ("CRFsuite averaged perceptron, 10 passes", "ap", 10, num_seeds),
        ("CRFsuite passive-aggressive, 10 passes", "pa", 10, num_seeds),
        ("CRFsuite L-BFGS, 100 iterations", "lbfgs", 100, 1),
    ):
        runs = []
        for seed in range(repeats):
            peer = crfsuite.fit(algorithm, iterations, train_file, test_file, seed=seed)
            runs.append(
                tagging.Scored(seed, peer["f1"], peer["train_seconds"], 0.0, [])
            )
        rows.append(tagging.summary(name, runs, None))
        say(_line(rows[-1]))
    return rows


def _shares(
    train: data.Corpus, test: data.Corpus, num_passes: int, setup: Setup
) -> dict[str, Any]:
    """F1 against the share of the training sentences: the curves of Figure 3."""
    chosen: dict[str, list[float]] = {
        "BOL block, dual averaging": [],
        "BOL paper (R=4), factors averaged": [],
        "sp, averaged, first and 0-order": [],
    }
    shares = SHARES if setup.is_full else (0.1, 0.5)
    for share in shares:
        task = tagging.make_task(
            data.split_fraction(train, share, 0), test, "chunking", score
        )
        for method in methods():
            if method.name in chosen:
                runs = tagging.fit(method, task, num_seeds=1, num_passes=num_passes)
                chosen[method.name].append(runs[0].f1)
        latest = ", ".join(f"{name} {f1[-1]:.2f}" for name, f1 in chosen.items())
        setup.say(f"share {share:.1f}: {latest}")
    return {
        "shares": list(shares),
        "f1": chosen,
        "paper_mean": [PAPER[SHARES.index(share)] for share in shares],
    }


def table(result: Result) -> str:
    """Write F1 and seconds on the whole training set as Markdown."""
    return (
        f"Test F1, mean of {result['seeds']} seeds, {result['passes']} passes, the "
        "shipped template; seconds to train, compilation apart. The paper reads off "
        "Figure 3 (mean of its methods).\n\n" + tagging.table(result["rows"])
    )


def picture(figure: Any, result: Result) -> None:
    """Draw F1 against the share of training data."""
    curves = result["shares"]
    figure.set_size_inches(6.4, 4.0)
    axes = figure.subplots()
    for (name, f1), marker in zip(curves["f1"].items(), "os^", strict=True):
        axes.plot(curves["shares"], f1, marker=marker, label=name)
    axes.plot(
        curves["shares"],
        curves["paper_mean"],
        color="0.5",
        linestyle="--",
        label="paper: mean of bol, bcd, sp",
    )
    axes.set_xlabel("share of the training sentences")
    axes.set_ylabel("chunk F1 on the test set (%)")
    axes.set_title("CoNLL-2000 chunking (BOL Figure 3)", loc="left")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)


EXPERIMENT = Experiment(
    "bol-fig3",
    "BOL Figure 3: chunking, F1 against the share of training data",
    "the paper's data",
    "CoNLL-2000",
    run,
    table,
    picture,
)
