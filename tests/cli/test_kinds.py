"""Every command says what a folder is that it cannot use, and which command can."""

import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.store import checkpoint, files, folder
from tests.cli.test_bad_input import refused

COMMANDS = {
    "tag {m} {d}": ("tagger", "word tagger"),
    "predict {m} {d}": ("matrix classifier",),
    "rerank apply {m} {d}": ("reranker",),
    "train bol --train {d} --model {d}.new --certify {m}": ("tagger",),
}


@pytest.fixture
def call(cli, tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text("the DT B-NP\n\n")
    return lambda text: cli(*text.format(m=tmp_path / "m", d=path).split())


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", folder.KINDS)
def test_a_folder_of_another_kind_is_named(call, tmp_path, command, kind):
    if kind in COMMANDS[command]:
        pytest.skip("the command reads this kind")
    about = folder.KINDS[kind]
    arrays = {name: {"a": np.ones(3)} for name in about.arrays}
    folder.write(tmp_path / "m", kind, folder.Content({}, arrays))
    words = f"{tmp_path}/m is a {about.title}; use lowrank-jax {about.command}.\n"
    refused(call(command), words)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("name", "resume"), [("hyperparameters", "train"), ("settings", "rerank train")]
)
def test_an_unfinished_run_is_named(call, tmp_path, command, name, resume):
    (tmp_path / "m").mkdir()
    metadata = {"settings": {name: {}}}
    checkpoint.save(tmp_path / "m" / files.CHECKPOINT, {"a": jnp.ones(2)}, metadata)
    words = f"unfinished training and no model; resume with {resume} --resume.\n"
    refused(call(command), f"{tmp_path}/m holds the checkpoint of an {words}")
