"""Candidate lists: how ``rerank`` reads, trains on and scores them."""

import argparse
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lowrank_jax.checks import InputError
from lowrank_jax.cli.fitting import Run
from lowrank_jax.cli.options import parse_settings
from lowrank_jax.estimators import learners

if TYPE_CHECKING:
    from lowrank_jax.data.lists import Lists

__all__ = ["CandidateLists", "format_of", "quality_line", "quality_of", "read"]
__dir__ = __all__.copy

_SUFFIXES = {
    ".jsonl": "json",
    ".json": "json",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".dat": "svmlight",
}


class CandidateLists:
    """Trains a reranker; see `cli.fitting.System`."""

    kind = "reranker"
    is_online = True

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Keep the arguments."""
        self.arguments = arguments
        self.estimator: Any = None
        self.train: Lists
        self.test: Lists | None = None
        self.ids: dict[str, int] | None = None  # by name

    def names(self) -> tuple[str, str | None]:
        """Return the names of training and test data."""
        return self.arguments.data, self.arguments.test

    def prepare(self) -> None:
        """Check the settings, before anything is read."""
        from lowrank_jax.estimators.reranker import Reranker

        arguments, name = self.arguments, self.arguments.learner
        options = learners.options_of(learners.RERANKERS[name])
        given = parse_settings(arguments.settings, options, owner=name)
        self.estimator = Reranker(
            *(name, arguments.epochs, arguments.seed),
            *(arguments.batch_size, arguments.devices),
            **given,
        )
        self.estimator.check()

    def read(self, train_path: str, test_path: str | None) -> None:
        """Read the data; training and test lists have one format."""
        given, kind = self.arguments, format_of(train_path, self.arguments)
        if kind == "json" and given.num_features is not None:
            raise InputError(
                f"--num-features {given.num_features} is for svmlight, and "
                f"{train_path} is of the format json, whose names tell their number; "
                "leave it out."
            )
        self.train, self.ids = read(
            train_path, kind, training=True, room=given.num_features
        )
        if test_path is None:
            return
        if format_of(test_path, given) != kind:
            raise InputError(
                f"{test_path} is not of the format {kind} of {train_path}; bring both "
                "to one."
            )
        room = self.train.num_features
        self.test, _ = read(test_path, kind, training=False, names=self.ids, room=room)

    def fit(self, run: Run) -> dict[str, Any]:
        """Train the reranker."""
        model = self.estimator.fit(self.train, names=self.ids, run=run)
        model.training_ |= {
            "train": self.arguments.data,
            "test": self.arguments.test,
            "read_seconds": run.read_seconds,
        }
        return model.training_ | {"num_parameters": model.num_parameters}

    def save(self, result: dict[str, Any]) -> None:
        """Write the model folder."""
        keep = self.arguments.keep_checkpoint
        self.estimator.save(self.arguments.model, keep_checkpoint=keep)

    def lines(self, result: dict[str, Any]) -> Iterator[str]:
        """Yield the summary, and add the mean qualities to the result."""
        folder = pathlib.Path(self.arguments.model)
        yield f"model: {folder}, {result['num_parameters']:,} parameters"
        parts = {"train": ("training", self.train), "test": ("test", self.test)}
        for part, (name, lists) in parts.items():
            if lists is None:
                continue
            figures = quality_of(lists, self.estimator.decision_function(lists))
            if figures is not None:
                result |= {f"{part}_{key}": value for key, value in figures.items()}
                yield quality_line(name, figures)


def quality_of(lists: "Lists", scores: Any) -> dict[str, float] | None:
    """Return measures of the order by score if all qualities are known, else None."""
    import numpy as np

    from lowrank_jax import metrics
    from lowrank_jax.data.lists import ranking_of

    if np.isnan(lists.quality).any():
        return None
    parts = np.split(scores, np.asarray(lists.list_offsets)[1:-1])
    found = metrics.quality_of(lists, [int(part.argmax()) for part in parts])
    return {
        "quality": found.chosen,
        "first_quality": found.base,
        "oracle_quality": found.oracle,
        **ranking_of(lists, scores)._asdict(),
    }


def quality_line(name: str, figures: dict[str, float]) -> str:
    """Write the measures in one line."""
    return (
        f"{name}: mean quality {figures['quality']:.4f}, of the first candidates "
        f"{figures['first_quality']:.4f}, of the best {figures['oracle_quality']:.4f}; "
        f"MRR {figures['mrr']:.4f}, NDCG {figures['ndcg']:.4f}"
    )


def format_of(path: str, arguments: argparse.Namespace) -> str:
    """Return the format that was given, or the one that the file's name tells."""
    if arguments.format is not None:
        return arguments.format
    name = pathlib.Path(path)
    if name.suffix in (".gz", ".xz"):
        name = name.with_suffix("")
    if name.suffix not in _SUFFIXES:
        raise InputError(
            f"{path}: the format cannot be told from the name, which should end in "
            f"{', '.join(_SUFFIXES)}; say --format json or --format svmlight."
        )
    return _SUFFIXES[name.suffix]


def read(
    path: str,
    kind: str,
    *,
    training: bool,
    names: Any = None,
    room: int | None = None,
    keep: list[dict[str, Any]] | None = None,
) -> tuple["Lists", dict[str, int] | None]:
    """Read lists of a format; also return the ids of names, None if there are none.

    Args:
      path: Path of the file.
      kind: ``"json"`` or ``"svmlight"``.
      training: If true, every quality must be known.
      names: Ids of the names of a model.
      room: Number of features of a model.
      keep: List to which the fields of each list are appended, or None.
    """
    from lowrank_jax.data.list_files import read_json_lists, read_svmlight_lists

    if kind == "json":
        return read_json_lists(path, names=names, training=training, keep=keep)
    found = read_svmlight_lists(path, num_features=room, training=training, keep=keep)
    return found, None
