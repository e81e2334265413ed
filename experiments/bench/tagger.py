"""A tagger as its users meet it, beside sklearn-crfsuite, in turn on one machine.

First model: ``lowrank-jax train sp`` on CoNLL-2000, from the start of the process to
its end, with an empty and with a filled cache of programs, beside a script that trains
the averaged perceptron of sklearn-crfsuite on the features of the same template. One
sentence: ``lowrank-jax tag`` as a process, and `predict` in a running one. Encoding:
dicts of features to arrays, beside the loop of python-crfsuite. Probabilities:
calibration error of the test tokens, before and after the temperature.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

from experiments.protocol import Experiment, Result, Setup
from experiments.tables import markdown
from lowrank_jax import Tagger, data
from lowrank_jax.data.corpus import Bags, Corpus, corpus_of
from lowrank_jax.estimators.tagger import calibration, small
from lowrank_jax.features import AttributeEncoder

__all__ = ["EXPERIMENT"]

NUM_PASSES, NUM_FOLDS, NUM_CALLS, NUM_ENCODED = 10, 4, 200, 100_000
PEER = """
import sys, sklearn_crfsuite
from lowrank_jax import data
from experiments.bench.tagger import dicts_of, lists_of
from lowrank_jax.metrics import chunk_scores
train, test = map(data.read_conll, sys.argv[1:3])
peer = sklearn_crfsuite.CRF("ap", max_iterations=int(sys.argv[3]))
peer.fit(dicts_of(train), lists_of(train))
found = [label for part in peer.predict(dicts_of(test)) for label in part]
print(chunk_scores(test.labels, found, test.offsets).f1)
"""


def lists_of(corpus: Corpus) -> list[list[str]]:
    """Return the labels, one list per sentence."""
    assert corpus.labels is not None
    return [part.tolist() for part in np.split(corpus.labels, corpus.offsets[1:-1])]


def dicts_of(corpus: Corpus) -> list[list[dict[str, Any]]]:
    """Return the features of the template ``chunking``, one dict per token."""
    from lowrank_jax.features import read_template

    columns = read_template("chunking").columns
    sentences = []
    for start, end in zip(corpus.offsets[:-1], corpus.offsets[1:], strict=True):
        parts = [column[start:end].tolist() for column in corpus.columns]
        length = end - start

        def at(
            i: int, row: int, column: Any, parts: Any = parts, n: Any = length
        ) -> str:
            place = i + row
            if place < 0:
                return f"_B{place}"
            return parts[column][place] if place < n else f"_B+{place - n + 1}"

        sentences.append(
            [
                {c.literals[0]: "/".join(at(i, *m) for m in c.macros) for c in columns}
                for i in range(length)
            ]
        )
    return sentences


def run(setup: Setup) -> Result:
    """Measure in turn."""
    paths = [
        str(data.find(f"conll2000/{n}.txt", setup.data_dir)) for n in ("train", "test")
    ]
    train, test = map(data.read_conll, paths)
    rows: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        model = str(pathlib.Path(folder) / "m")
        words = ["train", "sp", "--train", paths[0], "--test", paths[1]]
        words += ["--passes", str(NUM_PASSES), "--model", model]
        keys = ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE")
        plain = {k: v for k, v in os.environ.items() if k not in keys}
        plain |= {"XDG_CACHE_HOME": folder}
        ours = [sys.executable, "-m", "lowrank_jax"]
        theirs = [sys.executable, "-c", PEER, *paths, str(NUM_PASSES)]
        peaks = {}
        for name, command in (
            ("train, empty cache", [*ours, *words]),
            ("train, sklearn-crfsuite", theirs),
            ("train, filled cache", [*ours, *words]),
        ):
            rows[name], peaks[name] = _measure(command, plain)
            setup.say(f"{name}: {rows[name]:.1f} s, {peaks[name]:.0f} MB")
        tagger = Tagger.load(model)
        one = test.take([0])
        text = pathlib.Path(folder) / "one.txt"
        with open(text, "w") as stream:
            data.write_conll(stream, data.Corpus(one.columns, None, one.offsets, "one"))
        calls = [_measure([*ours, "tag", model, str(text)], plain)[0] for _ in range(5)]
        rows["tag one sentence, process"] = statistics.median(calls)
        rows["tag one sentence, running"] = _median(lambda: tagger.predict(one))
    X, y = dicts_of(train), lists_of(train)
    rows |= _encoding(X, y)
    setup.say(f"encoding: {rows}")
    errors = [_errors(name, train, test) for name in ("sp", "bol")]
    peer = rows["train, sklearn-crfsuite"]
    ratios = {
        "train, filled cache / sklearn-crfsuite": rows["train, filled cache"] / peer,
        "train, empty cache / sklearn-crfsuite": rows["train, empty cache"] / peer,
        "encode dicts / python-crfsuite": rows["encode dicts"]
        / rows["encode dicts, python-crfsuite"],
    }
    return {"rows": rows, "MB": peaks, "ratios": ratios, "calibration": errors}


def _measure(words: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Return the seconds and the peak memory in MB of a process."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            words, env=environment, stdout=subprocess.DEVNULL, stderr=said
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise RuntimeError(f"{' '.join(words[:4])}: {said.read().decode()}")
    return seconds, usage.ru_maxrss / 1024


def _median(call: Any) -> float:
    call()
    found = []
    for _ in range(NUM_CALLS):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def _encoding(X: Any, y: Any) -> dict[str, float]:
    """Encode dicts of 100,000 sentences, ours and python-crfsuite's own loop in turn.

    The training sentences are given again and again until there are so many.
    """
    import pycrfsuite

    times = -(-NUM_ENCODED // len(X))
    X, y = (X * times)[:NUM_ENCODED], (y * times)[:NUM_ENCODED]
    ours, theirs = [], []
    for _ in range(2):
        began = time.perf_counter()
        corpus = corpus_of(X, y)
        assert isinstance(corpus, Bags)
        AttributeEncoder.fit_transform(corpus)
        del corpus
        between = time.perf_counter()
        trainer = pycrfsuite.Trainer("ap", verbose=False)
        for tokens, labels in zip(X, y, strict=True):
            trainer.append(tokens, labels)
        theirs.append(time.perf_counter() - between)
        ours.append(between - began)
        del trainer
    return {
        "encode dicts": min(ours),
        "encode dicts, python-crfsuite": min(theirs),
    }


def _errors(name: str, train: Corpus, test: Corpus) -> dict[str, Any]:
    tagger = Tagger(name, num_passes=NUM_PASSES, calibration_folds=NUM_FOLDS).fit(train)
    encoder: Any = tagger.encoder_
    encoded = encoder.transform(test, unseen_label="ignore")
    heats = {"before": 1.0, "after": tagger.temperature_}
    return {"learner": name, "temperature": tagger.temperature_} | {
        when: calibration.calibration_error(
            small.marginals(tagger._weights, encoded, heat), encoded.labels
        )
        for when, heat in heats.items()
    }


def table(result: Result) -> str:
    """Return the figures."""
    seconds = [[name, f"{value:.4g}"] for name, value in result["rows"].items()]
    errors = [
        [e["learner"], f"{e['before']:.1f}", f"{e['after']:.1f}"]
        for e in result["calibration"]
    ]
    peaks = [[name, f"{value:.0f}"] for name, value in result["MB"].items()]
    ratios = [[name, f"{value:.2f}"] for name, value in result["ratios"].items()]
    head = ["learner", "calibration error, points", "with the temperature"]
    parts = [
        markdown(["measured", "seconds"], seconds),
        markdown(["peak memory", "MB"], peaks),
        markdown(["ratio", "value"], ratios),
        markdown(head, errors),
    ]
    return "\n".join(parts)


EXPERIMENT = Experiment(
    "bench-tagger",
    "A tagger as its users meet it, beside sklearn-crfsuite",
    "the paper's data",
    "CoNLL-2000",
    run,
    table,
    needs={"sklearn_crfsuite": "sklearn-crfsuite"},
)
