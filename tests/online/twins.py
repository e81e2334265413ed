"""Slow, obvious NumPy twins of the online learners: dense features, plain loops."""

from typing import NamedTuple

import numpy as np


class Weights(NamedTuple):
    """A linear model or a joint feature map; parts that are not used stay zero."""

    zero: np.ndarray  # (K, S)
    first: np.ndarray  # (K, S, S + 1)
    transitions: np.ndarray  # (S, S + 1)


def empty(space) -> Weights:
    k, s = space.num_features, space.num_labels
    return Weights(np.zeros((k, s)), np.zeros((k, s, s + 1)), np.zeros((s, s + 1)))


def sentences(sequences):
    """Yield (ids (n, T), labels (n,)) of each sentence."""
    offsets = np.asarray(sequences.offsets)
    for a, b in zip(offsets[:-1], offsets[1:], strict=True):
        yield np.asarray(sequences.feature_ids)[a:b], np.asarray(sequences.labels)[a:b]


def features(space, ids, labels) -> Weights:
    """Phi(x, y), summed over positions, entry by entry."""
    phi = empty(space)
    previous = space.num_labels
    for row, label in zip(ids, labels, strict=True):
        for column, k in enumerate(row):
            if k == space.num_features:
                continue
            if "0" in space.orders[column]:
                phi.zero[k, label] += 1
            if "1" in space.orders[column]:
                phi.first[k, label, previous] += 1
        if space.has_transitions:
            phi.transitions[label, previous] += 1
        previous = label
    return phi


def viterbi(space, weights, ids) -> np.ndarray:
    """Best labels; of equal ones the smallest last label, then the one before."""
    s = space.num_labels
    zero = np.vstack([weights.zero, np.zeros((1, s))])
    first = np.concatenate([weights.first, np.zeros((1, s, s + 1))])
    columns0 = [c for c, order in enumerate(space.orders) if "0" in order]
    columns1 = [c for c, order in enumerate(space.orders) if "1" in order]
    best, pointers = None, []
    for i, row in enumerate(ids):
        unary = zero[row[columns0]].sum(axis=0)
        pairs = first[row[columns1]].sum(axis=0) + weights.transitions
        if i == 0:
            best = unary + pairs[:, s]
            continue
        candidates = pairs[:, :s] + best[None, :]
        pointers.append(candidates.argmax(axis=1))
        best = candidates.max(axis=1) + unary
    labels = [int(best.argmax())]
    for pointer in pointers[::-1]:
        labels.append(int(pointer[labels[-1]]))
    return np.array(labels[::-1])


def dot(a: Weights, b: Weights) -> float:
    return float(sum((x * y).sum() for x, y in zip(a, b, strict=True)))


def combine(a: Weights, b: Weights, factor: float) -> Weights:
    return Weights(*(x + factor * y for x, y in zip(a, b, strict=True)))


class Round(NamedTuple):
    """What a twin tells of one round."""

    is_mistake: bool
    loss: float
    margin: float
    growth: float
    conjugate: float


def perceptron(sequences, num_passes, step):
    """Plain loops over BOL-B2; returns last and averaged weights and the rounds."""
    space = sequences.space
    w, total, rounds = empty(space), empty(space), []
    for _ in range(num_passes):
        for ids, labels in sentences(sequences):
            guess = viterbi(space, w, ids)
            delta = combine(
                features(space, ids, labels), features(space, ids, guess), -1
            )
            margin = dot(w, delta)
            before = dot(w, w) / 2
            is_mistake = bool((guess != labels).any())
            w = combine(w, delta, step)
            after = dot(w, w) / 2
            loss = max(0.0, 1 - margin) if is_mistake else 0.0
            rounds.append(Round(is_mistake, loss, margin, after - before, after))
            total = combine(total, w, 1)
    mean = Weights(*(part / len(rounds) for part in total))
    return w, mean, rounds


def mira(sequences, num_passes, largest, cost_of_one=False):
    """Plain loops over PA-I with the model's own prediction.

    Returns last and averaged weights, and ``(wrong labels, margin, step)`` of rounds.
    """
    space = sequences.space
    w, total, rounds = empty(space), empty(space), []
    for _ in range(num_passes):
        for ids, labels in sentences(sequences):
            guess = viterbi(space, w, ids)
            delta = combine(
                features(space, ids, labels), features(space, ids, guess), -1
            )
            num_wrong, margin, step = int((guess != labels).sum()), 0.0, 0.0
            if num_wrong:
                cost = 1 if cost_of_one else num_wrong
                margin = dot(w, delta)
                step = min(largest, max(0.0, cost - margin) / dot(delta, delta))
            w = combine(w, delta, step)
            total = combine(total, w, 1)
            rounds.append((num_wrong, margin, step))
    mean = Weights(*(part / len(rounds) for part in total))
    return w, mean, rounds


def power(block, start, num_steps):
    """Subspace iteration on one block (m, n) from start (rank, n)."""
    right = start
    for _ in range(num_steps):
        image = (block.T @ (block @ right.T)).T
        basis = []
        for vector in image:
            size = np.linalg.norm(vector)
            for other in basis:
                vector = vector - (vector @ other) * other
            length = np.linalg.norm(vector)
            is_new = length > 32 * np.finfo(float).eps * size
            basis.append(vector / length if is_new else 0 * vector)
        right = np.array(basis)
    return (block @ right.T).T, right


def bol_block(sequences, num_passes, step, theta, right, nudge, num_steps):
    """DR-B6 by plain loops from the given Theta and right vectors.

    Returns the weights, Theta, their averages over rounds, and the rounds.
    """
    space = sequences.space
    k, s = space.num_features, space.num_labels
    right = right.copy()
    first = np.einsum("kuv,krv,krw->kuw", theta, right, right)
    w = empty(space)._replace(first=first)
    theta_sum, zero_sum, rounds = np.zeros_like(theta), np.zeros((k, s)), []
    for _ in range(num_passes):
        for ids, labels in sentences(sequences):
            guess = viterbi(space, w, ids)
            delta = combine(
                features(space, ids, labels), features(space, ids, guess), -1
            )
            margin = dot(w, delta)
            theta = theta + step * delta.first
            first = w.first.copy()
            previous = (s, s)
            for row, pair in zip(ids, zip(labels, guess, strict=True), strict=True):
                if pair[0] != pair[1] or previous[0] != previous[1]:
                    columns = [row[c] for c, o in enumerate(space.orders) if "1" in o]
                    # A feature that stands twice in the row is mapped once.
                    for block in sorted(set(columns) - {k}):
                        start = right[block] + 0.1 * nudge
                        left, right[block] = power(theta[block], start, num_steps)
                        first[block] = left.T @ right[block]
                previous = pair
            w = Weights(
                w.zero + step * delta.zero,
                first,
                w.transitions + step * delta.transitions,
            )
            theta_sum, zero_sum = theta_sum + theta, zero_sum + w.zero
            rounds.append((bool((guess != labels).any()), margin))
    return w, theta, theta_sum / len(rounds), zero_sum / len(rounds), rounds


def bol_paper(sequences, num_passes, step, num_inner):
    """Algorithm 2 with full vectors, normalised each round; sigma_1 by SVD."""
    space = sequences.space
    k, s = space.num_features, space.num_labels
    alpha = np.ones((k, s)) / np.sqrt(k * s)
    beta = np.ones((k, s + 1)) / np.sqrt(k * (s + 1))
    theta, zero = np.zeros((k, s, s + 1)), np.zeros((k, s))
    alphas, betas, scales, rounds = [], [], [], []
    sigma = 0.0
    for _ in range(num_passes):
        for ids, labels in sentences(sequences):
            first = sigma * np.einsum("ku,kv->kuv", alpha, beta)
            w = Weights(zero, first, np.zeros((s, s + 1)))
            guess = viterbi(space, w, ids)
            delta = combine(
                features(space, ids, labels), features(space, ids, guess), -1
            )
            is_mistake = bool((guess != labels).any())
            margin = dot(w, delta)
            if is_mistake:
                theta = theta + step * delta.first
                new_sigma = np.linalg.svd(theta, compute_uv=False).max()
                divisor = sigma if sigma > 0 else new_sigma
                push_alpha = step * np.einsum("kuv,kv->ku", delta.first, beta)
                push_beta = step * np.einsum("kuv,ku->kv", delta.first, alpha)
                # Only touched blocks move: elsewhere both pushes are zero.
                d_beta = np.zeros_like(beta)
                for _ in range(num_inner):
                    image = np.einsum("kuv,kv->ku", theta, d_beta)
                    d_alpha = (push_alpha + image) / divisor  # Eq. (9)
                    image = np.einsum("kuv,ku->kv", theta, d_alpha)
                    d_beta = (push_beta + image) / divisor  # Eq. (11)
                alpha = (alpha + d_alpha) / np.linalg.norm(alpha + d_alpha)
                beta = (beta + d_beta) / np.linalg.norm(beta + d_beta)
                zero = zero + step * delta.zero
                sigma = new_sigma
            alphas.append(alpha)
            betas.append(beta)
            scales.append(sigma)
            rounds.append((is_mistake, margin, sigma))
    mean = [np.mean(part, axis=0) for part in (alphas, betas, scales)]
    return alpha, beta, sigma, zero, theta, mean, rounds
