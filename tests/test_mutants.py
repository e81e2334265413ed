"""The tool that plants faults: one place each, in code that still compiles."""

import ast

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


def test_every_module_of_the_core_has_tests():
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
    lines = ["1 left a.py:1:2: x + 1 -> x - 1 []", "2 control found a.py []"]
    lines += [
        "3 found a.py:1:2: x + 1 -> x - 1 [tests/test_a.py]",
        "4 left b.py:1:0: 0 []",
    ]
    assert verdicts(lines) == {
        "a.py:1:2: x + 1 -> x - 1": "found",
        "b.py:1:0: 0": "left",
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


def test_tests_that_run_a_statement_come_first_within_the_seconds():
    place = object.__new__(bench.Bench)
    mutant = mutants.Mutant("loops.py", 7, 6, (0, 1), "0", "1")
    slow = bench.Known("slow", 15.0, {("loops.py", 6)})
    quick = bench.Known("quick", 1.0, {("loops.py", 6)})
    other = bench.Known("other", 0.1, {("loops.py", 2)})
    place.seconds, place.known = 20, {"a": [other, slow, quick], "b": [other]}
    assert place.choose(mutant, ["a", "b"]) == [quick, slow, other]
    assert place.choose(mutant, ["b"]) == []
    assert place.choose(mutant._replace(statement=0), ["b"]) == [other]  # at import
    place.seconds = 10
    assert place.choose(mutant, ["a"]) == [quick, other]
