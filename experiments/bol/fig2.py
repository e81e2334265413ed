"""BOL-E1, Figure 2: label error on the training data by pass, for five learners.

The tenth of the official pku file that is obtainable, the paper's nine character
templates, width folded and all first-order, no label transitions. An online learner's
error in a pass counts its predictions before each update. A CRF's error counts the
predictions of its weights after each iteration of L-BFGS (crf2) or OWL-QN (crf1).
The same runs give the rows bcd, crf2 and crf1 of Table 1 on this tenth, with their
training times.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from experiments.bol import table1
from experiments.intervals import decide, mean_of
from experiments.protocol import Experiment, Result, Setup, Verdict
from experiments.tables import markdown
from lowrank_jax import batch, data, features, loops, models, online, streams
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.estimators import labelling

__all__ = ["EXPERIMENT"]

ONLINE: dict[str, tuple[Any, dict[str, Any]]] = {
    "bol (Algorithm 2, c=1, R=2, start 1)": (
        online.bol,
        {"variant": "paper", "num_inner_steps": 2, "start": 1.0, "averaging": "none"},
    ),
    "sp": (online.perceptron, {"averaging": "none"}),
    "bcd": (online.bcd, {"averaging": "none"}),
}
CRFS = {"crf2 (L2, c=1)": {"penalty": "l2"}, "crf1 (L1, c=1)": {"penalty": "l1"}}


def run(setup: Setup) -> Result:
    """Train all learners; small: a tenth of the sentences, few passes."""
    find = "sighan2005/pku_training_subset10pct.utf8.xz"
    train = data.read_segmentation(data.find(find, setup.data_dir), tagged=False)
    _, test = table1.read_corpora(setup.data_dir)
    num_seeds, num_passes, num_iterations = (5, 20, 60) if setup.is_full else (1, 3, 5)
    if not setup.is_full:
        train = train.take(np.arange(train.num_sentences // 10))
    template = features.read_template("segmentation-first")
    encoder, sequences = features.Encoder.fit_transform(train, template)
    others = encoder.transform(test, unseen_label="ignore")

    def f1(ids: np.ndarray) -> float:
        return table1.score(np.array(encoder.labels)[ids], test)

    rows = []
    for name, (module, settings) in ONLINE.items():
        if module is online.bcd:
            settings = {"num_rounds_per_block": sequences.num_sentences} | settings
        learner = module.learner(**settings)
        given = (f1, module, learner, sequences, others)
        runs = [
            setup.cell(f"{name}, {seed}", partial(_online, *given, seed, num_passes))
            for seed in range(num_seeds)
        ]
        rows.append(_row(name, runs))
        setup.say(f"{name:40} F1 {rows[-1]['f1']:.2f}  {rows[-1]['seconds']:.1f} s")
    for name, settings in CRFS.items():
        fit = partial(_crf, f1, settings, sequences, others, num_iterations)
        rows.append(_row(name, [setup.cell(name, fit)]))
        setup.say(f"{name:40} F1 {rows[-1]['f1']:.2f}  {rows[-1]['seconds']:.1f} s")
    return {
        "experiment": "bol-fig2",
        "scale": setup.scale,
        "passes": num_passes,
        "seeds": num_seeds,
        "iterations": num_iterations,
        "train": "a tenth of the official pku file, 1,906 sentences",
        "test": "SIGHAN-2005 pku test",
        "rows": rows,
    }


def _row(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    scores = [one["f1"] for one in runs]
    return {
        "method": name,
        "f1": float(np.mean(scores)),
        "f1_runs": scores,
        "errors": np.mean([one["errors"] for one in runs], axis=0).tolist(),
        "seconds": float(np.median([one["seconds"] for one in runs])),
    }


def _online(
    f1: Callable[[np.ndarray], float],
    module: Any,
    learner: Any,
    train: Sequences,
    test: Sequences,
    seed: int,
    num_passes: int,
) -> dict[str, Any]:
    """Return test F1, label error by pass, and seconds."""
    stream, errors, seconds = streams.sentences.stream(train), [], 0.0
    key = jax.random.key(seed)
    for done in loops.passes(learner, stream, key=key, num_passes=num_passes):
        errors.append(float(done.trace.num_wrong.sum() / len(train.labels)))
        seconds += done.seconds
    params = jax.jit(module.final_params)(done.state)
    is_linear = isinstance(params, models.linear.Params)
    model = models.linear if is_linear else models.bilinear
    predict = jax.jit(labelling.predict, static_argnums=0)
    ids = np.asarray(predict(model.scores, params, streams.sentences.stream(test)))
    return {"f1": f1(ids), "errors": errors, "seconds": seconds}


def _crf(
    f1: Callable[[np.ndarray], float],
    settings: dict[str, Any],
    train: Sequences,
    test: Sequences,
    num_iterations: int,
) -> dict[str, Any]:
    """Return test F1, label error by iteration, and seconds."""
    errors, seconds = [], 0.0
    for done in loops.passes(
        batch.crf.learner(**settings),
        streams.Whole(streams.lanes.lanes(train)),
        key=jax.random.key(0),
        num_passes=num_iterations,
    ):
        seconds += done.seconds
        params = batch.crf.final_params(done.state)
        ids = labelling.predict_batch(models.linear, params, train)
        errors.append(float((np.asarray(ids) != train.labels).mean()))
    ids = np.asarray(labelling.predict_batch(models.linear, params, test))
    return {"f1": f1(ids), "errors": errors, "seconds": seconds}


def verdicts(result: Result) -> list[Verdict]:
    """Return the claims on Table 1 and Figure 2 that this tenth decides."""
    bol, *others = result["rows"]
    found = []
    for row in others:
        pairs = zip(bol["f1_runs"], row["f1_runs"] * len(bol["f1_runs"]), strict=False)
        gain = mean_of([ours - theirs for ours, theirs in pairs])
        found.append(decide(f"tenth of pku: bol above {row['method']}, F1", gain))
    number = min(9, len(bol["errors"]) - 1)
    for row in others:
        if row["method"] not in ONLINE:
            is_lower = bol["errors"][number] < row["errors"][number]
            claim = f"training label error in pass {number + 1}: bol below "
            found.append(
                {
                    "claim": claim + row["method"],
                    "value": 100 * (row["errors"][number] - bol["errors"][number]),
                    "interval": None,
                    "verdict": "holds" if is_lower else "fails",
                }
            )
    return found


def table(result: Result) -> str:
    """Write F1, label error and seconds as Markdown."""
    rows = [
        [
            row["method"],
            mean_of(row["f1_runs"]).shown(mark="±"),
            f"{100 * row['errors'][0]:.2f}",
            f"{100 * row['errors'][min(9, len(row['errors']) - 1)]:.2f}",
            f"{100 * row['errors'][-1]:.2f}",
            f"{row['seconds']:.1f}",
        ]
        for row in result["rows"]
    ]
    head = ["method", "test F1", "label error, pass 1", "pass 10", "last", "seconds"]
    return (
        f"Trained on {result['train']}, first-order templates alone; word F1 on the "
        f"{result['test']} of the last iterate, with a 95 % interval over shuffles. "
        f"Label errors in percent, on the training data: {result['passes']} passes of "
        f"the online learners, {result['iterations']} iterations of the CRFs.\n\n"
    ) + markdown(head, rows)


def picture(figure: Any, result: Result) -> None:
    """Draw the label error by pass, once for all and once for the online learners."""
    figure.set_size_inches(8.4, 3.8)
    left, right = figure.subplots(1, 2)
    for i, row in enumerate(result["rows"]):
        passes = np.arange(1, len(row["errors"]) + 1)
        is_online = row["method"] in ONLINE
        for axes in (left, right) if is_online else (left,):
            axes.plot(passes, row["errors"], color=f"C{i}", label=row["method"])
    right.set_ylim(0, 0.04)
    left.set_ylim(0, 0.3)
    left.set_title("Tenth of pku (BOL Figure 2)", loc="left")
    right.set_title("online learners", loc="left")
    for axes in (left, right):
        axes.set_xlabel("pass over the training data")
        axes.set_ylabel("label error on the training data")
        axes.grid(alpha=0.3)
    left.legend(frameon=False, fontsize=8)


EXPERIMENT = Experiment(
    "bol-fig2",
    "BOL Figure 2 (pku): label error by pass; bcd, crf2 and crf1 beside",
    "the paper's data",
    "a tenth of SIGHAN-2005 pku, PKU test",
    run,
    table,
    picture,
    verdicts=verdicts,
)
