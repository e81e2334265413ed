"""What ``fit`` and ``predict`` share: matrices from files, figures of a classifier."""

import argparse
from typing import TYPE_CHECKING, Any

from lowrank_jax.checks import InputError

if TYPE_CHECKING:
    import numpy as np

    from lowrank_jax.data import Matrices
    from lowrank_jax.estimators.classifier import Classifier

__all__ = [
    "add_keys",
    "check_fits",
    "figures",
    "has_test_part",
    "line_of",
    "read",
]
__dir__ = __all__.copy


def add_keys(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the arrays of a file."""
    parser.add_argument(
        "--x",
        metavar="KEY",
        help="array of the matrices; default: x, else x_train or x_test, else images",
    )
    parser.add_argument(
        "--y", metavar="KEY", help="array of the labels; needs --x; default: as --x"
    )


def has_test_part(path: str, arguments: argparse.Namespace) -> bool:
    """Return True if a file has a training and a test part, and no key is named."""
    import zipfile

    if arguments.x is not None:
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False  # `read` says what is wrong
    return "x.npy" not in names and {"x_train.npy", "x_test.npy"} <= names


def read(
    path: str, arguments: argparse.Namespace, split: str | None = None
) -> "Matrices":
    """Read matrices as the arguments say."""
    from lowrank_jax.data import read_matrices

    return read_matrices(path, arguments.x, arguments.y, split=split)


def check_fits(
    path: str,
    found: "Matrices",
    *,
    shape: tuple[int, int],
    names: tuple[str, ...],
    classes: "np.ndarray",
) -> None:
    """Raise `InputError` unless data are of the kind that a model was fitted on.

    Args:
      path: Path of the data, for the message.
      found: Matrices, and labels if there are any.
      shape: Rows and columns of a matrix.
      names: Names of the rows, or ().
      classes: Labels that the model knows.
    """
    import numpy as np

    if found.x.shape[1:] != shape:
        height, width = found.x.shape[1:]
        raise InputError(
            f"{path} holds matrices of {height}x{width} where the model was fitted on "
            f"{shape[0]}x{shape[1]}; cut them alike."
        )
    if names and found.names and names != found.names:
        row = next(i for i in range(len(names)) if names[i] != found.names[i])
        raise InputError(
            f"row {row} of {path} is named {found.names[row]!r} where the model was "
            f"fitted on {names[row]!r}; bring the rows into the same order."
        )
    if found.y is None:
        return
    is_text, was_text = (part.dtype.kind in "US" for part in (found.y, classes))
    unknown = found.y if is_text != was_text else np.setdiff1d(found.y, classes)
    if unknown.size:
        raise InputError(
            f"{path} has the label {unknown[0].item()!r} where the model knows "
            f"{', '.join(repr(label) for label in classes[:10].tolist())}"
            f"{', ...' if len(classes) > 10 else ''}; correct the labels or leave them "
            f"out."
        )


def figures(classifier: "Classifier", found: "Matrices") -> dict[str, float | None]:
    """Return accuracy and AUC, fractions; None where there are no labels for it.

    With more than two classes, AUC is the mean over classes of each class against the
    others, by its probability. Data of one class have no AUC.
    """
    import numpy as np

    from lowrank_jax import metrics

    if found.y is None:
        return {"accuracy": None, "auc": None}
    accuracy = float(np.mean(classifier.predict(found.x) == found.y))
    auc = None
    if len(np.unique(found.y)) > 1:
        if len(classifier.classes) == 2:
            auc = metrics.auc(found.y, classifier.scores(found.x)[:, 1])
        else:
            chances = classifier.probabilities(found.x)
            auc = metrics.macro_auc(found.y, chances, classifier.classes)
    return {"accuracy": accuracy, "auc": auc}


def line_of(what: str, found: dict[str, Any]) -> str:
    """Write accuracy and AUC in one line."""
    auc = "" if found["auc"] is None else f", AUC {found['auc']:.4f}"
    return f"{what}: accuracy {found['accuracy']:.4f}{auc}"
