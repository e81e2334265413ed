"""From files to a model folder: what all training commands do, in one order.

A system (`cli.systems`) knows one kind of data: its settings, how it is read, fitted
and scored. This module does the rest: places checked beforehand, checkpoints, progress
and signals, the saved model, the summary and the JSON result.
"""

import argparse
import pathlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from lowrank_jax.checks import InputError
from lowrank_jax.cli import files, output

if TYPE_CHECKING:
    from lowrank_jax.estimators.training import Job, Outcome

__all__ = ["Run", "Stopped", "System", "fit_command"]
__dir__ = __all__.copy


class Stopped(Exception):
    """A signal has ended the training; a checkpoint is written."""

    def __init__(self, number: int) -> None:
        """Keep the number of the signal."""
        super().__init__(number)
        self.number = number


class Run:
    """Does a job with checkpoints, progress and signals.

    Attributes:
      read_seconds: Time from the start of the command to the start of the training.
      job: The job as it was done.
      outcome: Outcome of the job.
    """

    read_seconds: float
    job: "Job"
    outcome: "Outcome"

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Keep the arguments and the time."""
        self._arguments, self._began = arguments, time.perf_counter()

    def __call__(self, job: "Job") -> "Outcome":
        """Train, or raise `Stopped`."""
        from lowrank_jax.estimators import training

        given = self._arguments
        self.read_seconds = time.perf_counter() - self._began
        if given.resume:
            _check_finished(given.model, job)
        self.job = job._replace(
            folder=pathlib.Path(given.model),
            checkpoint_seconds=given.checkpoint_seconds,
            keep_checkpoint=given.keep_checkpoint,
        )
        output.release_memory()
        message = "lowrank-jax: stopping after this pass; again to stop at once."
        with output.StopRequest(message) as stop, output.Progress() as progress:
            self.outcome = training.run(
                self.job, resume=given.resume, show=progress, stop=stop
            )
        if self.outcome.stopped_by is not None:
            number = len(self.outcome.history)
            passes = "1 pass" if number == 1 else f"{number} passes"
            output.note(f"stopped after {passes}; go on with --resume.")
            raise Stopped(self.outcome.stopped_by)
        output.release_memory()
        return self.outcome


class Finished(Exception):
    """The model folder holds the finished model of this very run."""


def _check_finished(folder: str, job: "Job") -> None:
    """Raise `Finished` if there is no more to do, or say why the run starts anew.

    Args:
      folder: Model folder.
      job: Job that is to be resumed.
    """
    from lowrank_jax.estimators import training
    from lowrank_jax.store.files import CHECKPOINT
    from lowrank_jax.store.folder import kind_of, read

    path = pathlib.Path(folder)
    kind = kind_of(path)
    if (path / CHECKPOINT).exists() or kind is None:
        return
    try:
        about = read(path, kind).about["training"]
        settings, history = dict(about["run"]), list(about["history"])
        has_converged = bool(history[-1].get("converged", False))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return  # a damaged model, or an older one that does not say how it was made
    differences = training.differences_of(settings, job.settings)
    if differences:
        raise InputError(
            f"{folder} holds a finished model made with {' and '.join(differences)}; "
            f"give the same arguments, or leave out --resume to replace it."
        )
    if len(history) == job.num_passes or (
        has_converged and len(history) < job.num_passes
    ):
        raise Finished


class System(Protocol):
    """One kind of data; made from the arguments of the command."""

    #: The estimator; its class has ``load``.
    estimator: Any
    #: Kind of the model folder.
    kind: str
    #: True if the learner makes many short steps.
    is_online: bool

    def names(self) -> tuple[str, str | None]:
        """Return the names of training and test data; refuse what has no meaning."""

    def prepare(self) -> None:
        """Check the settings, before anything is read."""

    def read(self, train_path: str, test_path: str | None) -> None:
        """Read the data."""

    def fit(self, run: Run) -> dict[str, Any]:
        """Fit the estimator with `run` and return the result, ready for JSON."""

    def save(self, result: dict[str, Any]) -> None:
        """Write the model folder."""

    def lines(self, result: dict[str, Any]) -> Iterator[str]:
        """Yield the summary, and add the scores to the result."""


def fit_command(arguments: argparse.Namespace, system: System) -> int:
    """Train, save, score; return the exit status."""
    if system.is_online:
        output.use_one_core()
    if getattr(arguments, "devices", 1) > 1:
        output.use_devices(arguments.devices)
    run = Run(arguments)
    train, test = system.names()
    train_path = files.find_data(train, arguments.data_dir)
    test_path = None if test is None else files.find_data(test, arguments.data_dir)
    files.check_json(arguments.json, arguments.model)

    from lowrank_jax.store import files as store_files
    from lowrank_jax.store import folder

    folder.check_target(arguments.model, system.kind)
    files.check_place(arguments.model)
    system.prepare()
    system.read(train_path, test_path)
    with store_files.hold(arguments.model):
        try:
            result = system.fit(run)
            system.save(result)
        except Stopped as stopped:
            return 128 + stopped.number
        except Finished:
            output.note(f"{arguments.model} holds the finished model of this run.")
            system.estimator = type(system.estimator).load(arguments.model)
            result = dict(system.estimator.training_)
            result["num_parameters"] = system.estimator.num_parameters
    place = output.summary_to(arguments.json)
    for line in system.lines(result):
        print(line, file=place)
    files.write_json(arguments.json, result | output.describe_machine())
    return 0
