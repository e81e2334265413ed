"""The tool that plants faults: one place each, in code that still compiles."""

import ast
import os

import pytest

from tests import mutants
from tests.mutants import bench
from tests.mutants.__main__ import verdicts


def test_a_mutant_is_one_change_of_one_place():
    path = mutants.PACKAGE / "linalg" / "svt.py"
    plain = ast.dump(ast.parse(path.read_text("utf-8")))
    every = mutants.mutants([path])
    assert len(every) > 30
    assert len({str(m) for m in every}) == len(every)
    for mutant in every[::5]:
        changed = ast.dump(ast.parse(mutant.source))
        assert changed != plain
        assert mutant.source.count("\n") == path.read_text("utf-8").count("\n")
    path = mutants.PACKAGE / "features" / "compile.py"  # a statement may change too
    (one,) = (m for m in mutants.mutants([path]) if m.new == "place -= 1")
    ast.parse(one.source)


def test_every_module_of_the_core_has_tests():
    files = mutants.test_files()
    assert len(files) > 60 and all((mutants.ROOT / name).is_file() for name in files)
    assert {"tests/test_loops.py", "tests/linalg/test_svt.py"} <= set(files)
    for path in mutants.PACKAGE.glob("linalg/*.py"):
        for name in mutants.tests_of(str(path.relative_to(mutants.PACKAGE))):
            assert (mutants.ROOT / name).is_file()
    assert "tests/linalg/test_svt.py" in mutants.tests_of("linalg/svt.py")


def test_statements_are_those_inside_functions():
    path = mutants.PACKAGE / "linalg" / "svt.py"
    every = mutants.mutants([path])
    lines = path.read_text("utf-8").splitlines()
    inside = [m for m in every if m.statement]
    assert len(inside) > 30
    for mutant in inside:
        assert mutant.statement <= mutant.line
        assert lines[mutant.statement - 1].startswith("    ")


def test_the_last_word_counts():
    lines = ["1 survivor a.py:1:2: x + 1 -> x - 1 []", "2 control found a.py []"]
    lines += [
        "3 found a.py:1:2: x + 1 -> x - 1 [tests/test_a.py]",
        "4 survivor b.py:1:0: 0 []",
    ]
    assert verdicts(lines) == {
        "a.py:1:2: x + 1 -> x - 1": "found",
        "b.py:1:0: 0": "survivor",
    }


def test_a_statement_tells_that_it_runs(tmp_path):
    path = tmp_path / "lowrank_jax" / "loops.py"
    path.parent.mkdir()
    path.write_text(
        'def add(x):\n    """Text."""\n    if x > 9:\n        x = 0\n    return x\n',
        encoding="utf-8",
    )
    hits = set()
    found = {"__hit__": hits.add}
    exec(
        bench.Watching("lowrank_jax.loops", str(path)).get_code("lowrank_jax.loops"),
        found,
    )
    assert found["add"].__doc__ == "Text."
    assert (found["add"](1), hits) == (1, {("loops.py", 3), ("loops.py", 5)})
    assert (found["add"](12), len(hits)) == (0, 3)


def test_tests_that_run_a_statement_are_taken_quickest_first_within_the_seconds():
    place = object.__new__(bench.Bench)
    mutant = mutants.Mutant("loops.py", 7, 6, (0, 1), "0", "1")
    slow = bench.Known("tests/a.py::slow", 15.0, {("loops.py", 6)})
    quick = bench.Known("tests/a.py::quick", 1.0, {("loops.py", 6)})
    other = bench.Known("tests/test_loops.py::other", 0.1, {("loops.py", 2)})
    known, place.seconds = [other, slow, quick], 20
    assert place.choose(mutant, known) == [quick, slow]
    assert place.choose(mutant, [other]) == []
    assert place.choose(mutant._replace(statement=0), known) == [other]  # at import
    place.seconds = 10
    assert place.choose(mutant, known) == [quick]
    assert place.choose(mutant, [slow]) == [slow]


def test_functions_that_are_there_get_the_code_of_a_mutant(monkeypatch, tmp_path):
    name, place = "made.py", {"__hit__": lambda _: None}
    plain = "def add(x):\n    return (lambda y: x + y)(1)\nkept = [add]\n"
    monkeypatch.setattr(bench.Watching, "changed", {})
    codes = {name: bench.Watching.compile(name, plain)}
    monkeypatch.setattr(bench.Watching, "codes", codes)
    exec(codes[name], place)
    assert place["kept"][0](5) == 6
    bench.put(
        mutants.Mutant(name, 2, 2, (0, 1), "x + y", "x - y"),
        plain.replace("x + y", "(x - y)"),
    )
    assert place["kept"][0](5) == 4
    assert bench.Watching.changed[name].count("-") == 1


@pytest.mark.filterwarnings("ignore:.*fork")  # the child computes nothing
def test_a_child_tells_its_text_or_that_it_has_no_end():
    assert bench.in_child(lambda: "found", 5) == "found"
    assert bench.in_child(lambda: None, 5) == ""
    assert bench.in_child(lambda: os.kill(os.getpid(), 9), 5) is None
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        bench.in_child(lambda: 1 / 0, 5)
