"""``python -m tests.mutants``: plant small faults in the core, see if the tests bite.

A mutant is one change of one place: a sign, a comparison, a constant, a minimum for a
maximum, a dropped term. It runs against the tests of its own folder, in a copy of the
package. A mutant that no test finds is a survivor.
"""

import argparse
import ast
import copy
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

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
    """Run the tests on a copy; return True if they pass, None if they take too long."""
    given = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "0",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    env = os.environ | {"PYTHONPATH": str(copied)}
    try:
        done = subprocess.run(
            [*given, *tests], cwd=copied, env=env, capture_output=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return None
    return done.returncode == 0


def main() -> int:
    """Try random mutants until the time is up; print score and survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=300)
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
    end, tried, survivors, slow = time.monotonic() + given.minutes * 60, 0, [], 0
    with tempfile.TemporaryDirectory() as folder:
        copied = pathlib.Path(folder)
        for name in ("lowrank_jax", "tests", "docs", "experiments"):
            shutil.copytree(ROOT / name, copied / name)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, copied / name)
        for path, line, change, text in every[: given.most]:
            if time.monotonic() > end:
                break
            place = copied / path.relative_to(ROOT)
            try:
                place.write_text(text, encoding="utf-8")
                found = survives(copied, tests_of(path), 300)
            finally:
                place.write_text(path.read_text("utf-8"), encoding="utf-8")
            tried += 1
            slow += found is None
            print(f"{tried} tried", file=sys.stderr, flush=True)
            if found:
                survivors.append(f"{path.relative_to(package)}:{line}: {change}")
                print(f"survivor {survivors[-1]}", flush=True)
    score = 100 * (tried - len(survivors)) / max(tried, 1)
    print(f"{tried} of {len(every)} mutants, {len(survivors)} survive: {score:.1f} %")
    print(f"{slow} of them ended by the time limit of 300 seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
