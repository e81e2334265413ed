"""``lowrank-jax predict``: classify matrices with a model."""

import argparse
import csv
import io
import sys
import time
from typing import TYPE_CHECKING, Any

from lowrank_jax.cli import files, matrices

if TYPE_CHECKING:
    import numpy as np

__all__ = ["add_parser", "run"]
__dir__ = __all__.copy

_DESCRIPTION = """\
Classify matrices with a model that `fit` wrote.

The output has comma-separated values: the predicted label of each matrix and the
probability of each class, below a line that names the columns. If the file has labels,
accuracy and AUC are printed as well.
"""

_EPILOG = """\
examples:
  lowrank-jax predict eeg-model new-trials.npz --out predicted.csv
  lowrank-jax predict eeg-model trials.npz --split test --json result.json
"""


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "predict",
        help="classify matrices with a model",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("model", metavar="DIR", help="the model folder")
    add("data", metavar="DATA.npz", help="x (n, s, t) and perhaps y (n,)")
    add(
        "--split",
        choices=("train", "test"),
        help="part of a file that holds both; default: test",
    )
    add(
        "--out", metavar="FILE", help="write the predictions there, not to the terminal"
    )
    add(
        "--json",
        metavar="FILE",
        help="write the figures there; - prints them, instead of the predictions "
        "if --out is not given",
    )
    matrices.add_keys(parser)
    files.add_data_dir(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Classify a file; return the exit status."""
    path = files.find_data(arguments.data, arguments.data_dir)
    files.check_outputs(arguments.out, arguments.json, arguments.model)

    from lowrank_jax.estimators.classifier import Classifier

    model = Classifier.load(arguments.model)
    split = arguments.split
    if split is None and matrices.has_test_part(path, arguments):
        split = "test"
    found = matrices.read(path, arguments, split)
    matrices.check_fits(
        path, found, shape=model.shape, names=model.row_names, classes=model.classes
    )
    began = time.perf_counter()
    labels, chances = model.predict(found.x), model.probabilities(found.x)
    seconds = time.perf_counter() - began
    result: dict[str, Any] = {
        "model": arguments.model,
        "data": arguments.data,
        "split": split,
        "num_matrices": len(found.x),
        "classes": model.classes.tolist(),
        "num_predicted": [int((labels == label).sum()) for label in model.classes],
        **matrices.figures(model, found),
        "predict_seconds": seconds,
    }
    _write(arguments, _table(model.classes, labels, chances))
    if result["accuracy"] is not None:
        is_free = arguments.out is not None and arguments.json != "-"
        place = sys.stdout if is_free else sys.stderr
        print(matrices.line_of(arguments.data, result), file=place)
    files.write_json(arguments.json, result)
    return 0


def _table(classes: "np.ndarray", labels: "np.ndarray", chances: "np.ndarray") -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["label", *(f"probability of {name}" for name in classes.tolist())])
    for label, row in zip(labels.tolist(), chances.tolist(), strict=True):
        writer.writerow([label, *(f"{value:.6g}" for value in row)])
    return stream.getvalue()


def _write(arguments: argparse.Namespace, text: str) -> None:
    if arguments.out is None or arguments.out == "-":
        if arguments.json != "-":
            sys.stdout.write(text)
        return
    files.write_text(arguments.out, text)
