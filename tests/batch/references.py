"""Slow, obvious twins in NumPy of what `batch` does: enumeration and plain loops."""

import numpy as np

from tests import references
from tests.online import twins


def vector(weights) -> np.ndarray:
    """Lay the parts of weights end to end."""
    return np.concatenate([np.ravel(part) for part in weights])


def parts(space, flat) -> twins.Weights:
    """Undo `vector`."""
    shapes = [part.shape for part in twins.empty(space)]
    ends = np.cumsum([np.prod(shape) for shape in shapes])[:-1]
    return twins.Weights(
        *(
            part.reshape(shape)
            for part, shape in zip(np.split(flat, ends), shapes, strict=True)
        )
    )


def used(space) -> np.ndarray:
    """Which entries of the vector the feature space has weights for."""
    is_used = (space.zero_order, space.first_order, space.has_transitions)
    filled = [
        np.full(part.shape, bool(has))
        for part, has in zip(twins.empty(space), is_used, strict=True)
    ]
    return vector(filled)


def likelihood(sequences, flat) -> tuple[float, np.ndarray]:
    """Return -sum log p(y | x) and its gradient, by enumeration of all sequences.

    The gradient is the mean of the joint features less those of the true labels.
    """
    space = sequences.space
    weights = parts(space, flat)
    total, gradient = 0.0, np.zeros_like(flat)
    for ids, labels in twins.sentences(sequences):
        if not len(labels):
            continue
        unary, pairwise = scores(space, weights, ids)
        every = references.enumerate_paths(unary, pairwise, len(labels))
        log_z = references.log_partition(unary, pairwise, len(labels))
        true = vector(twins.features(space, ids, labels))
        total += log_z - flat @ true
        gradient -= true
        for path, score in zip(every.labels, every.scores, strict=True):
            probability = np.exp(score - log_z)
            gradient += probability * vector(twins.features(space, ids, path))
    return total, gradient


def scores(space, weights, ids) -> tuple[np.ndarray, np.ndarray]:
    """Return unary (n, S) and pairwise (n, S, S+1) scores."""
    s = space.num_labels
    unary = np.zeros((len(ids), s))
    pairwise = np.zeros((len(ids), s, s + 1)) + weights.transitions
    for i, row in enumerate(ids):
        for column, k in enumerate(row):
            if k < space.num_features:
                if "0" in space.orders[column]:
                    unary[i] += weights.zero[k]
                if "1" in space.orders[column]:
                    pairwise[i] += weights.first[k]
    return unary, pairwise
