"""``python -m tests.mutants``: plant small faults in the core, see if the tests bite.

A mutant is one change of one place: a sign, a comparison, a constant, a minimum for a
maximum, a dropped term. It runs against the tests of its own folder, in a copy of the
package. A mutant that no test finds is a survivor.
"""

import argparse
import ast
import copy
import importlib
import os
import pathlib
import random
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parent.parent
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
        new = copy.deepcopy(node)
        if isinstance(new, ast.BinOp | ast.AugAssign) and type(new.op) in SWAPS:
            new.op = SWAPS[type(new.op)]()
        elif isinstance(new, ast.BoolOp):
            new.op = SWAPS[type(new.op)]()
        elif isinstance(new, ast.Compare) and type(new.ops[0]) in SWAPS:
            new.ops[0] = SWAPS[type(new.ops[0])]()
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


def mutants(files: list[pathlib.Path]) -> list[tuple[pathlib.Path, int, str, str]]:
    """Return file, line, change and new source of every mutant."""
    found = []
    for path in files:
        source = path.read_text(encoding="utf-8")
        lines = source.encode().splitlines(keepends=True)
        for old, new in places(ast.parse(source)):
            if not hasattr(old, "lineno") or old.lineno != old.end_lineno:
                continue
            line = lines[old.lineno - 1]
            before, after = ast.get_source_segment(source, old), ast.unparse(new)
            changed = line[: old.col_offset] + f"({after})".encode()
            changed += line[old.end_col_offset :]
            text = b"".join([*lines[: old.lineno - 1], changed, *lines[old.lineno :]])
            found.append((path, old.lineno, f"{before} -> {after}", text.decode()))
    return found


def tests_of(path: pathlib.Path) -> list[str]:
    """Return the tests that speak of a module: by its name, else of its folder."""
    inside = path.relative_to(ROOT / "lowrank_jax")
    mirror = ROOT / "tests" / inside.parent
    name = inside.parent.name if inside.stem == "__init__" else inside.stem
    own = [mirror / f"test_{name}.py"] if (mirror / f"test_{name}.py").exists() else []
    dotted = ".".join(("lowrank_jax", *inside.with_suffix("").parts))
    dotted = dotted.removesuffix(".__init__")
    words = (dotted, f"import {name}", f" {name}.", f"{name},")
    near = [p for p in sorted(mirror.rglob("test_*.py")) if p not in own]
    named = [p for p in near if any(w in p.read_text("utf-8") for w in words)]
    more = [ROOT / "tests/test_learners.py"] if inside.parts[0] in ("online",) else []
    chosen = own + named + more or near or [ROOT / "tests/test_loops.py"]
    return [str(p.relative_to(ROOT)) for p in chosen[:8]]


def survives(copied: pathlib.Path, tests: list[str], seconds: float) -> bool | None:
    """Run the tests on a copy; return True if they pass, None if they take too long.

    The child has what takes long to import, and none of the package. Programs that the
    fault does not touch come from the cache that all children share.
    """
    child = os.fork()
    if child == 0:
        try:
            os.setsid()  # its own children end with it
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            os.chdir(copied)
            sys.path[:] = [
                str(copied),
                *(p for p in sys.path if p not in ("", str(ROOT))),
            ]
            for name in [n for n in sys.modules if n.partition(".")[0] == "tests"]:
                del sys.modules[name]
            os.environ["PYTHONPATH"] = str(copied)
            options = ["-n", "0", "-x", "-q", "-p", "no:cacheprovider"]
            os._exit(int(pytest.main([*options, *tests])))
        finally:
            os._exit(70)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def work(
    every: list[tuple[pathlib.Path, int, str, str]], end: float, seconds: float
) -> Iterator[str]:
    """Try mutants one by one in a copy of their own; yield a line for each."""
    package = ROOT / "lowrank_jax"
    with tempfile.TemporaryDirectory() as folder:
        copied = pathlib.Path(folder)
        for name in ("lowrank_jax", "tests", "docs", "experiments"):
            shutil.copytree(ROOT / name, copied / name)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, copied / name)
        for path, *_ in every[:1]:
            if not survives(copied, tests_of(path), 10 * seconds):
                raise AssertionError(f"{tests_of(path)} fail without a fault")
        for path, line, change, text in every:
            if time.monotonic() > end:
                return
            place = copied / path.relative_to(ROOT)
            place.write_text(text, encoding="utf-8")
            found = survives(copied, tests_of(path), seconds)
            place.write_text(path.read_text("utf-8"), encoding="utf-8")
            word = {True: "survivor", False: "found", None: "slow"}[found]
            yield f"{word} {path.relative_to(package)}:{line}: {change}"


def main() -> int:
    """Try random mutants until the time is up; print score and survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120.0, help="for one mutant")
    parser.add_argument("--only", metavar="PATH", help="below lowrank_jax/")
    given = parser.parse_args()
    package = ROOT / "lowrank_jax"
    chosen = [given.only] if given.only else CORE
    files = [
        p for c in chosen for p in sorted([package / c, *(package / c).rglob("*.py")])
    ]
    files = [p for p in files if p.is_file()]
    every = mutants(files)
    random.Random(given.seed).shuffle(every)
    chosen = every[: given.most]
    end, lines = time.monotonic() + given.minutes * 60, []
    with tempfile.TemporaryDirectory() as cache:
        # What JAX reads when it is imported, which is once, before the children.
        os.environ["JAX_COMPILATION_CACHE_DIR"] = cache
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"
        for name in ("hypothesis", "jax", "jax.scipy.linalg", "scipy.optimize"):
            importlib.import_module(name)
        readers = []
        for index in range(given.workers):
            reader, writer = os.pipe()
            if os.fork() == 0:
                os.close(reader)
                with os.fdopen(writer, "w", encoding="utf-8") as file:
                    share = chosen[index :: given.workers]
                    for line in work(share, end, given.seconds):
                        print(line, file=file, flush=True)
                os._exit(0)
            os.close(writer)
            readers.append(os.fdopen(reader, encoding="utf-8"))
        while readers:
            for file in select.select(readers, [], [])[0]:
                line = file.readline()
                if not line:
                    readers.remove(file)
                    continue
                lines.append(line.strip())
                print(len(lines), lines[-1], flush=True)
    survivors = [line for line in lines if line.startswith("survivor ")]
    slow = sum(line.startswith("slow ") for line in lines)
    score = 100 * (len(lines) - len(survivors)) / max(len(lines), 1)
    print("\n".join(["", *sorted(survivors)]))
    print(
        f"{len(lines)} of {len(every)} mutants, {len(survivors)} survive: {score:.1f} %"
    )
    print(f"{slow} of them ended by the time limit of {given.seconds:g} seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
