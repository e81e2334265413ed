"""Taggers trained, scored and timed: shared by the BOL experiments."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

import jax
import numpy as np

from experiments.intervals import Mean, decide, mean_of, verdict
from experiments.protocol import Verdict
from experiments.tables import markdown, number
from lowrank_jax import batch, data, features, loops, models, online, streams
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.estimators import labelling

__all__ = [
    "Method",
    "Task",
    "decided",
    "differences",
    "fit",
    "fit_crf",
    "make_task",
    "predicted",
    "stream",
    "streams_of",
    "summary",
    "table",
]


@dataclasses.dataclass(frozen=True)
class Method:
    """A learner with its settings.

    Attributes:
      name: Name in the table.
      module: Module of the learner, in `online` or of the same form.
      settings: Keyword arguments of `learner`. The blocks of `online.bcd` are one
        pass unless they say otherwise.
      orders: Orders of the features, ``"template"``, ``"zero"``, ``"first"`` or
        ``"both"``. Only ``"first"`` leaves out the template's label transitions.
      paper: Figure of the paper, if there is one.
    """

    name: str
    module: ModuleType
    settings: dict[str, Any]
    orders: str
    paper: float | None = None


@dataclasses.dataclass(frozen=True)
class Task:
    """Training and test data, compiled once for all methods of one template."""

    encoder: features.Encoder
    template: features.Template
    train: Sequences
    test: Sequences
    gold: data.Corpus
    score: Callable[[np.ndarray, data.Corpus], float]


def make_task(
    train: data.Corpus,
    test: data.Corpus,
    template: str | features.Template,
    score: Callable[[np.ndarray, data.Corpus], float],
) -> Task:
    """Compile the features of a corpus pair.

    Args:
      train: Sentences to train on.
      test: Sentences to score on.
      template: The template, or the name of a shipped one.
      score: Takes labels and the test, and returns percent.
    """
    if isinstance(template, str):
        template = features.read_template(template)
    encoder, sequences = features.Encoder.fit_transform(train, template)
    ids = encoder.transform(test, unseen_label="ignore")
    return Task(encoder, template, sequences, ids, test, score)


@functools.lru_cache
def _learner(module: ModuleType, settings: tuple[tuple[str, Any], ...]) -> Any:
    """Return a learner; equal settings give the same one, which compiles once."""
    return module.learner(**dict(settings))


def stream(sequences: Sequences) -> streams.sentences.Stream:
    """Put a corpus on the device in sizes that are rounded up.

    Draws of one size then have the same shapes and share their compiled programs. The
    rows behind the last token belong to no sentence, and no token has the new features.
    """
    num_tokens, num_features = len(sequences.labels), sequences.space.num_features
    more = _rounded(num_tokens) - num_tokens
    space = dataclasses.replace(sequences.space, num_features=_rounded(num_features))
    ids = np.asarray(sequences.feature_ids)
    ids = np.where(ids == num_features, space.num_features, ids)
    padded = dataclasses.replace(
        sequences,
        feature_ids=np.pad(ids, ((0, more), (0, 0))),
        labels=np.pad(np.asarray(sequences.labels), (0, more)),
        space=space,
    )
    longest = int(np.diff(np.asarray(sequences.offsets)).max(initial=1))
    return streams.sentences.stream(padded, window=2 ** (longest - 1).bit_length())


def streams_of(
    task: Task, orders: str
) -> tuple[streams.sentences.Stream, streams.sentences.Stream]:
    """Put training and test data on the device, with features of some orders.

    Args:
      task: Training and test data.
      orders: As `Method.orders`.
    """
    template = features.with_orders(task.template, orders)
    has_transitions = template.has_transitions and orders != "first"
    space = dataclasses.replace(
        task.encoder.space, orders=template.orders, has_transitions=has_transitions
    )
    train, test = (
        stream(dataclasses.replace(part, space=space))
        for part in (task.train, task.test)
    )
    return train, test


def _rounded(number: int) -> int:
    """Return the next multiple of an eighth of the power of 2 below the number."""
    step = max(1, 2 ** (number.bit_length() - 4))
    return -(-number // step) * step


_jit = functools.cache(jax.jit)
_predict = jax.jit(labelling.predict, static_argnums=0)


def predicted(task: Task, params: Any, test: streams.sentences.Stream) -> np.ndarray:
    """Return the labels of the test by a linear or a bilinear model."""
    is_linear = isinstance(params, models.linear.Params)
    model = models.linear if is_linear else models.bilinear
    found = np.asarray(_predict(model.scores, params, test))
    return np.array(task.encoder.labels)[found[: task.gold.offsets[-1]]]


def fit(
    method: Method,
    task: Task,
    *,
    seed: int,
    num_passes: int,
    scored_at: Sequence[int] = (),
) -> dict[str, Any]:
    """Train by passes, once; score the last iterate and the mean on the test.

    Args:
      method: The learner. First-order features alone have no label transitions beside.
      task: Training and test data.
      seed: Seed of the order of the sentences.
      num_passes: Number of passes.
      scored_at: Passes after which the mean is scored as well.

    Returns:
      Scores ``last`` and ``mean`` in percent, ``by_pass`` for `scored_at`, and the
      seconds, mistakes by pass and number of labels.
    """
    train, test = streams_of(task, method.orders)
    settings = method.settings
    if method.module is online.bcd:  # the factors take turns from pass to pass
        settings = {"num_rounds_per_block": task.train.num_sentences} | settings
    learner = _learner(method.module, tuple(settings.items()))
    final = _jit(method.module.final_params)

    def score(params: Any) -> float:
        return task.score(predicted(task, params, test), task.gold)

    seconds, compile_seconds, mistakes, wrong, by_pass = 0.0, 0.0, [], [], {}
    key = jax.random.key(seed)
    for done in loops.passes(learner, train, key=key, num_passes=num_passes):
        seconds += done.seconds
        compile_seconds += done.compile_seconds
        mistakes.append(int(done.trace.is_mistake.sum()))
        wrong.append(int(done.trace.num_wrong.sum()))
        if done.pass_index + 1 in scored_at:
            by_pass[str(done.pass_index + 1)] = score(final(done.state))
    last = score(done.state.params)
    has_mean = settings.get("averaging") != "none"
    return {
        "last": last,
        "mean": score(final(done.state)) if has_mean else last,
        "by_pass": by_pass,
        "seconds": seconds,
        "compile_seconds": compile_seconds,
        "mistakes": mistakes,
        "wrong": wrong,
        "labels": train.space.num_labels,
    }


def summary(
    name: str, runs: list[dict[str, Any]], form: str, paper: float | None = None
) -> dict[str, Any]:
    """Put the runs of one method into a row of the result.

    Args:
      name: Name of the row.
      runs: What `fit` returned, by seed.
      form: ``"last"`` or ``"mean"``.
      paper: Figure of the paper, if there is one.
    """
    f1 = np.array([run[form] for run in runs])
    return {
        "method": name,
        "form": form,
        "f1": float(f1.mean()),
        "f1_std": float(f1.std(ddof=1)) if len(f1) > 1 else None,
        "f1_runs": [round(float(value), 4) for value in f1],
        "train_seconds": float(np.median([run["seconds"] for run in runs])),
        "compile_seconds": float(np.median([run["compile_seconds"] for run in runs])),
        "mistakes_by_pass": runs[0]["mistakes"],
        "paper": paper,
    }


def fit_crf(
    settings: dict[str, Any], task: Task, num_iterations: int
) -> dict[str, Any]:
    """Train a CRF on 0-order features and label transitions, and score it."""
    learner, seconds, compile_seconds = batch.crf.learner(**settings), 0.0, 0.0
    template = features.with_orders(task.template, "zero")
    space = dataclasses.replace(task.encoder.space, orders=template.orders)
    train, test = (
        dataclasses.replace(part, space=space) for part in (task.train, task.test)
    )
    for done in loops.passes(
        learner,
        streams.Whole(streams.lanes.lanes(train)),
        key=jax.random.key(0),
        num_passes=num_iterations,
    ):
        seconds += done.seconds
        compile_seconds += done.compile_seconds
    params = batch.crf.final_params(done.state)
    labels = labelling.predict_batch(models.linear, params, test)
    f1 = task.score(np.array(task.encoder.labels)[labels], task.gold)
    return {
        "last": f1,
        "mean": f1,
        "seconds": seconds,
        "compile_seconds": compile_seconds,
        "mistakes": [],
        "iterations": done.pass_index + 1,
        "num_nonzero": int(done.trace.num_nonzero),
    }


def differences(
    runs: Mapping[str, Sequence[Mapping[str, float]]],
    pairs: Iterable[tuple[str, str, str, str]],
) -> list[dict[str, Any]]:
    """Return paired differences over seeds with their intervals.

    Args:
      runs: What `fit` returned, by method and seed.
      pairs: Method, its form, the other method and its form, of each difference.
        Pairs with a method that was not run are left out.
    """
    claims = []
    for ours, form, other, its_form in pairs:
        if ours not in runs or other not in runs:
            continue
        both = zip(runs[ours], runs[other], strict=True)
        found = mean_of([a[form] - b[its_form] for a, b in both])
        names = {"method": f"{ours}, {form}", "over": f"{other}, {its_form}"}
        numbers = {"difference": found.mean, "half": found.half}
        claims.append(names | numbers | {"verdict": verdict(found)})
    return claims


def decided(where: str, claims: Iterable[Mapping[str, Any]]) -> list[Verdict]:
    """Return verdicts on "the method is above the other" of `differences`."""
    return [
        decide(
            f"{where}: {claim['method']} above {claim['over']}",
            Mean(claim["difference"], claim["half"]),
        )
        for claim in claims
    ]


def table(rows: list[dict[str, Any]]) -> str:
    """Write rows of `summary` as Markdown; rows may name a template."""
    has_templates = any("template" in row for row in rows)
    cells = []
    for row in rows:
        spread = "" if row["f1_std"] is None else f" ± {row['f1_std']:.2f}"
        names = [row["method"], *([row["template"]] if has_templates else [])]
        seconds = f"{row['train_seconds']:.1f}"
        f1 = f"{row['f1']:.2f}{spread}"
        cells.append([*names, f1, seconds, number(row["paper"], ".1f")])
    head = ["method", *(["template"] if has_templates else [])]
    return markdown([*head, "F1", "seconds", "paper"], cells)
