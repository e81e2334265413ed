"""What tells where rank-1 blocks win: the certificate, the spectrum or the first pass.

On each task of `bol-tasks`, and on shares of its training sentences, averaged sp and
block mirror descent (from zero, mean of W) are trained on the same first-order features
without label transitions. The gain is the test score of the blocks minus that of sp.
Four numbers that need no test data stand beside it:

* flatness, the median of sigma_2/sigma_1 over the blocks of the dual;
* mean rank, the mean of sum s_i^2 / s_1^2 over these blocks;
* certificate, the bound on the regret per label against the best multiple of the mean
  (DR-B4): that of sp minus that of the blocks;
* first pass, the share of wrong labels in the first pass, where each sentence is new
  (DR-B13): that of sp minus that of the blocks, in points.

A correlation is Spearman's, over the means of all points (a task and a share), with an
interval by the bootstrap over tasks. Points of one task stand or fall together there.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments.bol import tagging, tasks
from experiments.intervals import Mean, mean_of
from experiments.protocol import Experiment, Result, Setup, Verdict
from experiments.tables import markdown
from lowrank_jax import certify, loops, online

__all__ = ["EXPERIMENT", "rank_correlation", "within"]

SHARES = (0.1, 0.3, 1.0)
#: Numbers beside the gain; the second is +1 if a larger number should mean more gain.
PREDICTORS = {
    "flatness": -1,
    "mean rank": -1,
    "certificate": 1,
    "first pass": 1,
}
_NUM_SAMPLES = 2000


def certified(
    name: str, made: Callable[[], tagging.Task], seed: int, num_passes: int
) -> dict[str, Any]:
    """Train once; return test score, spectrum, certificate and first pass.

    Args:
      name: ``"sp"`` or ``"block"``.
      made: Returns the data.
      seed: Seed of the shuffles.
      num_passes: Number of passes.
    """
    task = made()
    train, test = tagging.streams_of(task, "first")
    module = online.perceptron if name == "sp" else online.bol
    learner = _learner(name, train.space.num_labels)
    key = jax.random.key(seed)
    state, trace = loops.train(learner, train, key=key, num_passes=num_passes)
    params = jax.jit(module.final_params)(state)
    found = certify.regret(state, trace, train, params, key=key, hindsight=True)
    num_labels = len(task.train.labels)
    first = np.asarray(trace.num_wrong)[: train.num_examples].sum()
    result = {
        "score": task.score(tagging.predicted(task, params, test), task.gold),
        "certificate": found.certificate / (num_passes * num_labels),
        "regret": found.regret / (num_passes * num_labels),
        "holds": found.holds,
        "first pass": 100 * float(first) / num_labels,
    }
    if name == "block":
        assert found.spectrum is not None
        result["flatness"] = found.spectrum.median_ratio
        result["mean rank"] = found.spectrum.mean_rank
    return result


@cache
def _learner(name: str, num_labels: int) -> Any:
    """Return a learner; the same one again compiles once."""
    if name == "sp":
        return online.perceptron.learner(record=("predicted",))
    return online.bol.learner(
        averaging="weights",
        num_power_steps=0 if num_labels <= 16 else 4,
        record=("predicted",),
    )


def run(setup: Setup) -> Result:
    """Train both learners on all points; small: a tenth of the sentences, two passes.

    The shares of a task are cut from one draw.
    """
    num_seeds, num_passes = (5, 10) if setup.is_full else (2, 2)
    rows = []
    for name, task in tasks.tasks(setup).items():
        for share in SHARES if setup.is_full else SHARES[1:]:
            runs = []
            for seed in range(num_seeds):
                draw = task.draw(seed)
                order = np.random.default_rng((13, seed)).permutation(
                    draw.train.num_sentences
                )
                size = max(2, round(share * len(order)))
                part = draw.train.take(np.sort(order[:size]))
                made = cache(
                    partial(
                        tagging.make_task, part, draw.test, task.template, task.score
                    )
                )
                both = {
                    which: setup.cell(
                        f"{name}, {share:g}, {seed}, {which}",
                        partial(certified, which, made, seed, num_passes),
                    )
                    for which in ("sp", "block")
                }
                runs.append(_compared(**both))
                setup.say(
                    f"{name:22} {share:.1f} {seed} gain {runs[-1]['gain']:+.2f}  "
                    + "  ".join(f"{key} {runs[-1][key]:.3g}" for key in PREDICTORS)
                )
            rows.append({"task": name, "share": share, "runs": runs})
    return {
        "experiment": "bol-predict",
        "scale": setup.scale,
        "seeds": num_seeds,
        "passes": num_passes,
        "rows": rows,
    }


def _compared(sp: dict[str, Any], block: dict[str, Any]) -> dict[str, float]:
    """Return the gain of one seed, and the numbers beside it."""
    if not (sp["holds"] and block["holds"]):
        raise RuntimeError("a certificate does not hold")
    return {
        "gain": block["score"] - sp["score"],
        "score": block["score"],
        "regret": sp["regret"] - block["regret"],
        "flatness": block["flatness"],
        "mean rank": block["mean rank"],
        "certificate": sp["certificate"] - block["certificate"],
        "first pass": sp["first pass"] - block["first pass"],
    }


def _means(result: Result, key: str) -> np.ndarray:
    """Return the mean over seeds of a number, by point."""
    return np.array(
        [np.mean([run[key] for run in row["runs"]]) for row in result["rows"]]
    )


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return ranks from 0; equal values share the mean of theirs."""
    less = (values[None, :] < values[:, None]).sum(1)
    same = (values[None, :] == values[:, None]).sum(1)
    return less + (same - 1) / 2


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Return Spearman's correlation; 0 if one of both is constant."""
    a, b = (_ranks(values) - (len(values) - 1) / 2 for values in (first, second))
    size = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / size) if size else 0.0


class Correlation(NamedTuple):
    """A correlation and its 95 % interval."""

    value: float
    low: float
    high: float

    def shown(self) -> str:
        """Return both as text."""
        return f"{self.value:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


def correlation(result: Result, key: str) -> Correlation:
    """Return the correlation of a number with the gain over all points.

    The interval is by the bootstrap over tasks.
    """
    gain, number = _means(result, "gain"), _means(result, key)
    names = [row["task"] for row in result["rows"]]
    places = [np.flatnonzero(np.array(names) == each) for each in dict.fromkeys(names)]
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(_NUM_SAMPLES):
        drawn = rng.integers(len(places), size=len(places))
        some = np.concatenate([places[i] for i in drawn])
        samples.append(rank_correlation(gain[some], number[some]))
    low, high = np.percentile(samples, [2.5, 97.5]).tolist()
    return Correlation(rank_correlation(gain, number), low, high)


def within(result: Result, key: str) -> Mean:
    """Return the correlation over the seeds of one point, mean over the points."""
    return mean_of(
        [
            rank_correlation(
                np.array([run["gain"] for run in row["runs"]]),
                np.array([run[key] for run in row["runs"]]),
            )
            for row in result["rows"]
        ]
    )


def verdicts(result: Result) -> list[Verdict]:
    """Return, for each number, if it tells where the gain is larger."""
    found: list[Verdict] = []
    for key, sign in PREDICTORS.items():
        value, *ends = correlation(result, key)
        low, high = sorted(sign * end for end in ends)
        side = "more" if sign > 0 else "less"
        found.append(
            {
                "claim": f"{side} {key} goes with more gain of the blocks over sp",
                "value": sign * value,
                "interval": [low, high],
                "verdict": (
                    "holds" if low > 0 else "fails" if high < 0 else "not decided"
                ),
            }
        )
    return found


def table(result: Result) -> str:
    """Write the points and the correlations as Markdown."""
    cells = []
    for row in result["rows"]:
        shown = [
            mean_of([run[key] for run in row["runs"]]).shown("+", mark="±")
            for key in ("gain", "certificate", "first pass")
        ]
        means = [
            f"{np.mean([run[key] for run in row['runs']]):.2f}"
            for key in ("score", "flatness", "mean rank")
        ]
        cells.append([row["task"], f"{row['share']:.0%}", means[0], *shown, *means[1:]])
    head = ["task", "share", "blocks", "gain over sp", "certificate", "first pass"]
    head += ["flatness", "mean rank"]
    rows = [
        [
            key,
            correlation(result, key).shown(),
            within(result, key).shown("+", mark="±"),
        ]
        for key in PREDICTORS
    ]
    return (
        f"Blocks (mean of W, from zero) and averaged sp on the same first-order "
        f"features, {result['passes']} passes, {result['seeds']} seeds, 95 % "
        "intervals. Gain: test score of the blocks minus that of sp. Certificate "
        "(bound on the regret per label) and first pass (wrong labels in percent): sp "
        "minus blocks. Flatness: median sigma_2/sigma_1.\n\n"
        f"{markdown(head, cells)}\n"
        "Spearman's correlation with the gain, over all points (interval by the "
        "bootstrap over tasks), and over the seeds of one point:\n\n"
    ) + markdown(["number", "over all points", "over the seeds of a point"], rows)


def picture(figure: Any, result: Result) -> None:
    """Draw the gain against each number, one dot a run."""
    figure.set_size_inches(8.4, 6.4)
    panels = figure.subplots(2, 2).ravel()
    names = list(dict.fromkeys(row["task"] for row in result["rows"]))
    labels = {
        "flatness": "median σ₂/σ₁ of the blocks",
        "mean rank": "mean rank of the blocks",
        "certificate": "certificate: sp minus blocks, per label",
        "first pass": "wrong labels of the first pass: sp minus blocks (points)",
    }
    for axes, key in zip(panels, PREDICTORS, strict=True):
        for row in result["rows"]:
            number = names.index(row["task"])
            axes.scatter(
                [run[key] for run in row["runs"]],
                [run["gain"] for run in row["runs"]],
                s=12 + 28 * row["share"],
                color=f"C{number}",
                alpha=0.7,
                linewidths=0,
            )
        axes.axhline(0, color="0.3", linewidth=0.8)
        axes.set_yscale("symlog", linthresh=1)
        ticks = (-1, 0, 1, 2, 5, 10)
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_xlabel(labels[key])
        found = correlation(result, key).shown()
        axes.set_title(f"correlation {found}", loc="left", fontsize=10)
        axes.grid(alpha=0.3)
    for axes in panels[::2]:
        axes.set_ylabel("gain of the blocks over sp (points)")
    for number, name in enumerate(names):
        panels[0].scatter([], [], color=f"C{number}", label=name)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)


EXPERIMENT = Experiment(
    "bol-predict",
    "What tells where rank-1 blocks win: certificate, spectrum, first pass",
    "a stand-in",
    "tenths of SIGHAN-2005 pku and msr, CoNLL-2000, NETtalk, Brown",
    run,
    table,
    picture,
    verdicts=verdicts,
)
