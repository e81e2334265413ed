"""BOL-E1, Figure 1: word F1 against the share of the training sentences.

The official training files of SIGHAN-2005 are not obtainable as a whole. Shares of PFR
1998-01 stand in for shares of pku, tested on the pku test. Beside them stands a tenth
of the official pku file, which is obtainable. Nine character templates with full-width
forms written half-width, twenty passes. The paper's learners have no averaging and
first-order features alone; the other two learners add 0-order features and averages.
"""

from typing import Any

from experiments.bol import table1, tagging
from experiments.bol.tagging import Method
from experiments.protocol import Experiment, Result, Setup
from experiments.tables import markdown
from lowrank_jax import data, online

__all__ = ["EXPERIMENT"]

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
#: Mean F1 of bol, bcd and sp on pku, read off the paper's Figure 1.
PAPER = (89.7, 92.0, 92.7, 93.2, 93.5, 93.8, 94.0, 94.1, 94.4, 94.4)
TEMPLATE = "segmentation-folded"
OFFICIAL = "a tenth of the official pku file"


def methods() -> list[Method]:
    """Return the learners, the paper's first."""
    bol, sp = online.bol, online.perceptron
    none = {"averaging": "none"}
    return [
        Method("sp, last iterate, first order", sp, none, "first"),
        Method("BOL block, last iterate, first order", bol, none, "first"),
        Method("sp, averaged, first and 0-order", sp, {}, "both"),
        Method("BOL block, dual averaging, first and 0-order", bol, {}, "both"),
    ]


def run(setup: Setup) -> Result:
    """Train and score all methods on all shares; small: two shares, three passes."""
    whole, test = table1.read_corpora(setup.data_dir)
    path = data.find("sighan2005/pku_training_subset10pct.utf8.xz", setup.data_dir)
    official = data.read_segmentation(path, tagged=False)
    num_passes = 20 if setup.is_full else 3
    result: Result = {
        "experiment": "bol-fig1",
        "scale": setup.scale,
        "passes": num_passes,
        "seeds": 1,
        "train": "PFR 1998-01 (stand-in for SIGHAN-2005 pku training)",
        "test": "SIGHAN-2005 pku test",
        "rows": [],
    }
    parts = [(OFFICIAL, official, PAPER[0])]
    for share in SHARES if setup.is_full else SHARES[:2]:
        part = data.split_fraction(whole, share, 0)
        parts.append((f"{share:.1f}", part, PAPER[SHARES.index(share)]))
    for name, train, paper in parts:
        task = tagging.make_task(train, test, TEMPLATE, table1.score)
        row: dict[str, Any] = {
            "share": name,
            "num_sentences": train.num_sentences,
            "paper": paper,
            "f1": {},
        }
        for method in methods():
            (found,) = tagging.fit(method, task, num_seeds=1, num_passes=num_passes)
            row["f1"][method.name] = found.f1
        result["rows"].append(row)
        f1 = ", ".join(f"{method} {value:.2f}" for method, value in row["f1"].items())
        setup.say(f"share {name}: {f1}")
        setup.keep(result)
    return result


def table(result: Result) -> str:
    """Write F1 by share as Markdown."""
    names = [method.name for method in methods()]
    rows = [
        [
            row["share"],
            f"{row['num_sentences']:,}",
            *(f"{row['f1'][name]:.2f}" for name in names),
            f"{row['paper']:.1f}",
        ]
        for row in result["rows"]
    ]
    return (
        f"Word F1 on the {result['test']} after {result['passes']} passes, one seed. "
        "Shares of PFR 1998-01 stand in for shares of the official pku file; the "
        "paper's column is the mean of its three online methods on that file.\n\n"
    ) + markdown(["share", "sentences", *names, "paper"], rows)


def picture(figure: Any, result: Result) -> None:
    """Draw F1 against the share."""
    figure.set_size_inches(6.8, 4.4)
    axes = figure.subplots()
    rows = [row for row in result["rows"] if row["share"] != OFFICIAL]
    (official,) = (row for row in result["rows"] if row["share"] == OFFICIAL)
    shares = [float(row["share"]) for row in rows]
    for i, method in enumerate(methods()):
        f1 = [row["f1"][method.name] for row in rows]
        axes.plot(shares, f1, marker="os^v"[i], color=f"C{i}", label=method.name)
        axes.plot([0.1], [official["f1"][method.name]], "x", color=f"C{i}")
    axes.plot([], [], "x", color="0.3", label=OFFICIAL)
    paper = [row["paper"] for row in rows]
    axes.plot(
        shares, paper, "--", color="0.5", label="paper, pku: mean of bol, bcd, sp"
    )
    axes.set_xlabel("share of the training sentences")
    axes.set_ylabel("word F1 on the pku test (%)")
    axes.set_title("Word segmentation (BOL Figure 1)", loc="left")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)


EXPERIMENT = Experiment(
    "bol-fig1",
    "BOL Figure 1 (pku): word F1 against the share of training data",
    "a stand-in",
    "shares of PFR 1998-01 (stand-in for SIGHAN-2005 pku), PKU test",
    run,
    table,
    picture,
)
