"""The page that ``lowrank-jax verify --html`` writes: the table, and plots of runs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowrank_jax.report import page as report
from lowrank_jax.report.page import BLUE, GREEN, GREY, ORANGE, PURPLE
from lowrank_jax.verify.curves import Curves
from lowrank_jax.verify.statement import Effort, Result

__all__ = ["page", "pictures", "statements_table"]
__dir__ = __all__.copy

_COLOURS = {"sp": GREY, "bol block": BLUE, "bol paper": ORANGE, "bol exact": PURPLE}
_STEPS = {
    "paper": "paper (TM-Eq6)",
    "exact": "exact sub-problem (DR-T1)",
    "bcd": "block descent (DR-T2)",
}

_SAID = {  # words and CSS class by status
    "proved": ("holds, proved", "good"),
    "checked": ("holds, checked", "seen"),
    "printed-form-fails": ("fails as printed", "known"),
}


def page(
    results: Sequence[Result], curves: Curves, effort: Effort, seconds: float
) -> str:
    """Return the page.

    Args:
      results: Results of the statements.
      curves: Curves of the runs that are drawn.
      effort: Effort of the trials.
      seconds: Time of the trials.
    """
    num_trials = sum(result.trials for result in results)
    kind = "quick" if effort.is_quick else "full"
    body = [
        f"<p>{len(results)} rows, {num_trials:,} trials in double precision "
        f"({kind} effort, seed {effort.seed}, {seconds:.0f} s).</p>",
        statements_table(results),
        *pictures(curves),
    ]
    return report.page("Statements of the four papers, checked", body)


def statements_table(results: Sequence[Result]) -> str:
    """Return the table of statements and a word on how to read it; HTML."""
    rows, marks = [], []
    for result in results:
        has_ratio = result.trials and np.isfinite(result.worst_ratio)
        form = f"{result.form}: " if result.form else ""
        rows.append(
            (
                result.id,
                form + result.statement,
                f"{result.trials:,}",
                f"{result.worst_slack:.1e}" if result.trials else "-",
                f"{result.worst_ratio:.3g}" if has_ratio else "-",
                _SAID[result.status][0] if result.as_expected else _wrong(result),
            )
        )
        marks.append(_SAID[result.status][1] if result.as_expected else "bad")
    head = ("id", "statement", "trials", "worst slack", "ratio", "status")
    return (
        report.table(head, rows, text=("statement",), marks=marks)
        + '<p class="small">Each row was tried on problems made for it. '
        '<b class="good">holds, proved</b> in green: it must hold in every trial, and '
        'does. <b class="seen">holds, checked</b> in blue: found to hold, without a '
        'proof here. <b class="known">fails as printed</b> in amber: this is how the '
        "paper prints it, and the trials hold a counter-example. What came out "
        'otherwise says <b class="bad">NOT AS EXPECTED</b> in red. '
        "The worst slack is the least distance "
        "from the bound, as a share of the larger side; for an identity it is minus "
        "the distance, so a little below 0 by rounding. The ratio is the largest "
        "observed over bound: at 1 the bound is attained.</p>"
    )


def _wrong(result: Result) -> str:
    if result.status == "printed-form-fails":
        return "NOT AS EXPECTED: the printed form holds"
    return f"NOT AS EXPECTED: {result.status}, but fails in {result.failures:,}"


def pictures(curves: Curves) -> list[str]:
    """Return the plots, each with its heading and caption; HTML."""
    gap = curves.gap
    share = 100 * (1 - gap.lower_bound[-1] / gap.best[-1])
    rate = curves.descent.predicted_rate
    times = _times(float(curves.regret.paper[-1] / curves.regret.tight[-1]))
    rises = {
        step: float((rounds.after > rounds.before * (1 + 1e-9)).mean())
        for step, rounds in curves.rounds.items()
    }
    return [
        "<h2>Regret and what bounds it</h2>",
        report.picture(
            lambda figure: _draw_regret(figure, curves),
            "The lines show the regret of online bilinear learning on noisy matrices "
            "against the planted weights, and three bounds on it. The "
            "certificate (DR-B4) comes from "
            "the run itself and stays close; the tight bound (DR-B3) grows with the "
            "ratio of the singular values, the paper's bound (BOL-P4) is "
            f"{times} the tight one. Each line lies above the one before it.",
            3.5,
        ),
        "<h2>The dual of a run on sequences</h2>",
        report.picture(
            lambda figure: _draw_duals(figure, curves),
            "The lines show the dual objective of each learner along its rounds. "
            "Left, at C = 1, it "
            "falls: the paper's claim that it rises with every mistake fails. Right, "
            "at the C that is best after the fact (DR-B8), on which no prediction "
            "depends: positive, and below every primal objective.",
            2.6,
            width=5.2,
        ),
        report.picture(
            lambda figure: _draw_spectrum(figure, curves),
            "The left panel shows the second singular value of the dual matrix over "
            "the first, the right panel how many blocks the model uses, in effect "
            "(participation number). Near 1 the two values are tied, and bounds that "
            "divide by their gap say nothing. The "
            "exact mirror map keeps a single block, whatever the data; Algorithm 2 "
            "as printed works because it does not converge to it.",
            2.6,
            width=5.2,
        ),
        "<h2>Descent of sparse bilinear logistic regression</h2>",
        report.picture(
            lambda figure: _draw_descent(figure, curves),
            "The lines show how the objective and the weights approach their limits, "
            f"sweep by sweep. Dashed: the rate predicted before looking, {rate:.4f} "
            "per sweep, the spectral radius of the Jacobian of a sweep at the limit "
            "(DR-S6). The convergence is linear, not faster.",
            3.2,
        ),
        "<h2>Duality gap of spectral tagging</h2>",
        report.picture(
            lambda figure: _draw_gap(figure, curves),
            "The lines show the objective of FOBOS along its iterations, the best so "
            "far, and the lower bound on the optimum that averaged subgradients give "
            "(DR-M2). After "
            f"{len(gap.best)} iterations {share:.1f} % are between them.",
            3.0,
        ),
        "<h2>Objective (3) of Tensor-MIRA</h2>",
        report.picture(
            lambda figure: _draw_rounds(figure, curves),
            "Each dot is a round with a mistake: objective (3) as it begins and as it "
            "ends, one panel per step rule. Orange dots above the line have risen: "
            + ", ".join(
                f"{100 * rises[step]:.0f} % for {_STEPS[step]}" for step in rises
            )
            + ". Block descent never rises.",
            2.4,
            width=5.4,
        ),
    ]


def _times(number: float) -> str:
    return f"{number:.0f} times" if np.isfinite(number) else "far above"


def _draw_regret(figure: Any, curves: Curves) -> None:
    axes = figure.subplots()
    rounds = np.arange(1, len(curves.regret.regret) + 1)
    for name, values, colour, style in (
        ("paper's bound (BOL-P4)", curves.regret.paper, ORANGE, "-"),
        ("tight bound (DR-B3)", curves.regret.tight, GREEN, "-"),
        ("certificate (DR-B4)", curves.regret.certificate, BLUE, "--"),
        ("regret", curves.regret.regret, BLUE, "-"),
    ):
        shown = np.where(np.isfinite(values) & (values > 0), values, np.nan)
        axes.plot(rounds, shown, style, color=colour, label=name)
    axes.set(yscale="log", xlabel="round", ylabel="summed over rounds")
    figure.legend(fontsize=9, loc="outside upper left", ncols=2)


def _draw_duals(figure: Any, curves: Curves) -> None:
    fixed, best = figure.subplots(1, 2)
    for name, run in curves.duals.items():
        if name == "bol paper":  # its map is not the gradient of a conjugate
            continue
        rounds = np.arange(1, len(run.mistakes) + 1)
        fixed.plot(rounds, run.dual, color=_COLOURS[name], label=name)
        best.plot(rounds, run.best_dual, color=_COLOURS[name], label=name)
    fixed.set(xlabel="round", title="at C = 1")
    best.set(xlabel="round", title="at the best C")
    fixed.set_ylabel("dual objective")
    fixed.legend(fontsize=9)
    best.set_ylim(bottom=0)


def _draw_spectrum(figure: Any, curves: Curves) -> None:
    ratio, blocks = figure.subplots(1, 2)
    for name, run in curves.duals.items():
        rounds = np.arange(1, len(run.mistakes) + 1)
        look = {"color": _COLOURS[name], "label": name, "linewidth": 1.2}
        ratio.plot(rounds, run.ratio, **look)
        blocks.plot(rounds, run.blocks_in_use, **look)
    ratio.set(xlabel="round", title="$\\sigma_2 / \\sigma_1$", ylim=(0, 1.03))
    blocks.set(xlabel="round", title="blocks in use")
    blocks.set_ylim(bottom=0)
    names = blocks.get_legend_handles_labels()
    figure.legend(*names, fontsize=9, loc="outside upper center", ncols=4)


def _draw_descent(figure: Any, curves: Curves) -> None:
    axes = figure.subplots()
    run = curves.descent
    sweeps = np.arange(1, len(run.distance) + 1)
    above = run.objective - run.limit
    axes.plot(
        sweeps,
        np.where(above > 1e-15, above, np.nan),
        color=ORANGE,
        label="objective above its limit",
    )
    axes.plot(sweeps, run.distance, color=BLUE, label="distance to the limit")
    middle = len(sweeps) // 2
    predicted = run.distance[middle] * run.predicted_rate ** (sweeps - sweeps[middle])
    axes.plot(
        sweeps,
        3 * predicted,  # beside the line, not on it
        "--",
        color=GREY,
        label=f"predicted slope, {run.predicted_rate:.3f} per sweep",
    )
    axes.set(yscale="log", xlabel="sweep")
    axes.legend(fontsize=9)


def _draw_gap(figure: Any, curves: Curves) -> None:
    axes = figure.subplots()
    run = curves.gap
    iterations = np.arange(1, len(run.best) + 1)
    axes.plot(iterations, run.objective, color=GREY, linewidth=0.8, label="objective")
    axes.plot(iterations, run.best, color=BLUE, label="best objective")
    axes.plot(iterations, run.lower_bound, color=GREEN, label="lower bound")
    axes.fill_between(iterations, run.lower_bound, run.best, color=BLUE, alpha=0.12)
    axes.set(xscale="log", xlabel="iteration")
    axes.set_ylim(0, 1.3 * float(np.median(run.objective)))
    axes.legend(fontsize=9, loc="lower right")


def _draw_rounds(figure: Any, curves: Curves) -> None:
    panels = figure.subplots(1, len(curves.rounds), sharex=True, sharey=True)
    every = [part for run in curves.rounds.values() for part in run]
    values = np.concatenate(every)
    low = float(np.quantile(values[values > 0], 0.01)) / 2
    high = 2 * float(values.max())
    for axes, (step, run) in zip(panels, curves.rounds.items(), strict=True):
        has_risen = run.after > run.before * (1 + 1e-9)
        axes.plot([low, high], [low, high], color=GREY, linewidth=0.8)
        for is_there, colour in ((~has_risen, BLUE), (has_risen, ORANGE)):
            axes.scatter(
                run.before[is_there],
                np.maximum(run.after[is_there], low),
                7,
                color=colour,
                linewidths=0,
            )
        axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
        axes.set_title(step, fontsize=10)
        axes.set_xlabel("before")
    panels[0].set_ylabel("after the round")
