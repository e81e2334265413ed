"""What a user sees of types and help: mypy on a script, docstrings, `dir`."""

import importlib
import inspect
import pathlib
import pkgutil
import subprocess
import sys

import pytest

import lowrank_jax
from lowrank_jax import batch, models, online

ROOT = pathlib.Path(__file__).parents[1]
SCRIPT = """
import jax

from lowrank_jax import loops
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.online import bol


def losses(sequences: Sequences) -> tuple[jax.Array, jax.Array]:
    learner = bol.learner(variant="block", averaging="dual")
    key = jax.random.key(0)
    state, trace = loops.train(learner, sequences, key=key, num_passes=2)
    return trace.loss, state.conjugate
"""


def modules_of(*packages):
    found = []
    for package in packages:
        for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            found.append(importlib.import_module(one.name))
    return found


def test_mypy_sees_a_wrong_field_and_a_wrong_variant(tmp_path):
    """The script is right; with either word changed it is not."""
    for name, text in (
        ("right", SCRIPT),
        ("field", SCRIPT.replace("trace.loss", "trace.not_a_field")),
        ("state", SCRIPT.replace("state.conjugate", "state.not_a_field")),
        ("variant", SCRIPT.replace('variant="block"', 'variant="blok"')),
    ):
        assert name == "right" or text != SCRIPT
        (tmp_path / f"{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
        + [f"{name}.py" for name in ("right", "field", "state", "variant")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
    lines = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(lines) == 3, done.stdout + done.stderr
    field, state, variant = sorted(lines)
    assert field.startswith("field.py") and '"not_a_field"' in field
    assert state.startswith("state.py") and '"not_a_field"' in state
    assert variant.startswith("variant.py") and "Literal['blok']" in variant


def learners():
    return [m for m in modules_of(online, batch) if hasattr(m, "learner")]


@pytest.mark.parametrize("module", learners(), ids=lambda m: m.__name__)
def test_each_field_of_state_and_info_is_in_its_docstring(module):
    for cls in (module.State, module.Info):
        section = inspect.getdoc(cls).partition("Attributes:")[2]
        for name in cls._fields:
            assert f"\n  {name}: " in section, f"{cls.__module__}.{cls.__name__}.{name}"
    assert "Learner[" in str(inspect.signature(module.learner).return_annotation)


def test_dir_lists_the_public_names_alone():
    seen = [*modules_of(online, batch, models), lowrank_jax.loops, lowrank_jax.types]
    seen += [lowrank_jax.testing, lowrank_jax.export]
    for module in (m for m in seen if hasattr(m, "__all__")):
        assert dir(module) == sorted(module.__all__), module.__name__
