"""Slow, obvious twins in NumPy of what `batch` does: enumeration and plain loops."""

import itertools

import numpy as np

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


class Likelihood:
    """The loss -sum log p(y | x) and its gradient, by enumeration of all sequences."""

    def __init__(self, sequences):
        """Write down the joint features of all label sequences, and of the true one."""
        space, self.sentences = sequences.space, []
        for ids, labels in twins.sentences(sequences):
            every = itertools.product(range(space.num_labels), repeat=len(labels))
            rows = [vector(twins.features(space, ids, path)) for path in every]
            true = vector(twins.features(space, ids, labels))
            self.sentences.append((np.array(rows), true))

    def __call__(self, flat) -> tuple[float, np.ndarray]:
        """Return the loss and its gradient: mean features less true ones."""
        loss, gradient = 0.0, np.zeros_like(flat)
        for rows, true in self.sentences:
            scores = rows @ flat
            weights = np.exp(scores - scores.max())
            loss += np.log(weights.sum()) + scores.max() - true @ flat
            gradient += weights @ rows / weights.sum() - true
        return loss, gradient


def bcd(sequences, start, *, num_passes, penalty, largest, num_rounds_per_block):
    """Blockwise coordinate descent by plain loops over dense arrays.

    Args:
      sequences: the corpus.
      start: alpha (K, S) and beta (K, S + 1).
      num_passes: over the corpus, in its order.
      penalty: "product", "sum" or "block".
      largest: C.
      num_rounds_per_block: rounds before the other factor has its turn.

    Returns:
      The last factors and weights, their averages over rounds, and of each round
      (is_mistake, loss, margin, step, increment of the dual, factor).
    """
    space = sequences.space
    factors, w = [np.array(part) for part in start], twins.empty(space)
    total, rounds = None, []
    for _ in range(num_passes):
        for ids, labels in twins.sentences(sequences):
            turn = (len(rounds) // num_rounds_per_block) % 2
            alpha, beta = factors
            whole = w._replace(first=alpha[:, :, None] * beta[:, None, :])
            guess = twins.viterbi(space, whole, ids)
            delta = twins.combine(
                twins.features(space, ids, labels),
                twins.features(space, ids, guess),
                -1,
            )
            is_mistake = bool((guess != labels).any())
            margin = twins.dot(whole, delta)
            loss = max(0.0, 1 - margin) if is_mistake else 0.0
            other = factors[1 - turn]
            equation = "kuv,kv->ku" if turn == 0 else "kuv,ku->kv"
            z = np.einsum(equation, delta.first, other)
            rho = {
                "product": np.full(len(other), (other**2).sum()),
                "sum": np.ones(len(other)),
                "block": (other**2).sum(axis=1),
            }[penalty]
            plain = delta._replace(first=0 * delta.first)
            q = ((z**2).sum(axis=1) / rho).sum() + twins.dot(plain, plain)
            step = min(largest, loss / q) if q > 0 else largest * (loss > 0)
            factors[turn] = factors[turn] + step * z / rho[:, None]
            w = twins.combine(w, plain, step)
            rise = step * loss - step**2 * q / 2
            rounds.append((is_mistake, loss, margin, step, rise, turn))
            now = vector([*factors, *w])
            total = now if total is None else total + now
    return factors, w, total / len(rounds), rounds
