"""Small faults for the core: what they are, and which tests speak of a module.

A mutant is one change of one place: a sign, a comparison, a constant, a minimum for a
maximum, a dropped term.
"""

import ast
import copy
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[2]
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
    """One change: file below the package, place, old words, new words.

    The statement is the line of the innermost statement around the change, 0 if it runs
    at import.
    """

    file: str
    line: int
    statement: int
    columns: tuple[int, int]
    old: str
    new: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.columns[0]}"
        return f"{place}: {self.old} -> {self.new}"

    @property
    def source(self) -> str:
        """The file with the change."""
        lines = (PACKAGE / self.file).read_bytes().splitlines(keepends=True)
        line, (begin, end) = lines[self.line - 1], self.columns
        is_value = isinstance(ast.parse(self.new).body[0], ast.Expr)
        new = f"({self.new})" if is_value else self.new
        lines[self.line - 1] = line[:begin] + new.encode() + line[end:]
        return b"".join(lines).decode()


def blocks(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """Yield each list of statements that runs when a function is called."""
    seen = set()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list) and block and id(block) not in seen:
                    seen.add(id(block))
                    yield block


def mutants(files: list[pathlib.Path]) -> list[Mutant]:
    """Return every mutant of some files."""
    found = []
    for path in files:
        source = path.read_text(encoding="utf-8")
        lines, tree = source.encode().splitlines(), ast.parse(source)
        statements = {}
        for block in blocks(tree):  # an outer one comes before those in it
            for statement in block:
                for node in ast.walk(statement):
                    statements[id(node)] = statement.lineno
        for old, new in places(tree):
            if not hasattr(old, "lineno") or old.lineno != old.end_lineno:
                continue
            columns = old.col_offset, old.end_col_offset or 0
            line = lines[old.lineno - 1]
            before = line[slice(*columns)].decode()
            name = str(path.relative_to(PACKAGE))
            place = name, old.lineno, statements.get(id(old), 0), columns
            found.append(Mutant(*place, before, ast.unparse(new)))
    return found


def test_files() -> list[str]:
    """Return the files of tests of the core."""
    found = []
    for name in CORE:
        path = ROOT / "tests" / name
        found += [path.with_name(f"test_{name}")] * path.name.endswith(".py")
        found += sorted(path.rglob("test_*.py"))
    found += [ROOT / "tests/test_learners.py", ROOT / "tests/data/test_lists.py"]
    return [str(path.relative_to(ROOT)) for path in found if path.exists()]


def tests_of(file: str) -> list[str]:
    """Return the tests that speak of a module: by its name, else of its folder."""
    inside = pathlib.PurePath(file)
    mirror = ROOT / "tests" / inside.parent
    while not mirror.exists():
        mirror = mirror.parent
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
    times = {p: sum(map(p.read_text("utf-8").count, words)) for p in near}
    named = sorted((p for p in near if times[p]), key=lambda p: -times[p])
    chosen = own + named or near
    chosen = chosen[:11]
    if inside.parts[0] in ("online", "batch"):
        chosen.append(ROOT / "tests/test_learners.py")
    return [str(p.relative_to(ROOT)) for p in chosen or [ROOT / "tests"]]
