"""Tests that run against one mutant after another, in children of one process.

The process imports the package and the tests and computes nothing. A child gives
the functions of the module the code of the mutant, and runs tests. A run without a
fault has told three things of each test: that it passes, its seconds, and the
statements that it executes. A mutant meets the tests that execute its statement, the
quickest first, until one fails.

A constant that is used at import changes no code of a function. The child then imports
package and tests anew.
"""

import ast
import builtins
import gc
import hashlib
import importlib.machinery
import json
import os
import pathlib
import resource
import signal
import sys
import time
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import pytest
from _pytest.runner import runtestprotocol

from tests.mutants import PACKAGE, ROOT, Mutant, blocks, tests_of


class Known(NamedTuple):
    """What is known of a test: its seconds, and the statements that it executes."""

    name: str
    seconds: float
    lines: set[tuple[str, int]]


class Watching(importlib.machinery.SourceFileLoader):
    """Loader of modules that tell which of their statements run."""

    changed: dict[str, str] = {}  # file -> source that replaces it
    codes: dict[str, types.CodeType] = {}  # file -> what was imported

    def get_code(self, fullname: str) -> types.CodeType:
        path = self.get_filename(fullname)
        name = path.rpartition("lowrank_jax/")[2]
        source = self.changed.get(name) or pathlib.Path(path).read_text("utf-8")
        self.codes[name] = self.compile(name, source)
        return self.codes[name]

    @classmethod
    def compile(cls, name: str, source: str) -> types.CodeType:
        """Return the code of a module whose statements call ``__hit__``."""
        tree = ast.parse(source)
        for block in blocks(tree):
            is_text = isinstance(block[0], ast.Expr)
            is_text = is_text and isinstance(block[0].value, ast.Constant)
            kept, new = block[:is_text], []
            for statement in block[is_text:]:
                new += ast.parse(f"__hit__({(name, statement.lineno)})").body
                new.append(statement)
            block[:] = kept + new
        path = PACKAGE / name
        return compile(ast.fix_missing_locations(tree), str(path), "exec")

    @classmethod
    def find_spec(cls, name: str, path: Any, target: object = None) -> Any:
        """Find the modules of the package as Python does."""
        if not name.startswith("lowrank_jax"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec and spec.origin and spec.origin.endswith(".py"):
            spec.loader = cls(name, spec.origin)
        return spec


def every_code(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield the code of a module and of all functions in it, in order."""
    yield code
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from every_code(part)


def put(mutant: Mutant, source: str) -> None:
    """Give the functions of a module the code that they have in a source."""
    Watching.changed[mutant.file] = source  # if it is imported later
    old = Watching.codes.get(mutant.file)
    if old is None:
        return
    pairs = every_code(old), every_code(Watching.compile(mutant.file, source))
    new = {id(a): b for a, b in zip(*pairs, strict=True)}
    gc.unfreeze()
    for item in gc.get_objects():
        if isinstance(item, types.FunctionType) and id(item.__code__) in new:
            item.__code__ = new[id(item.__code__)]


class Session:
    """A plugin of pytest that does something with the tests in place of running them.

    Args:
      act: Function of the tests by name.
    """

    def __init__(self, act: Callable[[dict[str, pytest.Item]], object]) -> None:
        self.act = act

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Act; no test runs in this process."""
        self.act({item.nodeid: item for item in session.items})
        return True


def with_tests(files: list[str], act: Callable[[dict[str, pytest.Item]], Any]) -> None:
    """Collect tests that are not slow, of a package that is watched; then act."""
    if Watching not in sys.meta_path:
        vars(builtins)["__hit__"] = set[tuple[str, int]]().add
        sys.meta_path.insert(0, Watching)
    for name in [n for n in sys.modules if n.startswith(("lowrank_jax", "tests."))]:
        if not name.startswith("tests.mutants"):
            del sys.modules[name]
    options = "-n 0 -q -m".split() + ["not slow", "-p", "no:cacheprovider"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    place = f"{os.environ['JAX_COMPILATION_CACHE_DIR']}/{os.getpid()}"
    pytest.main([*options, "--basetemp", place, *files], [Session(act)])


def passes(item: pytest.Item, following: pytest.Item | None = None) -> bool:
    """Run a test; say whether it passes."""
    reports = runtestprotocol(item, log=False, nextitem=following)
    return all(report.passed for report in reports)


def in_child(act: Callable[[], object], limit: float) -> str | None:
    """Return the text that a child tells, None if it takes more than `limit` seconds.

    They are seconds of a processor, and the machine may have other work.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)  # its own children end with it; its priority stays
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 1))
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            os.write(writer, str(act() or "").encode())
        except BaseException:
            os.write(writer, traceback.format_exc().encode()[-10_000:])
        finally:
            os._exit(0)
    os.close(writer)
    end = time.monotonic() + 60 * limit
    while not (done := os.waitpid(child, os.WNOHANG))[0]:
        time.sleep(0.01)
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
    with os.fdopen(reader, encoding="utf-8") as file:
        told = file.read()
    if told.startswith("Traceback"):
        raise RuntimeError(told)
    return None if os.WIFSIGNALED(done[1]) else told


class Bench:
    """What is known of some files of tests, and mutants that are tried on them.

    Args:
      files: Files of tests.
      kept: Folder for what is known of the tests.
      seconds: Seconds of one core that the tests of one mutant may take.
    """

    def __init__(self, files: list[str], kept: pathlib.Path, seconds: float) -> None:
        self.files, self.seconds = files, seconds
        sources = sorted((ROOT / "lowrank_jax").rglob("*.py"))
        whole = hashlib.sha256(b"".join(path.read_bytes() for path in sources))
        self.told = {}
        for file in files:
            part = whole.copy()
            part.update((ROOT / file).read_bytes())
            self.told[file] = kept / part.hexdigest()
        kept.mkdir(parents=True, exist_ok=True)

    def learn(self, items: dict[str, pytest.Item], file: str) -> None:
        """Run the tests of a file in a child if nothing is known about them."""
        own = [item for name, item in items.items() if name.startswith(f"{file}::")]
        told = self.told[file]
        if own and not told.exists():
            part = told.with_suffix(f".{os.getpid()}")
            part.touch()
            in_child(lambda: self._watch(own, part), 90)
            part.rename(told)

    def _watch(self, items: list[pytest.Item], told: pathlib.Path) -> None:
        hits = set[tuple[str, int]]()
        vars(builtins)["__hit__"] = hits.add
        with told.open("a", encoding="utf-8", buffering=1) as file:
            for item, following in zip(items, [*items[1:], None], strict=True):
                jax.clear_caches()  # what another test has traced counts for this one
                hits.clear()
                began = time.process_time()
                if passes(item, following):
                    took = time.process_time() - began
                    print(json.dumps([item.nodeid, took, sorted(hits)]), file=file)

    def known(self) -> list[Known]:
        """Return what is known of all tests."""
        found = []
        for told in filter(pathlib.Path.exists, self.told.values()):
            for line in told.read_text("utf-8").splitlines():
                name, seconds, pairs = json.loads(line)
                lines = {(part, number) for part, number in pairs}
                found.append(Known(name, seconds, lines))
        return found

    def choose(self, mutant: Mutant, known: list[Known]) -> list[Known]:
        """Return the tests that may find a mutant within the seconds, quickest first.

        If it changes what is done at import, they are the tests that name its module.
        """
        place, own = (mutant.file, mutant.statement), tests_of(mutant.file)
        chosen, left = [], self.seconds
        for test in sorted(known, key=lambda test: test.seconds):
            at_import = not mutant.statement and test.name.partition("::")[0] in own
            if at_import or place in test.lines:
                left -= test.seconds
                if left > 0 or not chosen:
                    chosen.append(test)
        return chosen

    def find(
        self, mutant: Mutant, tests: list[Known], items: dict[str, Any], source: str
    ) -> str:
        """Return the test that fails, "" if none does, "no end" if one has none."""

        def first(items: dict[str, pytest.Item]) -> str:
            there = [items[test.name] for test in tests if test.name in items]
            if len(there) < len(tests):
                return "the import"
            pairs = zip(there, [*there[1:], None], strict=True)
            return next((a.nodeid for a, b in pairs if not passes(a, b)), "")

        def act() -> str:
            if mutant.statement:
                put(mutant, source)
                return first(items)
            told = []
            Watching.changed[mutant.file] = source
            files = sorted({test.name.partition("::")[0] for test in tests})
            with_tests(files, lambda items: told.append(first(items)))
            return told[0] if told else "the import"

        if not tests:
            return ""
        limit = 3 * sum(test.seconds for test in tests) + 15
        found = in_child(act, limit)
        return "no end" if found is None else found
