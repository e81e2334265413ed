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
from collections.abc import Callable, Iterator
from typing import Any

from tests.mutants import CORE, PACKAGE, Mutant, mutants, test_files
from tests.mutants.bench import Bench, with_tests

Work = Callable[[dict[str, Any], Callable[[str], object]], object]


def learning(bench: Bench, share: slice, end: float) -> Work:
    """Return the work of running each of some files of tests once."""

    def work(items: dict[str, Any], tell: Callable[[str], object]) -> None:
        for file in bench.files[share]:
            if time.monotonic() < end:
                bench.learn(items, file)

    return work


def planting(bench: Bench, every: list[Mutant], end: float) -> Work:
    """Return the work of trying mutants one by one; it tells a line for each."""

    def work(items: dict[str, Any], tell: Callable[[str], object]) -> None:
        known = bench.known()
        for number, mutant in enumerate(every):
            if time.monotonic() > end:
                return
            tests = bench.choose(mutant, known)
            if number % 20 == 2:
                plain = (PACKAGE / mutant.file).read_text("utf-8")
                by = bench.find(mutant, tests, items, plain)
                tell(f"control {'found' if by else 'survivor'} {mutant.file} [{by}]")
            by = bench.find(mutant, tests, items, mutant.source)
            tell(f"{'found' if by else 'survivor'} {mutant} [{by}]")

    return work


def in_forks(files: list[str], works: list[Work]) -> Iterator[str]:
    """Yield the lines that children tell, each with all tests collected."""
    readers, children = [], []
    for work in works:
        reader, writer = os.pipe()
        children.append(os.fork())
        if children[-1] == 0:
            os.close(reader)
            with os.fdopen(writer, "w", encoding="utf-8", buffering=1) as file:

                def tell(line: str, file: Any = file) -> None:
                    print(line, file=file)

                with_tests(files, lambda items, work=work: work(items, tell))
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
    """Return the last word on each mutant: "found" or "survivor"."""
    found = (re.search(r"\b(found|survivor) (.*) \[", line) for line in lines)
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
    end = time.monotonic() + given.minutes * 60
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
    lines, shares = [], [slice(i, None, given.workers) for i in range(given.workers)]
    with tempfile.TemporaryDirectory() as folder:
        given.kept = given.kept or folder
        # What JAX reads when it is imported, which is once, before the children.
        os.environ["JAX_COMPILATION_CACHE_DIR"] = f"{given.kept}/compiled"
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"
        for name in "jax jax.scipy.linalg scipy.optimize".split():
            importlib.import_module(name)
        bench = Bench(test_files(), pathlib.Path(given.kept), given.seconds)
        for line in in_forks(bench.files, [learning(bench, s, end) for s in shares]):
            print(line, flush=True)
        print(f"{len(bench.known())} tests are known", flush=True)
        works = [planting(bench, chosen[share], end) for share in shares]
        for line in in_forks(bench.files, works):
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
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{(used.ru_utime + used.ru_stime) / 60:.0f} minutes of one core")
    return int(len(good) < len(controls))


if __name__ == "__main__":
    sys.exit(main())
