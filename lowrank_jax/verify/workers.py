"""Check the statements in several processes: most of the time goes into compiling."""

import multiprocessing
import os
import queue
from collections.abc import Iterator
from typing import Any

from lowrank_jax.verify import catalogue
from lowrank_jax.verify.statement import Effort, Result, run

__all__ = ["results"]

_PATIENCE = 600.0  # seconds without any result
_LOOK = 5.0  # seconds between two looks at the workers


def results(
    effort: Effort, *, num_workers: int, only: frozenset[str]
) -> Iterator[Result]:
    """Yield what was found of each statement, as it comes.

    A worker takes whole parts of the catalogue, whose statements share runs. A worker
    that dies, or ten minutes without any result, raise `RuntimeError`.

    Args:
      effort: How hard to try.
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
            if result is None:
                num_left -= 1
            else:
                yield result
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _next(found: Any, workers: list[Any]) -> Result | None:
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


def _work(parts: Any, found: Any, effort: Effort, only: frozenset[str]) -> None:
    # A process for each core: none needs threads of its own. Read when the first
    # array is made, which is later than here.
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false"
    while (names := parts.get()) is not None:
        for statement in catalogue.part(names):
            if statement.id in only:
                found.put(run(statement, effort))
    found.put(None)
