"""A copy of the package in which tests run against one mutant after another.

Each file of tests runs once without a fault, which tells the statements that each test
executes, its seconds, and that it passes. A mutant then runs against the tests that
execute its statement, the quickest first, until one fails. A test may use what another
has traced, so the further tests of the same files follow.
"""

import ast
import builtins
import hashlib
import importlib.machinery
import json
import os
import pathlib
import resource
import shutil
import signal
import sys
import time
import types
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from tests.mutants import ROOT, Mutant, blocks, tests_of


class Known(NamedTuple):
    """What is known of a test: its seconds, and the statements that it executes."""

    name: str
    seconds: float
    lines: set[tuple[str, int]]


class Watching(importlib.machinery.SourceFileLoader):
    """Loader of modules that tell which of their statements run."""

    def get_code(self, fullname: str) -> types.CodeType:
        path = pathlib.Path(self.get_filename(fullname))
        tree = ast.parse(path.read_bytes())
        name = str(path).rpartition("lowrank_jax/")[2]
        for block in blocks(tree):
            is_text = isinstance(block[0], ast.Expr)
            is_text = is_text and isinstance(block[0].value, ast.Constant)
            kept, new = block[:is_text], []
            for statement in block[is_text:]:
                new += ast.parse(f"__hit__({(name, statement.lineno)})").body
                new.append(statement)
            block[:] = kept + new
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


class Watch:
    """A plugin of pytest: tell of each test that passes what `Known` holds.

    Args:
      told: File for what is known.
    """

    def __init__(self, told: pathlib.Path) -> None:
        self.told, self.lines, self.failed = told, set[tuple[str, int]](), set[str]()

    def pytest_configure(self) -> None:
        """Watch what is imported from here on."""
        vars(builtins)["__hit__"] = self.lines.add
        sys.meta_path.insert(0, Watching)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Watch a test and its fixtures."""
        self.lines.clear()
        began = time.process_time()
        result = yield
        if item.nodeid not in self.failed:
            known = item.nodeid, time.process_time() - began, sorted(self.lines)
            with self.told.open("a", encoding="utf-8") as file:
                print(json.dumps(known), file=file)
        return result

    def pytest_runtest_setup(self) -> None:
        """Stop where a file of tests takes more than a minute of one core."""
        if time.process_time() > 60:
            pytest.exit("enough", returncode=0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Forget a test that fails or is skipped."""
        if not report.passed:
            self.failed.add(report.nodeid)


class Chosen:
    """A plugin of pytest: these tests in this order; tell the first that fails.

    Args:
      told: File for the first test that fails.
      names: Tests to be run.
    """

    def __init__(self, told: pathlib.Path, names: Sequence[str]) -> None:
        self.told, self.places = told, {name: i for i, name in enumerate(names)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Take the tests in their order."""
        chosen = [item for item in items if item.nodeid in self.places]
        items[:] = sorted(chosen, key=lambda item: self.places[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell the first failure."""
        if report.failed and not self.told.exists():
            self.told.write_text(report.nodeid, encoding="utf-8")


def run_tests(copied: pathlib.Path, files: list[str], plugin: Any, limit: float) -> int:
    """Run tests on a copy, in a child that has what takes long to import.

    Programs that the fault does not touch come from the cache that all children share.
    The answer is the child's status, negative if it used more seconds than it may.
    """
    plugin.told.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            os.setsid()  # its own children end with it
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 1))
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            os.chdir(copied)
            others = (p for p in sys.path if p not in ("", str(ROOT)))
            sys.path[:] = [str(copied), *others]
            for name in [n for n in sys.modules if n.partition(".")[0] == "tests"]:
                del sys.modules[name]
            os.environ["PYTHONPATH"] = str(copied)
            options = ["-n", "0", "-q", "-p", "no:cacheprovider", *files]
            options += ["-x"] * isinstance(plugin, Chosen)
            os._exit(int(pytest.main(options, [plugin])))
        finally:
            os._exit(70)
    end = time.monotonic() + 60 * limit  # a machine may have other work
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGKILL


class Bench:
    """A copy of the package in which mutants are tried.

    Args:
      folder: Folder for the copy.
      kept: Folder for what is known of the tests.
      seconds: Seconds of one core that the tests of one mutant may take.
    """

    def __init__(
        self, folder: pathlib.Path, kept: pathlib.Path, seconds: float
    ) -> None:
        self.folder, self.kept, self.seconds = folder, kept, seconds
        sources = sorted((ROOT / "lowrank_jax").rglob("*.py"))
        self.sources = b"".join(path.read_bytes() for path in sources)
        self.known: dict[str, list[Known]] = {}
        self.count = 0
        for name in ("lowrank_jax", "tests", "docs", "experiments"):
            shutil.copytree(ROOT / name, folder / name)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, folder / name)

    def know(self, file: str) -> list[Known]:
        """Return what is known of the tests of a file; run them if nothing is."""
        if file not in self.known:
            content = self.sources + (ROOT / file).read_bytes()
            told = self.kept / hashlib.sha256(content).hexdigest()
            if not told.exists():
                run_tests(self.folder, [file], Watch(self.folder / "known"), 600)
                (self.folder / "known").touch()
                shutil.move(self.folder / "known", told)
            self.known[file] = [
                Known(name, seconds, {(file, line) for file, line in pairs})
                for name, seconds, pairs in map(json.loads, told.open(encoding="utf-8"))
            ]
        return self.known[file]

    def choose(self, mutant: Mutant, files: list[str]) -> list[Known]:
        """Return the tests that may find a mutant, those that execute it first."""
        ranked = []
        place = mutant.file, mutant.statement
        for file in files:
            known = self.know(file)
            hits = [
                test for test in known if not mutant.statement or place in test.lines
            ]
            for test in known if hits else ():
                ranked.append((place not in test.lines, test.seconds, test))
        left, chosen = self.seconds, []
        for _, seconds, test in sorted(ranked):
            if seconds < left or not chosen:
                left -= seconds
                chosen.append(test)
        return chosen

    def run(self, mutant: Mutant, tests: list[Known], text: str) -> str:
        """Return the test that fails, "" if none does, "no end" if one does not end."""
        self.count += 1
        place = self.folder / "lowrank_jax" / mutant.file
        plain = place.read_text("utf-8")
        plugin = Chosen(self.folder / "told", [test.name for test in tests])
        files = sorted({test.name.partition("::")[0] for test in tests})
        limit = 3 * sum(test.seconds for test in tests) + 15
        for content in (text, plain):
            place.write_text(content, encoding="utf-8")
            # A compiled file is taken to be that of the source if time and size agree.
            os.utime(place, (self.count, self.count))
            if content is text:
                status = run_tests(self.folder, files, plugin, limit)
                self.count += 1
        if status < 0:
            return "no end"
        if status == 0:
            return ""
        return plugin.told.read_text("utf-8") if plugin.told.exists() else files[0]

    def find(self, mutant: Mutant, text: str, *, is_wide: bool) -> str:
        """Return what finds a mutant: a test of its module, or one of the others."""
        files = tests_of(mutant.file)
        tests = self.choose(mutant, files[1:] if is_wide else files[:1])
        return self.run(mutant, tests, text) if tests else ""
