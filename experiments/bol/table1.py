"""BOL-E1: Chinese word segmentation, training on PFR 1998-01, testing on SIGHAN PKU.

The official PKU training file is not at hand; PFR January 1998 stands in for it: the
same month of the same corpus, with 0.99 agreement where the two can be compared. Three
feature sets:

* `segmentation`: the paper's nine character templates on the text as it is. PFR writes
  digits and letters full-width, the test half-width: no digit of the test is known;
* `segmentation-folded`: the same nine, full-width forms written half-width;
* `segmentation-classes`: beside them the class of each character (digit, letter,
  numeral, punctuation, other).

Twenty passes, as in the paper; nothing is chosen on the test set.
"""

from pathlib import Path
from typing import Any

import numpy as np

from experiments.bol import tagging
from experiments.bol.tagging import Method
from experiments.protocol import Experiment, Result, Setup
from lowrank_jax import data, metrics, online

__all__ = ["EXPERIMENT", "read_corpora", "score"]


def methods() -> list[Method]:
    """Return the learners; with a figure of the paper go the paper's settings."""
    bol, sp = online.bol, online.perceptron
    none = {"averaging": "none"}
    paper = {"variant": "paper"} | none
    return [
        Method("sp, last iterate, first order", sp, none, "first", False, 94.3),
        Method(
            "BOL paper (R=4), last iterate, first order",
            bol,
            paper,
            "first",
            True,
            94.6,
        ),
        Method("BOL block, last iterate, first order", bol, none, "first", True),
        Method("sp, averaged, first and 0-order", sp, {}, "both", False),
        Method("BOL block, dual averaging, first and 0-order", bol, {}, "both", True),
        Method(
            "BOL paper (R=4), factors averaged, first and 0-order",
            bol,
            {"variant": "paper"},
            "both",
            True,
        ),
        Method("BOL block, rank 2, dual averaging", bol, {"rank": 2}, "both", True),
    ]


def _main() -> list[Method]:
    """Return the two learners to compare on features that the paper does not have."""
    return [method for method in methods() if method.orders == "both"][:2]


def score(predicted: np.ndarray, gold: data.Corpus) -> float:
    """Word F1 in percent."""
    return metrics.word_scores_from_labels(
        np.asarray(gold.labels), predicted, gold.offsets
    ).f1


def read_corpora(data_dir: Path | str | None) -> tuple[data.Corpus, data.Corpus]:
    """Read PFR 1998-01 to train on and the pku test."""
    train = data.find("pfr199801/199801_tagged.txt.xz", data_dir)
    test = data.find("sighan2005/pku_test_gold.utf8.xz", data_dir)
    return (
        data.read_segmentation(train, tagged=True),
        data.read_segmentation(test, tagged=False),
    )


def run(setup: Setup) -> Result:
    """Train and score all methods; small: a tenth of the sentences, three passes."""
    train, test = read_corpora(setup.data_dir)
    num_passes = 20 if setup.is_full else 3
    if not setup.is_full:
        train = data.split_fraction(train, 0.1, 0)
    rows = []
    for template in ("segmentation", "segmentation-folded", "segmentation-classes"):
        task = tagging.make_task(train, test, template, score)
        for method in methods() if template != "segmentation-classes" else _main():
            runs = tagging.fit(method, task, num_seeds=1, num_passes=num_passes)
            paper = method.paper if template != "segmentation-classes" else None
            row = tagging.summary(method.name, runs, paper)
            rows.append(row | {"template": template})
            setup.say(
                f"{template:22} {method.name:52} F1 {row['f1']:.2f}"
                f"  {row['train_seconds']:.1f} s"
            )
    return {
        "experiment": "bol-table1",
        "scale": setup.scale,
        "passes": num_passes,
        "train": "PFR 1998-01 (stand-in for SIGHAN-2005 pku training)",
        "test": "SIGHAN-2005 pku test",
        "rows": rows,
    }


def table(result: Result) -> str:
    """Write F1 and seconds as Markdown."""
    return (
        f"Word F1 on the {result['test']} after {result['passes']} passes over "
        "PFR 1998-01, which stands in for the official training file; the paper's "
        "figures are with that file.\n\n" + tagging.table(result["rows"])
    )


def picture(figure: Any, result: Result) -> None:
    """Draw the sentences with a mistake in each pass (the paper's Figure 2)."""
    figure.set_size_inches(6.4, 5.2)
    axes = figure.subplots()
    for row in result["rows"]:
        if row["template"] == "segmentation-folded":
            curve = row["mistakes_by_pass"]
            axes.plot(range(1, len(curve) + 1), curve, label=row["method"])
    axes.set_xlabel("pass")
    axes.set_ylabel("training sentences with a mistake")
    axes.set_yscale("log")
    axes.set_title("PFR 1998-01, nine character templates, width folded", loc="left")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=7)


EXPERIMENT = Experiment(
    "bol-table1",
    "BOL Table 1 (pku) and Figure 2: word segmentation, F1, mistakes by pass",
    "a stand-in",
    "PFR 1998-01 to train (stand-in for SIGHAN-2005 pku), PKU test",
    run,
    table,
    picture,
)
