"""An exported update equals the update bit for bit, here and in another process."""

import json
import pathlib
import subprocess
import sys

import chex
import jax
import numpy as np
import pytest

from lowrank_jax import export, streams
from lowrank_jax.checks import InputError
from lowrank_jax.data.made.lists import reranking_task
from lowrank_jax.linalg import mirror
from lowrank_jax.online import bol, mira, mirror_descent, rerank
from tests.online.tasks import random_task

SENTENCES = streams.sentences.stream(
    random_task(("01", "0", "1"), has_transitions=True)
)
LISTS = streams.lists.stream(
    reranking_task(8, 1, seed=0, sizes=(4, 5), num_active=(2, 6))[0]
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "stream"),
    [
        (bol.learner(record=("predicted",)), SENTENCES),
        (bol.learner(variant="paper"), SENTENCES),
        (mira.learner(), SENTENCES),
        (mirror_descent.learner(map=mirror.rank_k(1)), SENTENCES),
        (rerank.learner(), LISTS),
    ],
)
def test_program_equals_the_update_bit_for_bit(learner, stream):
    first = stream.example(0)
    state = theirs = jax.jit(learner.init)(jax.random.key(0), first)
    program = export.export_update(learner, state, first)
    assert isinstance(program, bytes)
    update, plain = jax.jit(export.load_update(program)), jax.jit(learner.update)
    for i in range(stream.num_examples):
        example = stream.example(i)
        state, info = update(state, example)
        theirs, expected = plain(theirs, example)
        chex.assert_trees_all_equal((state, info), (theirs, expected))
        assert jax.tree.structure((state, info)) == jax.tree.structure(
            (theirs, expected)
        )


def test_shapes_are_enough_and_one_platform_can_be_named():
    learner, first = bol.learner(), SENTENCES.example(0)
    state = jax.eval_shape(learner.init, jax.random.key(0), first)
    program = export.export_update(learner, state, first, platforms=("cpu",))
    state = learner.init(jax.random.key(0), first)
    _, info = export.load_update(program)(state, first)
    np.testing.assert_array_equal(info.loss, learner.update(state, first)[1].loss)


def test_a_program_runs_in_a_process_that_has_not_seen_the_learner(tmp_path):
    """Loading registers what the bytes name; this process has the same loss."""
    learner, first = bol.learner(), SENTENCES.example(0)
    state = jax.jit(learner.init)(jax.random.key(0), first)
    path = pathlib.Path(tmp_path, "update")
    path.write_bytes(export.export_update(learner, state, first))
    script = """
import sys, json, jax
from lowrank_jax import export, streams
from lowrank_jax.online import bol
from tests.online.tasks import random_task
update = export.load_update(open(sys.argv[1], "rb").read())
stream = streams.sentences.stream(random_task(("01", "0", "1"), has_transitions=True))
state = jax.jit(bol.learner().init)(jax.random.key(0), stream.example(0))
state, info = jax.jit(update)(state, stream.example(0))
print(json.dumps([float(info.loss), type(info).__name__, float(info.conjugate)]))
"""
    root = pathlib.Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    info = jax.jit(learner.update)(state, first)[1]
    assert json.loads(done.stdout) == [float(info.loss), "Info", float(info.conjugate)]


def test_a_program_for_another_platform_is_named():
    learner, first = bol.learner(), SENTENCES.example(0)
    state = jax.eval_shape(learner.init, jax.random.key(0), first)
    program = export.export_update(learner, state, first, platforms=("cuda", "tpu"))
    with pytest.raises(InputError, match="is for cuda, tpu and JAX computes on cpu"):
        export.load_update(program)


def test_other_bytes_are_an_error():
    with pytest.raises(InputError, match="`program` must be bytes from export_update"):
        export.load_update(b"something else")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install lowrank_jax\[export\]"):
        export.load_update(b"")


def test_static_fields_come_back():
    space = SENTENCES.space
    fixed = (space, 3, ("a", (1, 2.5)))
    assert export._fixed(json.loads(json.dumps(export._plain(fixed)))) == fixed
