"""Taggers trained, scored and timed: shared by the BOL experiments."""

import dataclasses
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import numpy as np

from experiments.tables import markdown, number
from lowrank_jax import data, features, loops, models, online, streams
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.estimators import labelling

__all__ = ["Method", "Scored", "Task", "fit", "make_task", "summary", "table"]


@dataclasses.dataclass(frozen=True)
class Method:
    """A learner with its settings.

    Attributes:
      name: Name in the table.
      module: Module of the learner, in `online` or of the same form.
      settings: Keyword arguments of `learner`. The blocks of `online.bcd` are one
        pass unless they say otherwise.
      orders: Orders of the features, ``"template"``, ``"zero"``, ``"first"`` or
        ``"both"``.
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
    template_name: str,
    score: Callable[[np.ndarray, data.Corpus], float],
) -> Task:
    """Compile the features of a corpus pair; `score` takes labels and the test."""
    template = features.read_template(template_name)
    encoder, sequences = features.Encoder.fit_transform(train, template)
    ids = encoder.transform(test, unseen_label="ignore")
    return Task(encoder, template, sequences, ids, test, score)


@dataclasses.dataclass(frozen=True)
class Scored:
    """One run."""

    seed: int
    f1: float
    train_seconds: float
    compile_seconds: float
    mistakes: list[int]


def fit(
    method: Method,
    task: Task,
    *,
    num_seeds: int,
    num_passes: int,
    first_seed: int = 0,
) -> list[Scored]:
    """Train by passes and score the final model on the test, once per seed."""
    template = features.with_orders(task.template, method.orders)
    space = dataclasses.replace(
        task.encoder.space,
        orders=template.orders,
        has_transitions=template.has_transitions,
    )
    train = streams.sentences.stream(dataclasses.replace(task.train, space=space))
    test = streams.sentences.stream(dataclasses.replace(task.test, space=space))
    settings = method.settings
    if method.module is online.bcd:  # the factors take turns from pass to pass
        settings = {"num_rounds_per_block": task.train.num_sentences} | settings
    learner = method.module.learner(**settings)
    predict = jax.jit(labelling.predict, static_argnums=0)
    final = jax.jit(method.module.final_params)
    runs = []
    for seed in range(first_seed, first_seed + num_seeds):
        seconds, compile_seconds, mistakes = 0.0, 0.0, []
        for done in loops.passes(
            learner, train, key=jax.random.key(seed), num_passes=num_passes
        ):
            seconds += done.seconds
            compile_seconds += done.compile_seconds
            mistakes.append(int(done.trace.is_mistake.sum()))
        began = time.perf_counter()
        compiled = final.lower(done.state).compile()
        compile_seconds += time.perf_counter() - began
        began = time.perf_counter()
        params = jax.block_until_ready(compiled(done.state))
        seconds += time.perf_counter() - began
        del done
        is_linear = isinstance(params, models.linear.Params)
        model = models.linear if is_linear else models.bilinear
        found = np.asarray(predict(model.scores, params, test))
        labels = np.array(task.encoder.labels)[found]
        f1 = task.score(labels, task.gold)
        runs.append(Scored(seed, f1, seconds, compile_seconds, mistakes))
    return runs


def summary(name: str, runs: list[Scored], paper: float | None) -> dict[str, Any]:
    """Put the runs of one method into a row of the result."""
    f1 = np.array([run.f1 for run in runs])
    return {
        "method": name,
        "f1": float(f1.mean()),
        "f1_std": float(f1.std(ddof=1)) if len(f1) > 1 else None,
        "f1_runs": [round(float(value), 4) for value in f1],
        "train_seconds": float(np.median([run.train_seconds for run in runs])),
        "compile_seconds": float(np.median([run.compile_seconds for run in runs])),
        "mistakes_by_pass": runs[0].mistakes,
        "paper": paper,
    }


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
