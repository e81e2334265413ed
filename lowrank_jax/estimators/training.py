"""Run a learner pass by pass with checkpoints, and go on from one bit for bit."""

import hashlib
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from lowrank_jax import loops
from lowrank_jax.checks import InputError
from lowrank_jax.cli.progress import Progress
from lowrank_jax.cli.signals import StopRequest
from lowrank_jax.store import checkpoint

if TYPE_CHECKING:
    from lowrank_jax.data.corpus import Corpus
    from lowrank_jax.types import Learner

__all__ = ["Job", "Outcome", "fingerprint", "run"]


class Job(NamedTuple):
    """What to train, and how.

    Attributes:
      learner: of an online or a batch module.
      kind: ``"online"``, ``"batch"``, or ``"lists"``: online, on candidate lists.
      corpus: the training data on the device, as the learner takes them.
      num_sentences: in them, or lists.
      seed: of the random key.
      num_passes: in all; of a batch learner, iterations at most.
      settings: all that the result depends on except the number of passes, ready for
        JSON: a checkpoint with other settings is not gone on from.
      folder: of the model, where the checkpoint is kept.
      checkpoint_seconds: at least so long between two checkpoints.
      keep_checkpoint: whether one is written at the end, too.
      keep_traces: whether what each round recorded is kept, for a certificate.
      every: rounds after which an online learner's state is looked at.
      on_rounds: called with the state then; what it returns goes into the history.
    """

    learner: "Learner"
    kind: str
    corpus: Any
    num_sentences: int
    seed: int
    num_passes: int
    settings: dict[str, Any]
    folder: pathlib.Path
    checkpoint_seconds: float
    keep_checkpoint: bool
    keep_traces: bool = False
    every: int | None = None
    on_rounds: Callable[[Any], dict[str, Any]] | None = None


class Outcome(NamedTuple):
    """What came of it.

    Attributes:
      state: after the last pass.
      history: one entry a pass: number of mistakes, loss, seconds.
      compile_seconds: of all runs that led here.
      stopped_by: number of the signal that ended the run early, else None.
      traces: of each pass, on the host, if they were to be kept.
    """

    state: Any
    history: list[dict[str, Any]]
    compile_seconds: float
    stopped_by: int | None
    traces: list[Any]


def run(job: Job, *, resume: bool) -> Outcome:
    """Train, writing checkpoints; stop early if a signal asks for it.

    Args:
      job: what to train.
      resume: whether to go on from the checkpoint in the folder, if there is one.
    """
    path = job.folder / checkpoint.NAME
    state, history, compile_seconds = None, [], 0.0
    traces: list[Any] = []
    if path.exists() and resume:
        state, traces, record = _load(job, path)
        history, compile_seconds = record["history"], record["compile_seconds"]
        _note(f"going on from {path}: {_count(len(history))} done.")
    elif path.exists():
        _note(
            f"{path} is of an unfinished run and will be replaced; to go on from it, "
            f"stop this run and say --resume."
        )
    elif resume:
        _note(f"there is no checkpoint in {job.folder}: starting from the beginning.")
    if _is_done(history, job):
        return Outcome(state, history, compile_seconds, None, traces)
    saved_at = time.monotonic()
    message = "lowrank-jax: stopping after this pass; again to stop at once."
    unit = "iteration" if job.kind == "batch" else "pass"
    progress = Progress(job.num_passes, len(history), unit)
    looks: list[dict[str, Any]] = []
    with StopRequest(message) as stop, progress:
        for done in _passes(job, state, len(history), looks):
            compile_seconds += done.compile_seconds
            history.append(_entry(done, job))
            if job.keep_traces:
                traces.append(_narrow(done.trace))
            if looks:
                history[-1]["rounds"] = looks.copy()
                looks.clear()
            progress.show(history[-1])
            is_last = _is_done(history, job)
            is_due = time.monotonic() - saved_at >= job.checkpoint_seconds
            if stop.number or (job.keep_checkpoint if is_last else is_due):
                record = {
                    "settings": job.settings,
                    "history": history,
                    "compile_seconds": compile_seconds,
                }
                job.folder.mkdir(parents=True, exist_ok=True)
                checkpoint.save(path, (done.state, traces), record)
                saved_at = time.monotonic()
            if stop.number:
                break
    if stop.number:
        _note(f"stopped after {_count(len(history))}; go on with --resume.")
    return Outcome(done.state, history, compile_seconds, stop.number, traces)


def fingerprint(corpus: "Corpus") -> str:
    """Return the SHA-256 of all strings and sentence ends of a corpus."""
    digest = hashlib.sha256(corpus.offsets.astype("<i8").tobytes())
    for column in (*corpus.columns, corpus.labels):
        text = "\n".join(column.tolist()) if column is not None else ""
        digest.update(f"{len(text)}\n{text}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _narrow(trace: Any) -> Any:
    """Keep predicted labels in two bytes: they are most of a trace."""
    if getattr(trace, "predicted", None) is None:
        return trace
    return trace._replace(predicted=trace.predicted.astype(np.int16))


def _load(job: Job, path: pathlib.Path) -> tuple[Any, list[Any], dict[str, Any]]:
    """Read the checkpoint, if it is of this job."""
    record = checkpoint.read_metadata(path)
    differences = _differences(record["settings"], job.settings)
    if differences:
        raise InputError(
            f"{path} was made with {' and '.join(differences)}; give the same "
            f"arguments, or leave out --resume to start from the beginning."
        )
    num_done = len(record["history"])
    if num_done > job.num_passes:
        option = "--epochs" if job.kind == "lists" else "--passes"
        raise InputError(
            f"{path} has {_count(num_done)} already where {option} says "
            f"{job.num_passes}; ask for at least {num_done}."
        )
    first = job.corpus.example(0)
    like = jax.eval_shape(job.learner.init, jax.random.key(0), first)
    traces: list[Any] = []
    if job.keep_traces:
        traces = [_trace_shapes(job, like, first)] * num_done
    (state, traces), record = checkpoint.load(path, (like, traces))
    return state, jax.tree.map(np.asarray, traces), record


def _trace_shapes(job: Job, state: Any, first: Any) -> Any:
    """Shapes of a pass's trace as it is kept."""
    info = jax.eval_shape(job.learner.update, state, first)[1]

    def stacked(path: Any, part: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        is_wide = path[-1] == jax.tree_util.GetAttrKey("predicted")
        dtype = np.dtype(np.int16) if is_wide else part.dtype
        return jax.ShapeDtypeStruct((job.num_sentences, *part.shape), dtype)

    return jax.tree_util.tree_map_with_path(stacked, info)


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Name the settings in which two runs differ."""
    found = []
    for name in sorted(old.keys() | new.keys()):
        before, now = old.get(name), new.get(name)
        if before == now:
            continue
        if isinstance(before, dict) and isinstance(now, dict):
            found += _differences(before, now)
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

    return loops.passes(
        job.learner,
        job.corpus,
        key=key,
        num_passes=job.num_passes,
        state=state,
        first_pass=num_done,
        every=job.every,
        on_rounds=look if job.on_rounds is not None else None,
    )


def _is_done(history: list[dict[str, Any]], job: Job) -> bool:
    """Whether all passes are done, or the learner says it has converged."""
    has_converged = bool(history) and history[-1].get("converged", False)
    return has_converged or len(history) == job.num_passes


def _entry(done: loops.Pass, job: Job) -> dict[str, Any]:
    """What to remember of a pass."""
    entry: dict[str, Any] = {
        "lists" if job.kind == "lists" else "sentences": job.num_sentences,
        "seconds": float(done.seconds),
    }
    trace = done.trace
    if job.kind == "batch":
        entry["objective"] = float(trace.objective)
        entry["converged"] = bool(trace.converged)
    else:
        # What a reranker updates against need not be what it would choose.
        name = "updates" if job.kind == "lists" else "mistakes"
        entry[name] = int(trace.is_mistake.sum())
        entry["loss"] = float(trace.loss.sum(dtype=float))
    return entry


def _count(number: int) -> str:
    return f"{number} pass" if number == 1 else f"{number} passes"


def _note(sentence: str) -> None:
    print(f"lowrank-jax: {sentence}", file=sys.stderr, flush=True)
