"""Train a tagger on encoded sentences: from settings and arrays to weights."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax

from lowrank_jax import streams
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.estimators import learners, training

__all__ = ["Fit", "Run", "fit"]

Run = Callable[[training.Job], training.Outcome]


class Fit(NamedTuple):
    """What a training gives.

    Attributes:
      params: Weights of `models.linear` or `models.bilinear`.
      summary: Passes, seconds and history, ready for JSON.
    """

    params: Any
    summary: dict[str, Any]


def fit(
    learner: Any,
    spec: learners.Spec,
    sequences: Sequences,
    *,
    num_passes: int,
    seed: int,
    settings: Mapping[str, Any],
    run: Run | None = None,
) -> Fit:
    """Train on encoded sentences.

    Args:
      learner: Learner, as ``learner(...)`` of its module builds it.
      spec: Entry of the learner.
      sequences: Training data.
      num_passes: Number of passes; of a batch learner, iterations at most.
      seed: Seed of the random key.
      settings: Everything that determines the result except the number of passes.
      run: Function that does the job; None takes `training.run`.
    """
    job = training.Job(
        learner=learner,
        stream=(
            streams.Whole(streams.lanes.lanes(sequences))
            if spec.is_batch
            else streams.sentences.stream(sequences)
        ),
        unit="sentences",
        num_examples=sequences.num_sentences,
        seed=seed,
        num_passes=num_passes,
        settings=dict(settings),
    )
    outcome = (run or training.run)(job)
    began = time.perf_counter()
    module = learners.module_of(spec)
    finish = jax.jit(module.final_params).lower(outcome.state).compile()
    compiled = time.perf_counter()
    params = jax.block_until_ready(finish(outcome.state))
    finished = time.perf_counter()
    summary = {
        "passes": len(outcome.history),
        "compile_seconds": outcome.compile_seconds + compiled - began,
        "train_seconds": outcome.seconds + finished - compiled,
        "seconds_per_pass": outcome.seconds / len(outcome.history),
        "history": outcome.history,
        "run": job.settings,
        "machine": training.machine(),
    }
    return Fit(params, summary)
