"""SMM Figure 2: accuracy on development words against the strength, 2,000 words.

Nuclear norm on one or both unfoldings of the trigram table, the Frobenius norm and half
its square (errata SMM-B2), beside no regulariser. For each strength the step size c,
the number of iterations and the iterate are chosen on the development words. All
methods, the unregularised one too, choose from the same lists.
"""

import functools
from typing import Any

import numpy as np

from experiments.intervals import Mean, mean_of
from experiments.protocol import Experiment, Result, Setup
from experiments.smm import words
from experiments.smm.words import Setting
from experiments.tables import markdown

__all__ = ["EXPERIMENT"]

NUM_WORDS = 2_000
STEP_SIZES = (0.05, 0.15, 0.5)
CHECKPOINTS = (100, 200)
#: Name, regulariser, unfolding and strengths.
PATHS = (
    ("nuclear, last", "nuclear", "last", (2.0, 5.0, 10.0, 20.0)),
    ("nuclear, both", "nuclear", "both", (2.0, 5.0, 10.0, 20.0)),
    ("Frobenius", "frobenius", "last", (3.0, 10.0, 30.0, 100.0)),
    ("squared Frobenius", "squared_frobenius", "last", (0.15, 0.5, 1.5, 5.0)),
)
UNREGULARISED = "unregularised"
PAPER = {"spectral": 2.2, "L2": 1.1}  # points above unregularised, read off Figure 2


def run(setup: Setup) -> Result:
    """Run all paths; small: one split of three, two strengths, few iterations."""
    is_full, say = setup.is_full, setup.say
    num_splits = 3 if is_full else 1
    step_sizes = STEP_SIZES if is_full else STEP_SIZES[1:]
    checkpoints = CHECKPOINTS if is_full else (50, 100)
    corpus = words.read_words(setup.data_dir)
    result: Result = {
        "experiment": "smm-fig2",
        "scale": setup.scale,
        "splits": num_splits,
        "num_words": NUM_WORDS,
        "step_sizes": list(step_sizes),
        "checkpoints": list(checkpoints),
        "rows": [],
    }
    for split in range(num_splits):
        task = words.make_task(words.draw_split(corpus, split), NUM_WORDS)
        for name, regulariser, unfolding, strengths in (
            (UNREGULARISED, "none", "last", (0.0,)),
            *PATHS,
        ):
            for strength in strengths if is_full else strengths[1:3] or strengths:
                settings = [
                    Setting(regulariser, strength, c, unfolding) for c in step_sizes
                ]
                choose = functools.partial(_best, settings, task, checkpoints, say)
                best = setup.cell(f"{split}, {name}, {strength:g}", choose)
                result["rows"].append({"split": split, "method": name, **best})
                say(
                    f"split {split} {name:18} tau {strength:<6g} "
                    f"development {best['development']:.2f}, gap {best['gap']:.3f}"
                )
    result |= _summary(result["rows"], num_splits)
    for claim in result["claims"]:
        say(f"{claim['claim']}: {claim['found']}: {claim['answer']}")
    return result


def _best(*given: Any) -> dict[str, Any]:
    """Return the best of some settings, without its model."""
    return words.choose(*given)[0].summary()


def _summary(rows: list[dict[str, Any]], num_splits: int) -> dict[str, Any]:
    """Return the curves, and what the paper says beside what was found.

    A claim holds in part where the sign is right and the size is not reached.
    """
    curves: dict[str, list[dict[str, Any]]] = {}
    for name in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == name]
        curves[name] = []
        for strength in sorted({row["setting"]["strength"] for row in own}):
            here = [row for row in own if row["setting"]["strength"] == strength]
            found = mean_of([row["development"] for row in here])
            curves[name].append(
                {
                    "strength": strength,
                    "development": found.mean,
                    "half_width": found.half,
                    "gap": max(row["gap"] for row in here),
                    "rank": float(np.mean([row["rank"] for row in here])),
                }
            )

    def above(prefix: str) -> Mean:
        """Points above unregularised on the same split, the best of the path."""
        points = []
        for split in range(num_splits):
            own = [row for row in rows if row["split"] == split]
            best = max(
                row["development"] for row in own if row["method"].startswith(prefix)
            )
            (base,) = (
                row["development"] for row in own if row["method"] == UNREGULARISED
            )
            points.append(best - base)
        return mean_of(points)

    claims = []
    for title, prefix, paper in (
        ("spectral", "nuclear", PAPER["spectral"]),
        ("L2 (norm, as printed)", "Frobenius", PAPER["L2"]),
        ("L2 (half its square)", "squared", PAPER["L2"]),
    ):
        found = above(prefix)
        answer = "in part" if found.mean - found.half > 0 else "no"
        claims.append(
            {
                "claim": f"{title} lies {paper} points above unregularised",
                "found": found.shown("+"),
                "points": found.mean,
                "half_width": found.half,
                "answer": "yes" if found.mean >= paper else answer,
            }
        )
    return {"curves": curves, "claims": claims}


def table(result: Result) -> str:
    """Write curves and claims as Markdown."""
    rows = []
    for name, curve in result["curves"].items():
        for point in curve:
            rank = f"{point['rank']:.0f}" if point["rank"] >= 0 else ""
            gap = f"{100 * point['gap']:.1f} %" if name != UNREGULARISED else ""
            score = Mean(point["development"], point["half_width"]).shown()
            rows.append([name, f"{point['strength']:g}", score, rank, gap])
    head = ["method", "tau", "development accuracy", "rank", "duality gap"]
    return markdown(head, rows) + "\n" + words.claims_table(result["claims"])


def picture(figure: Any, result: Result) -> None:
    """Draw accuracy against the strength."""
    figure.set_size_inches(6.4, 4.0)
    axes = figure.subplots()
    for (name, curve), marker in zip(result["curves"].items(), "xos^Dv", strict=False):
        scores = [point["development"] for point in curve]
        if name == UNREGULARISED:
            axes.axhline(scores[0], color="0.5", linestyle="--", label=name)
            continue
        axes.errorbar(
            [point["strength"] for point in curve],
            scores,
            yerr=[point["half_width"] for point in curve],
            marker=marker,
            capsize=2,
            label=name,
        )
    axes.set_xscale("log")
    axes.set_xlabel("strength")
    axes.set_ylabel("accuracy on development words (%)")
    axes.set_title(f"NETtalk, {result['num_words']:,} words (SMM Figure 2)", loc="left")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)


EXPERIMENT = Experiment(
    "smm-fig2",
    "SMM Figure 2: the path of the regulariser's strength at 2,000 words",
    "the paper's data",
    "NETtalk",
    run,
    table,
    picture,
    verdicts=words.verdicts,
)
