"""Trigram taggers with sub-pattern features on NETtalk (SMM-B5, SMM-B6).

The CRF and the averaged perceptron see what the spectral model sees: all trigrams of
bi-symbols, and every part of them. Settings are chosen on development words; what was
chosen is scored on the test words.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from experiments.protocol import Say
from experiments.smm.learners import subpatterns, trigram_crf, trigram_perceptron
from experiments.smm.words import Best, Split, encode
from lowrank_jax import data, loops, streams
from lowrank_jax.decode.lattice_paths import paths_to_words

__all__ = ["fit_crf", "fit_perceptron"]


class _Task:
    """Training words of one size, and scoring."""

    def __init__(self, split: Split, size: int):
        self.alphabet, self.train, development, test = encode(split, size)
        self._words = {"development": development, "test": test}
        self._laid_out = {
            name: jax.device_put(trigram_crf.lettered_lattice(self.alphabet, words))
            for name, words in self._words.items()
        }

    def score(self, params: subpatterns.Params, name: str) -> float:
        """Letter accuracy in percent."""
        laid_out = self._laid_out[name]
        found = paths_to_words(_predict(params, laid_out), laid_out.lattice)
        return data.hamming_accuracy(self._words[name], found)


def fit_perceptron(
    split: Split, size: int, passes: Sequence[int], seed: int
) -> dict[str, Any]:
    """Train; choose the number of passes on development words; score on the test.

    Args:
      split: The words.
      size: Number of training words.
      passes: Numbers of passes to choose from, ascending.
      seed: Seed for the order of words.
    """
    task = _Task(split, size)
    stream = trigram_perceptron.stream(task.alphabet, task.train)
    key = jax.random.key(seed)
    state = jax.jit(trigram_perceptron.learner().init)(key, stream.example(0))
    best = Best()
    for number in range(1, max(passes) + 1):
        order = loops.pass_order(key, number - 1, task.train.num_words)
        state = _pass(state, stream, order)
        if number in passes:
            params = _average(state)
            score = task.score(params, "development")
            best = best.or_better(score, {"passes": number}, params)
    return best.row(task.score(best.params, "test"))


def fit_crf(
    split: Split,
    size: int,
    strengths: Sequence[float],
    iterations: Sequence[int],
    say: Say,
) -> dict[str, Any]:
    """Train by L-BFGS with an L2 penalty; choose and score as `fit_perceptron` does.

    Args:
      split: The words.
      size: Number of training words.
      strengths: Values of c of `batch.trigram_crf` to choose from.
      iterations: Numbers of iterations to choose from, ascending.
      say: Takes one line of progress.
    """
    task = _Task(split, size)
    words = jax.device_put(trigram_crf.lettered_lattice(task.alphabet, task.train))
    start = jax.jit(trigram_crf.learner().init)
    best = Best()
    for strength in strengths:
        state = start(jax.random.key(0), words)
        for number in range(1, max(iterations) + 1):
            state, info = _iterate(np.float32(strength), state, words)
            is_done = bool(info.converged)
            if number in iterations or is_done:
                params = jax.tree.map(lambda part: part.copy(), state.params)
                setting = {"strength": strength, "iterations": number}
                score = task.score(params, "development")
                best = best.or_better(score, setting, params)
            if is_done:
                break
        so_far = f"development {best.development:.2f} so far"
        say(f"    trigram CRF c {strength:<5g} {so_far}")
    return best.row(task.score(best.params, "test"))


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
