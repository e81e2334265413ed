"""Slow, obvious twins in NumPy: here everything is an enumeration of label sequences.

Conventions are those of `lowrank_jax.decode.scores`; all sums are in float64.
"""

import itertools
from typing import NamedTuple

import numpy as np


class Enumeration(NamedTuple):
    """All label sequences of one sentence, best first, ties by the reversed labels."""

    labels: np.ndarray  # (S^n, n)
    scores: np.ndarray  # (S^n,)


def path_score(unary, pairwise, labels) -> float:
    """Return the score of the labels, one term after the other."""
    num_labels = np.shape(unary)[1]
    total, previous = 0.0, num_labels
    for i, label in enumerate(labels):
        pairs = pairwise if np.ndim(pairwise) == 2 else pairwise[i]
        total += float(unary[i][label]) + float(pairs[label][previous])
        previous = label
    return total


def enumerate_paths(unary, pairwise, length, allowed=None) -> Enumeration:
    """Score every label sequence and sort: by score, then by the reversed labels.

    Paths with a label that is not `allowed`, or of score minus infinity, are left out.
    """
    unary, pairwise = np.asarray(unary, float), np.asarray(pairwise, float)
    found = []
    for labels in itertools.product(range(unary.shape[1]), repeat=int(length)):
        if allowed is not None and not all(
            allowed[i][label] for i, label in enumerate(labels)
        ):
            continue
        score = path_score(unary, pairwise, labels)
        if score > -np.inf:
            found.append((-score, labels[::-1]))
    found.sort()
    labels = [reverse[::-1] for _, reverse in found]
    scores = np.array([-negative for negative, _ in found], float)
    return Enumeration(np.array(labels, int).reshape(len(found), int(length)), scores)


def best_path(unary, pairwise, length, allowed=None) -> tuple[np.ndarray, float]:
    """Return the first of `enumerate_paths`, its labels padded with 0."""
    every = enumerate_paths(unary, pairwise, length, allowed)
    labels = np.zeros(np.shape(unary)[0], int)
    labels[: int(length)] = every.labels[0]
    return labels, every.scores[0]


def log_partition(unary, pairwise, length, allowed=None) -> float:
    """Return the logarithm of the sum of exp(score) over all label sequences."""
    scores = enumerate_paths(unary, pairwise, length, allowed).scores
    if not len(scores):
        return -np.inf
    return float(np.log(np.exp(scores - scores[0]).sum()) + scores[0])


def marginals(unary, pairwise, length, allowed=None) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of labels (L, S) and of pairs (L, S, S+1)."""
    num_positions, num_labels = np.shape(unary)
    every = enumerate_paths(unary, pairwise, length, allowed)
    total = log_partition(unary, pairwise, length, allowed)
    of_labels = np.zeros((num_positions, num_labels))
    of_pairs = np.zeros((num_positions, num_labels, num_labels + 1))
    for labels, score in zip(*every, strict=True):
        previous = num_labels
        for i, label in enumerate(labels):
            of_labels[i, label] += np.exp(score - total)
            of_pairs[i, label, previous] += np.exp(score - total)
            previous = label
    return of_labels, of_pairs
