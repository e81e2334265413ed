"""Slow, obvious NumPy twins of the wide rounds: dense features, plain loops."""

import numpy as np

from tests.online import twins


def batches(order, batch_size, has_ramp):
    """Cut an order into batches: 1, 2, 4, ... up to B if there is a ramp."""
    order, size = list(order), 1 if has_ramp else batch_size
    while order:
        yield order[:size]
        order, size = order[size:], min(2 * size, batch_size)


def step_of(number, step):
    """Eta of a round with so many mistaken sentences."""
    return step * max(round(256 / np.sqrt(number)), 1) / 256 if number else 0.0


def decoded(space, w, pairs, batch):
    """Return (dPhi, wrong labels, margin) of each sentence of a batch."""
    found = []
    for i in batch:
        ids, labels = pairs[i]
        guess = twins.viterbi(space, w, ids)
        phi = twins.features(space, ids, labels)
        delta = twins.combine(phi, twins.features(space, ids, guess), -1)
        found.append((delta, int((guess != labels).sum()), twins.dot(w, delta)))
    return found


def perceptron(sequences, orders, sizes, step):
    """Return last and mean weights, and (wrong labels, margin, eta) by sentence."""
    space, pairs = sequences.space, list(twins.sentences(sequences))
    w, total, rows = twins.empty(space), twins.empty(space), []
    for index, (order, size) in enumerate(zip(orders, sizes, strict=True)):
        for batch in batches(order, size, index == 0):
            found = decoded(space, w, pairs, batch)
            eta = step_of(sum(wrong > 0 for _, wrong, _ in found), step)
            for delta, wrong, margin in found:
                w = twins.combine(w, delta, eta)
                rows.append((wrong, margin, eta))
            total = twins.combine(total, w, len(batch))
    mean = twins.Weights(*(part / len(rows) for part in total))
    return w, mean, rows


def mira(sequences, orders, sizes, largest, cost_of_one=False):
    """The program of each batch by coordinate steps on the weights."""
    space, pairs = sequences.space, list(twins.sentences(sequences))
    w, total, rows = twins.empty(space), twins.empty(space), []
    for index, (order, size) in enumerate(zip(orders, sizes, strict=True)):
        for batch in batches(order, size, index == 0):
            found = decoded(space, w, pairs, batch)
            tau, moved = np.zeros(len(batch)), largest
            for _ in range(10):
                if moved <= 1e-5 * largest:
                    break
                moved = 0.0
                for i, (delta, wrong, _) in enumerate(found):
                    if not wrong:
                        continue
                    gap = (1 if cost_of_one else wrong) - twins.dot(w, delta)
                    full = tau[i] + gap / twins.dot(delta, delta)
                    full = min(max(full, 0.0), largest)
                    w = twins.combine(w, delta, full - tau[i])
                    moved, tau[i] = max(moved, abs(full - tau[i])), full
            rows += [(f[1], f[2], t) for f, t in zip(found, tau, strict=True)]
            total = twins.combine(total, w, len(batch))
    mean = twins.Weights(*(part / len(rows) for part in total))
    return w, mean, rows


def bol_block(sequences, orders, sizes, step, theta, right, nudge, num_steps):
    """DR-B6 in wide rounds; each touched block is mapped once a round.

    Returns the weights, Theta, their means over sentences, and the rows.
    """
    space, pairs = sequences.space, list(twins.sentences(sequences))
    right = right.copy()
    first = np.einsum("kuv,krv,krw->kuw", theta, right, right)
    w, rows = twins.empty(space)._replace(first=first), []
    theta_sum, zero_sum = np.zeros_like(theta), np.zeros_like(w.zero)
    first_sum = np.zeros_like(theta)
    for index, (order, size) in enumerate(zip(orders, sizes, strict=True)):
        for batch in batches(order, size, index == 0):
            found = decoded(space, w, pairs, batch)
            eta = step_of(sum(wrong > 0 for _, wrong, _ in found), step)
            first_sum = first_sum + len(batch) * w.first  # predicted with
            touched = set()
            zero, transitions = w.zero, w.transitions
            for (delta, wrong, margin), i in zip(found, batch, strict=True):
                theta = theta + eta * delta.first
                zero = zero + eta * delta.zero
                transitions = transitions + eta * delta.transitions
                touched |= _touched(space, w, *pairs[i])
                rows.append((wrong, margin, eta))
            first = w.first.copy()
            for block in touched:
                start = right[block] + 0.1 * nudge
                left, right[block] = twins.power(theta[block], start, num_steps)
                first[block] = left.T @ right[block]
            w = twins.Weights(zero, first, transitions)
            theta_sum = theta_sum + len(batch) * theta
            zero_sum = zero_sum + len(batch) * zero
    number = len(rows)
    means = theta_sum / number, zero_sum / number, first_sum / number
    return w, theta, means, rows


def _touched(space, w, ids, labels):
    guess = twins.viterbi(space, w, ids)
    found, previous = set(), (-1, -1)
    for row, pair in zip(ids, zip(labels, guess, strict=True), strict=True):
        if pair[0] != pair[1] or previous[0] != previous[1]:
            found |= {row[c] for c, o in enumerate(space.orders) if "1" in o}
        previous = pair
    return found - {space.num_features}
