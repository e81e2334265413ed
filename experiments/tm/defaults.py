"""Defaults of `Reranker` on held-out lists of every task of lists that is shipped.

Each method trains on the training lists at its defaults, and MIRA and Tensor-MIRA also
with other values of C. No test list is read. Chunkings and tags are held out by
sentences (`nbest`), translations by folds of sentences, made lists by their own split.
"""

import csv
import lzma
import math
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from experiments import nbest
from experiments.intervals import Mean, decide, mean_of
from experiments.protocol import Experiment, Result, Setup, Verdict
from experiments.tables import markdown
from lowrank_jax import Reranker, data
from lowrank_jax.data.lists import Lists, oracle, spread, take

__all__ = ["EXPERIMENT"]

LIMITS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
STEPS = (0.01, 0.03, 0.1, 0.3, 1.0)  # times the spread of the features
NUM_FOLDS = 5
SIMPLE = ("base order", "perceptron", "tm")


def methods(train: Lists) -> dict[str, dict[str, Any]]:
    """Return the settings of each method for some training lists."""
    unit = spread(train)
    found: dict[str, dict[str, Any]] = {
        "default": {},
        "perceptron": {"learner": "perceptron"},
        "tm": {"learner": "tm"},
    }
    found |= {f"mira, C {c:g}": {"max_step_size": c} for c in LIMITS}
    found |= {f"mira, C {c:g} / spread": {"max_step_size": c / unit} for c in STEPS}
    found |= {f"tm, C {c:g}": {"learner": "tm", "max_step_size": c} for c in LIMITS}
    return found


def bleu(words: list[str], reference: list[str]) -> float:
    """Return BLEU of a sentence, one added to the counts above single words."""
    logs = 0.0
    for n in range(1, 5):
        ours, theirs = (
            Counter(zip(*(text[i:] for i in range(n)), strict=False))
            for text in (words, reference)
        )
        plus = int(n > 1)
        right = sum((ours & theirs).values()) + plus
        logs += math.log(max(right, 1e-9) / max(sum(ours.values()) + plus, 1)) / 4
    brevity = min(0.0, 1 - len(reference) / max(len(words), 1))
    return math.exp(logs + brevity)


def translations(setup: Setup) -> Lists:
    """Return the lists of Moses: 10 sentences, 14 features, quality BLEU."""
    path = data.find("moses_nbest/nbest.tsv", setup.data_dir)
    lines = (path.parent / "reference.txt").read_text().splitlines()
    lists: list[dict[str, Any]] = [{"candidates": []} for _ in lines]
    opened = lzma.open(path, "rt") if path.suffix == ".xz" else open(path)
    with opened as stream:
        for row in csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE):
            number, values = int(row[0]), map(float, row[3:])
            lists[number]["candidates"].append(
                {
                    "features": {f"f{i}": value for i, value in enumerate(values)},
                    "quality": bleu(row[2].split(), lines[number].split()),
                }
            )
    return data.lists_from(lists, training=True)[0]


def splits(setup: Setup) -> Iterator[tuple[str, list[tuple[Lists, Lists]]]]:
    """Return name and pairs (training lists, held-out lists) of each task."""
    train, held, _ = data.reranking_task(40, 400, seed=0)
    yield "made", [(train, held)]
    number = 1000 if setup.is_full else 200
    few: dict[str, Any] = (
        {} if setup.is_full else {"num_best": 10, "num_folds": 4, "num_passes": 2}
    )
    made = nbest.chunk_lists(
        setup.data_dir,
        num_train=number,
        num_development=936 if setup.is_full else 200,
        num_test=1,
        min_count=2,
        say=setup.say,
        **few,
    )
    yield "chunkings", [(made.train.lists, made.development.lists)]
    if not setup.is_full:
        few |= {"num_train": 100, "num_development": 100}
    made = nbest.tag_lists(setup.data_dir, num_test=1, say=setup.say, **few)
    yield "tags", [(made.train.lists, made.development.lists)]
    lists = translations(setup)
    fold = np.arange(lists.num_lists) % NUM_FOLDS
    yield (
        "translations",
        [
            (
                take(lists, np.flatnonzero(fold != k)),
                take(lists, np.flatnonzero(fold == k)),
            )
            for k in range(NUM_FOLDS)
        ],
    )


def qualities(lists: Lists, chosen: np.ndarray) -> np.ndarray:
    """Return the quality of the chosen candidate of each list."""
    return lists.quality[lists.list_offsets[:-1] + chosen]


def _each(
    setup: Setup, name: str, pairs: list[tuple[Lists, Lists]]
) -> dict[str, list[float]]:
    """Return the quality of each held-out list by each method."""
    found: dict[str, Any] = {"base order": [], "oracle": []}
    for _, held in pairs:
        found["base order"].extend(qualities(held, np.zeros(held.num_lists, int)))
        found["oracle"].extend(qualities(held, oracle(held)))
    for train, held in pairs:
        for method, settings in methods(train).items():
            model = Reranker(**settings).fit(train)
            chosen = qualities(held, model.predict_first(held))
            found.setdefault(method, []).extend(chosen)
            setup.say(f"{name}, {method}: {np.mean(found[method]):.4f}")
    return {method: np.asarray(part, float).tolist() for method, part in found.items()}


def run(setup: Setup) -> Result:
    """Train and score all methods on all tasks."""
    tasks = []
    for name, pairs in splits(setup):
        each = setup.cell(name, partial(_each, setup, name, pairs))
        own = np.array(each["default"])
        rows = [
            {
                "method": method,
                "quality": float(np.mean(part)),
                "default over it": mean_of(100 * (own - part)),
            }
            for method, part in each.items()
        ]
        tasks.append({"task": name, "lists": len(own), "rows": rows})
    return {"experiment": "tm-defaults", "scale": setup.scale, "tasks": tasks}


def table(result: Result) -> str:
    """Return the mean quality of each method on each task, and paired differences."""
    head = ["method"]
    columns = []
    for task in result["tasks"]:
        head += [f"{task['task']} ({task['lists']:,} lists)", "default over it"]
        columns.append(
            [
                (
                    f"{100 * row['quality']:.2f}",
                    Mean(*row["default over it"]).shown("+"),
                )
                for row in task["rows"]
            ]
        )
    names = [row["method"] for row in result["tasks"][0]["rows"]]
    rows = [
        [name, *(cell for column in columns for cell in column[i])]
        for i, name in enumerate(names)
    ]
    return "Mean quality of the chosen candidate, held out, x 100.\n\n" + markdown(
        head, rows
    )


def picture(figure: Any, result: Result) -> None:
    """Draw by how much the defaults are above each simple method."""
    axes = figure.subplots(1, len(result["tasks"]))
    for place, task in zip(axes, result["tasks"], strict=True):
        rows = {row["method"]: row["default over it"] for row in task["rows"]}
        means, halves = zip(*(rows[name] for name in SIMPLE), strict=True)
        place.errorbar(means, range(len(SIMPLE)), xerr=halves, fmt="o")
        place.axvline(0, color="0.6")
        place.set_yticks(range(len(SIMPLE)), SIMPLE if place is axes[0] else [])
        place.set(title=task["task"], ylim=(len(SIMPLE) - 0.5, -0.5))
    figure.supxlabel("quality of the defaults over it, points")


def verdicts(result: Result) -> list[Verdict]:
    """Decide whether the defaults are above each simple method on each task."""
    return [
        decide(
            f"{task['task']}: defaults better than {row['method']}",
            Mean(*row["default over it"]),
        )
        for task in result["tasks"]
        for row in task["rows"]
        if row["method"] in SIMPLE
    ]


EXPERIMENT = Experiment(
    "tm-defaults",
    "Defaults of the reranker on held-out lists",
    "a stand-in",
    "chunkings of CoNLL-2000, tags of Brown, translations of Moses, made lists",
    run,
    table,
    picture,
    verdicts=verdicts,
)
