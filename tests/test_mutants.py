"""The tool that plants faults: one place each, in code that still compiles."""

import ast

from tests import mutants


def test_a_mutant_is_one_change_of_one_place():
    path = mutants.PACKAGE / "linalg" / "svt.py"
    plain = ast.dump(ast.parse(path.read_text("utf-8")))
    every = mutants.mutants([path])
    assert len(every) > 30
    assert len({(m.line, m.columns, m.new) for m in every}) == len(every)
    for mutant in every[::5]:
        changed = ast.dump(ast.parse(mutant.source))
        assert changed != plain
        assert mutant.source.count("\n") == path.read_text("utf-8").count("\n")


def test_every_module_of_the_core_has_tests():
    for path in mutants.PACKAGE.glob("linalg/*.py"):
        for name in mutants.tests_of(str(path.relative_to(mutants.PACKAGE))):
            assert (mutants.ROOT / name).is_file()
    assert "tests/linalg/test_svt.py" in mutants.tests_of("linalg/svt.py")
