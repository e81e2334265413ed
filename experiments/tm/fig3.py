"""TM-Fig3: training and held-out score after each pass (D=2, H=2, surrogate mapping).

2,000 lists, as many as two sections of the paper are to its four sizes. C is chosen on
the development set by the run of seed 0, as in `tm.table1`. The held-out curve is the
F1 on the development set (the paper's section 24); the test set is not touched.
"""

from typing import Any

import numpy as np

from experiments.intervals import Mean, decide
from experiments.protocol import Experiment, Result, Setup, Verdict
from experiments.tables import bullets, markdown
from experiments.tm import grid, scores
from experiments.tm.grid import Task, Tensor
from experiments.tm.table1 import LIMITS, NOTES, NUM_SEEDS
from lowrank_jax.online import rerank

__all__ = ["EXPERIMENT"]

SETTING = Tensor(order=2, num_components=2, start="positive")


def run(setup: Setup) -> Result:
    """Train the three methods."""
    size, num_passes = (2000, 15) if setup.is_full else (500, 5)
    made = grid.read_lists(setup.scale, setup.data_dir, setup.say)
    task = grid.make_task(made, (size,))
    rows = []
    for name, curves in (
        ("T-MIRA", _tensor(task, size, num_passes)),
        ("MIRA", _linear(task, size, num_passes, "mira", "cost", LIMITS)),
        (
            "perceptron",
            _linear(task, size, num_passes, "perceptron", "plain", (1.0,)),
        ),
    ):
        limit, train, held_out = curves
        row: dict[str, Any] = {"method": name, "C": limit}
        for part, found in (("train", train), ("held_out", held_out)):
            row[f"{part}_f1"] = found.mean(axis=0).tolist()
            row[f"{part}_f1_std"] = found.std(axis=0, ddof=1).tolist()
        rows.append(row)
        setup.say(
            f"{name:10} C={limit:<6g} training F1 {row['train_f1'][-1]:.2f}, held-out "
            f"{row['held_out_f1'][-1]:.2f}"
        )
    zero = np.zeros((1, task.splits["development"].lists.num_lists), int)
    base = scores.outcome(task.splits["development"], zero)
    return {
        "experiment": "tm-fig3",
        "scale": setup.scale,
        "size": size,
        "seeds": NUM_SEEDS,
        "passes": num_passes,
        "num_features": task.num_features,
        "base_f1": float(scores.f1_of(base)[0]),
        "notes": list(NOTES[:3]),
        "rows": rows,
    }


def _tensor(
    task: Task, size: int, num_passes: int
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return C, and training and held-out F1, (seeds, passes)."""
    surrogate = grid.surrogate_of(task, size)
    cells = grid.cells_of(task, SETTING, surrogate)

    def train(limits: Any, seeds: Any) -> list[Any]:
        return grid.sweep(
            SETTING,
            cells["train"],
            size=size,
            limits=limits,
            seeds=seeds,
            num_passes=num_passes,
            num_rounds=task.num_rounds,
            num_features=task.num_features,
        ).params

    def f1_by_pass(params: list[Any], part: str) -> np.ndarray:
        number = size if part == "train" else None
        found = [
            grid.choose(one, cells[part], num_lists=number, is_tensor=True)
            for one in params
        ]
        split = task.splits[part]
        f1 = [scores.f1_of(scores.outcome(split, one)) for one in found]
        return np.stack(f1, axis=1)

    tried = f1_by_pass(train(LIMITS, [0] * len(LIMITS)), "development")
    limit = LIMITS[int(tried.max(axis=1).argmax())]
    params = train([limit] * NUM_SEEDS, list(range(NUM_SEEDS)))
    return limit, f1_by_pass(params, "train"), f1_by_pass(params, "development")


def _linear(
    task: Task,
    size: int,
    num_passes: int,
    rule: str,
    decoding: str,
    limits: tuple[float, ...],
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return C, and training and held-out F1, (seeds, passes)."""

    def curve(limit: float, seed: int, parts: tuple[str, ...]) -> list[list[float]]:
        passes = grid.linear_passes(
            task, size, rule=rule, limit=limit, decoding=decoding, seed=seed
        )
        f1: list[list[float]] = [[] for _ in parts]
        for _ in range(num_passes):
            weights = rerank.final_params(next(passes)[0])
            for part, values in zip(parts, f1, strict=True):
                chosen = grid.choose(
                    weights,
                    task.streams[part],
                    num_lists=size if part == "train" else None,
                    is_tensor=False,
                )
                found = scores.outcome(task.splits[part], chosen)
                values.append(float(scores.f1_of(found)[0]))
        return f1

    tried = {limit: max(curve(limit, 0, ("development",))[0]) for limit in limits}
    limit = max(limits, key=lambda value: tried[value])
    runs = [curve(limit, seed, ("train", "development")) for seed in range(NUM_SEEDS)]
    both = np.array(runs)  # (seeds, 2, passes)
    return limit, both[:, 0], both[:, 1]


def table(result: Result) -> str:
    """Write the scores after the first, the best and the last pass."""
    rows = []
    for row in result["rows"]:
        best = int(np.argmax(row["held_out_f1"]))
        rows.append(
            [
                row["method"],
                f"{row['C']:g}",
                *(f"{row['train_f1'][i]:.2f}" for i in (0, best, -1)),
                *(f"{row['held_out_f1'][i]:.2f}" for i in (0, best, -1)),
                str(best + 1),
            ]
        )
    head = ["method", "C"]
    head += [f"{part}, {when}" for part in ("training", "held-out") for when in _WHEN]
    text = (
        f"F1 after passes over {result['size']:,} lists, D = 2, H = 2, surrogate "
        f"mapping; base tagger on held-out data {result['base_f1']:.2f}.\n\n"
    )
    return text + markdown([*head, "best pass"], rows) + "\n" + bullets(result["notes"])


_WHEN = ("first pass", "best held-out pass", "last pass")


def picture(figure: Any, result: Result) -> None:
    """Draw both curves of each method."""
    figure.set_size_inches(9.0, 3.8)
    axes = figure.subplots(1, 2)
    titles = ("training lists", "held-out lists")
    for place, part, title in zip(axes, ("train", "held_out"), titles, strict=True):
        for row, marker in zip(result["rows"], "os^", strict=True):
            mean = np.array(row[f"{part}_f1"])
            spread = np.array(row[f"{part}_f1_std"])
            passes = np.arange(1, len(mean) + 1)
            (line,) = place.plot(
                passes, mean, marker=marker, markersize=4, label=row["method"]
            )
            place.fill_between(
                passes, mean - spread, mean + spread, color=line.get_color(), alpha=0.15
            )
        if part == "held_out":
            base = result["base_f1"]
            place.axhline(base, color="0.5", linestyle=":", label="base tagger")
        place.set_title(title, loc="left")
        place.set_xlabel("pass")
        place.set_ylabel("chunk F1 (%)")
        place.xaxis.get_major_locator().set_params(integer=True)
        place.grid(alpha=0.3)
    handles = axes[1].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False)


def verdicts(result: Result) -> list[Verdict]:
    """Compare the perceptron with the others after the last pass, by seeds."""
    from scipy.special import stdtrit

    rows = {row["method"]: row for row in result["rows"]}
    last, number = rows.pop("perceptron"), result["seeds"]
    found = []
    for name, row in rows.items():
        for part, sign, words in (
            ("train_f1", 1, "fits training lists better than"),
            ("held_out_f1", -1, "is worse on held-out lists than"),
        ):
            squares = [one[f"{part}_std"][-1] ** 2 / number for one in (last, row)]
            half = float(stdtrit(number - 1, 0.975) * np.sqrt(sum(squares)))
            value = sign * (last[part][-1] - row[part][-1])
            claim = f"after the last pass the perceptron {words} {name}"
            found.append(decide(claim, Mean(value, half)))
    return found


EXPERIMENT = Experiment(
    "tm-fig3",
    "TM Figure 3: training and held-out score after each pass",
    "a stand-in",
    "50-best chunkings of CoNLL-2000 (stand-in for 50-best parses of the WSJ)",
    run,
    table,
    picture,
    verdicts=verdicts,
)
