"""The model folder: kinds, unfinished runs, what may be replaced."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.store import checkpoint, files, folder


def write(place, kind, **given):
    arrays = {name: {"a": np.arange(3.0)} for name in folder.KINDS[kind].arrays}
    folder.write(place, kind, folder.Content({"x": "\udcff"}, arrays), **given)


@pytest.mark.parametrize("kind", folder.KINDS)
def test_a_model_comes_back_and_any_other_kind_is_named(tmp_path, kind):
    assert folder.kind_of(tmp_path / "m") is None
    write(tmp_path / "m", kind)
    assert folder.kind_of(tmp_path / "m") == kind
    found = folder.read(tmp_path / "m", kind)
    assert found.about["x"] == "\udcff"  # of a file name that is not UTF-8
    assert ("kind" in found.about) == (kind != "tagger")
    assert {f"{name}.npz" for name in found.arrays} == set(found.about["files"])
    for arrays in found.arrays.values():
        np.testing.assert_array_equal(arrays["a"], np.arange(3.0))
    about = folder.KINDS[kind]
    sentence = f"m is a {about.title}; use lowrank-jax {about.command}\\.$"
    for other in set(folder.KINDS) - {kind}:
        with pytest.raises(InputError, match=sentence):
            folder.read(tmp_path / "m", other)
        with pytest.raises(InputError, match=f"m holds a {about.title}; name another"):
            write(tmp_path / "m", other)


@pytest.mark.parametrize("kind", folder.KINDS)
def test_an_unfinished_run_is_named_with_the_command_that_resumes_it(tmp_path, kind):
    place = tmp_path / files.CHECKPOINT
    for settings, command in (
        ({"hyperparameters": {}}, "train"),
        ({"settings": {}}, "rerank train"),
    ):
        checkpoint.save(place, {"a": jnp.ones(3)}, {"settings": settings})
        sentence = f"unfinished training and no model; resume with {command} --resume"
        with pytest.raises(InputError, match=sentence):
            folder.read(tmp_path, kind)
    place.write_bytes(b"")
    with pytest.raises(InputError, match="unfinished training .* --resume"):
        folder.read(tmp_path, kind)


def test_a_checkpoint_stays_if_it_is_to_be_kept(tmp_path):
    for kept in (True, False):
        (tmp_path / "m").mkdir(exist_ok=True)
        (tmp_path / "m" / files.CHECKPOINT).write_bytes(b"x")
        write(tmp_path / "m", "reranker", keep_checkpoint=kept)
        assert (tmp_path / "m" / files.CHECKPOINT).exists() == kept
    with pytest.raises(InputError, match=r"not the folder of a classifier: .*'check"):
        (tmp_path / "m" / "model.json").unlink()
        (tmp_path / "m" / files.CHECKPOINT).write_bytes(b"x")
        write(tmp_path / "m", "matrix classifier")


def test_a_kind_of_a_later_version_is_refused(tmp_path):
    write(tmp_path / "m", "reranker")
    path = tmp_path / "m" / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"kind": "parser"}))
    with pytest.raises(InputError, match="the kind 'parser' where this version reads"):
        folder.read(tmp_path / "m", "reranker")
    with pytest.raises(InputError, match="holds a model of the kind 'parser'"):
        write(tmp_path / "m", "reranker")
