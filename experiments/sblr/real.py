"""SBLR Tables 2 to 5 on other real data: EEG, spectra, images and skeletons.

| protocol | stands in for |
|---|---|
| eegmmidb S001, fists against feet, each run the test once | Table 2, two classes |
| BCI III data set V, three subjects, the official test | Table 3, three classes |
| ETH-80, 8 categories, unseen objects; 80 objects, unseen views | Table 4, ALOI |
| MSR-Action3D, unseen people; 6 sequences of each action | Table 5, UCF sports |

Strengths and ranks are chosen by cross-validation within the training part, on small
grids. Random splits have intervals by Student's t, widened where splits share half of
their training objects. A fixed split has intervals by the bootstrap over units of its
test part: sequences, stretches of one label, trials. Differences are paired.

Beside the paper's methods: ridge, the nuclear norm on the whole weight matrix, and its
total variation along time (or frequency). On EEG signals also pyriemann's tangent space
and MNE's common spatial patterns, where these packages are installed.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from experiments.intervals import mean_of, verdict
from experiments.protocol import Experiment, Result, Setup, Verdict
from experiments.sblr import recordings, tasks
from experiments.sblr.recordings import Case
from experiments.sblr.tasks import Method
from experiments.tables import bullets, markdown

__all__ = ["EXPERIMENT"]

NUM_SAMPLES = 2000
PEERS = {
    "CSP + LDA (MNE)": "mne",
    "tangent space + LR (pyriemann)": "pyriemann",
}
#: Pairs to compare, the paper's order first.
PAIRS = (
    ("LR", "sparse LR"),
    ("sparse LR", "BLR"),
    ("BLR", "SBLR"),
    ("ridge LR", "SBLR"),
    ("nuclear norm", "SBLR"),
    ("total variation", "SBLR"),
    ("SBLR", "M-SBLR"),
    *((name, "SBLR") for name in PEERS),
)
ORDER = PAIRS[:3]


class Protocol(NamedTuple):
    """Tasks and the way they are judged.

    Attributes:
      name: Name in the tables.
      stands_for: Table of the paper.
      cases: Makes the tasks.
      has_line: True if the columns of a matrix are times or frequencies.
      overlap: Ratio of test to training size in `intervals.mean_of` for random splits
        of one data set: 1 where half of the objects are trained on, 0 where training
        parts are few draws from many. None if the split is fixed: test parts are then
        disjoint, and their examples are counted together.
    """

    name: str
    stands_for: str
    cases: Callable[[], Iterator[Case]]
    has_line: bool
    overlap: float | None


def protocols(setup: Setup) -> list[Protocol]:
    """Return the protocols of a scale."""
    place, is_full = setup.data_dir, setup.is_full
    few: dict[str, Any] = {} if is_full else {"num_actions": 4}
    images: dict[str, Any] = {} if is_full else {"num_categories": 3, "size": 8}
    trials: dict[str, Any] = {} if is_full else {"tasks": (2,)}
    persons: dict[str, Any] = {} if is_full else {"subjects": (1,)}
    on = functools.partial
    many = 6 if is_full else 2
    views = [
        Protocol(
            "ETH-80, unseen objects",
            "Table 4",
            on(recordings.categories, place, 5 if is_full else 2, **images),
            has_line=False,
            overlap=1.0,
        ),
        Protocol(
            "ETH-80, 80 objects",
            "Table 4",
            on(recordings.objects, place, 3, **images),
            has_line=False,
            overlap=0.0,
        ),
    ]
    return [
        Protocol(
            "eegmmidb S001",
            "Table 2",
            on(recordings.movements, place, **trials),
            has_line=True,
            overlap=None,
        ),
        Protocol(
            "BCI III V",
            "Table 3",
            on(recordings.spectra, place, **persons),
            has_line=True,
            overlap=None,
        ),
        *views[: 2 if is_full else 1],
        Protocol(
            "MSR-Action3D, unseen people",
            "Table 5",
            on(recordings.people, place, **few),
            has_line=True,
            overlap=None,
        ),
        Protocol(
            "MSR-Action3D, 6 a class",
            "Table 5",
            on(recordings.videos, place, many, **few),
            has_line=True,
            overlap=0.0,
        ),
    ]


def methods(*, has_line: bool, is_many: bool, is_full: bool) -> list[Method]:
    """Return the methods of a protocol, with what each chooses from."""
    number = 4 if is_full else 2
    none = np.zeros(number)
    absolute = np.stack([np.geomspace(0.1, 1e-3, number), none], axis=1)
    ridge = np.stack([none, np.geomspace(1.0, 1e-3, number)], axis=1)
    line = np.geomspace(0.1, 1e-3, number)[:, None]
    l1, l2 = ((1e-2, 1e-3, 0.0), (0.1, 1e-2, 1e-3)) if is_full else ((1e-3,), (1e-2,))
    points = np.array([(a, b, a, b) for a in l1 for b in l2])
    ranks = (1, 2) if is_full else (1,)
    convex = functools.partial(Method, is_bilinear=False, max_iterations=200)
    found = [
        convex("LR", points=np.zeros((1, 2))),
        convex("sparse LR", points=absolute),
        convex("ridge LR", points=ridge),
        convex("nuclear norm", points=line, penalty="nuclear"),
    ]
    if has_line:
        found.append(convex("total variation", points=line, penalty="variation"))
    found += [
        Method("BLR", True, np.zeros((1, 4)), ranks),
        Method("SBLR", True, points, ranks),
    ]
    if is_many:
        found.append(Method("M-SBLR", True, points, ranks, is_joint=True))
    return found


def run(setup: Setup) -> Result:
    """Score all methods."""
    result: Result = {
        "experiment": "sblr-real",
        "scale": setup.scale,
        "left_out": [name for name, model in peers().items() if model is None],
        "protocols": [],
    }
    for protocol in protocols(setup):
        found: dict[str, list[np.ndarray]] = {}
        choices: dict[str, list[Any]] = {}
        units = []
        for number, case in enumerate(protocol.cases()):
            score = functools.partial(_scored, protocol, case, setup.is_full)
            for name, each in setup.cell(f"{protocol.name}, {number}", score).items():
                found.setdefault(name, []).append(np.array(each["correct"], bool))
                choices.setdefault(name, []).append(each["choice"])
            units.append(case.units)
            shown = (f"{name} {each[-1].mean():.3f}" for name, each in found.items())
            setup.say(f"{protocol.name}, {number + 1}: " + ", ".join(shown))
        result["protocols"].append(summary(protocol, found, choices, units))
    return result


def _scored(protocol: Protocol, case: Case, is_full: bool) -> dict[str, Any]:
    """Return the truth of each method's answers on the test part, and its choice."""
    task = case.task
    ranks: dict[str, int] = {}
    found: dict[str, Any] = {}
    wanted = methods(
        has_line=protocol.has_line,
        is_many=int(task.codes.max()) > 1,
        is_full=is_full,
    )
    codes = task.codes[~task.is_train]

    def keep(name: str, answers: np.ndarray, choice: Any) -> None:
        correct = (answers == codes).astype(int).tolist()
        found[name] = {"correct": correct, "choice": choice}

    for method in wanted:
        rank = ranks.get(method.name)
        scores, choice = tasks.choose_and_score(method, task, rank=rank)
        if method.name == "BLR":
            ranks["SBLR"] = choice["rank"]
        is_one = scores.shape[1] == 1
        keep(method.name, scores[:, 0] > 0 if is_one else scores.argmax(1), choice)
    if case.signals is not None:
        for name, model in peers().items():
            if model is not None:
                model.fit(case.signals[task.is_train], task.codes[task.is_train])
                keep(name, model.predict(case.signals[~task.is_train]), None)
    return found


def peers() -> dict[str, Any]:
    """Return the pipelines of the peers by name, None where a package is absent."""
    import importlib.util

    made: dict[str, Any] = {}
    for name, package in PEERS.items():
        if importlib.util.find_spec(package) is None:
            made[name] = None
            continue
        made[name] = _csp() if package == "mne" else _tangent()
    return made


def _csp() -> Any:
    import mne
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.pipeline import make_pipeline

    mne.set_log_level("ERROR")
    patterns = mne.decoding.CSP(n_components=4, reg="oas")
    return make_pipeline(patterns, LinearDiscriminantAnalysis())


def _tangent() -> Any:
    from pyriemann.estimation import Covariances
    from pyriemann.tangentspace import TangentSpace
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(Covariances("oas"), TangentSpace(), LogisticRegression())


def summary(
    protocol: Protocol,
    found: dict[str, list[np.ndarray]],
    choices: dict[str, list[Any]],
    units: list[np.ndarray],
) -> dict[str, Any]:
    """Return accuracies, intervals, paired differences and the paper's order."""
    if protocol.overlap is not None:
        values = {name: [c.mean() for c in each] for name, each in found.items()}
        interval = functools.partial(_by_splits, share=protocol.overlap)
    else:
        every = np.concatenate([n + 10**6 * i for i, n in enumerate(units)])
        _, code = np.unique(every, return_inverse=True)
        values = {name: list(np.concatenate(each)) for name, each in found.items()}
        interval = functools.partial(_by_units, units=code)
    rows = [
        {
            "method": name,
            **interval(values[name]),
            "accuracies": [float(correct.mean()) for correct in found[name]],
            "choices": choices[name],
        }
        for name in found
    ]
    differences = []
    for low, high in PAIRS:
        if low in found and high in found:
            paired = np.subtract(values[high], values[low], dtype=float)
            differences.append({"from": low, "to": high, **interval(paired)})
    return {
        "name": protocol.name,
        "stands_for": protocol.stands_for,
        "splits": len(units),
        "test": sum(map(len, units)),
        "is_random": protocol.overlap is not None,
        "rows": rows,
        "differences": differences,
    }


def _by_splits(values: Any, share: float) -> dict[str, Any]:
    mean = mean_of(values, test_over_train=share)
    low, high = mean.mean - mean.half, mean.mean + mean.half
    found = {"mean": mean.mean, "low": low, "high": high}
    return found | {"verdict": verdict(mean)}


def _by_units(values: Any, units: np.ndarray) -> dict[str, Any]:
    """Draw whole units with replacement; percentiles of the mean."""
    values = np.asarray(values, float)
    sums, sizes = np.bincount(units, values), np.bincount(units)
    drawn = np.random.default_rng(0).integers(len(sums), size=(NUM_SAMPLES, len(sums)))
    means = sums[drawn].sum(1) / sizes[drawn].sum(1)
    low, high = np.percentile(means, [2.5, 97.5]).tolist()
    told = "better" if low > 0 else "worse" if high < 0 else "not told apart"
    found = {"mean": float(values.mean()), "low": low, "high": high}
    return found | {"verdict": told}


def table(result: Result) -> str:
    """Write accuracies and paired differences by protocol as Markdown."""
    parts = result["protocols"]
    names = [f"{part['name']} ({part['stands_for']})" for part in parts]
    every = list(dict.fromkeys(row["method"] for part in parts for row in part["rows"]))
    by = [{row["method"]: row for row in part["rows"]} for part in parts]
    rows = [[name, *(_percent(each.get(name)) for each in by)] for name in every]
    rows.append(["splits / test matrices", *(_sizes(part) for part in parts)])
    pairs = [
        {(row["from"], row["to"]): row for row in part["differences"]} for part in parts
    ]
    differences = [
        [f"{high} less {low}", *(_told(each.get((low, high))) for each in pairs)]
        for low, high in PAIRS
        if any((low, high) in each for each in pairs)
    ]
    order = [_order(part) for part in parts]
    differences.append(["the paper's order LR, sparse LR, BLR, SBLR", *order])
    left_out = [
        f"{name} is left out: the package is not installed (extra `peers`)."
        for name in result["left_out"]
    ]
    return (
        "Accuracy in percent with its 95 % interval. M-SBLR is joint, all others with "
        "many classes are one-against-all.\n\n"
        + markdown(["method", *names], rows)
        + "\n"
        + markdown(["paired difference", *names], differences)
        + ("\n" + bullets(left_out) if left_out else "")
    )


def _sizes(part: dict[str, Any]) -> str:
    return f"{part['splits']} / {part['test']}"


def _percent(row: dict[str, Any] | None, sign: str = "") -> str:
    if row is None:
        return ""
    mean, low, high = (100 * row[name] for name in ("mean", "low", "high"))
    return f"{mean:{sign}.1f} ({low:{sign}.1f} to {high:{sign}.1f})"


def _told(row: dict[str, Any] | None) -> str:
    return "" if row is None else f"{_percent(row, '+')}, {row['verdict']}"


def _order(part: dict[str, Any]) -> str:
    """Say if every step of the paper's order is upwards, and surely so."""
    steps = [row for row in part["differences"] if (row["from"], row["to"]) in ORDER]
    if all(step["verdict"] == "better" for step in steps):
        return "holds"
    if any(step["verdict"] == "worse" for step in steps):
        return "fails"
    return "not decided"


def verdicts(result: Result) -> list[Verdict]:
    """Decide every step of the paper's order, and SBLR against what stands beside."""
    words = {"better": "holds", "worse": "fails", "not told apart": "not decided"}
    return [
        {
            "claim": f"{row['to']} above {row['from']}: {part['name']}",
            "value": row["mean"],
            "interval": [row["low"], row["high"]],
            "verdict": words[row["verdict"]],  # type: ignore[typeddict-item]
        }
        for part in result["protocols"]
        for row in part["differences"]
    ]


def picture(figure: Any, result: Result) -> None:
    """Draw each method less SBLR with its interval, one panel per protocol."""
    parts = result["protocols"]
    lows = [row["from"] for part in parts for row in part["differences"]
            if row["to"] == "SBLR"]  # fmt: skip
    names = [*dict.fromkeys(lows)]
    places = {name: -i for i, name in enumerate(names)}
    figure.set_size_inches(2.0 + 1.9 * len(parts), 3.2)
    panels = figure.subplots(1, len(parts), sharey=True, squeeze=False)
    colours = {"better": "C0", "worse": "C3", "not told apart": "0.5"}
    for axes, part in zip(panels[0], parts, strict=True):
        for row in part["differences"]:
            if row["to"] == "SBLR":
                ends = 100 * np.array([[row["mean"] - row["low"]],
                                       [row["high"] - row["mean"]]])  # fmt: skip
                axes.errorbar(
                    100 * row["mean"],
                    places[row["from"]],
                    xerr=np.maximum(ends, 0),
                    fmt="o",
                    color=colours[row["verdict"]],
                    capsize=3,
                )
        axes.axvline(0, color="0.3", linewidth=0.8)
        axes.set_title(f"{part['name']}\n({part['stands_for']})", fontsize=8)
        axes.grid(axis="x", alpha=0.3)
        axes.set_xlabel("SBLR less it (points)", fontsize=8)
    panels[0][0].set_yticks(list(places.values()), names, fontsize=8)
    figure.suptitle(
        "SBLR less each method, 95 % intervals: blue better, red worse, grey not told",
        x=0.01,
        ha="left",
        fontsize=10,
    )


EXPERIMENT = Experiment(
    "sblr-real",
    "SBLR Tables 2 to 5: EEG, spectra, images and skeletons, with paired differences",
    "a stand-in",
    "eegmmidb S001, BCI Competition III data set V, ETH-80, MSR-Action3D",
    run,
    table,
    picture,
    verdicts=verdicts,
)
