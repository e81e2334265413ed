"""``lowrank-jax eval``: precision, recall and F1 of predicted labels."""

import argparse
from typing import TYPE_CHECKING, Any

from lowrank_jax.checks import InputError
from lowrank_jax.cli import files, output

if TYPE_CHECKING:
    from lowrank_jax.data.corpus import Corpus

__all__ = ["add_parser", "run"]
__dir__ = __all__.copy

_DESCRIPTION = """\
Score predicted labels against the true ones.

The last column of a column file counts: true labels in GOLD, predicted labels in
PREDICTED. If there is one file alone, its last column is the prediction and the column
before it the truth, as `lowrank-jax tag` and CRF++ write it. The report has the form of
conlleval.
"""

_EPILOG = """\
examples:
  lowrank-jax eval test.txt tagged.txt
  lowrank-jax tag chunker test.txt | lowrank-jax eval -
  lowrank-jax eval --format segmentation gold.txt segmented.txt
"""


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "eval",
        help="score predicted labels",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("gold", metavar="GOLD", help="file with the true labels; - is standard input")
    add("predicted", metavar="PREDICTED", nargs="?", help="file with predicted labels")
    add(
        "--format",
        choices=("conll", "conllu", "segmentation"),
        default="conll",
        help="columns (conll, the default), CoNLL-U, or text with blanks between words",
    )
    files.add_label_column(parser)
    add(
        "--labels",
        choices=("iob1", "iob2", "iobes"),
        help="convert both files to this scheme of chunks before labels are compared",
    )
    add("--json", metavar="FILE", help="write the scores there; - prints them")
    files.add_data_dir(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Score; return the exit status."""
    name = arguments.format
    if arguments.labels is not None and name != "conll":
        raise InputError(f"--labels needs --format conll, got {name}; leave it out.")
    if name != "conll" and arguments.predicted is None:
        raise InputError(f"eval --format {name} needs two files, GOLD PREDICTED.")
    if arguments.gold == arguments.predicted == "-":
        raise InputError("GOLD and PREDICTED cannot both be standard input.")
    files.check_json(arguments.json)
    gold_path = files.find_data(arguments.gold, arguments.data_dir)

    from lowrank_jax import metrics

    gold = files.read_corpus(gold_path, arguments)
    if arguments.predicted is None:
        gold, labels = _last_two(gold)
    else:
        predicted_path = files.find_data(arguments.predicted, arguments.data_dir)
        predicted = files.read_corpus(predicted_path, arguments)
        _check_same_text(gold, predicted)
        labels = predicted.labels
    if arguments.labels is not None:
        gold, labels = _converted(gold, labels, arguments.labels)
    assert gold.labels is not None
    scores = metrics.score_labels(gold, labels, arguments.format)
    result: dict[str, Any] = scores | {
        "num_sentences": gold.num_sentences,
        "num_tokens": gold.num_tokens,
    }
    report = output.score_line(scores) + "\n"
    if arguments.format == "conll":
        report = metrics.conlleval_report(gold.labels, labels, gold.offsets)
        chunks = metrics.chunk_scores(gold.labels, labels, gold.offsets)
        by_type = chunks.by_type.items()
        result["by_type"] = {name: part._asdict() for name, part in by_type}
    if arguments.json != "-":
        print(report, end="")
    files.write_json(arguments.json, result)
    return 0


def _last_two(corpus: "Corpus") -> tuple["Corpus", Any]:
    """Take the last column as the prediction and the one before it as the truth."""
    import dataclasses

    if len(corpus.columns) < 2:
        raise InputError(
            f"{corpus.source} has {len(corpus.columns) + 1} columns where a token, its "
            f"true label and its predicted label are expected; give GOLD and PREDICTED."
        )
    gold = dataclasses.replace(
        corpus, columns=corpus.columns[:-1], labels=corpus.columns[-1]
    )
    return gold, corpus.labels


def _converted(gold: "Corpus", labels: Any, scheme: str) -> tuple["Corpus", Any]:
    """Write the chunks of both in one scheme."""
    import dataclasses

    from lowrank_jax.data import convert_labels

    assert gold.labels is not None
    truth, found = (
        convert_labels(part, gold.offsets, scheme) for part in (gold.labels, labels)
    )
    return dataclasses.replace(gold, labels=truth), found


def _check_same_text(gold: "Corpus", predicted: "Corpus") -> None:
    """Raise `InputError` unless both have the same tokens in the same sentences."""
    import numpy as np

    num_common = min(gold.num_sentences, predicted.num_sentences)
    gold_tokens, predicted_tokens = gold.columns[0], predicted.columns[0]
    ends = (gold.offsets[: num_common + 1], predicted.offsets[: num_common + 1])
    differs = np.flatnonzero(ends[0] != ends[1])
    limit = int(differs[0]) - 1 if differs.size else num_common
    size = int(gold.offsets[limit])
    wrong = np.flatnonzero(gold_tokens[:size] != predicted_tokens[:size])
    if wrong.size:
        token = int(wrong[0])
        sentence = int(np.searchsorted(gold.offsets, token, side="right"))
        raise InputError(
            f"{predicted.source} has {str(predicted_tokens[token])!r} in sentence "
            f"{sentence} where {gold.source} has {str(gold_tokens[token])!r}; give the "
            f"predictions for the same text."
        )
    if differs.size:
        raise InputError(
            f"sentence {limit + 1} has {gold.lengths[limit]} tokens in {gold.source} "
            f"and {predicted.lengths[limit]} in {predicted.source}; give the "
            f"predictions for the same text."
        )
    if gold.num_sentences != predicted.num_sentences:
        raise InputError(
            f"{gold.source} has {gold.num_sentences} sentences and {predicted.source} "
            f"has {predicted.num_sentences}; give the predictions for the same text."
        )
