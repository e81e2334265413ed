"""CoNLL-2000, ours and CRFsuite side by side, compilation apart.

The time of a pass is the median of the first five passes of one training, which have
the most mistakes. CRFsuite's own log gives its seconds per iteration. All learners
train in turn, three times, and a ratio is the median of the three. Decoding is the
median of five repetitions, compiling features of three. Whole trainings, the four sizes
and the memory (of a training of two passes) are measured once.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments import crfsuite
from experiments.protocol import Experiment, Result, Say, Setup
from experiments.tables import markdown
from lowrank_jax import data, features, loops, metrics, models, online, streams
from lowrank_jax.data.sequences import Sequences, Space
from lowrank_jax.estimators import labelling
from lowrank_jax.types import Learner

__all__ = ["EXPERIMENT"]

NUM_PASSES = 5  # timed
NUM_TURNS = 3  # of all learners, one after the other
_BASE = "CRFsuite averaged perceptron"
NUM_LARGE = 4_000_000  # K of the padding test


def run(setup: Setup) -> Result:
    """Measure, and say each figure as it comes."""
    say = setup.say
    train_file = data.find("conll2000/train.txt.xz", setup.data_dir)
    test_file = data.find("conll2000/test.txt.xz", setup.data_dir)
    result: Result = {
        "device": jax.devices()[0].device_kind,
        "num_cores": os.cpu_count(),
    }

    corpus, gold = data.read_conll(train_file), data.read_conll(test_file)
    template = features.read_template("chunking")
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        encoder, zero = features.Encoder.fit_transform(corpus, template)
        seconds.append(time.perf_counter() - began)
    result["feature_seconds"] = float(np.median(seconds))
    say(f"features of the training set       {result['feature_seconds']:8.2f} s")

    first = _with_orders(zero, "01", has_transitions=False)
    test = encoder.transform(gold, unseen_label="ignore")
    files = (train_file, test_file)
    found: dict[str, Any] = {}
    result |= _passes(zero, first, files, found, say)
    result["training"] = _training(first, test, gold, encoder, files, say)
    result["decoding"] = _decoding(zero, first, test, found, say)
    result["scaling"] = _scaling(first, say)
    result["peak_memory_mb"] = _memory(train_file, say)
    return result


def table(result: Result) -> str:
    """Write passes, decoding and the rest as Markdown."""
    passes = [
        [name, f"{value:.2f} s", f"{result['pass_ratio'][name]:.2f}"]
        for name, value in result["seconds_per_pass"].items()
    ]
    decoding = result["decoding"]
    speeds = [
        [name, f"{value:,.0f}", f"{value / decoding['CRFsuite']:.1f}"]
        for name, value in decoding.items()
    ]
    training, scaling = result["training"], result["scaling"]
    of_bol = result["pass_ratios"]["BOL block, first and 0-order"]
    turns = ", ".join(f"{ratio:.2f}" for ratio in of_bol)
    micro = ", ".join(
        f"{float(value):.2f} at {int(tokens):,}"
        for tokens, value in scaling["microseconds_per_token"].items()
    )
    reached = training["bol_seconds_to_93.5"]
    after = "" if reached is None else f" (F1 93.5 is reached after {reached:.1f} s)"
    return (
        f"CoNLL-2000, {result['num_cores']} cores, one run, compilation apart, each "
        "operation of ours on one core. A pass of BOL over one of CRFsuite's averaged "
        f"perceptron in the single turns: {turns}.\n\n"
        + markdown(["one pass, medians of three turns", "time", "ratio"], passes)
        + "\n"
        + markdown(["decoding", "tokens per second", "ratio"], speeds)
        + f"\nTraining BOL for 10 passes takes {training['bol_seconds']:.1f} s for F1 "
        f"{training['bol_f1']:.2f}{after}; CRFsuite's L-BFGS takes "
        f"{training['lbfgs_seconds']:.1f} s for {training['lbfgs_f1']:.2f}. "
        "Features of the training set are compiled in "
        f"{result['feature_seconds']:.1f} s. "
        f"A first pass of BOL costs, in microseconds per token, {micro} tokens; with "
        "the feature table padded to 4 million rows a pass takes "
        f"{scaling['padded_over_plain']:.2f} times as long. Peak memory of "
        f"`train bol`: {result['peak_memory_mb'] / 1000:.1f} GB.\n"
    )


def _passes(
    zero: Sequences,
    first: Sequences,
    files: tuple[Path, Path],
    found: dict[str, Any],
    say: Say,
) -> dict[str, Any]:
    """Time one pass of each learner, all of them in turn: a machine's speed drifts.

    Args:
      zero: Training sentences with 0-order features.
      first: Training sentences with 0-order and first-order features.
      files: Files of the training and the test sentences.
      found: Filled with what CRFsuite found, by name.
      say: Takes one line of text.
    """
    peers = {_BASE: ("ap", 10), "CRFsuite passive-aggressive": ("pa", 10)}
    ours: dict[str, tuple[Learner, Sequences]] = {
        "averaged perceptron, 0-order": (online.perceptron.learner(), zero),
        "MIRA, 0-order": (online.mira.learner(), zero),
        "BOL block, first and 0-order": (online.bol.learner(), first),
        "BOL paper, first and 0-order": (online.bol.learner(variant="paper"), first),
    }
    turns: dict[str, list[float]] = {name: [] for name in (*peers, *ours)}
    compile_seconds = dict.fromkeys(ours, 0.0)
    for _ in range(NUM_TURNS):
        for name, (algorithm, num_iterations) in peers.items():
            found[name] = crfsuite.fit(algorithm, num_iterations, *files)
            turns[name].append(_median_pass(found[name]))
        for name, (learner, sequences) in ours.items():
            times, seconds = _time_passes(learner, sequences)
            turns[name].append(float(np.median(times)))
            compile_seconds[name] = max(compile_seconds[name], seconds)
    say(
        "one pass over CoNLL-2000, median of the first five, compilation apart; medians"
    )
    say(f"of {NUM_TURNS} turns, and the ratios of each turn:")
    base, ratios = np.array(turns[_BASE]), {}
    for name, values in turns.items():
        ratios[name] = (np.array(values) / base).tolist()
        more = ", ".join(f"{ratio:.2f}" for ratio in ratios[name])
        if name in ours:
            more += f"   (compiled in {compile_seconds[name]:.1f} s)"
        say(f"  {name:32} {np.median(values):8.3f} s   ratio {more}")
    return {
        "seconds_per_pass": {name: float(np.median(v)) for name, v in turns.items()},
        "pass_ratio": {name: float(np.median(v)) for name, v in ratios.items()},
        "pass_ratios": ratios,
    }


def _median_pass(peer: dict[str, Any]) -> float:
    return float(np.median(peer["seconds_per_pass"][:NUM_PASSES]))


def _with_orders(
    sequences: Sequences, order: str, *, has_transitions: bool, num_features: int = 0
) -> Sequences:
    """Return the same ids with other orders, or as part of a larger space."""
    old = sequences.space
    space = Space(
        num_features or old.num_features,
        old.num_labels,
        (order,) * len(old.orders),
        has_transitions,
    )
    return Sequences(sequences.feature_ids, sequences.labels, sequences.offsets, space)


def _time_passes(
    learner: Learner, sequences: Sequences, num_passes: int = NUM_PASSES
) -> tuple[list[float], float]:
    """Return the seconds of each pass and of compilation."""
    corpus, times, compile_seconds = streams.sentences.stream(sequences), [], 0.0
    key = jax.random.key(0)
    for done in loops.passes(learner, corpus, key=key, num_passes=num_passes):
        times.append(done.seconds)
        compile_seconds += done.compile_seconds
    return times, compile_seconds


def _training(
    first: Sequences,
    test: Sequences,
    gold: data.Corpus,
    encoder: features.Encoder,
    files: tuple[Path, Path],
    say: Say,
) -> dict[str, Any]:
    """Time a whole training against CRFsuite's L-BFGS."""
    names = np.array(encoder.labels)
    predict = jax.jit(lambda *given: labelling.predict(models.bilinear.scores, *given))
    final = jax.jit(online.bol.final_params)
    corpus, where = (
        streams.sentences.stream(first),
        streams.sentences.stream(_like(test, first)),
    )
    seconds, reached, f1 = 0.0, None, 0.0
    for done in loops.passes(
        online.bol.learner(), corpus, key=jax.random.key(0), num_passes=10
    ):
        seconds += done.seconds
        compiled = final.lower(done.state).compile()
        began = time.perf_counter()
        params = jax.block_until_ready(compiled(done.state))
        map_seconds = time.perf_counter() - began
        labels = names[np.asarray(predict(params, where))]
        true = np.asarray(gold.labels)
        f1 = metrics.chunk_scores(true, labels, gold.offsets).f1
        if reached is None and f1 >= 93.5:
            reached = seconds + map_seconds
    peer = crfsuite.fit("lbfgs", 100, *files)
    ours = seconds + map_seconds
    say("training, compilation apart:")
    say(f"  BOL block, 10 passes             {ours:8.2f} s   F1 {f1:.2f}")
    if reached is not None:
        say(f"  BOL block, to F1 93.5            {reached:8.2f} s")
    say(
        f"  CRFsuite L-BFGS, 100 iterations  {peer['train_seconds']:8.2f} s"
        f"   F1 {peer['f1']:.2f}"
    )
    say(f"  ratio, 10 passes / L-BFGS        {ours / peer['train_seconds']:8.3f}")
    return {
        "bol_seconds": ours,
        "bol_f1": f1,
        "bol_seconds_to_93.5": reached,
        "lbfgs_seconds": peer["train_seconds"],
        "lbfgs_f1": peer["f1"],
        "ratio": ours / peer["train_seconds"],
    }


def _like(test: Sequences, train: Sequences) -> Sequences:
    return Sequences(test.feature_ids, test.labels, test.offsets, train.space)


def _decoding(
    zero: Sequences,
    first: Sequences,
    test: Sequences,
    peers: dict[str, Any],
    say: Say,
) -> dict[str, Any]:
    """Return tokens per second of a model; the peer's items are built beforehand."""
    peer = peers[_BASE]
    base = peer["tokens_per_second"]
    say("decoding the test set, tokens per second:")
    say(f"  {'CRFsuite, items built before':32} {base:10,.0f}")
    say(f"  {'CRFsuite, from strings':32} {peer['tokens_per_second_strings']:10,.0f}")
    result = {
        "CRFsuite": base,
        "CRFsuite from strings": peer["tokens_per_second_strings"],
    }
    for name, module, model, sequences in (
        ("perceptron, 0-order", online.perceptron, models.linear, zero),
        ("BOL block, first order", online.bol, models.bilinear, first),
    ):
        state, _ = loops.train(
            module.learner(), sequences, key=jax.random.key(0), num_passes=2
        )
        params = jax.jit(module.final_params)(state)
        part = _like(test, sequences)
        corpus = streams.sentences.stream(part)
        predict = jax.jit(
            lambda *given, model=model: labelling.predict(model.scores, *given)
        )
        ways: dict[str, Callable[[], Any]] = {
            "stream": functools.partial(_on_host, predict, params, corpus),
            "batch": functools.partial(labelling.predict_batch, model, params, part),
        }
        for way, call in ways.items():
            call()
            seconds = []
            for _ in range(NUM_PASSES):
                began = time.perf_counter()
                call()
                seconds.append(time.perf_counter() - began)
            speed = test.num_tokens / float(np.median(seconds))
            result[f"{name}, {way}"] = speed
            say(f"  {name + ', ' + way:32} {speed:10,.0f}   ratio {speed / base:5.2f}")
    return result


def _on_host(call: Callable[..., jax.Array], *given: Any) -> np.ndarray:
    return np.asarray(call(*given))


def _scaling(first: Sequences, say: Say) -> dict[str, Any]:
    """Show that a pass is linear in tokens and does not depend on K."""
    learner = online.bol.learner(averaging="none")
    result: dict[str, Any] = {"microseconds_per_token": {}}
    offsets = np.asarray(first.offsets)
    say("BOL block, a first pass at four sizes, microseconds per token:")
    for share in (0.125, 0.25, 0.5, 1.0):
        num_sentences = int(first.num_sentences * share)
        num_tokens = int(offsets[num_sentences])
        part = Sequences(
            first.feature_ids[:num_tokens],
            first.labels[:num_tokens],
            offsets[: num_sentences + 1],
            first.space,
        )
        times, _ = _time_passes(learner, part, 1)
        value = 1e6 * times[0] / num_tokens
        result["microseconds_per_token"][str(num_tokens)] = value
        say(f"  {num_tokens:10,} tokens                 {value:8.2f}")
    known, _ = _time_passes(learner, first, 3)
    # Id K means "not a feature": it must move with K.
    ids = np.asarray(first.feature_ids)
    ids = np.where(ids == first.space.num_features, NUM_LARGE, ids)
    wide = Sequences(
        ids,
        first.labels,
        first.offsets,
        Space(NUM_LARGE, first.space.num_labels, first.space.orders),
    )
    padded, _ = _time_passes(learner, wide, 3)
    ratio = float(np.median(padded) / np.median(known))
    result["padded_over_plain"] = ratio
    say(
        f"  K = {NUM_LARGE:,} / K = {first.space.num_features:,}:"
        f" a pass takes {ratio:.2f} times as long"
    )
    return result


def _memory(train_file: Path, say: Say) -> float:
    """Return the peak memory of a training on the command line, in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "lowrank_jax", "train", "bol"]
        command += ["--train", str(train_file), "--passes", "2"]
        command += ["--model", str(Path(folder) / "model"), "--json", str(report)]
        subprocess.run(command, check=True, capture_output=True)
        peak = json.loads(report.read_text())["peak_memory_mb"]
    say(f"peak memory of `train bol`         {peak:8.0f} MB")
    return float(peak)


EXPERIMENT = Experiment(
    "bench-sequence",
    "Speed beside CRFsuite",
    "the paper's data",
    "CoNLL-2000",
    run,
    table,
    needs={"pycrfsuite": "CRFsuite"},
)
