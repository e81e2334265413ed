"""BOL-E1: Chinese word segmentation, training on PFR 1998-01, testing on SIGHAN PKU.

The official PKU training file is not at hand. PFR January 1998 stands in for it: the
same month of the same corpus, with 0.99 agreement where the two can be compared.

The features are the paper's nine character templates, width folded. All of them are
first-order, and no label transitions stand beside them (`segmentation-first`); rows
that say "0-order" have weights on labels and label transitions instead
(`segmentation-folded`). Twenty passes, as in the paper.

Two sizes: tenths of PFR, a fresh draw per seed, and all of PFR, a fresh shuffle per
seed. The start of mean W is chosen on sentences of PFR outside the first tenth. Nothing
is chosen on the test.
"""

from pathlib import Path
from typing import Any

import numpy as np

from experiments.bol import tagging
from experiments.bol.tagging import Method
from experiments.intervals import mean_of, verdict
from experiments.protocol import Experiment, Result, Setup
from experiments.tables import markdown
from lowrank_jax import data, metrics, online

__all__ = ["EXPERIMENT", "read_corpora", "score"]

FIRST, FOLDED = "segmentation-first", "segmentation-folded"
STARTS = (0.3, 1.0, 3.0)
NUM_DEVELOPMENT = 2000

#: Pairs of rows whose difference a claim is about.
CLAIMS = (
    ("Algorithm 2, c=1, R=2, last", "sp, last"),
    ("Algorithm 2, c=2, R=4, last", "sp, last"),
    ("Algorithm 2, c=1, R=2, start 1, last", "sp, last"),
    ("block, mean W", "sp, averaged"),
    ("block, mean W", "sp, 0-order and transitions, averaged"),
)


def methods(start: float = 3.0) -> list[Method]:
    """Return the learners; with a figure of the paper go the paper's settings.

    Args:
      start: c_0 of the block form.
    """
    bol, sp, none = online.bol, online.perceptron, {"averaging": "none"}

    def paper(factor: float, num_inner: int, **more: Any) -> dict[str, Any]:
        settings = {"variant": "paper", "divisor_factor": factor}
        return settings | {"num_inner_steps": num_inner, "averaging": "none"} | more

    mean = {"averaging": "weights", "num_power_steps": 8}
    return [
        Method("sp, last", sp, none, "first", 94.3),
        Method("Algorithm 2, c=1, R=2, last", bol, paper(1.0, 2), "first"),
        Method("Algorithm 2, c=1, R=4, last", bol, paper(1.0, 4), "first", 94.6),
        Method("Algorithm 2, c=2, R=4, last", bol, paper(2.0, 4), "first"),
        Method(
            "Algorithm 2, c=1, R=2, start 1, last",
            bol,
            paper(1.0, 2, start=1.0),
            "first",
        ),
        Method("sp, averaged", sp, {}, "first"),
        Method(
            "Algorithm 2, c=1, R=2, start 1, factors averaged",
            bol,
            paper(1.0, 2, start=1.0, averaging="factors"),
            "first",
        ),
        Method("block, mean W", bol, mean | {"start": start}, "first"),
        Method("sp, 0-order and transitions, last", sp, none, "zero"),
        Method("sp, 0-order and transitions, averaged", sp, {}, "zero"),
    ]


#: Rows on all of PFR, where a run takes minutes.
LARGE = (
    "sp, last",
    "Algorithm 2, c=2, R=4, last",
    "Algorithm 2, c=1, R=2, start 1, last",
    "block, mean W",
    "sp, averaged",
    "sp, 0-order and transitions, averaged",
)


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


def tenth(train: data.Corpus, seed: int) -> tuple[data.Corpus, data.Corpus]:
    """Return a tenth of the sentences, and others to choose settings on."""
    order = np.random.default_rng((11, seed)).permutation(train.num_sentences)
    size = train.num_sentences // 10
    rest = order[size : size + NUM_DEVELOPMENT]
    return train.take(np.sort(order[:size])), train.take(np.sort(rest))


def _choose_start(setup: Setup, train: data.Corpus, num_passes: int) -> dict[str, Any]:
    """Try the starts of mean W on held-out sentences of the first draw."""
    part, development = tenth(train, 0)
    task = tagging.make_task(part, development, FIRST, score)
    found = {}
    for start in STARTS:
        (method,) = (one for one in methods(start) if one.name == "block, mean W")
        (run,) = tagging.fit(method, task, num_seeds=1, num_passes=num_passes)
        found[f"{start:g}"] = run.f1
        setup.say(f"development, mean W, start {start:g}: F1 {run.f1:.2f}")
    return {"by_start": found, "start": float(max(found, key=found.__getitem__))}


def run(setup: Setup) -> Result:
    """Train and score all methods; small: a fiftieth of the sentences, three passes."""
    train, test = read_corpora(setup.data_dir)
    num_passes, num_draws, num_large = (20, 5, 3) if setup.is_full else (3, 2, 0)
    if not setup.is_full:
        train = data.split_fraction(train, 0.2, 0)
    chosen = _choose_start(setup, train, num_passes)
    rows = []
    for size, number in (("a tenth", num_draws), ("all", num_large)):
        runs: dict[str, list[tagging.Scored]] = {}
        for seed in range(number):
            part = tenth(train, seed)[0] if size == "a tenth" else train
            for template in (FIRST, FOLDED):
                task = tagging.make_task(part, test, template, score)
                for method in methods(chosen["start"]):
                    is_here = (method.orders == "zero") == (template == FOLDED)
                    if not is_here or (size == "all" and method.name not in LARGE):
                        continue
                    done = tagging.fit(
                        method,
                        task,
                        num_seeds=1,
                        num_passes=num_passes,
                        first_seed=seed,
                    )
                    runs.setdefault(method.name, []).extend(done)
                    setup.say(f"{size:8} {seed} {method.name:50} F1 {done[0].f1:.2f}")
        for method in methods(chosen["start"]):
            if method.name in runs:
                paper = method.paper if size == "all" else None
                row = tagging.summary(method.name, runs[method.name], paper)
                rows.append(row | {"size": size})
    return {
        "experiment": "bol-table1",
        "scale": setup.scale,
        "passes": num_passes,
        "train": "PFR 1998-01 (stand-in for SIGHAN-2005 pku training)",
        "test": "SIGHAN-2005 pku test",
        "development": chosen,
        "rows": rows,
        "claims": _claims(rows),
    }


def _claims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return paired differences over seeds with their intervals."""
    by_name = {(row["size"], row["method"]): row["f1_runs"] for row in rows}
    claims = []
    for size in dict.fromkeys(row["size"] for row in rows):
        for ours, other in CLAIMS:
            if (size, ours) not in by_name:
                continue
            pairs = zip(by_name[size, ours], by_name[size, other], strict=True)
            found = mean_of([a - b for a, b in pairs])
            claims.append(
                {
                    "size": size,
                    "method": ours,
                    "over": other,
                    "difference": found.mean,
                    "half": found.half,
                    "verdict": verdict(found),
                }
            )
    return claims


def table(result: Result) -> str:
    """Write F1, seconds and differences as Markdown."""
    text = (
        f"Word F1 on the {result['test']} after {result['passes']} passes, "
        "± standard deviation over seeds. Training data are shares of PFR 1998-01, "
        "which stands in for the official training file; the paper's figures are with "
        "that file. A seed is a fresh draw of the tenth, or a fresh shuffle of all. "
        f"The start of mean W, {result['development']['start']:g}, was chosen on "
        "held-out sentences of PFR.\n\n"
    )
    for size in dict.fromkeys(row["size"] for row in result["rows"]):
        rows = [row for row in result["rows"] if row["size"] == size]
        shown = size[0].upper() + size[1:]
        text += f"{shown} of PFR:\n\n{tagging.table(rows)}\n"
    rows = [
        [
            claim["size"],
            claim["method"],
            claim["over"],
            f"{claim['difference']:+.2f} ± {claim['half']:.2f}",
            claim["verdict"],
        ]
        for claim in result["claims"]
    ]
    head = ["size", "method", "over", "difference", ""]
    return text + "Paired differences, 95 % intervals:\n\n" + markdown(head, rows)


def picture(figure: Any, result: Result) -> None:
    """Draw the sentences with a mistake in each pass (the paper's Figure 2)."""
    figure.set_size_inches(6.4, 5.2)
    axes = figure.subplots()
    for row in result["rows"]:
        if row["size"] == "a tenth" and not row["method"].endswith("averaged"):
            curve = row["mistakes_by_pass"]
            axes.plot(range(1, len(curve) + 1), curve, label=row["method"])
    axes.set_xlabel("pass")
    axes.set_ylabel("training sentences with a mistake")
    axes.set_yscale("log")
    axes.set_title("A tenth of PFR 1998-01, nine character templates", loc="left")
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
