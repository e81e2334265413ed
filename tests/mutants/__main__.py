"""``python -m tests.mutants``: plant small faults in the core, see if the tests bite.

A mutant that no test finds is a survivor. Now and then nothing is changed, and the
tests must pass.
"""

import argparse
import collections
import importlib
import os
import pathlib
import random
import re
import resource
import select
import sys
import tempfile
import time
from collections.abc import Iterator

from tests.mutants import CORE, PACKAGE, Mutant, mutants
from tests.mutants.bench import Bench


def plant(given: argparse.Namespace, every: list[Mutant]) -> Iterator[str]:
    """Try mutants one by one in a copy of their own; yield a line for each.

    First all meet the tests of their own modules, then the survivors all others.
    """
    end = time.monotonic() + given.minutes * 60
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(pathlib.Path(folder), pathlib.Path(given.kept), given.seconds)
        for is_wide in (False, True):
            left = []
            for number, mutant in enumerate(every):
                if time.monotonic() > end:
                    return
                plain = (PACKAGE / mutant.file).read_text("utf-8")
                if number % 20 == 2:
                    by = bench.find(mutant, plain, is_wide=is_wide)
                    word = "control found" if by else "control survivor"
                    yield f"{word} {mutant.file} [{by}]"
                by = bench.find(mutant, mutant.source, is_wide=is_wide)
                if not by:
                    left.append(mutant)
                word = "found" if by else "survivor" if is_wide else "left"
                yield f"{word} {mutant} [{by}]"
            every = left


def in_forks(parts: list[Iterator[str]]) -> Iterator[str]:
    """Yield the lines of some generators, each run by a child."""
    readers, children = [], []
    for part in parts:
        reader, writer = os.pipe()
        children.append(os.fork())
        if children[-1] == 0:
            os.close(reader)
            with os.fdopen(writer, "w", encoding="utf-8") as file:
                for line in part:
                    print(line, file=file, flush=True)
            os._exit(0)
        os.close(writer)
        readers.append(os.fdopen(reader, encoding="utf-8"))
    while readers:
        for ready in select.select(readers, [], [])[0]:
            line = ready.readline()
            if line:
                yield line.strip()
            else:
                readers.remove(ready)
    for child in children:
        os.waitpid(child, 0)  # so that its seconds count


def verdicts(lines: list[str]) -> dict[str, str]:
    """Return the last word on each mutant: "found", "survivor" or "left"."""
    found = (re.search(r"\b(found|survivor|left) (.*) \[", line) for line in lines)
    return {match[2]: match[1] for match in found if match and ":" in match[2]}


def main() -> int:
    """Try random mutants until the time is up; print score and survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="of one core, for one mutant"
    )
    parser.add_argument("--only", metavar="PATH", help="below lowrank_jax/")
    parser.add_argument(
        "--again", metavar="FILE", help="the survivors that an earlier output names"
    )
    parser.add_argument(
        "--kept", metavar="FOLDER", help="for compiled programs and times of tests"
    )
    given = parser.parse_args()
    files = []
    for name in [given.only] if given.only else CORE:
        files += [PACKAGE / name, *sorted((PACKAGE / name).rglob("*.py"))]
    every = mutants([path for path in files if path.is_file()])
    random.Random(given.seed).shuffle(every)
    number = len(every)
    chosen = every[: given.most]
    if given.again:
        last = verdicts(pathlib.Path(given.again).read_text("utf-8").splitlines())
        chosen = [m for m in every if last.get(str(m), "found") != "found"]
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        given.kept = given.kept or folder
        # What JAX reads when it is imported, which is once, before the children.
        os.environ["JAX_COMPILATION_CACHE_DIR"] = f"{given.kept}/compiled"
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"
        # Plugins of pytest (hypothesis) may not be among them: its warning that they
        # cannot be rewritten is an error, and every mutant would seem to be found.
        for name in "jax jax.scipy.linalg scipy.optimize".split():
            importlib.import_module(name)
        shares = [chosen[i :: given.workers] for i in range(given.workers)]
        for line in in_forks([plant(given, share) for share in shares]):
            lines.append(line)
            print(len(lines), line, flush=True)
    last = verdicts(lines)
    print("\n".join(["", *sorted(f"{word} {m}" for m, word in last.items())]))
    controls = [line for line in lines if line.startswith("control")]
    good = [line for line in controls if line.startswith("control survivor")]
    print(f"{len(good)} of {len(controls)} without a change survive, as all must")
    count = collections.Counter(last.values())
    score = 100 * count["found"] / max(len(last), 1)
    print(f"{len(last)} of {number} mutants, {score:.1f} % found")
    print(
        f"{count['survivor']} survive; {count['left']} more do so in their own module"
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{(used.ru_utime + used.ru_stime) / 60:.0f} minutes of one core")
    return int(len(good) < len(controls))


if __name__ == "__main__":
    sys.exit(main())
