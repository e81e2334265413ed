"""TM-E1: reranking with few examples, the paper's grid on chunkings of CoNLL-2000.

Orders 2 to 4, 1 to 3 components, both mappings, four training sizes, and beside them
MIRA and the perceptron; all averaged over rounds. Two families:

* `recommended`: ``step="bcd"``, cost-augmented decoding, a positive random start where
  H > 1, and MIRA with the same decoding;
* `printed`: TM-Eq6 and TM-Alg2 as they stand (plain decoding, constant start), and
  MIRA with plain decoding.

C is chosen for each method and training size on the development set by the run of seed
0. Above 2,000 lists, C is the choice for the first 2,000. The number of passes, up to
three, is chosen by the mean over all seeds. The test set is scored once for each method
and size, with what was chosen. `tm.findings` answers the paper's findings, `tm.steps`
compares the two step rules.
"""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from experiments import nbest
from experiments.protocol import Experiment, Result, Setup
from experiments.tm import drawing, findings, grid, scores, steps
from experiments.tm.grid import Task, Tensor
from experiments.tm.scores import Trained
from lowrank_jax.data.lists import oracle
from lowrank_jax.models.tensor import mode_sizes, num_parameters
from lowrank_jax.online import rerank

__all__ = ["EXPERIMENT", "LIMITS", "NOTES", "NUM_SEEDS", "Scale", "grid_of"]

LIMITS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # C tried
NUM_SEEDS = len(LIMITS)  # as many lanes: one program serves both
MANY = 2000  # lists at most on which C is chosen
PAPER_FEATURES = 1_333_000  # "about 1.33M": any number in 1332871..1334025 will do
NOTES = (
    "Features are selected on all 8,000 training lists without their labels (on all "
    "500 at small scale), whatever the reranker's training size.",
    "The base tagger of a training list was trained on the other folds, about 7,200 "
    "sentences (400 at small scale), whatever the reranker's training size.",
    "The surrogate is a perceptron after one pass over the reranker's training lists.",
    "Training F1 is measured on the first lists of the training set, as many as the "
    "smallest training size.",
)


class Scale(NamedTuple):
    """How much is run."""

    sizes: tuple[int, ...]
    num_seeds: int
    num_passes: int
    orders: tuple[int, ...]
    components: tuple[int, ...]


SCALES = {
    "full": Scale(nbest.TRAINING_SIZES, NUM_SEEDS, 3, (2, 3, 4), (1, 2, 3)),
    "small": Scale((250, 500), NUM_SEEDS, 3, (2, 3), (1, 2)),
}


def settings(scale: Scale) -> Iterator[tuple[str, Tensor]]:
    """Return the tensor models of the grid, those that share cells together."""
    for order in scale.orders:
        for mapping in ("surrogate", "sequential"):
            for number in scale.components:
                start = "constant" if number == 1 else "positive"
                yield "recommended", Tensor(order, number, mapping, start=start)
                if mapping == "surrogate":
                    printed = Tensor(
                        order, number, mapping, step="paper", decoding="plain"
                    )
                    yield "printed", printed


def run(setup: Setup) -> Result:
    """Train, choose and score all methods."""
    made = grid.read_lists(setup.scale, setup.data_dir, setup.say)
    test = f"CoNLL-2000 test, {made.test.lists.num_lists} sentences, chunk F1"
    notes = {"test": test, "notes": list(NOTES)}
    return {"experiment": "tm-table1"} | grid_of(
        setup, made, SCALES[setup.scale], notes
    )


def grid_of(
    setup: Setup, made: nbest.ChunkLists, how: Scale, notes: dict[str, Any]
) -> Result:
    """Train, choose and score all methods on some lists.

    Args:
      setup: What the run is given.
      made: The lists.
      how: How much is run.
      notes: What the result says of the lists.
    """
    say = setup.say
    task = grid.make_task(made, how.sizes)
    test = task.splits["test"]
    first = scores.outcome(test, np.zeros((1, test.lists.num_lists), int))
    top = scores.outcome(test, oracle(test.lists)[None])
    rows: list[dict[str, Any]] = []
    result = {
        "scale": setup.scale,
        "seeds": how.num_seeds,
        "passes": how.num_passes,
        "limits": list(LIMITS),
        "num_features": task.num_features,
        "num_raw_features": made.num_raw_features,
        "base_f1": float(scores.f1_of(first)[0]),
        "oracle_f1": float(scores.f1_of(top)[0]),
        "mode_sizes": _sizes(task.num_features),
        **notes,
        "rows": rows,
    }
    found: list[Trained] = []
    limits: dict[Any, float] = {}  # what was chosen on `MANY` lists
    for size in how.sizes:
        for trained in itertools.chain(
            _linear(task, size, how, limits), _tensors(task, size, how, limits)
        ):
            found.append(trained)
            rows.append(_row(trained))
            say(_line(trained))
    rules = steps.run(task, how.sizes[0], 3, how.num_passes, say)
    answers = findings.answers(found, test.lists.num_lists)
    for name, item in answers.items():
        say(f"{name}: {item['answer']}")
    return result | {"findings": answers, "steps": rules}


def _sizes(num_features: int) -> list[dict[str, Any]]:
    """Return mode sizes and parameters for the paper's V and for ours."""
    rows = []
    for order, printed in ((2, 2310), (3, 331), (4, 136)):
        paper = Tensor(order).shape(PAPER_FEATURES)
        ours = mode_sizes(num_features, order)
        rows.append(
            {
                "order": order,
                "paper_sizes": list(paper.sizes),
                "paper_parameters": num_parameters(paper),
                "paper_parameters_printed": printed,
                "sizes": list(ours),
                "parameters": sum(ours),
            }
        )
    return rows


def _linear(
    task: Task, size: int, how: Scale, chosen_limits: dict[Any, float]
) -> Iterator[Trained]:
    for name, family, rule, decoding in (
        ("perceptron", "both", "perceptron", "plain"),
        ("MIRA", "printed", "mira", "plain"),
        ("MIRA", "recommended", "mira", "cost"),
    ):
        limits = (1.0,) if rule == "perceptron" else LIMITS

        def curve(
            limit: float, seed: int, rule: str = rule, decoding: str = decoding
        ) -> tuple[list[float], list[np.ndarray], float]:
            """Return F1 on development and weights after each pass, and the seconds."""
            passes = grid.linear_passes(
                task, size, rule=rule, limit=limit, decoding=decoding, seed=seed
            )
            f1, params, total = [], [], 0.0
            for _ in range(how.num_passes):
                state, _, seconds = next(passes)
                total += seconds
                weights = rerank.final_params(state)
                chosen = grid.choose(
                    weights, task.streams["development"], is_tensor=False
                )
                split = task.splits["development"]
                f1.append(float(scores.f1_of(scores.outcome(split, chosen))[0]))
                params.append(np.asarray(weights))
            return f1, params, total

        if size > MANY:
            limit = chosen_limits[name, family]
        else:
            tried = {limit: curve(limit, 0)[0] for limit in limits}
            limit = max(limits, key=lambda value: max(tried[value]))
            chosen_limits[name, family] = limit
        runs = [curve(limit, seed) for seed in range(how.num_seeds)]
        f1 = np.array([one[0] for one in runs])  # (num_seeds, num_passes)
        last = int(f1.mean(axis=0).argmax())

        def chosen(part: str, number: int | None = None) -> np.ndarray:
            return np.concatenate(
                [
                    grid.choose(
                        one[1][last],  # noqa: B023  (called in this iteration)
                        task.streams[part],
                        num_lists=number,
                        is_tensor=False,
                    )
                    for one in runs  # noqa: B023
                ]
            )

        yield _trained(
            task,
            name,
            family,
            size,
            None,
            limit,
            last,
            f1[:, last],
            chosen("test"),
            chosen("train", task.num_rounds),
            sum(one[2] for one in runs) / len(runs),
        )


def _tensors(
    task: Task, size: int, how: Scale, limits: dict[Any, float]
) -> Iterator[Trained]:
    surrogate = grid.surrogate_of(task, size)
    key, cells = None, task.streams
    for family, setting in settings(how):
        if key != (setting.order, setting.mapping):
            key = setting.order, setting.mapping
            cells = grid.cells_of(task, setting, surrogate)
        limit = limits.get(setting) if size > MANY else None
        trained = tensor_method(task, cells, family, setting, size, how, limit)
        limits[setting] = trained.limit
        yield trained


def tensor_method(
    task: Task,
    cells: dict[str, Any],
    family: str,
    setting: Tensor,
    size: int,
    how: Any,
    limit: float | None = None,
) -> Trained:
    """Train a tensor model at one size, choose C, unless given, and passes; score."""

    def train(limits: Any, seeds: Any) -> grid.Swept:
        return grid.sweep(
            setting,
            cells["train"],
            size=size,
            limits=limits,
            seeds=seeds,
            num_passes=how.num_passes,
            num_rounds=task.num_rounds,
            num_features=task.num_features,
        )

    if limit is None:
        tried = train(LIMITS, [0] * len(LIMITS))
        f1 = development_f1(task, cells, tried)
        limit = LIMITS[int(f1.max(axis=1).argmax())]
    seeds = list(range(how.num_seeds))
    swept = train([limit] * len(seeds), seeds)
    f1 = development_f1(task, cells, swept)
    last = int(f1.mean(axis=0).argmax())
    params = swept.params[last]
    return _trained(
        task,
        "T-MIRA",
        family,
        size,
        setting,
        limit,
        last,
        f1[:, last],
        grid.choose(params, cells["test"], is_tensor=True),
        grid.choose(params, cells["train"], num_lists=task.num_rounds, is_tensor=True),
        swept.seconds / len(seeds),
    )


def development_f1(task: Task, cells: dict[str, Any], swept: grid.Swept) -> np.ndarray:
    """Return F1 on development of each lane after each pass, (lanes, passes)."""
    split = task.splits["development"]
    found = [
        grid.choose(params, cells["development"], is_tensor=True)
        for params in swept.params
    ]
    return np.stack([scores.f1_of(scores.outcome(split, one)) for one in found], axis=1)


def _trained(
    task: Task,
    name: str,
    family: str,
    size: int,
    setting: Tensor | None,
    limit: float,
    last: int,
    development: np.ndarray,
    test: np.ndarray,
    train: np.ndarray,
    seconds: float,
) -> Trained:
    split = task.splits["test"]
    return Trained(
        name=name,
        family=family,
        size=size,
        setting=setting,
        limit=limit,
        num_passes=last + 1,
        development=development,
        test=scores.outcome(split, test),
        quality=scores.mean_quality(split, test),
        train=scores.outcome(task.splits["train"], train),
        seconds=seconds,
    )


def _row(trained: Trained) -> dict[str, Any]:
    f1 = scores.f1_of(trained.test)
    setting = trained.setting
    return {
        "method": trained.name,
        "family": trained.family,
        "size": trained.size,
        "order": None if setting is None else setting.order,
        "components": None if setting is None else setting.num_components,
        "mapping": None if setting is None else setting.mapping,
        "C": trained.limit,
        "passes": trained.num_passes,
        "development_f1": float(trained.development.mean()),
        "f1": float(f1.mean()),
        "f1_std": float(f1.std(ddof=1)),
        "f1_runs": [round(value, 4) for value in f1.tolist()],
        "quality": float(trained.quality.mean()),
        "train_f1": float(scores.f1_of(trained.train).mean()),
        "train_seconds": trained.seconds,
        "paper": None,
    }


def _line(trained: Trained) -> str:
    setting = trained.setting
    model = "" if setting is None else f"D={setting.order} H={setting.num_components}"
    mapping = "" if setting is None else setting.mapping
    f1 = scores.f1_of(trained.test)
    return (
        f"{trained.size:5} lists {trained.name:10} {trained.family:11} {model:7} "
        f"{mapping:10} C={trained.limit:<6g} passes={trained.num_passes} development "
        f"{trained.development.mean():.2f} test {f1.mean():.2f} +- {f1.std(ddof=1):.2f}"
    )


EXPERIMENT = Experiment(
    "tm-table1",
    "TM grid: reranking with few examples, order, components, mapping, four sizes",
    "a stand-in",
    "50-best chunkings of CoNLL-2000 (stand-in for 50-best parses of the WSJ)",
    run,
    drawing.table,
    drawing.picture,
    verdicts=findings.verdicts,
)
