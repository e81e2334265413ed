"""BOL-E1, Figure 1: word F1 against the share of the training sentences.

The official training files of SIGHAN-2005 are not obtainable as a whole. Shares of PFR
1998-01 stand in for shares of pku, tested on the pku test. Beside them stand the tenths
of the official pku and msr files that are obtainable. The source of the msr tenth
normalised it, and the msr test is normalised in the same way (`bol-tasks`).

Nine character templates with full-width forms written half-width, twenty passes. A seed
is a fresh draw of the share, or a fresh shuffle where the training file is given. The
paper's learners have first-order features alone and no averaging; each run is also
scored by its mean. The paper calls a method better if it is better on at least 8 of the
10 points of its figure.
"""

from functools import partial
from typing import Any

from experiments.bol import table1, tagging, tasks
from experiments.bol.tagging import Method
from experiments.protocol import Experiment, Result, Setup, Verdict
from experiments.tables import markdown
from lowrank_jax import data

__all__ = ["EXPERIMENT"]

SHARES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
#: Mean F1 of bol, bcd and sp on pku, read off the paper's Figure 1.
PAPER = {0.1: 89.7, 0.2: 92.0, 0.5: 93.5, 1.0: 94.4}
OFFICIAL = {"tenth of pku": 89.7, "tenth of msr": 91.5}
NAMES = (table1.SP, table1.START, table1.SAFE, "block, start 3", table1.ZERO)
#: Differences that a claim is about: method, form, other method, its form.
CLAIMS = (
    (table1.START, "last", table1.SP, "last"),
    (table1.SAFE, "last", table1.SP, "last"),
    (table1.START, "mean", table1.ZERO, "mean"),
    ("block, start 3", "mean", table1.SP, "mean"),
    ("block, start 3", "mean", table1.ZERO, "mean"),
)


def methods() -> list[Method]:
    """Return the learners of the figure, which are rows of Table 1."""
    return [method for method in table1.methods() if method.name in NAMES]


def run(setup: Setup) -> Result:
    """Train and score all methods on all shares; small: two shares, three passes."""
    whole, test = table1.read_corpora(setup.data_dir)
    official = tasks.tenths(setup.data_dir)
    num_passes, num_seeds = (20, 5) if setup.is_full else (3, 2)
    result: Result = {
        "experiment": "bol-fig1",
        "scale": setup.scale,
        "passes": num_passes,
        "seeds": num_seeds,
        "train": "PFR 1998-01 (stand-in for SIGHAN-2005 pku training)",
        "test": "SIGHAN-2005 pku test; msr test for the tenth of msr",
        "rows": [],
    }

    def fit(method: Method, task: table1.Lazy, seed: int) -> dict[str, Any]:
        return tagging.fit(method, task(), seed=seed, num_passes=num_passes)

    for point in (*OFFICIAL, *(SHARES if setup.is_full else SHARES[:2])):
        runs: dict[str, list[dict[str, Any]]] = {}
        for seed in range(num_seeds):
            if isinstance(point, str):
                pair = official[point]
            elif point == 1:
                pair = whole, test
            else:
                pair = table1.part_of(whole, point, seed)[0], test
            if not setup.is_full and isinstance(point, str):
                pair = data.split_fraction(pair[0], 0.2, 0), pair[1]
            task = table1.Lazy(*pair)
            for method in methods():
                found = setup.cell(
                    f"{point}, {seed}, {method.name}", partial(fit, method, task, seed)
                )
                runs.setdefault(method.name, []).append(found)
                setup.say(
                    f"{point} {seed} {method.name:32} last {found['last']:.2f} mean "
                    f"{found['mean']:.2f}  {found['seconds']:.1f} s"
                )
        is_official = isinstance(point, str)
        result["rows"].append(
            {
                "point": point if is_official else f"{point:.0%} of PFR",
                "share": None if is_official else point,
                "num_sentences": pair[0].num_sentences,
                "paper": OFFICIAL[point] if is_official else PAPER.get(point),
                "methods": [
                    tagging.summary(name, found, form)
                    for name, found in runs.items()
                    for form in ("last", "mean")
                ],
                "claims": tagging.differences(runs, CLAIMS),
            }
        )
    return result


def points_won(result: Result, number: int) -> tuple[int, int, int]:
    """Count the points where the means differ in favour of a claim.

    Args:
      result: Result of a run.
      number: Index into `CLAIMS`.

    Returns:
      Points where the method's mean is higher, points where the interval says so, and
      points in all.
    """
    found = [row["claims"][number] for row in result["rows"]]
    return (
        sum(claim["difference"] > 0 for claim in found),
        sum(claim["verdict"] == "better" for claim in found),
        len(found),
    )


def verdicts(result: Result) -> list[Verdict]:
    """Return the differences at each point, and the paper's "8 of 10 points"."""
    found: list[Verdict] = []
    for number, (ours, form, other, its_form) in enumerate(CLAIMS):
        higher, sure, total = points_won(result, number)
        claim = f"{ours}, {form} above {other}, {its_form} on 8 of 10 points"
        holds = higher >= 0.8 * total
        found.append(
            {
                "claim": claim,
                "value": higher / total,
                "interval": None,
                "verdict": "holds" if holds else "fails",
                "found": f"higher on {higher} of {total}, by its interval on {sure}",
            }
        )
    for row in result["rows"]:  # the paper's claim, and the best of ours
        found += tagging.decided(row["point"], [row["claims"][0], row["claims"][-1]])
    return found


def table(result: Result) -> str:
    """Write F1 and differences by share as Markdown."""
    forms = [("last", name) for name in NAMES] + [("mean", name) for name in NAMES]
    rows, claims = [], []
    for row in result["rows"]:
        by_key = {(one["form"], one["method"]): one for one in row["methods"]}
        cells = [
            f"{by_key[key]['f1']:.2f} ± {by_key[key]['f1_std']:.2f}" for key in forms
        ]
        paper = "-" if row["paper"] is None else f"{row['paper']:.1f}"
        rows.append([row["point"], f"{row['num_sentences']:,}", *cells, paper])
        claims.append(
            [
                row["point"],
                *(
                    f"{claim['difference']:+.2f} ± {claim['half']:.2f}"
                    for claim in row["claims"]
                ),
            ]
        )
    won = []
    for number, (ours, form, other, its_form) in enumerate(CLAIMS):
        higher, sure, total = points_won(result, number)
        won.append(
            f"* {ours}, {form} over {other}, {its_form}: higher on {higher} of {total} "
            f"points, with an interval above 0 on {sure}."
        )
    head = [f"{name}, {form}" for form, name in forms]
    names = [f"{a}, {b} over {c}, {d}" for a, b, c, d in CLAIMS]
    return (
        f"Word F1 on the {result['test']} after {result['passes']} passes, "
        f"{result['seeds']} seeds, ± standard deviation. Shares of PFR 1998-01 stand "
        "in for shares of the official pku file; the paper's column is the mean of its "
        "three online methods on that file (msr: on the msr file).\n\n"
        + markdown(["training data", "sentences", *head, "paper"], rows)
        + "\nPaired differences, 95 % intervals:\n\n"
        + markdown(["training data", *names], claims)
        + "\nThe paper calls a method better that is better on 8 of 10 points:\n\n"
        + "\n".join(won)
        + "\n"
    )


def picture(figure: Any, result: Result) -> None:
    """Draw the differences with their intervals against the share."""
    figure.set_size_inches(7.2, 4.4)
    axes = figure.subplots()
    rows = [row for row in result["rows"] if row["share"] is not None]
    shares = [100 * row["share"] for row in rows]
    for i, (ours, form, other, its_form) in enumerate(CLAIMS):
        found = [row["claims"][i] for row in rows]
        axes.errorbar(
            [share * 1.03 ** (i - 2) for share in shares],
            [claim["difference"] for claim in found],
            yerr=[claim["half"] for claim in found],
            marker="os^vD"[i],
            color=f"C{i}",
            capsize=2,
            label=f"{ours}, {form} over {other}, {its_form}",
        )
        for row in result["rows"]:
            if row["share"] is None:
                axes.plot(
                    [10], [row["claims"][i]["difference"]], "x", color=f"C{i}", ms=7
                )
    axes.plot([], [], "x", color="0.3", label="tenths of the official pku, msr files")
    axes.axhline(0, color="0.3", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xticks(shares, [f"{share:g}" for share in shares])
    axes.minorticks_off()
    axes.set_xlabel("share of the training sentences (%)")
    axes.set_ylabel("difference of word F1 (points)")
    axes.set_title("Word segmentation (BOL Figure 1), 95 % intervals", loc="left")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=1, frameon=False, fontsize=7)


EXPERIMENT = Experiment(
    "bol-fig1",
    "BOL Figure 1 (pku, msr): word F1 against the share of training data",
    "a stand-in",
    "shares of PFR 1998-01 (stand-in for SIGHAN-2005 pku), tenths of pku and msr",
    run,
    table,
    picture,
    verdicts=verdicts,
)
