"""The example scripts run as they are and say what they promise."""

import ast
import pathlib
import re
import runpy

import jax
import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "experiments" / "examples"
WORDS = {
    "early_stopping": "the bits of loops.train: True",
    "sblr_path": "strength 0.01: rows [2, 3",
    "sweep": "fewest in the last pass: start",
    "verify_bounds": "rounds: True",
    "your_mirror_map": ": holds",
    "your_learner": "the contract holds",
    "optax_through_the_model": "of the labels of unseen sentences",
    "structured_layer": "with the layer",
    "shard_and_export": "bytes equal to the bit: True",
    "automaton_and_dense_lists": "automaton of 7 states",
}

FALLS = {
    "optax_through_the_model": r"loss ([\d.]+) at first, ([\d.]+) at last",
    "structured_layer": r"([\d.]+) % position by position, ([\d.]+) % with",
}


def test_each_script_has_its_words():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(WORDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORDS)
def test_example_runs(name, capsys):
    with (
        jax.enable_x64(False),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ):
        module = runpy.run_path(str(FOLDER / f"{name}.py"))
        module["main"]()
    out = capsys.readouterr().out
    assert WORDS[name] in out
    assert "NOT HOLD" not in out and "bit: False" not in out
    if name in FALLS:  # the second number is the better one
        first, last = map(float, re.findall(FALLS[name], out)[0])
        assert last < 0.8 * first


def words_of_the_package(tree):
    """Return the last name of everything that a script takes from the package."""
    own = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("lowrank_jax"):
            own |= {part.asname or part.name: part.name for part in node.names}
    found = set(own.values())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            base = node.value
            while isinstance(base, ast.Attribute):
                base = base.value
            if isinstance(base, ast.Name) and base.id in own:
                found.add(node.attr)
    return found


@pytest.mark.parametrize("name", WORDS)
def test_example_needs_nothing_that_is_not_on_a_page(name):
    pages = [
        FOLDER.parents[1] / "README.md",
        *(FOLDER.parents[1] / "docs").rglob("*.md"),
    ]
    written = set(re.findall(r"\w+", "\n".join(p.read_text("utf-8") for p in pages)))
    script = (FOLDER / f"{name}.py").read_text("utf-8")
    assert words_of_the_package(ast.parse(script)) - written == set()


@pytest.mark.parametrize("name", WORDS)
def test_example_is_short(name):
    tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    lines = ast.unparse(ast.Module(tree.body[1:], [])).splitlines()
    assert 15 <= len([line for line in lines if line.strip()]) <= 60
