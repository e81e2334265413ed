"""Check the statements in several processes: most of the time goes into compiling."""

import multiprocessing
import os
import queue
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from lowrank_jax.checks import ABSENT, InputError
from lowrank_jax.verify import catalogue
from lowrank_jax.verify.statement import Effort, Result, run

__all__ = ["check", "results_of"]
__dir__ = __all__.copy

_MANY = 20  # statements that are worth starting processes for
_PATIENCE = 600.0  # seconds without any result
_LOOK = 5.0  # seconds between two looks at the workers


def check(
    only: Collection[str] | None = None,
    quick: bool = True,
    *,
    seed: int = 0,
    num_workers: int = 1,
    tell: Callable[[Result], None] | None = None,
) -> list[Result]:
    """Check statements of the papers; return what the trials of each row found.

    Args:
      only: Ids such as "BOL-P4", in any case. None takes all statements.
      quick: Make fewer trials.
      seed: Seed of the trials.
      num_workers: Number of processes. They are started only for many statements, and
        need the caller's main module to be importable.
      tell: Called with each result as it comes.
    """
    chosen, effort = catalogue.choose(only), Effort(is_quick=quick, seed=seed)
    found: Iterable[Result] = (run(statement, effort) for statement in chosen)
    if num_workers > 1 and len(chosen) >= _MANY:
        ids = frozenset(statement.id for statement in chosen)
        found = results_of(effort, num_workers=num_workers, only=ids)
    results: list[Result] = []
    for result in found:
        results.append(result)
        if tell is not None:
            tell(result)
    order = {(one.id, one.form): i for i, one in enumerate(chosen)}
    return sorted(results, key=lambda result: order[result.id, result.form])


def results_of(
    effort: Effort, *, num_workers: int, only: frozenset[str]
) -> Iterator[Result]:
    """Yield what was found of each statement, as it comes.

    A worker takes whole parts of the catalogue, whose statements share runs. A worker
    that dies, or ten minutes without any result, raise `RuntimeError`.

    Args:
      effort: Number and seed of the trials.
      num_workers: Number of processes.
      only: Ids to check.
    """
    context = multiprocessing.get_context("spawn")
    parts, found = context.SimpleQueue(), context.Queue()
    for names in catalogue.PARTS:
        parts.put(names)
    for _ in range(num_workers):
        parts.put(None)
    workers = [
        context.Process(target=_work, args=(parts, found, effort, only), daemon=True)
        for _ in range(num_workers)
    ]
    for worker in workers:
        worker.start()
    num_left = num_workers
    try:
        while num_left:
            result = _next(found, workers)
            if isinstance(result, InputError):
                raise result
            if result is None:
                num_left -= 1
            else:
                yield result
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _next(found: Any, workers: list[Any]) -> Result | InputError | None:
    """Wait for the next result, and notice a worker that died or hangs."""
    waited = 0.0
    while waited < _PATIENCE:
        try:
            return found.get(timeout=_LOOK)
        except queue.Empty:
            waited += _LOOK
        for worker in workers:
            if worker.exitcode not in (None, 0):
                raise RuntimeError(
                    f"A process that checks statements ended with status "
                    f"{worker.exitcode}."
                )
    raise RuntimeError(
        f"No statement was finished in {_PATIENCE:.0f} s; check them one by one with "
        "`lowrank-jax verify --only ID`."
    )


def absent_device() -> InputError | None:
    """Return the error to show if the device of ``JAX_PLATFORMS`` is not there."""
    import jax

    if "JAX_PLATFORMS" in os.environ:
        try:
            jax.devices()
        except (RuntimeError, AssertionError):
            return InputError(ABSENT.format(os.environ["JAX_PLATFORMS"]))
    return None


def _work(parts: Any, found: Any, effort: Effort, only: frozenset[str]) -> None:
    # A process for each core: none needs threads of its own. Two singular value
    # decompositions of batches side by side can also wait for each other for ever
    # where XLA has two threads. Read when the first array is made, later than here.
    os.environ.setdefault("PJRT_NPROC", "1")
    if absent := absent_device():
        return found.put(absent)
    while (names := parts.get()) is not None:
        for statement in catalogue.part(names):
            if statement.id in only:
                found.put(run(statement, effort))
    found.put(None)
