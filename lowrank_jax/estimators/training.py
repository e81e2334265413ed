"""Run a learner pass by pass with checkpoints, and resume from one bit for bit."""

import os
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from lowrank_jax import loops
from lowrank_jax.checks import InputError
from lowrank_jax.store.files import CHECKPOINT
from lowrank_jax.types import Learner, Stream, Whole

__all__ = [
    "Display",
    "Job",
    "Outcome",
    "Stop",
    "check_finite",
    "differences_of",
    "machine",
    "run",
]
__dir__ = __all__.copy


class Job(NamedTuple):
    """What to train, and how.

    Attributes:
      learner: Learner of an online or a batch module.
      stream: Training data on the device.
      unit: ``"sentences"`` or ``"lists"``.
      num_examples: Number of sentences or lists.
      seed: Seed of the random key.
      num_passes: Number of passes in all; of a batch learner, iterations at most.
      settings: Everything that determines the result except the number of passes,
        ready for JSON. A run resumes only from a checkpoint with equal settings.
      folder: Model folder, where the checkpoint is kept; None writes none.
      checkpoint_seconds: Least time between two checkpoints.
      keep_checkpoint: If true, a checkpoint is also written at the end.
      keep_traces: If true, the trace of each pass is kept, for a certificate.
      every: Number of rounds between two calls of `on_rounds` within a pass.
      on_rounds: Function of the state; what it returns goes into the history.
      final: Function from a state to a model, if `judge` is given.
      judge: Score of a model on held-out data. The best model is kept.
      patience: Number of passes without a better score after which the run ends; None
        runs all passes.
      start: State to begin with; None begins anew.
      num_before: Number of passes that led to `start`, which decides the shuffles.
      batch_size: Number of examples per update, or a schedule (`loops.passes`).
      num_devices: Number of devices; the result does not depend on it.
    """

    learner: Learner
    stream: Stream
    unit: str
    num_examples: int
    seed: int
    num_passes: int
    settings: dict[str, Any]
    folder: pathlib.Path | None = None
    checkpoint_seconds: float = 30.0
    keep_checkpoint: bool = False
    keep_traces: bool = False
    every: int | None = None
    on_rounds: Callable[[Any], dict[str, Any]] | None = None
    final: Callable[[Any], Any] | None = None
    judge: Callable[[Any], float] | None = None
    patience: int | None = None
    start: Any = None
    num_before: int = 0
    batch_size: int | str = 1
    num_devices: int = 1

    @property
    def is_batch(self) -> bool:
        """True if a pass is one iteration on all data."""
        return isinstance(self.stream, Whole)


class Outcome(NamedTuple):
    """The result of a run.

    Attributes:
      state: State after the last pass.
      history: One entry per pass: number of mistakes, loss, seconds.
      compile_seconds: Duration of the compilation in all runs that led here.
      stopped_by: Number of the signal that ended the run early, else None.
      traces: Trace of each pass, on the host, if the job keeps traces.
      best: Model of the pass with the best score, if the job has a judge.
    """

    state: Any
    history: list[dict[str, Any]]
    compile_seconds: float
    stopped_by: int | None
    traces: list[Any]
    best: Any = None

    @property
    def seconds(self) -> float:
        """Duration of all passes without compilation."""
        return sum(entry["seconds"] for entry in self.history)


class Display(Protocol):
    """What a run tells while it trains."""

    def note(self, sentence: str) -> None:
        """Tell how the run starts."""

    def begin(self, num_done: int, num_passes: int, unit: str) -> None:
        """Tell that the first pass begins; `unit` is the name of a pass."""

    def show(self, entry: dict[str, Any]) -> None:
        """Tell of a pass that has ended."""


class Stop(Protocol):
    """A request to end the run after this pass, if its number is set."""

    number: int | None


def run(
    job: Job,
    *,
    resume: bool = False,
    show: Display | None = None,
    stop: Stop | None = None,
) -> Outcome:
    """Train, writing checkpoints.

    Args:
      job: Learner, examples and settings of the run.
      resume: If true, the run resumes from the checkpoint in the folder.
      show: Display of the progress.
      stop: If its number is set, the run ends after the pass, with a checkpoint.
    """
    path = None if job.folder is None else job.folder / CHECKPOINT
    state, history, compile_seconds, best = job.start, [], 0.0, None
    traces: list[Any] = []
    record: dict[str, Any] = {}
    has_checkpoint = path is not None and path.exists()
    if path is not None and has_checkpoint and resume:
        (state, traces, *kept), record = _load(job, path)
        best = kept[0] if kept else None
        history, compile_seconds = record["history"], record["compile_seconds"]
    if show is not None:
        sentence = _start(path, has_checkpoint, resume, len(history))
        for line in (sentence, _other_machine(job, record)):
            if line:
                show.note(line)
    if _is_done(history, job):
        return Outcome(state, history, compile_seconds, None, traces, best)
    saved_at = time.monotonic()
    if show is not None:
        unit = "iteration" if job.is_batch else "pass"
        show.begin(len(history), job.num_passes, unit)
    looks: list[dict[str, Any]] = []
    number = None
    for done in _passes(job, state, len(history), looks):
        compile_seconds += done.compile_seconds
        history.append(_entry(done, job))
        if job.keep_traces:
            traces.append(_narrow(done.trace))
        if looks:
            history[-1]["rounds"] = looks.copy()
            looks.clear()
        if job.judge is not None:
            assert job.final is not None
            model = jax.block_until_ready(job.final(done.state))
            history[-1]["dev"] = job.judge(model)
            if _best_pass(history) == len(history) - 1:
                best = jax.device_get(model)
        if show is not None:
            show.show(history[-1])
        is_last = _is_done(history, job)
        is_due = time.monotonic() - saved_at >= job.checkpoint_seconds
        number = None if stop is None else stop.number
        if path is not None and (
            number or (job.keep_checkpoint if is_last else is_due)
        ):
            record = {
                "settings": job.settings,
                "history": history,
                "compile_seconds": compile_seconds,
                "machine": machine(),
            }
            from lowrank_jax.store import checkpoint

            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                more = () if job.judge is None else (best,)
                checkpoint.save(path, (done.state, traces, *more), record)
            except OSError as error:
                if number:  # the run ends here, and all of it would be lost in silence
                    raise
                if show is not None:
                    show.note(_not_saved(path, error, is_last))
            saved_at = time.monotonic()
        if number or is_last:
            break
    return Outcome(done.state, history, compile_seconds, number, traces, best)


def check_finite(params: Any, outcome: Outcome) -> None:
    """Raise `InputError` if a training has left the finite numbers.

    Args:
      params: Parameters of the model.
      outcome: Outcome of the run that made them.
    """
    if all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(params)):
        return
    raise InputError(
        f"the weights are not finite after {_count(len(outcome.history))}; take a "
        "smaller step size, scale the values of the data, or train in float64."
    )


def machine() -> dict[str, Any]:
    """Return what the last bits of a result may depend on, ready for JSON.

    Learners that sum over all data at once (``crf``, ``smm``) sum in an order that
    depends on the number of threads of XLA. Online learners do not.
    """
    given = os.environ.get("PJRT_NPROC") or os.environ.get("NPROC") or ""
    cores = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
    return {
        "threads": int(given) if given.isdecimal() else len(cores),
        "device": jax.devices()[0].device_kind,
        "jaxlib": jax.lib.__version__,
    }


def _narrow(trace: Any) -> Any:
    """Store predicted labels, most of a trace, in two bytes each."""
    if getattr(trace, "predicted", None) is None:
        return trace
    return trace._replace(predicted=trace.predicted.astype(np.int16))


def _load(job: Job, path: pathlib.Path) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Read the checkpoint, if it is of this job."""
    from lowrank_jax.store import checkpoint

    record = checkpoint.read_metadata(path)
    _check_record(path, record)
    differences = differences_of(record["settings"], job.settings)
    if differences:
        raise InputError(
            f"{path} was made with {' and '.join(differences)}; give the same "
            f"arguments, or leave out --resume to start from the beginning."
        )
    num_done = len(record["history"])
    if num_done > job.num_passes:
        option = "--epochs" if job.unit == "lists" else "--passes"
        raise InputError(
            f"{path} has {_count(num_done)} already where {option} says "
            f"{job.num_passes}; ask for at least {num_done}."
        )
    first = job.stream.example(0)
    like = _start_shapes(job, first)
    traces: list[Any] = []
    if job.keep_traces:
        traces = [_trace_shapes(job, like, first)] * num_done
    more = () if job.final is None else (jax.eval_shape(job.final, like),)
    like, grows = (like, traces, *more), job.learner.grow is not None
    found, record = checkpoint.load(path, like, dropped=(".ratio",), may_grow=grows)
    return (found[0], *jax.tree.map(np.asarray, found[1:])), record


def _start_shapes(job: Job, first: Any) -> Any:
    """Return the start of the run: its numbers, and of larger arrays the shapes."""
    shapes, tree = jax.tree.flatten(
        jax.eval_shape(job.learner.init, jax.random.key(0), first)
    )
    small = [i for i, shape in enumerate(shapes) if shape.shape == ()]

    @jax.jit
    def numbers(key: jax.Array, example: Any) -> list[Any]:
        leaves = jax.tree.leaves(job.learner.init(key, example))
        return [leaves[i] for i in small]

    for i, number in zip(small, numbers(jax.random.key(0), first), strict=True):
        shapes[i] = number
    return jax.tree.unflatten(tree, shapes)


def _check_record(path: pathlib.Path, record: dict[str, Any]) -> None:
    """Raise `InputError` unless a checkpoint's record has what a run needs."""
    history, seconds = record.get("history"), record.get("compile_seconds")
    is_sound = isinstance(record.get("settings"), dict) and isinstance(history, list)
    is_sound &= isinstance(seconds, int | float) and isinstance(
        record.get("machine", {}), dict
    )
    if is_sound and history:
        is_sound = all(
            isinstance(entry, dict) and isinstance(entry.get("seconds"), int | float)
            for entry in history
        )
    if not is_sound:
        raise InputError(
            f"{path} is damaged: its record of the run is incomplete; leave out "
            "--resume to start from the beginning."
        )


def _trace_shapes(job: Job, state: Any, first: Any) -> Any:
    """Return the shapes of the trace of a pass as it is kept."""
    info = jax.eval_shape(job.learner.update, state, first)[1]
    if job.learner.wide is not None and loops.is_wide(job.batch_size, job.num_devices):
        info = job.learner.wide().info_like(info)

    def stacked(path: Any, part: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        is_wide = path[-1] == jax.tree_util.GetAttrKey("predicted")
        dtype = np.dtype(np.int16) if is_wide else part.dtype
        return jax.ShapeDtypeStruct((job.num_examples, *part.shape), dtype)

    return jax.tree_util.tree_map_with_path(stacked, info)


def differences_of(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Name the settings in which two runs differ."""
    found = []
    for name in sorted(old.keys() | new.keys()):
        before, now = old.get(name), new.get(name)
        if before == now:
            continue
        if isinstance(before, dict) and isinstance(now, dict):
            found += differences_of(before, now)
        elif name in ("data", "template"):
            found.append(f"other {name}")
        else:
            found.append(f"{name}={before} instead of {now}")
    return found


def _passes(
    job: Job, state: Any, num_done: int, looks: list[dict[str, Any]]
) -> Iterator[loops.Pass]:
    """Run what is left to do; what `on_rounds` returns goes to `looks`."""
    key = jax.random.key(job.seed)

    def look(num_rounds: int, state: Any) -> None:
        assert job.on_rounds is not None
        looks.append({"num_rounds": num_rounds, **job.on_rounds(state)})

    mesh = None
    if job.num_devices > 1:
        from lowrank_jax import sharding  # one device needs no more files

        mesh = sharding.mesh(job.num_devices)
    return loops.passes(
        job.learner,
        job.stream,
        key=key,
        num_passes=job.num_before + job.num_passes,
        state=state,
        first_pass=job.num_before + num_done,
        every=job.every,
        on_rounds=look if job.on_rounds is not None else None,
        batch_size=job.batch_size,
        mesh=mesh,
    )


def _is_done(history: list[dict[str, Any]], job: Job) -> bool:
    """Return True if all passes are done or the learner has converged."""
    has_converged = bool(history) and history[-1].get("converged", False)
    if history and job.judge is not None and job.patience is not None:
        has_converged |= len(history) - 1 - _best_pass(history) >= job.patience
    return has_converged or len(history) == job.num_passes


def _best_pass(history: list[dict[str, Any]]) -> int:
    """Return the index of the pass with the best score, the first of equals."""
    scores = [entry["dev"] for entry in history]
    return scores.index(max(scores))


def _entry(done: loops.Pass, job: Job) -> dict[str, Any]:
    """Return what to remember of a pass."""
    entry: dict[str, Any] = {
        job.unit: job.num_examples,
        "seconds": float(done.seconds),
    }
    trace = done.trace
    if job.is_batch:
        entry["objective"] = float(trace.objective)
        entry["converged"] = bool(trace.converged)
    else:
        # What a reranker updates against need not be what it would choose.
        name = "updates" if job.unit == "lists" else "mistakes"
        entry[name] = int(trace.is_mistake.sum())
        entry["loss"] = float(trace.loss.sum(dtype=float))
    return entry


def _start(
    path: pathlib.Path | None, has_checkpoint: bool, resume: bool, num_done: int
) -> str:
    """Say how a run starts, "" if there is nothing to say."""
    if path is None:
        return ""
    if has_checkpoint and resume:
        return f"going on from {path}: {_count(num_done)} done."
    if has_checkpoint:
        return (
            f"{path} is of an unfinished run and will be replaced; to go on from it, "
            f"stop this run and say --resume."
        )
    if resume:
        return f"there is no checkpoint in {path.parent}: starting from the beginning."
    return ""


def _other_machine(job: Job, record: dict[str, Any]) -> str:
    """Say that a run resumed here may differ from an unbroken one in its last bits."""
    before, now = record.get("machine"), machine()
    if not job.is_batch or before is None or before == now:
        return ""
    parts = [f"{k} {before.get(k)} there, {now[k]} here" for k in now]
    return (
        "the checkpoint was made on another machine or with another number of threads "
        f"({', '.join(parts)}), so the last bits may differ from an unbroken run; set "
        f"PJRT_NPROC={before.get('threads')} to have as many threads."
    )


def _not_saved(path: pathlib.Path, error: OSError, is_last: bool) -> str:
    reason = error.strerror or str(error)
    more = "" if is_last else " and tries again later"
    return f"{path} was not written ({reason}); the training goes on{more}."


def _count(number: int) -> str:
    return f"{number} pass" if number == 1 else f"{number} passes"
