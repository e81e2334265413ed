"""Scores of predictions: chunk and word F1, accuracy, AUC. On the host, in NumPy.

Scores of taggers are in percent. Labels are strings, in arrays or lists over all
tokens, with the offsets of the sentences, as in `Corpus`. Scores of classifiers (areas
under the ROC curve) are fractions.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lowrank_jax.checks import InputError
from lowrank_jax.data.chunks import Edges, chunk_edges, split_labels
from lowrank_jax.data.corpus import Corpus, encode

if TYPE_CHECKING:
    from lowrank_jax.data.lists import Lists

__all__ = [
    "ChunkScores",
    "Quality",
    "SpanScores",
    "auc",
    "chunk_scores",
    "conlleval_report",
    "macro_auc",
    "quality_of",
    "score_labels",
    "sentence_accuracy",
    "token_accuracy",
    "word_scores_from_labels",
]
__dir__ = __all__.copy

Labels = Sequence[str] | np.ndarray
Offsets = Sequence[int] | np.ndarray


class SpanScores(NamedTuple):
    """Precision, recall and F1 of spans, in percent, with their counts.

    If a denominator is 0, the score is 0.
    """

    precision: float
    recall: float
    f1: float
    num_gold: int
    num_predicted: int
    num_correct: int


class ChunkScores(NamedTuple):
    """Scores over all chunks, as `SpanScores`, and scores of each type of chunk."""

    precision: float
    recall: float
    f1: float
    num_gold: int
    num_predicted: int
    num_correct: int
    by_type: Mapping[str, SpanScores]


def auc(labels: Sequence[bool] | np.ndarray, scores: np.ndarray) -> float:
    """Return the area under the ROC curve.

    This is the probability that a random positive scores above a random negative. A tie
    counts one half. Ranks are counted in whole numbers (midranks), so only the last
    division rounds.

    Args:
      labels: (n,) labels with two distinct values; the larger one is positive.
      scores: (n,) real numbers; infinite ones are allowed.

    Returns:
      The area, a fraction.

    Raises:
      InputError: If the shapes do not fit, there are not two values, or a score is NaN.
    """
    labels, scores = np.asarray(labels), np.asarray(scores)
    if labels.ndim != 1 or labels.shape != scores.shape:
        raise InputError(
            f"`scores` must be one number for each of the labels of shape "
            f"{labels.shape}, got shape {scores.shape}."
        )
    values = np.unique(labels)
    if values.size != 2:
        raise InputError(f"`labels` must have two values, got {values.size}.")
    if np.isnan(scores).any():
        raise InputError("`scores` must not be NaN.")
    is_positive = labels == values[1]
    _, place, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    ends = np.cumsum(sizes)
    twice_midrank = 2 * ends - sizes + 1  # ranks end - size + 1 .. end share their mean
    num_positive = int(is_positive.sum())
    num_negative = labels.size - num_positive
    total = int(twice_midrank[place.reshape(-1)[is_positive]].sum())
    twice_wins = total - num_positive * (num_positive + 1)
    return twice_wins / (2 * num_positive * num_negative)


def macro_auc(
    labels: Sequence[object] | np.ndarray, scores: np.ndarray, classes: np.ndarray
) -> float:
    """Return the mean over classes of the `auc` of each class against all others.

    Args:
      labels: (n,) labels.
      scores: (n, num_classes), one column per class.
      classes: (num_classes,) labels in the order of the columns. A class that does not
        occur in `labels` has no curve and is left out of the mean.

    Returns:
      The mean area, a fraction.

    Raises:
      InputError: If the shapes do not fit or `labels` has fewer than two classes.
    """
    labels, scores, classes = map(np.asarray, (labels, scores, classes))
    if scores.shape != (labels.size, classes.size):
        raise InputError(
            f"`scores` must have shape ({labels.size}, {classes.size}), one row per "
            f"label and one column per class, got {scores.shape}."
        )
    found = [c for c in range(classes.size) if (labels == classes[c]).any()]
    if len(found) < 2:
        raise InputError(
            f"`labels` must have at least two of the classes, got {len(found)}."
        )
    return float(np.mean([auc(labels == classes[c], scores[:, c]) for c in found]))


def token_accuracy(gold: Labels, predicted: Labels) -> float:
    """Return the share of tokens with the right label, in percent.

    Args:
      gold: (num_tokens,) labels.
      predicted: (num_tokens,) labels.
    """
    is_right = _is_right(gold, predicted)
    return _percent(int(is_right.sum()), is_right.size)


def sentence_accuracy(gold: Labels, predicted: Labels, offsets: Offsets) -> float:
    """Return the share of sentences with all labels right, in percent.

    Args:
      gold: (num_tokens,) labels.
      predicted: (num_tokens,) labels.
      offsets: (num_sentences + 1,) integers.
    """
    is_right = _is_right(gold, predicted)
    bounds = _bounds(offsets, is_right.size)
    num_wrong = np.concatenate([[0], np.cumsum(~is_right)])
    is_all_right = np.diff(num_wrong[bounds]) == 0
    return _percent(int(is_all_right.sum()), is_all_right.size)


def chunk_scores(gold: Labels, predicted: Labels, offsets: Offsets) -> ChunkScores:
    """Score chunks as the CoNLL evaluation (conlleval) does.

    A label is ``tag-type``, split at its first hyphen. Without a hyphen, the type is
    empty. A chunk begins at B or S, at I or E after O, S or E, and wherever the type
    changes (except at O). It ends after S or E, before O, B or S, and where the type
    changes. So I-NP after O begins a chunk, and I-VP after B-NP begins another one. A
    predicted chunk is right if a gold chunk has the same type, start and end. The rules
    for S, and for B after E, follow the usual extension to five tags. With B, I and O
    only, every count equals the count of the original script.

    Args:
      gold: (num_tokens,) labels.
      predicted: (num_tokens,) labels.
      offsets: (num_sentences + 1,) integers; no chunk crosses the end of a sentence.

    Returns:
      Scores over all chunks and of each type.

    Raises:
      InputError: If the lengths do not agree.
    """
    gold_list, predicted_list = _as_lists(gold, predicted)
    bounds = _bounds(offsets, len(gold_list))
    codes, values = encode([*gold_list, *predicted_list, "O"])
    # An O after each sentence ends its last chunk; an O before the first starts it.
    outside = codes[-1]
    half = len(gold_list)
    streams = [
        np.concatenate([[outside], np.insert(part, bounds[1:], outside)])
        for part in (codes[:half], codes[half:-1])
    ]
    tags, kinds, types = split_labels(values)
    edges = [chunk_edges(stream, tags, kinds) for stream in streams]
    num_gold, num_predicted = (
        np.bincount(kind[1:][is_start], minlength=len(types))
        for is_start, _, kind in edges
    )
    correct_types = edges[0][2][_correct_ends(*edges)]
    num_correct = np.bincount(correct_types, minlength=len(types))
    by_type = {
        types[i]: _span_scores(num_gold[i], num_predicted[i], num_correct[i])
        for i in sorted(range(len(types)), key=types.__getitem__)
        if num_gold[i] or num_predicted[i]
    }
    total = _span_scores(num_gold.sum(), num_predicted.sum(), num_correct.sum())
    return ChunkScores(*total, by_type)


def conlleval_report(gold: Labels, predicted: Labels, offsets: Offsets) -> str:
    """Return the table that conlleval prints.

    Args:
      gold: (num_tokens,) labels.
      predicted: (num_tokens,) labels.
      offsets: (num_sentences + 1,) integers.

    Returns:
      The text; each line ends in a newline.
    """
    scores = chunk_scores(gold, predicted, offsets)
    num_tokens = len(gold)
    lines = [
        f"processed {num_tokens} tokens with {scores.num_gold} phrases; "
        f"found: {scores.num_predicted} phrases; correct: {scores.num_correct}."
    ]
    if num_tokens:
        accuracy = token_accuracy(gold, predicted)
        lines.append(f"accuracy: {accuracy:6.2f}%; {_triple(scores)}")
    for name, part in scores.by_type.items():
        lines.append(f"{name:>17}: {_triple(part)}  {part.num_predicted}")
    return "\n".join(lines) + "\n"


def word_scores_from_labels(
    gold: Labels, predicted: Labels, offsets: Offsets
) -> SpanScores:
    """Score the words of a segmentation given by labels B, I, E, S.

    Labels are read as in `data.words_from_labels`, so that impossible sequences have a
    meaning too.

    Args:
      gold: (num_tokens,) labels.
      predicted: (num_tokens,) labels.
      offsets: (num_sentences + 1,) integers.

    Returns:
      Precision, recall and F1 of the words.

    Raises:
      InputError: If the lengths do not agree.
    """
    gold_list, predicted_list = _as_lists(gold, predicted)
    bounds = _bounds(offsets, len(gold_list))
    ends = [_word_ends(part, bounds) for part in (gold_list, predicted_list)]
    starts = [np.concatenate([[0], part[:-1]]) for part in ends]
    _, *both = np.intersect1d(ends[0], ends[1], True, return_indices=True)
    is_correct = starts[0][both[0]] == starts[1][both[1]]
    return _span_scores(ends[0].size, ends[1].size, int(is_correct.sum()))


def check_known(corpus: Corpus, format: str) -> None:
    """Raise `InputError` if spans of a format need labels that are unknown."""
    if corpus.unknown_label is not None and format in ("conll", "segmentation"):
        raise InputError(
            f"{corpus.source} has tokens with the unknown label "
            f"{corpus.unknown_label!r}, and F1 of --format {format} needs all labels; "
            "give labelled data, or --format conllu to count the known tokens."
        )


def score_labels(corpus: Corpus, predicted: Labels, format: str) -> dict[str, Any]:
    """Return f1, precision, recall, accuracy and sentence accuracy, in percent.

    F1 counts chunks for ``"conll"`` and words for ``"segmentation"``. The formats
    ``"conllu"`` and ``"nettalk"`` have no spans, so f1, precision and recall are the
    accuracy of tokens or letters.

    Tokens with an unknown label do not count.

    Args:
      corpus: True labels.
      predicted: (num_tokens,) labels.
      format: ``"conll"``, ``"conllu"``, ``"segmentation"`` or ``"nettalk"``.
    """
    if corpus.labels is None:
        raise InputError(f"{corpus.source} has no labels to compare with.")
    check_known(corpus, format)
    gold, offsets = corpus.labels, corpus.offsets
    is_known = np.asarray(gold != corpus.unknown_label)
    accuracy = token_accuracy(gold[is_known], np.asarray(predicted)[is_known])
    gold = np.where(is_known, gold, predicted)  # an unknown label is never wrong
    unit = "token" if format == "conllu" else "letter"
    precision, recall, f1, meaning = (accuracy,) * 3 + (f"{unit} accuracy",)
    if format == "conll":
        precision, recall, f1 = chunk_scores(gold, predicted, offsets)[:3]
        meaning = "chunk F1 as conlleval"
    elif format == "segmentation":
        precision, recall, f1 = word_scores_from_labels(gold, predicted, offsets)[:3]
        meaning = "word F1"
    return {
        "f1": f1,
        "precision": precision,
        "recall": recall,
        "accuracy": accuracy,
        "sentence_accuracy": sentence_accuracy(gold, predicted, offsets),
        "f1_is": meaning,
    }


class Quality(NamedTuple):
    """Mean quality over lists, for three ways to choose a candidate.

    Attributes:
      chosen: Mean quality of the candidates chosen by the model.
      base: Mean quality of the first candidates, the choice of the base system.
      oracle: Mean quality of the best candidates.
    """

    chosen: float
    base: float
    oracle: float


def quality_of(lists: "Lists", chosen: Sequence[int] | np.ndarray) -> Quality:
    """Return the mean quality of the chosen, the first and the best candidates.

    Args:
      lists: Lists with at least one candidate each, all of known quality.
      chosen: (num_lists,) integers, index of the chosen candidate, from `predict`.
    """
    from lowrank_jax.data.lists import oracle

    quality = np.asarray(lists.quality, np.float64)
    starts = np.asarray(lists.list_offsets, np.int64)[:-1]
    chosen = np.asarray(chosen, np.int64)
    if chosen.shape != starts.shape:
        raise InputError(
            f"`chosen` must have one candidate for each of the {starts.size} lists, "
            f"got shape {chosen.shape}."
        )
    picks = (starts + chosen, starts, starts + oracle(lists))
    return Quality(*(float(quality[pick].mean()) for pick in picks))


def _word_ends(labels: list[str], bounds: np.ndarray) -> np.ndarray:
    """Return the positions before which a word ends, ascending, without 0."""
    codes, values = encode(labels)
    ends_after = np.array([value in ("E", "S") for value in values], bool)
    ends_before = np.array([value in ("B", "S") for value in values], bool)
    is_end = np.zeros(len(labels) + 1, bool)
    is_end[1:] = ends_after[codes]
    is_end[:-1] |= ends_before[codes]
    is_end[bounds] = True
    return np.flatnonzero(is_end[1:]) + 1


def _correct_ends(gold: Edges, predicted: Edges) -> np.ndarray:
    """Return the positions of the last tokens of chunks that are right.

    Matching begins where gold and predicted chunks of one type start together. It stops
    if one ends without the other or the types differ; a chunk is right if both end
    together. This is a two-state machine: its state at i follows from the last position
    that switched it on and the last position that switched it off.
    """
    (g_start, g_end, g_type), (p_start, p_end, p_type) = gold, predicted
    is_same = g_type == p_type
    begins = g_start & p_start & is_same[1:]
    succeeds = g_end & p_end & is_same[:-1]
    fails = (g_end != p_end) | ~is_same[1:]
    position = np.arange(begins.size)
    last_on = np.maximum.accumulate(np.where(begins, position, -1))
    last_off = np.maximum.accumulate(np.where(succeeds | fails, position, -1))
    is_on = np.concatenate([[False], (last_on >= 0) & (last_on >= last_off)])
    # A chunk that still matches at the end of the file counts.
    succeeds = np.concatenate([succeeds, [True]])
    return np.flatnonzero(is_on & succeeds)


def _span_scores(num_gold: int, num_predicted: int, num_correct: int) -> SpanScores:
    precision = _percent(num_correct, num_predicted)
    recall = _percent(num_correct, num_gold)
    total = precision + recall
    f1 = 2 * precision * recall / total if total else 0.0
    counts = int(num_gold), int(num_predicted), int(num_correct)
    return SpanScores(precision, recall, f1, *counts)


def _triple(scores: SpanScores | ChunkScores) -> str:
    return (
        f"precision: {scores.precision:6.2f}%; recall: {scores.recall:6.2f}%; "
        f"FB1: {scores.f1:6.2f}"
    )


def _percent(part: int, whole: int) -> float:
    return 100.0 * int(part) / int(whole) if whole else 0.0


def _is_right(gold: Labels, predicted: Labels) -> np.ndarray:
    """Return (num_tokens,) bool, True where the label is right."""
    gold_list, predicted_list = _as_lists(gold, predicted)
    pairs = zip(gold_list, predicted_list, strict=True)
    return np.fromiter((a == b for a, b in pairs), bool, len(gold_list))


def _as_lists(*both: Labels) -> tuple[list[str], list[str]]:
    """Check that gold and predicted labels are equally many."""
    gold, predicted = (
        part.tolist() if isinstance(part, np.ndarray) else list(part) for part in both
    )
    if len(gold) != len(predicted):
        raise InputError(
            f"`predicted` must have {len(gold)} labels, as many as `gold`, got "
            f"{len(predicted)}."
        )
    return gold, predicted


def _bounds(offsets: Offsets, num_tokens: int) -> np.ndarray:
    """Return the offsets as an array; raise unless they rise from 0 to the end."""
    bounds = np.asarray(offsets, np.int64)
    is_well = bounds.ndim == 1 and bounds.size > 0 and bounds[0] == 0
    if not is_well or bounds[-1] != num_tokens or (np.diff(bounds) < 0).any():
        raise InputError(
            f"`offsets` must rise from 0 to the number of labels, {num_tokens}, got "
            f"{bounds.tolist() if bounds.size < 5 else bounds[[0, -1]].tolist()}."
        )
    return bounds
