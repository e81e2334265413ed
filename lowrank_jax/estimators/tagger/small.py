"""Label a few sentences in NumPy: nothing is compiled, and JAX is not loaded.

The twin of `models.linear.scores`, `models.bilinear.scores` and `decode.best_path`, on
many sentences at once. Sums are taken in the same order and precision, and ties are
resolved alike, so linear models get the labels of the compiled program bit for bit. The
compiler may round a product and a sum of the bilinear model once instead of twice; only
labels whose scores agree to the last bits can then differ.
"""

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from lowrank_jax.data.sequences import Sequences
from lowrank_jax.estimators.tagger import compact

__all__ = [
    "best_paths",
    "is_small",
    "k_best",
    "marginals",
    "position_scores",
    "predict",
    "split",
    "token_marginals",
]
__dir__ = __all__.copy

#: Arrays of a model by name. ``"barred"``, if it is there, is (S + 1, S + 1): minus
#: infinity for labels that may not follow each other, 0 elsewhere, laid out as
#: `data.legal_pairs` has it.
Weights = Mapping[str, np.ndarray]

_MOST_WORK = 3e8  # additions; below that NumPy is done before a compiler would be
_CHUNK = 4e6  # numbers that the scores of one group of sentences may take


def is_small(weights: Weights, sequences: Sequences, times: int = 1) -> bool:
    """Return True if NumPy labels these sentences sooner than a compiled program.

    Args:
      weights: Arrays of the model by name.
      sequences: Sentences from `features`.
      times: Cost per token, as a multiple of the cost of the best labels.
    """
    return sequences.num_tokens * _work(weights, sequences) * times <= _MOST_WORK


def predict(weights: Weights, sequences: Sequences) -> np.ndarray:
    """Label every token of a corpus: (num_tokens,) int32.

    Args:
      weights: Arrays of `models.linear.Params` or `models.bilinear.Params` by name.
      sequences: Sentences from `features`.
    """
    labels = np.zeros(sequences.num_tokens, np.int32)
    for tokens, offsets in groups(weights, sequences):
        unary, pairwise = position_scores(weights, tokens, sequences, offsets)
        labels[tokens] = best_paths(unary, pairwise, offsets)
    return labels


def marginals(
    weights: Weights, sequences: Sequences, temperature: float = 1.0
) -> np.ndarray:
    """Return the probability of each label at each token, (num_tokens, S) float64.

    Args:
      weights: Arrays of the model by name.
      sequences: Sentences from `features`.
      temperature: Number that divides all scores.
    """
    result = np.zeros((sequences.num_tokens, sequences.space.num_labels))
    for tokens, offsets in groups(weights, sequences):
        unary, pairwise = position_scores(weights, tokens, sequences, offsets)
        result[tokens] = token_marginals(
            unary / temperature, pairwise / temperature, offsets
        )
    return result


def token_marginals(
    unary: np.ndarray, pairwise: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """Return the marginals of sentences laid end to end; arguments as `best_paths`."""
    unary, pairwise = unary.astype(float), pairwise.astype(float)
    num_labels = unary.shape[1]
    starts, lengths = offsets[:-1], np.diff(offsets)
    alive = np.searchsorted(-lengths, -np.arange(int(lengths.max(initial=0))), "left")
    if not len(unary):
        return unary
    is_shared = pairwise.ndim == 2
    pairs = pairwise[..., :num_labels]
    first = starts[: alive[0]]
    ahead, behind = np.array(unary), np.zeros_like(unary)
    ahead[first] += pairwise[:, -1] if is_shared else pairwise[first, :, -1]
    for i in range(1, len(alive)):
        here = starts[: alive[i]] + i
        arc = pairs if is_shared else pairs[here]
        ahead[here] += _log_sum(arc + ahead[here - 1][:, None, :], 2)
    for i in range(len(alive) - 1, 0, -1):
        here = starts[: alive[i]] + i
        arc = pairs if is_shared else pairs[here]
        after = (unary[here] + behind[here])[:, :, None]
        behind[here - 1] = _log_sum(arc + after, 1)
    total = ahead + behind
    total -= total.max(axis=1, keepdims=True)
    np.exp(total, out=total)
    return total / total.sum(axis=1, keepdims=True)


def _log_sum(values: np.ndarray, axis: int) -> np.ndarray:
    """Return log sum exp along an axis."""
    most = values.max(axis=axis, keepdims=True)
    most = np.where(np.isneginf(most), 0.0, most)  # all of them are barred
    total = np.exp(values - most).sum(axis=axis)
    with np.errstate(divide="ignore"):
        return np.log(total) + np.squeeze(most, axis)


def groups(
    weights: Weights, sequences: Sequences
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield tokens and offsets of groups of sentences, longest sentences first."""
    offsets = np.asarray(sequences.offsets, np.int64)
    lengths = np.diff(offsets)
    num_labels = sequences.space.num_labels
    each = num_labels * (num_labels + 8) if _has_pairs(weights) else num_labels
    order = np.argsort(-lengths, kind="stable")
    place = np.cumsum(lengths[order] * each) // int(_CHUNK)
    for group in np.split(order, np.flatnonzero(np.diff(place)) + 1):
        ends = np.concatenate([[0], np.cumsum(lengths[group])])
        shift = np.repeat(offsets[group] - ends[:-1], lengths[group])
        yield np.arange(ends[-1]) + shift, ends


def position_scores(
    weights: Weights,
    tokens: np.ndarray,
    sequences: Sequences,
    offsets: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the (n, S) scores of labels, and (S, S + 1) or (n, S, S + 1) of pairs.

    Args:
      weights: Arrays of the model by name.
      tokens: (n,) tokens of the corpus.
      sequences: Corpus that they are from.
      offsets: Starts of their sentences; None takes the tokens as one sentence. Only a
        model with barred pairs asks where sentences end.
    """
    space = sequences.space
    num_labels = space.num_labels
    dtype = compact.dtype_of(weights)
    ids = np.asarray(sequences.feature_ids)[tokens]
    values = None
    if sequences.values is not None:
        values = np.asarray(sequences.values)[tokens].astype(dtype)

    def times(rows: np.ndarray, t: int) -> np.ndarray:
        if values is None:
            return rows
        return rows * values[:, t].reshape(-1, *(1,) * (rows.ndim - 1))

    unary = np.zeros((len(ids), num_labels), dtype)
    pairs: np.ndarray | None = None
    if "table" in weights:
        for t in space.zero_order:
            unary += times(compact.read(weights, ids[:, t])[:, :num_labels], t)
        pairs = np.zeros((len(ids), num_labels, num_labels + 1), dtype)
        for t in space.first_order:
            _, left, right = split(compact.read(weights, ids[:, t]), num_labels)
            left = times(left, t)
            for j in range(left.shape[1]):
                pairs += left[:, j, :, None] * right[:, j, None, :]
        pairs *= weights["scale"]
    elif "zero" in weights:
        for t in space.zero_order:
            unary += times(compact.read(weights, ids[:, t], "zero"), t)
    if "first" in weights or "keys" in weights:
        columns = list(space.first_order)
        own = None if values is None else values[:, columns]
        pairs = compact.blocks(weights, ids[:, columns], num_labels, own)
    shared = weights.get("transitions")
    if shared is None:
        shared = np.zeros((num_labels, num_labels + 1), dtype)
    if "barred" in weights:
        bars = weights["barred"].astype(dtype)
        ends = np.array([len(ids)]) if offsets is None else np.unique(offsets[1:])
        unary[ends[ends > 0] - 1] += bars[-1, :num_labels]
        shared = shared + bars[:-1]
    return unary, shared if pairs is None else pairs + shared


def split(rows: np.ndarray, num_labels: int) -> tuple[np.ndarray, ...]:
    """Take rows of a bilinear table apart, as `models.bilinear.split` does.

    Returns:
      ``(zero, left, right)``: (..., S), (..., rank, S) and (..., rank, S + 1).
    """
    lead, each = rows.shape[:-1], -(-(num_labels + 1) // 8) * 8
    rank = (rows.shape[-1] - num_labels) // (num_labels + each)
    ends = num_labels * (1 + rank)
    left = rows[..., num_labels:ends].reshape(*lead, rank, num_labels)
    right = rows[..., ends : ends + rank * each].reshape(*lead, rank, each)
    return rows[..., :num_labels], left, right[..., : num_labels + 1]


def best_paths(
    unary: np.ndarray, pairwise: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """Return the best labels of sentences laid end to end, longest first.

    Args:
      unary: (num_tokens, S) scores.
      pairwise: (S, S + 1) shared by all tokens, or (num_tokens, S, S + 1).
      offsets: (num_sentences + 1,) starts; lengths must not grow.

    Returns:
      (num_tokens,) int32. Of equal scores the smallest label wins, from the last token
      on, as in `decode.best_path`.
    """
    num_labels = unary.shape[1]
    starts, lengths = offsets[:-1], np.diff(offsets)
    alive = np.searchsorted(-lengths, -np.arange(int(lengths.max(initial=0))), "left")
    best = np.array(unary)
    labels = np.zeros(len(unary), np.int32)
    if not len(unary):
        return labels
    is_shared = pairwise.ndim == 2
    pairs = pairwise[..., :num_labels]
    first = starts[: alive[0]]
    at_start = pairwise[:, num_labels] if is_shared else pairwise[first, :, num_labels]
    best[first] += at_start
    for i in range(1, len(alive)):
        here = starts[: alive[i]] + i
        arc = pairs if is_shared else pairs[here]
        best[here] += (arc + best[here - 1][:, None, :]).max(axis=2)
    last = offsets[1:][lengths > 0] - 1
    labels[last] = best[last].argmax(axis=1)
    for i in range(len(alive) - 1, 0, -1):
        here = starts[: alive[i]] + i
        label = labels[here]
        arc = pairs[label] if is_shared else pairs[here, label]
        labels[here - 1] = (best[here - 1] + arc).argmax(axis=1)
    return labels


def k_best(
    weights: Weights, sequences: Sequences, k: int
) -> list[list[tuple[np.ndarray, float]]]:
    """Return labels and score of the k best paths of each sentence, best first.

    The twin of `decode.k_best_paths`: equal scores come in the same order.
    """
    results = []
    bounds = np.asarray(sequences.offsets).tolist()
    for start, end in itertools.pairwise(bounds):
        tokens = np.arange(start, end)
        results.append(_k_best(*position_scores(weights, tokens, sequences), k))
    return results


def _k_best(
    unary: np.ndarray, pairwise: np.ndarray, k: int
) -> list[tuple[np.ndarray, float]]:
    """Return the k best paths of one sentence."""
    number, num_labels = unary.shape
    if number == 0:
        return [(np.zeros(0, np.int32), 0.0)]
    pairs = np.broadcast_to(pairwise, (number, num_labels, num_labels + 1))
    best = np.full((num_labels, k), -np.inf, unary.dtype)
    best[:, 0] = unary[0] + pairs[0, :, num_labels]
    origins = []  # previous label * k + previous rank, by label and rank
    for i in range(1, number):
        every = (pairs[i, :, :num_labels, None] + best).reshape(num_labels, -1)
        origins.append(np.argsort(-every, axis=1, kind="stable")[:, :k])
        best = np.take_along_axis(every, origins[-1], 1) + unary[i][:, None]
    place = np.argsort(-best, axis=None, kind="stable")[:k]
    place = place[np.isfinite(best.ravel()[place])]
    scores, path = best.ravel()[place].tolist(), [place // k]
    for origin in reversed(origins):
        place = origin.ravel()[place]
        path.append(place // k)
    labels = np.array(path[::-1], np.int32).T
    return list(zip(labels, scores, strict=True))


def _has_pairs(weights: Weights) -> bool:
    return not {"table", "first", "keys"}.isdisjoint(weights)


def _work(weights: Weights, sequences: Sequences) -> float:
    """Return the number of additions per token."""
    space = sequences.space
    pairs = space.num_labels * (space.num_labels + 1)
    work = space.num_labels * len(space.zero_order) + 2 * pairs
    return work + (pairs * len(space.first_order) if _has_pairs(weights) else 0)
