"""Averaged perceptron (SMM-B6) and CRF (SMM-B5) on NETtalk, chosen as the others.

Both are first-order chains with features of the letters. Two templates: the shipped
``nettalk`` sees seven letters, more than a trigram of bi-symbols can; ``TRIGRAM`` sees
what the factors that hold a bi-symbol see: two letters to either side, and their
combinations.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from lowrank_jax import features, loops, metrics, models
from lowrank_jax.batch import crf
from lowrank_jax.online import perceptron
from lowrank_jax.reproduce.smm_words import Split

__all__ = ["TRIGRAM", "fit_crf", "fit_perceptron"]

#: Letters at most two away, adjacent pairs and triples of them, and label transitions.
TRIGRAM = "\n".join(
    f"U{length}{start + 2}:"
    + "/".join(f"%x[{start + place},0]" for place in range(length))
    for length in (1, 2, 3)
    for start in range(-2, 4 - length)
)
TRIGRAM += "\nB\n"


class _Task:
    """Features of one template, and scoring."""

    def __init__(self, split: Split, size: int, template: features.Template):
        train = split.train.take(np.arange(min(size, split.train.num_sentences)))
        self.encoder, self.train = features.Encoder.fit_transform(train, template)
        self._parts = {"development": split.development, "test": split.test}
        self._encoded = {
            name: self.encoder.transform(part, unseen_label="ignore")
            for name, part in self._parts.items()
        }

    def score(self, params: Any, name: str) -> float:
        """Letter accuracy in percent."""
        codes = loops.predict_batch(models.linear, params, self._encoded[name])
        found = np.array(self.encoder.labels)[codes]
        return metrics.token_accuracy(np.asarray(self._parts[name].labels), found)


def _template(text: str) -> features.Template:
    if "\n" in text:
        return features.parse_template(text)
    return features.read_template(text)


def _result(task: _Task, best: tuple[float, dict[str, Any], Any]) -> dict[str, Any]:
    development, setting, params = best
    return {
        "development": development,
        "setting": setting,
        "test": task.score(params, "test"),
    }


def fit_perceptron(
    split: Split, size: int, template: str, passes: Sequence[int], seed: int
) -> dict[str, Any]:
    """Train; choose the number of passes on development words; score on the test.

    Args:
      split: words.
      size: how many to train on.
      template: a shipped one by name, or a text of several lines.
      passes: to choose from, ascending.
      seed: of the order of words.
    """
    task = _Task(split, size, _template(template))
    final = jax.jit(perceptron.final_params)
    best: tuple[float, dict[str, Any], Any] = (-1.0, {}, None)
    for done in loops.passes(
        perceptron.learner(),
        loops.stream(task.train),
        key=jax.random.key(seed),
        num_passes=max(passes),
    ):
        number = done.pass_index + 1
        if number in passes:
            params = final(done.state)
            score = task.score(params, "development")
            best = max(best, (score, {"passes": number}, params), key=lambda x: x[0])
    return _result(task, best)


def fit_crf(
    split: Split,
    size: int,
    template: str,
    strengths: Sequence[float],
    iterations: Sequence[int],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Train by L-BFGS with an L2 penalty; choose and score as `fit_perceptron` does.

    Args:
      split: words.
      size: how many to train on.
      template: as in `fit_perceptron`.
      strengths: c of `batch.crf`, to choose from.
      iterations: to choose from, ascending.
      say: takes one line of progress.
    """
    task = _Task(split, size, _template(template))
    corpus = crf.lay_out(task.train)
    best: tuple[float, dict[str, Any], Any] = (-1.0, {}, None)
    for strength in strengths:
        for done in loops.iterations(
            crf.learner(strength=strength),
            corpus,
            key=jax.random.key(0),
            num_iterations=max(iterations),
        ):
            number = done.pass_index + 1
            if number in iterations or done.trace.converged:
                params = jax.tree.map(lambda part: part.copy(), done.state.params)
                score = task.score(params, "development")
                setting = {"strength": strength, "iterations": number}
                best = max(best, (score, setting, params), key=lambda x: x[0])
        say(f"    CRF c {strength:<5g} development {best[0]:.2f} so far")
    return _result(task, best)
