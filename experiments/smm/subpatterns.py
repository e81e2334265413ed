"""Trigram taggers with sub-pattern features on NETtalk (SMM-B5, SMM-B6).

The CRF and the averaged perceptron see what the spectral model sees: all trigrams of
bi-symbols, and every part of them. Settings are chosen on development words; what was
chosen is scored on the test words.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments.smm.words import Split
from lowrank_jax import data, loops, streams
from lowrank_jax.batch.smm import trigram_crf
from lowrank_jax.decode.lattice_paths import paths_to_words
from lowrank_jax.models import subpatterns
from lowrank_jax.online import trigram_perceptron

__all__ = ["fit_crf", "fit_perceptron"]


class _Best(NamedTuple):
    development: float
    setting: dict[str, Any]
    params: subpatterns.Params | None


class _Task:
    """Training words of one size, and scoring."""

    def __init__(self, split: Split, size: int):
        train = split.train.take(np.arange(min(size, split.train.num_sentences)))
        self.alphabet = data.alphabet_of(train)
        self.train = data.encode_words(self.alphabet, train)
        self._words = {
            name: data.encode_words(self.alphabet, getattr(split, name))
            for name in ("development", "test")
        }
        self._laid_out = {
            name: jax.device_put(trigram_crf.lettered_lattice(self.alphabet, words))
            for name, words in self._words.items()
        }

    def score(self, params: subpatterns.Params, name: str) -> float:
        """Letter accuracy in percent."""
        laid_out = self._laid_out[name]
        found = paths_to_words(_predict(params, laid_out), laid_out.lattice)
        return data.hamming_accuracy(self._words[name], found)

    def better(
        self, best: _Best, setting: dict[str, Any], params: subpatterns.Params
    ) -> _Best:
        """Return the better one on development words; of equal ones the first."""
        score = self.score(params, "development")
        return _Best(score, setting, params) if score > best.development else best

    def result(self, best: _Best) -> dict[str, Any]:
        """Score the best on the test words."""
        assert best.params is not None
        return {
            "development": best.development,
            "setting": best.setting,
            "test": self.score(best.params, "test"),
        }


def fit_perceptron(
    split: Split, size: int, passes: Sequence[int], seed: int
) -> dict[str, Any]:
    """Train; choose the number of passes on development words; score on the test.

    Args:
      split: words.
      size: how many to train on.
      passes: to choose from, ascending.
      seed: of the order of words.
    """
    task = _Task(split, size)
    stream = trigram_perceptron.stream(task.alphabet, task.train)
    key = jax.random.key(seed)
    state = jax.jit(trigram_perceptron.learner().init)(key, stream.example(0))
    best = _Best(-1.0, {}, None)
    for number in range(1, max(passes) + 1):
        order = loops.pass_order(key, number - 1, task.train.num_words)
        state = _pass(state, stream, order)
        if number in passes:
            params = _average(state)
            best = task.better(best, {"passes": number}, params)
    return task.result(best)


def fit_crf(
    split: Split,
    size: int,
    strengths: Sequence[float],
    iterations: Sequence[int],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Train by L-BFGS with an L2 penalty; choose and score as `fit_perceptron` does.

    Args:
      split: words.
      size: how many to train on.
      strengths: c of `batch.trigram_crf`, to choose from.
      iterations: to choose from, ascending.
      say: takes one line of progress.
    """
    task = _Task(split, size)
    words = jax.device_put(trigram_crf.lettered_lattice(task.alphabet, task.train))
    start = jax.jit(trigram_crf.learner().init)
    best = _Best(-1.0, {}, None)
    for strength in strengths:
        state = start(jax.random.key(0), words)
        for number in range(1, max(iterations) + 1):
            state, info = _iterate(np.float32(strength), state, words)
            is_done = bool(info.converged)
            if number in iterations or is_done:
                params = jax.tree.map(lambda part: part.copy(), state.params)
                setting = {"strength": strength, "iterations": number}
                best = task.better(best, setting, params)
            if is_done:
                break
        say(f"    trigram CRF c {strength:<5g} development {best[0]:.2f} so far")
    return task.result(best)


@jax.jit
def _predict(params: subpatterns.Params, words: trigram_crf.LetteredLattice) -> Any:
    return trigram_crf.predict(params, words)


@functools.partial(jax.jit, donate_argnums=0)
def _pass(
    state: trigram_perceptron.State, stream: streams.Stacked, order: jax.Array
) -> trigram_perceptron.State:
    learner = trigram_perceptron.learner()
    return loops.run(learner, state, stream, order)[0]


@jax.jit
def _average(state: trigram_perceptron.State) -> subpatterns.Params:
    return trigram_perceptron.final_params(state)


@functools.partial(jax.jit, donate_argnums=1)
def _iterate(
    strength: jax.Array, state: trigram_crf.State, words: trigram_crf.LetteredLattice
) -> tuple[trigram_crf.State, trigram_crf.Info]:
    return trigram_crf.learner(strength=strength).update(state, words)
