"""Wide rounds on CoNLL-2000 beside serial training and CRFsuite's averaged perceptron.

Each training is ``lowrank-jax train`` in a fresh process, because the number of devices
is set before JAX starts. All trainings go in turn, three times. The time of a pass is
the mean of the first five passes, the plan of the host included and compilation apart.
A ratio is the median of the three turns. Trainings on one device and CRFsuite run on
one core. With ``--scale full`` ten passes of five seeds are scored too.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from experiments import crfsuite
from experiments.protocol import Experiment, Result, Setup
from experiments.tables import markdown
from lowrank_jax import data

__all__ = ["EXPERIMENT"]

NUM_PASSES, NUM_TURNS, NUM_SEEDS = 5, 3, 5
_BASE = "CRFsuite averaged perceptron"
#: Learner, batch size and number of devices of the trainings that are timed.
TIMED = [("bol", 1, 1)]
TIMED += [("bol", size, number) for number in (1, 2) for size in (16, 64, 256)]
TIMED += [
    (name, size, number)
    for name in ("sp", "mira")
    for size, number in ((1, 1), (64, 1), (64, 2))
]
#: Trainings that are scored: learner, batch size, passes.
SCORED = [("bol", 1, 10), ("bol", 64, 10), ("mira", 1, 10), ("mira", 64, 10)]
SCORED += [("sp", 1, 10), ("sp", 16, 10), ("sp", 64, 15)]


def run(setup: Setup) -> Result:
    """Measure, and say each figure as it comes."""
    train = data.find("conll2000/train.txt.xz", setup.data_dir)
    test = data.find("conll2000/test.txt.xz", setup.data_dir)
    turns: dict[str, list[float]] = {}
    for turn in range(NUM_TURNS):
        peer = crfsuite.fit("ap", NUM_PASSES, train, test)
        turns.setdefault(_BASE, []).append(_mean(peer["seconds_per_pass"]))
        for name, size, number in TIMED:
            found = _trained(name, size, number, NUM_PASSES, 0, train)
            label = _label(name, size, number)
            turns.setdefault(label, []).append(
                _mean([entry["seconds"] for entry in found["history"]])
            )
            setup.say(f"turn {turn + 1}, {label}: {turns[label][-1]:.3f} s a pass")
    serial = {name: turns[_label(name, 1, 1)] for name in ("bol", "sp", "mira")}
    result: Result = {"num_cores": os.cpu_count(), "seconds_per_pass": turns}
    result["of_serial"] = {
        _label(*one): _ratio(turns[_label(*one)], serial[one[0]]) for one in TIMED
    }
    result["of_crfsuite"] = {
        label: _ratio(found, turns[_BASE]) for label, found in turns.items()
    }
    result["f1"] = {}
    for name, size, passes in SCORED:
        scores = [
            _trained(name, size, 1, passes, seed, train, test)["f1"]
            for seed in range(NUM_SEEDS)
        ]
        label = f"{name}, B = {size}, {passes} passes"
        result["f1"][label] = scores
        setup.say(f"{label}: F1 {_mean(scores):.2f}")
    return result


def table(result: Result) -> str:
    """Write the times, and the scores if they were taken, as Markdown."""
    rows = [
        [
            label,
            f"{statistics.median(found):.3f} s",
            f"{result['of_serial'][label]:.2f}" if label in result["of_serial"] else "",
            f"{result['of_crfsuite'][label]:.2f}",
        ]
        for label, found in result["seconds_per_pass"].items()
    ]
    text = markdown(["one pass", "time", "of serial", "of CRFsuite"], rows)
    if "f1" in result:
        scores = [
            [label, f"{_mean(found):.2f}", f"{min(found):.2f} to {max(found):.2f}"]
            for label, found in result["f1"].items()
        ]
        text += "\n" + markdown(["training", "mean test F1", "seeds"], scores)
    return text


def _label(name: str, size: int, number: int) -> str:
    if size == 1:
        return f"{name}, serial"
    return f"{name}, B = {size}, {number} device" + ("s" if number > 1 else "")


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _ratio(one: list[float], other: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(one, other, strict=True))


def _trained(
    name: str,
    size: int,
    number: int,
    passes: int,
    seed: int,
    train: Path | str,
    test: Path | str | None = None,
) -> dict[str, Any]:
    """Train in a fresh process, on one core unless there are several devices."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        command = [sys.executable, "-m", "lowrank_jax", "train", name]
        command += ["--train", str(train), "--model", f"{folder}/model"]
        command += ["--passes", str(passes), "--seed", str(seed), "--json", str(path)]
        command += ["--batch-size", str(size), "--devices", str(number)]
        command += [] if test is None else ["--test", str(test)]
        cores = sorted(os.sched_getaffinity(0))
        try:
            os.sched_setaffinity(0, cores[: max(number, 1)])
            subprocess.run(command, check=True, capture_output=True)
        finally:
            os.sched_setaffinity(0, cores)
        return json.loads(path.read_text())


EXPERIMENT = Experiment(
    "bench-wide",
    "Wide rounds on one and two devices, beside serial training and CRFsuite",
    "the paper's data",
    "CoNLL-2000",
    run,
    table,
    needs={"pycrfsuite": "CRFsuite"},
)
