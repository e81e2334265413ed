"""What a user sees of types and help: mypy on a script, docstrings, `dir`."""

import importlib
import inspect
import pathlib
import pkgutil
import subprocess
import sys
import typing

import pytest

import lowrank_jax
from lowrank_jax import batch, online
from lowrank_jax.estimators import learners as specs_of
from lowrank_jax.estimators.tagger import settings

ROOT = pathlib.Path(__file__).parents[1]
SCRIPT = """
import jax

import lowrank_jax
from lowrank_jax import certify, loops
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.online import bol


def losses(sequences: Sequences) -> tuple[jax.Array, jax.Array]:
    learner = bol.learner(variant="block", averaging="dual")
    key = jax.random.key(0)
    state, trace = loops.train(learner, sequences, key=key, num_passes=2)
    return trace.loss, state.conjugate


def held(found: certify.RunCertificate) -> float:
    lowrank_jax.Tagger("bol", num_passes=3, rank=2)
    return found.regret


def certified(sequences: Sequences, key: jax.Array) -> jax.Array:
    learner = bol.learner(record=("predicted",))
    for one in loops.passes(learner, sequences, key=key, num_passes=2):
        print(one.trace.margin)
    done = certify.run(learner, sequences, key=key, num_passes=2)
    return done.trace.num_wrong
"""
WRONG = {  # the words of the script, and what stands in their place
    "certificate": ("found.regret", "found.not_a_field"),
    "field": ("trace.loss", "trace.not_a_field"),
    "name": ("lowrank_jax.Tagger", "lowrank_jax.Taggr"),
    "pass": ("one.trace.margin", "one.trace.not_a_field"),
    "run": ("done.trace.num_wrong", "done.trace.not_a_field"),
    "number": ("rank=2", 'rank="two"'),
    "keyword": ("rank=2", "rnak=2"),
    "setting": ("num_passes=3", 'num_passes="three"'),
    "state": ("state.conjugate", "state.not_a_field"),
    "variant": ('variant="block"', 'variant="blok"'),
}


def modules_of(*packages):
    found = []
    for package in packages:
        for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not one.name.endswith(".__main__"):
                found.append(importlib.import_module(one.name))
    return found


@pytest.mark.slow
def test_mypy_sees_a_wrong_field_and_a_wrong_variant(tmp_path):
    """The script is right; with any word of `WRONG` changed it is not."""
    (tmp_path / "right.py").write_text(SCRIPT)
    for name, (word, other) in WRONG.items():
        assert SCRIPT.count(word) == 1
        (tmp_path / f"{name}.py").write_text(SCRIPT.replace(word, other))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
        + [f"{name}.py" for name in ("right", *WRONG)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
    lines = [line for line in done.stdout.splitlines() if ": error:" in line]
    found = {line.partition(".py")[0]: "" for line in lines}
    for line in lines:
        found[line.partition(".py")[0]] += line
    assert found.keys() == WRONG.keys(), done.stdout + done.stderr
    for name in ("certificate", "field", "pass", "run", "state"):
        assert '"not_a_field"' in found[name]
    assert '"Taggr"' in found["name"] and '"num_passes"' in found["setting"]
    assert "Literal['blok']" in found["variant"]
    assert '"rank"' in found["number"] and '"rnak"' in found["keyword"]


def test_the_settings_of_a_tagger_are_those_of_its_learners():
    specs = [s for s in specs_of.LEARNERS.values() if s.data == "sentences"]
    options = [specs_of.options_of(spec) for spec in specs]
    known = typing.get_type_hints(settings.Settings)
    assert known.keys() == set().union(*options)
    for name, given in known.items():
        own = [_literals(o[name].annotation) for o in options if name in o]
        assert _literals(given) == set().union(*own), name


def _literals(annotation):
    if typing.get_origin(annotation) is typing.Literal:
        return set(typing.get_args(annotation))
    return set().union(*map(_literals, typing.get_args(annotation)))


def learners():
    return [m for m in modules_of(online, batch) if hasattr(m, "learner")]


@pytest.mark.parametrize("module", learners(), ids=lambda m: m.__name__)
def test_each_field_of_state_and_info_is_in_its_docstring(module):
    for cls in (module.State, module.Info):
        section = inspect.getdoc(cls).partition("Attributes:")[2]
        for name in cls._fields:
            assert f"\n  {name}: " in section, f"{cls.__module__}.{cls.__name__}.{name}"
            assert not getattr(cls, name).__doc__.startswith("Alias for"), name
    assert "Learner[" in str(inspect.signature(module.learner).return_annotation)


def test_dir_lists_the_public_names_alone():
    """Of every module but `__main__`, which runs when it is loaded."""
    lacking = [
        module.__name__
        for module in [lowrank_jax, *modules_of(lowrank_jax)]
        if dir(module) != sorted(getattr(module, "__all__", dir(module)))
    ]
    assert lacking == []
