"""Scores of predicted labels, for each format of data."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowrank_jax.data.corpus import Corpus

__all__ = ["score", "score_line"]

_MEANING = {
    "conll": "chunk F1 as conlleval",
    "segmentation": "word F1",
    "nettalk": "letter accuracy",
}


def score(corpus: "Corpus", predicted: Any, file_format: str) -> dict[str, Any]:
    """Return f1, precision, recall, accuracy and sentence accuracy, in percent.

    F1 is that of chunks for ``"conll"`` and of words for ``"segmentation"``; for
    ``"nettalk"``, which has no spans, all three are the accuracy of letters.
    """
    from lowrank_jax import metrics

    gold, offsets = corpus.labels, corpus.offsets
    assert gold is not None
    accuracy = metrics.token_accuracy(gold, predicted)
    if file_format == "nettalk":
        precision = recall = f1 = accuracy
    else:
        count: Any = metrics.chunk_scores
        if file_format == "segmentation":
            count = metrics.word_scores_from_labels
        precision, recall, f1 = count(gold, predicted, offsets)[:3]
    return {
        "f1": f1,
        "precision": precision,
        "recall": recall,
        "accuracy": accuracy,
        "sentence_accuracy": metrics.sentence_accuracy(gold, predicted, offsets),
        "f1_is": _MEANING[file_format],
    }


def score_line(scores: dict[str, Any]) -> str:
    """Write the scores in one line."""
    return (
        f"F1 {scores['f1']:.2f} ({scores['f1_is']}), precision "
        f"{scores['precision']:.2f}, recall {scores['recall']:.2f}, accuracy "
        f"{scores['accuracy']:.2f}, sentences {scores['sentence_accuracy']:.2f}"
    )
