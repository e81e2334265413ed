"""``python -m tests.mutants``: plant small faults in the core, see if the tests bite.

A mutant is one change of one place: a sign, a comparison, a constant, a minimum for a
maximum, a dropped term. It runs against the tests of its own folder, in a copy of the
package, until one fails. That test must pass without the fault. A mutant that no test
finds is a survivor. Now and then the change is a mere comment, which must survive.
"""

import argparse
import ast
import copy
import importlib
import os
import pathlib
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "lowrank_jax"
CORE = "online batch decode models linalg theory loops.py metrics.py features".split()
SWAPS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
NAMES = {
    "minimum": "maximum",
    "maximum": "minimum",
    "argmax": "argmin",
    "argmin": "argmax",
    "ones": "zeros",
    "zeros": "ones",
    "sum": "max",
    "max": "min",
    "min": "max",
    "any": "all",
    "all": "any",
}


def places(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield each node that can be changed, and what it becomes."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert)
        is_types = isinstance(node, ast.AnnAssign)
        if is_text or (isinstance(node, ast.If) and _only_raises(node)):
            skipped |= {id(inner) for inner in ast.walk(node)}
        if is_types:
            skipped |= {id(inner) for inner in ast.walk(node.annotation)}
        if isinstance(node, ast.FunctionDef):
            notes = [node.returns, *(a.annotation for a in node.args.args)]
            notes += [a.annotation for a in node.args.kwonlyargs]
            for note in filter(None, notes):
                skipped |= {id(inner) for inner in ast.walk(note)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        new = copy.copy(node)
        if isinstance(new, ast.BinOp | ast.AugAssign) and type(new.op) in SWAPS:
            new.op = SWAPS[type(new.op)]()
        elif isinstance(new, ast.BoolOp):
            new.op = SWAPS[type(new.op)]()
        elif isinstance(new, ast.Compare) and type(new.ops[0]) in SWAPS:
            new.ops = [SWAPS[type(new.ops[0])](), *new.ops[1:]]
        elif isinstance(new, ast.UnaryOp) and isinstance(new.op, ast.USub | ast.Not):
            new = new.operand
        elif isinstance(new, ast.Constant) and type(new.value) in (int, float):
            new.value = new.value + 1 if new.value in (0, 1) else new.value * 2
        elif isinstance(new, ast.Attribute) and new.attr in NAMES:
            new.attr = NAMES[new.attr]
        else:
            continue
        yield node, new


def _only_raises(node: ast.If) -> bool:
    return all(isinstance(part, ast.Raise) for part in node.body)


class Mutant(NamedTuple):
    """One change: file below the package, line, columns, old words, new words."""

    file: str
    line: int
    columns: tuple[int, int]
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.old} -> {self.new}"

    @property
    def source(self) -> str:
        """The file with the change."""
        lines = (PACKAGE / self.file).read_bytes().splitlines(keepends=True)
        line, (begin, end) = lines[self.line - 1], self.columns
        lines[self.line - 1] = line[:begin] + f"({self.new})".encode() + line[end:]
        return b"".join(lines).decode()


def mutants(files: list[pathlib.Path]) -> list[Mutant]:
    """Return every mutant of some files."""
    found = []
    for path in files:
        source = path.read_text(encoding="utf-8")
        lines = source.encode().splitlines()
        for old, new in places(ast.parse(source)):
            if not hasattr(old, "lineno") or old.lineno != old.end_lineno:
                continue
            columns = old.col_offset, old.end_col_offset or 0
            line = lines[old.lineno - 1]
            before = line[slice(*columns)].decode()
            name = str(path.relative_to(PACKAGE))
            found.append(Mutant(name, old.lineno, columns, before, ast.unparse(new)))
    return found


def tests_of(file: str) -> list[str]:
    """Return the tests that speak of a module: by its name, else of its folder."""
    inside = pathlib.PurePath(file)
    mirror = ROOT / "tests" / inside.parent
    name = inside.parent.name if inside.stem == "__init__" else inside.stem
    own = [mirror / f"test_{name}.py"] if (mirror / f"test_{name}.py").exists() else []
    dotted = ".".join(("lowrank_jax", *inside.with_suffix("").parts))
    words = (
        dotted.removesuffix(".__init__"),
        f"import {name}",
        f" {name}.",
        f"{name},",
    )
    near = [p for p in sorted(mirror.rglob("test_*.py")) if p not in own]
    named = [p for p in near if any(w in p.read_text("utf-8") for w in words)]
    chosen = own + named or near
    if inside.parts[0] == "online":
        chosen.insert(len(own), ROOT / "tests/test_learners.py")
    return [str(p.relative_to(ROOT)) for p in chosen[:12] or [ROOT / "tests"]]


class Short:
    """A plugin of pytest: the cases of one learner, so many seconds, the first failure.

    Args:
      file: Module with the fault; of the tests of all learners only its cases run.
      seconds: Seconds of this process after which no further test begins.
      told: File for the first test that fails.
    """

    def __init__(self, file: str, seconds: float, told: pathlib.Path) -> None:
        parts = pathlib.PurePath(file).with_suffix("").parts[1:]
        self.words, self.seconds, self.told = parts, seconds, told

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        def is_meant(item: pytest.Item) -> bool:
            if not item.nodeid.startswith("tests/test_learners.py"):
                return True
            case = item.nodeid.partition("[")[2]
            return any(word in case for word in words)

        known = " ".join(item.nodeid for item in items)
        words = [word for word in self.words if f"[{word}" in known] or ["perceptron"]
        items[:] = filter(is_meant, items)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if time.process_time() > self.seconds:
            pytest.exit("enough", returncode=0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.told.exists():
            self.told.write_text(report.nodeid, encoding="utf-8")


def run_tests(copied: pathlib.Path, file: str, tests: list[str], seconds: float) -> str:
    """Run tests on a copy until one fails; return that test, or "" if all pass.

    The child has what takes long to import, and none of the package. Programs that the
    fault does not touch come from the cache that all children share. If one test takes
    far more than all of them may, the answer is "no end"; if the machine gives this
    process hardly any time, it is "late".
    """
    told = copied / "told"
    told.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            os.setsid()  # its own children end with it
            limit = int(3 * seconds)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            os.chdir(copied)
            others = (p for p in sys.path if p not in ("", str(ROOT)))
            sys.path[:] = [str(copied), *others]
            for name in [n for n in sys.modules if n.partition(".")[0] == "tests"]:
                del sys.modules[name]
            os.environ["PYTHONPATH"] = str(copied)
            options = ["-n", "0", "-x", "-q", "-p", "no:cacheprovider", *tests]
            os._exit(int(pytest.main(options, [Short(file, seconds, told)])))
        finally:
            os._exit(70)
    end = time.monotonic() + 60 * seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            if code in (-signal.SIGXCPU, -signal.SIGKILL):
                return "no end"
            if code == 0:
                return ""
            return told.read_text("utf-8") if told.exists() else tests[0]
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "late"


def plant(given: argparse.Namespace, every: list[Mutant]) -> Iterator[str]:
    """Try mutants one by one in a copy of their own; yield a line for each."""
    end = time.monotonic() + given.minutes * 60
    sound: dict[str, bool] = {}  # tests that found a fault: do they pass without it?
    with tempfile.TemporaryDirectory() as folder:
        copied = pathlib.Path(folder)
        for name in ("lowrank_jax", "tests", "docs", "experiments"):
            shutil.copytree(ROOT / name, copied / name)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, copied / name)

        def run(file: str, text: str, tests: list[str]) -> str:
            place = copied / "lowrank_jax" / file
            place.write_text(text, encoding="utf-8")
            return run_tests(copied, file, tests, given.seconds)

        for number, mutant in enumerate(every):
            if time.monotonic() > end:
                return
            file, tests = mutant.file, tests_of(mutant.file)
            plain = (PACKAGE / file).read_text("utf-8")
            if number % 20 == 2:
                wrong = run(file, f"{plain}# A comment.\n", tests)
                word = "control found" if wrong else "control survivor"
                yield f"{word} {file} [{wrong}]"
            by = run(file, mutant.source, tests)
            if by and by not in sound:
                is_named = by not in ("late", "no end")
                sound[by] = not run(file, plain, [by]) if is_named else by == "no end"
            (copied / "lowrank_jax" / file).write_text(plain, encoding="utf-8")
            word = "survivor" if not by else "found" if sound[by] else "unsound"
            yield f"{word} {mutant} [{by}]"


def in_forks(parts: list[Iterator[str]]) -> Iterator[str]:
    """Yield the lines of some generators, each run by a child."""
    readers = []
    for part in parts:
        reader, writer = os.pipe()
        if os.fork() == 0:
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


def main() -> int:
    """Try random mutants until the time is up; print score and survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of one core, for one mutant"
    )
    parser.add_argument("--only", metavar="PATH", help="below lowrank_jax/")
    parser.add_argument(
        "--again", metavar="FILE", help="the survivors that an earlier output names"
    )
    given = parser.parse_args()
    files = []
    for name in [given.only] if given.only else CORE:
        files += [PACKAGE / name, *sorted((PACKAGE / name).rglob("*.py"))]
    every = mutants([path for path in files if path.is_file()])
    random.Random(given.seed).shuffle(every)
    chosen = every[: given.most]
    if given.again:
        text = pathlib.Path(given.again).read_text("utf-8")
        chosen = [mutant for mutant in every if f"survivor {mutant} [" in text]
    lines = []
    with tempfile.TemporaryDirectory() as cache:
        # What JAX reads when it is imported, which is once, before the children.
        os.environ["JAX_COMPILATION_CACHE_DIR"] = cache
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
    words = ("survivor ", "found ", "unsound ", "control survivor ", "control ")
    survivors, caught, unsound, good, controls = (
        [line for line in lines if line.startswith(word)] for word in words
    )
    print("\n".join(["", *sorted(survivors), *unsound]))
    print(f"{len(good)} of {len(controls)} comments survive, as all must")
    print(f"{len(unsound)} of the tests that fail do so without the fault, too")
    judged = len(survivors) + len(caught)
    score = 100 * len(caught) / max(judged, 1)
    print(f"{judged} of {len(every)} mutants, {len(survivors)} survive: {score:.1f} %")
    return int(len(good) < len(controls) or bool(unsound))


if __name__ == "__main__":
    sys.exit(main())
