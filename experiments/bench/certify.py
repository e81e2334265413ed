"""What a certificate adds to the training of BOL on CoNLL-2000.

The same training runs without and with recorded predictions, in turn. The certificate
at the end (exact singular values of all touched blocks, the comparator's losses on all
rounds) is added to the second. Compilation is left out.
"""

import os
import time
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments.protocol import Experiment, Result, Setup
from lowrank_jax import certify, data, features, loops, online, streams

__all__ = ["EXPERIMENT"]

NUM_PASSES = 10
NUM_REPEATS = 3


def run(setup: Setup) -> Result:
    """Measure, and say each figure as it comes."""
    say = setup.say
    corpus = data.read_conll(data.find("conll2000/train.txt.xz", setup.data_dir))
    template = features.with_orders(features.read_template("chunking"), "both")
    _, sequences = features.Encoder.fit_transform(corpus, template)
    stream = streams.sentences.stream(sequences)
    plain, certified, ends = [], [], []
    final = jax.jit(online.bol.final_params)
    for repeat in range(NUM_REPEATS):
        plain.append(_train(stream, ()).seconds)
        say(f"training, plain                    {plain[-1]:8.2f} s")
        trained = _train(stream, ("predicted",))
        certified.append(trained.seconds)
        say(f"training, predictions recorded     {certified[-1]:8.2f} s")
        params = jax.block_until_ready(final(trained.state))
        if repeat == 0:
            _certificate(trained, stream, params)  # compiles
        began = time.perf_counter()
        found = _certificate(trained, stream, params)
        ends.append(time.perf_counter() - began)
        say(f"certificate                        {ends[-1]:8.2f} s")
        del trained
    base = float(np.median(plain))
    total = float(np.median(certified)) + float(np.median(ends))
    say(f"share of the training time         {total / base - 1:8.1%}")
    return {
        "device": jax.devices()[0].device_kind,
        "num_cores": os.cpu_count(),
        "passes": NUM_PASSES,
        "repeats": NUM_REPEATS,
        "plain_seconds": base,
        "certified_seconds": float(np.median(certified)),
        "certificate_seconds": float(np.median(ends)),
        "share": total / base - 1,
        "all_seconds": {"plain": plain, "certified": certified, "certificate": ends},
        "certificate": found,
    }


def table(result: Result) -> str:
    """Write the cost in one sentence."""
    return (
        f"CoNLL-2000, {result['passes']} passes of BOL block: "
        f"{result['plain_seconds']:.1f} s without, "
        f"{result['certified_seconds']:.1f} s with its predictions recorded, and "
        f"{result['certificate_seconds']:.1f} s for the certificate at the end: "
        f"{100 * result['share']:.0f} % more. Median of {result['repeats']} runs; "
        "compilation apart.\n"
    )


class _Trained(NamedTuple):
    state: Any
    traces: list[Any]
    seconds: float


def _train(stream: streams.sentences.Stream, record: Any) -> _Trained:
    learner = online.bol.learner(record=record)
    seconds, traces = 0.0, []
    for done in loops.passes(
        learner, stream, key=jax.random.key(0), num_passes=NUM_PASSES
    ):
        seconds += done.seconds
        traces.append(done.trace)
    return _Trained(done.state, traces, seconds)


def _certificate(
    trained: _Trained, stream: streams.sentences.Stream, params: Any
) -> dict[str, Any]:
    found = certify.regret(
        trained.state, trained.traces, stream, params, key=jax.random.key(0)
    )
    assert found.spectrum is not None
    return found._asdict() | {"spectrum": found.spectrum._asdict()}


EXPERIMENT = Experiment(
    "bench-certify",
    "Cost of a certificate",
    "the paper's data",
    "CoNLL-2000",
    run,
    table,
)
