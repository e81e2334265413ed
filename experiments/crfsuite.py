"""CRFsuite as a peer: one fit in a fresh process, the same features, JSON on stdout.

CRFsuite shuffles with a global generator that it does not seed: fits of one process
depend on each other, fits of fresh processes shuffle equally. So each fit is a process
of its own, with its sentences in an order drawn from a seed. Features are the ids of
our encoder, so that both sides have the same features; unseen features are left out.

    python -m experiments.crfsuite ap 10 TRAIN TEST
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["attributes", "fit"]


def fit(
    algorithm: str,
    num_iterations: int,
    train: Path | str,
    test: Path | str,
    *,
    seed: int = 0,
) -> dict[str, Any]:
    """Fit and score one model in a fresh process.

    Args:
      algorithm: ``"ap"``, ``"pa"`` or ``"lbfgs"``.
      num_iterations: Number of passes, or of iterations of L-BFGS.
      train: CoNLL columns to train on.
      test: CoNLL columns to score.
      seed: Seed for the order in which CRFsuite is given the sentences.

    Returns:
      `seconds_per_pass` (a list), `train_seconds`, `f1`, `accuracy`,
      `tokens_per_second` (items built beforehand) and `tokens_per_second_strings`.
    """
    command = [sys.executable, "-m", __name__, algorithm, str(num_iterations)]
    command += [str(Path(train).resolve()), str(Path(test).resolve()), str(seed)]
    root = Path(__file__).parents[1]  # experiments are not installed
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    return json.loads(done.stdout.splitlines()[-1])


def attributes(sequences: Any) -> list[list[list[str]]]:
    """Write each sentence's features as CRFsuite wants them: lists of strings."""
    names = np.arange(sequences.space.num_features).astype(str)
    ids, offsets = np.asarray(sequences.feature_ids), np.asarray(sequences.offsets)
    rows = [names[row[row < sequences.space.num_features]].tolist() for row in ids]
    return [rows[a:b] for a, b in zip(offsets[:-1], offsets[1:], strict=True)]


def _main(
    algorithm: str, num_iterations: str, train: str, test: str, seed: str = "0"
) -> None:
    import pycrfsuite

    from lowrank_jax import data, features, metrics

    template = features.read_template("chunking")
    corpus = data.read_conll(train)
    order = np.random.default_rng(int(seed)).permutation(corpus.num_sentences)
    corpus = corpus.take(order)
    encoder, sequences = features.Encoder.fit_transform(corpus, template)
    trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False)
    labels = np.asarray(corpus.labels).tolist()
    for sentence, a, b in zip(
        attributes(sequences), corpus.offsets[:-1], corpus.offsets[1:], strict=True
    ):
        trainer.append(sentence, labels[a:b])
    trainer.set("max_iterations", int(num_iterations))
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "model")
        began = time.perf_counter()
        trainer.train(model)
        train_seconds = time.perf_counter() - began
        log = trainer.logparser.iterations
        tagger = pycrfsuite.Tagger()
        tagger.open(model)
        gold = data.read_conll(test)
        items = attributes(encoder.transform(gold, unseen_label="ignore"))
        began = time.perf_counter()
        predicted = [label for sentence in items for label in tagger.tag(sentence)]
        with_strings = time.perf_counter() - began
        built = [pycrfsuite.ItemSequence(sentence) for sentence in items]
        seconds = []
        for _ in range(5):
            began = time.perf_counter()
            for sentence in built:
                tagger.set(sentence)
                tagger.tag()
            seconds.append(time.perf_counter() - began)
    found, true = np.array(predicted), np.asarray(gold.labels)
    result = {
        "algorithm": algorithm,
        "iterations": len(log),
        "train_seconds": train_seconds,
        "seconds_per_pass": [one["time"] for one in log],
        "f1": metrics.chunk_scores(true, found, gold.offsets).f1,
        "accuracy": metrics.token_accuracy(true, found),
        "tokens_per_second": gold.num_tokens / float(np.median(seconds)),
        "tokens_per_second_strings": gold.num_tokens / with_strings,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    _main(*sys.argv[1:])
