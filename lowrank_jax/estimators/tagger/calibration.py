r"""Probabilities of perceptron and max-margin models: one temperature.

Such models order labels well, but their scores have no scale. The probability of a
labelling is :math:`\propto \exp(s / T)`. The temperature :math:`T` minimises the mean
of :math:`-\log P(y_i)` over held-out tokens. Held-out scores come from folds: each part
of the training sentences is scored by a model of the other parts. A model of all
sentences has larger weights than a model of some, so :math:`T` is scaled by the ratio
of their norms.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import loops, streams
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.estimators.tagger import compact, small
from lowrank_jax.estimators.tagger.model import arrays_of

__all__ = ["calibration_error", "fit_temperature", "fold_temperature"]
__dir__ = __all__.copy

_MOST_TOKENS = 12_000  # enough for one number
_GOLDEN = (5**0.5 - 1) / 2


def fit_temperature(weights: small.Weights, sequences: Sequences) -> float:
    """Return the temperature with the least loss on held-out data.

    Args:
      weights: Arrays of the model by name.
      sequences: Held-out sentences; tokens with the label -1 do not count.
    """
    part = _first_tokens(sequences, _MOST_TOKENS)
    scored = []
    for tokens, offsets in small.groups(weights, part):
        scores = small.position_scores(weights, tokens, part, offsets)
        scored.append((*scores, offsets, np.asarray(part.labels)[tokens]))
    finite = [np.where(np.isneginf(unary), 0, unary) for unary, *_ in scored]
    spread = float(np.mean([np.ptp(unary, axis=1).mean() for unary in finite]))

    def loss(log_temperature: float) -> float:
        heat, total = np.exp(log_temperature), 0.0
        for unary, pairwise, offsets, labels in scored:
            found = small.token_marginals(unary / heat, pairwise / heat, offsets)
            known = labels >= 0
            right = found[np.arange(len(labels)), np.maximum(labels, 0)][known]
            total -= float(np.log(np.maximum(right, 1e-300)).sum())
        return total

    # Scores that differ by e^-4 to e^3 of their spread: golden section.
    low, high = np.log(max(spread, 1e-12)) - 6.0, np.log(max(spread, 1e-12)) + 2.0
    one, two = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_one, at_two = loss(one), loss(two)
    for _ in range(16):
        if at_one < at_two:
            high, two, at_two = two, one, at_one
            one = high - _GOLDEN * (high - low)
            at_one = loss(one)
        else:
            low, one, at_one = one, two, at_two
            two = low + _GOLDEN * (high - low)
            at_two = loss(two)
    return float(np.exp((low + high) / 2))


def calibration_error(
    probabilities: np.ndarray, labels: np.ndarray, num_bins: int = 15
) -> float:
    """Return the mean gap between confidence and accuracy, in percentage points.

    Tokens are sorted into bins of equal width by the probability of their most probable
    label. The gap of a bin is the difference of its mean probability and its accuracy.

    Args:
      probabilities: (num_tokens, S), each row sums to 1.
      labels: (num_tokens,) true labels, -1 for labels that are not among the S.
      num_bins: Number of bins.
    """
    confidence, best = probabilities.max(axis=1), probabilities.argmax(axis=1)
    place = np.minimum((confidence * num_bins).astype(int), num_bins - 1)
    gaps = np.bincount(place, weights=confidence - (best == labels))
    return float(100 * np.abs(gaps).sum() / max(1, len(labels)))


def fold_temperature(
    learner: Any,
    final_params: Any,
    sequences: Sequences,
    weights: small.Weights,
    *,
    num_folds: int,
    num_passes: int,
    seed: int,
) -> float:
    """Return the temperature of a model, from folds of its training data.

    Args:
      learner: Online learner that made the model.
      final_params: Function from its state to weights.
      sequences: Training data.
      weights: Arrays of the model by name.
      num_folds: Number of folds, at least 2.
      num_passes: Number of passes of the model.
      seed: Seed of the folds and of the runs.
    """
    stream = streams.sentences.stream(sequences)
    number = sequences.num_sentences
    size = max(1, number // num_folds)
    shuffled = np.random.default_rng(seed).permutation(number)
    key = jax.random.key(seed)

    rounds, logs = loops.Rounds(learner, stream), []
    for fold in range(num_folds):
        held_out = shuffled[fold * size : (fold + 1) * size]
        rest = jnp.asarray(np.setdiff1d(shuffled, held_out).astype(np.int32))
        state = jax.jit(lambda key, s: learner.init(key, s.example(0)))(key, stream)
        for index in range(num_passes):
            order = loops.pass_order(key, index, rest.size)
            state, _ = rounds.run(state, rest[order])
        mine = arrays_of(jax.jit(final_params)(state))
        mine |= {k: v for k, v in weights.items() if k == "barred"}
        temperature = fit_temperature(mine, _take(sequences, held_out))
        logs.append(np.log(temperature * _norm(weights) / max(_norm(mine), 1e-30)))
    return float(np.exp(np.mean(logs)))


def _norm(weights: small.Weights) -> float:
    """Return the Euclidean norm of the 0-order weights, else of all weights."""
    if "table" in weights:
        return float(np.linalg.norm(np.ravel(compact.read(weights))))
    if "zero" in weights:
        return float(np.linalg.norm(np.ravel(weights["zero"])))
    names = [name for name in ("first", "slots", "pages") if name in weights]
    parts = [float(np.linalg.norm(np.ravel(weights[name]))) for name in names]
    return float(np.hypot(parts[0], parts[1]) if len(parts) == 2 else sum(parts)) or 1.0


def _take(sequences: Sequences, indices: np.ndarray) -> Sequences:
    """Return some sentences."""
    offsets = np.asarray(sequences.offsets, np.int64)
    lengths = np.diff(offsets)[indices]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    tokens = np.arange(ends[-1]) + np.repeat(offsets[indices] - ends[:-1], lengths)
    values = sequences.values
    return Sequences(
        np.asarray(sequences.feature_ids)[tokens],
        np.asarray(sequences.labels)[tokens],
        ends.astype(np.int32),
        sequences.space,
        None if values is None else np.asarray(values)[tokens],
    )


def _first_tokens(sequences: Sequences, most: int) -> Sequences:
    """Return the first sentences, of so many tokens in all, and at least one."""
    number = int(np.searchsorted(np.asarray(sequences.offsets), most, side="right"))
    number = max(1, min(number - 1, sequences.num_sentences))
    return _take(sequences, np.arange(number))
