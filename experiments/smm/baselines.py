"""What SMM Figure 1 compares with, on NETtalk, chosen as the max-margin methods are.

The spectral IO-HMM (SMM-B3) is tried with joint and with conditional moments, the
latent SVM (SMM-B4) by CCCP from one random start. Beside the paper's baselines stands
an averaged perceptron whose features see seven letters, more than a trigram can, on a
first-order chain. `smm.subpatterns` has the trigram CRF and perceptron.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from experiments.protocol import Say
from experiments.smm.learners import latent_svm
from experiments.smm.learners import moments as spectral_moments
from experiments.smm.words import Best, Split, encode
from lowrank_jax import data, features, loops, metrics, models, streams
from lowrank_jax.decode.lattice_paths import best_paths, paths_to_words
from lowrank_jax.estimators import labelling
from lowrank_jax.online import perceptron

__all__ = ["fit_io_hmm", "fit_latent_svm", "fit_perceptron"]


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
        codes = labelling.predict_batch(models.linear, params, self._encoded[name])
        found = np.array(self.encoder.labels)[codes]
        return metrics.token_accuracy(np.asarray(self._parts[name].labels), found)


def fit_perceptron(
    split: Split, size: int, template: str, passes: Sequence[int], seed: int
) -> dict[str, Any]:
    """Train; choose the number of passes on development words; score on the test.

    Args:
      split: The words.
      size: Number of training words.
      template: Name of a shipped template, or a path.
      passes: Numbers of passes to choose from, ascending.
      seed: Seed for the order of words.
    """
    task = _Task(split, size, features.read_template(template))
    final = jax.jit(perceptron.final_params)
    best = Best()
    for done in loops.passes(
        perceptron.learner(),
        streams.sentences.stream(task.train),
        key=jax.random.key(seed),
        num_passes=max(passes),
    ):
        number = done.pass_index + 1
        if number in passes:
            params = final(done.state)
            score = task.score(params, "development")
            best = best.or_better(score, {"passes": number}, params)
    return best.row(task.score(best.params, "test"))


def fit_io_hmm(split: Split, size: int, num_states: Sequence[int]) -> dict[str, Any]:
    """Fit; choose states and moments on development words; score on the test.

    Args:
      split: The words.
      size: Number of training words.
      num_states: Numbers of states to choose from, as far as there are bi-symbols.
    """
    words = encode(split, size)
    joint = spectral_moments.count(words.alphabet, words.train)
    moments = {
        False: joint,
        True: spectral_moments.conditional_moments(words.alphabet, joint),
    }
    lattices = {
        name: streams.words.lattice(words.alphabet, part)
        for name, part in (("development", words.development), ("test", words.test))
    }
    decode = jax.jit(lambda table, lattice: best_paths(table, lattice, cost=0.0))

    def score(table: jax.Array, name: str) -> float:
        found = paths_to_words(decode(table, lattices[name]), lattices[name])
        return data.hamming_accuracy(getattr(words, name), found)

    best = Best()
    for is_conditional, own in moments.items():
        for rank in num_states:
            if rank > words.alphabet.num_symbols:
                continue
            model = spectral_moments.fit(own, rank=rank)
            table = spectral_moments.score_table(
                words.alphabet, model, is_conditional=is_conditional
            )
            setting = {"states": rank, "is_conditional": is_conditional}
            best = best.or_better(score(table, "development"), setting, table)
    return best.row(score(best.params, "test"))


def fit_latent_svm(
    split: Split,
    size: int,
    num_states: Sequence[int],
    strengths: Sequence[float],
    seed: int,
    say: Say,
    *,
    num_rounds: int = 10,
) -> dict[str, Any]:
    """Train by CCCP; choose and score as `fit_io_hmm` does.

    Args:
      split: The words.
      size: Number of training words.
      num_states: Numbers of hidden states to choose from.
      strengths: Strengths of the ridge to choose from.
      seed: Seed for the random start.
      say: Takes one line of progress.
      num_rounds: Largest number of imputations.
    """
    words = encode(split, size)
    train, development, test = (
        latent_svm.padded_words(words.alphabet, part)
        for part in (words.train, words.development, words.test)
    )
    predict = jax.jit(latent_svm.predict)

    @functools.partial(jax.jit, static_argnums=0)
    def fit(number: int, strength: jax.Array) -> tuple[jax.Array, jax.Array]:
        learner = latent_svm.learner(
            num_states=number, strength=strength, step_size=10.0
        )
        state = learner.init(jax.random.key(seed), train)
        state, _, done = loops.converge(
            learner, state, train, max_iterations=num_rounds
        )
        return latent_svm.final_params(state), done

    best = Best()
    for number in num_states:
        for strength in strengths:
            params, done = fit(number, np.float32(strength))
            found = np.asarray(predict(params, development))
            score = data.hamming_accuracy(words.development, found)
            setting = {"states": number, "strength": strength, "rounds": int(done)}
            best = best.or_better(score, setting, params)
            say(
                f"    latent SVM states {number} strength {strength:<6g} "
                f"development {score:.2f}, {int(done)} rounds"
            )
    found = np.asarray(predict(best.params, test))
    return best.row(data.hamming_accuracy(words.test, found))
