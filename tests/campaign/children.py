"""Processes of the campaign: forked from one that has imported everything already.

A fresh interpreter takes seconds to import. The server of `multiprocessing` imports
once, computes nothing, and each child begins with the imports done.
"""

import contextlib
import multiprocessing
import os
import pathlib
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.process import BaseProcess

MODULES = """
    lowrank_jax.cli lowrank_jax.cli.fitting lowrank_jax.cli.commands.train
    lowrank_jax.cli.commands.rerank lowrank_jax.cli.systems.sentences
    lowrank_jax.cli.systems.words lowrank_jax.cli.systems.lists
    lowrank_jax.estimators.tagger lowrank_jax.estimators.speller
    lowrank_jax.estimators.reranker lowrank_jax.estimators.classifier
    lowrank_jax.online.bol lowrank_jax.online.perceptron lowrank_jax.online.mira
    lowrank_jax.online.bcd lowrank_jax.online.tensor_mira lowrank_jax.online.rerank
    lowrank_jax.batch.crf lowrank_jax.batch.smm.fobos lowrank_jax.store.checkpoint
    tests.campaign.runs tests.campaign.numbers
""".split()

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(MODULES)


def start(
    act: Callable[..., int],
    *given: object,
    err: pathlib.Path,
    env: dict[str, str] | None = None,
) -> BaseProcess:
    """Start a child that returns the status of a function of a module.

    Args:
      act: Function at the top of a module, which returns the status.
      *given: Its arguments.
      err: File for what the child prints.
      env: Variables of the environment that replace the child's.
    """
    child = _context.Process(target=_act, args=(act, given, err, env or {}))
    child.start()
    return child


def _act(
    act: Callable[..., int],
    given: tuple[object, ...],
    err: pathlib.Path,
    env: dict[str, str],
) -> None:
    os.environ.update(env)
    with open(err, "w", encoding="utf-8", buffering=1) as file:  # line by line
        with contextlib.redirect_stderr(file), contextlib.redirect_stdout(file):
            try:
                status = act(*given)
            except BaseException:
                traceback.print_exc(file=file)
                status = 70
        file.flush()
    sys.stdout.flush()
    os._exit(status)


def side_by_side(work: Callable[[int], None], number: int = 2) -> None:
    """Call a function with 0, 1, ... in as many threads; raise what one raised."""
    raised: list[BaseException] = []

    def guarded(index: int) -> None:
        try:
            work(index)
        except BaseException as error:  # told by the thread that waits
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
