"""The model folder: kinds, unfinished runs, what may be replaced."""

import json
import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.store import arrays, checkpoint, files, folder
from tests.campaign.crashes import crash_points


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
    for part in found.arrays.values():
        np.testing.assert_array_equal(part["a"], np.arange(3.0))
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


FILES = ["model.json", "vocabulary.npz", "weights.npz"]


def model(number):
    content = {
        name: {"a": np.full(3, float(number))} for name in ("weights", "vocabulary")
    }
    return folder.Content({"number": number}, content)


def number_of(place):
    """Return the number of the model; the arrays must belong to it."""
    found = folder.read(place, "tagger")
    for part in found.arrays.values():
        np.testing.assert_array_equal(part["a"], np.full(3, found.about["number"]))
    return found.about["number"]


@pytest.mark.parametrize("has_model", [True, False])
def test_a_save_that_dies_at_any_file_operation_leaves_a_model(tmp_path, has_model):
    """Also where the folder cannot be renamed (a mount point): it never is."""
    place, count = tmp_path / "m", [0]

    def prepare():
        count[0] += 1
        if has_model:
            folder.write(place, "tagger", model(-1))
        else:
            for item in place.iterdir() if place.exists() else ():
                item.unlink()

    def check():
        if not has_model and not (place / "model.json").exists():
            return ""
        found = number_of(place)
        is_sound = found in ({-1, count[0]} if has_model else {count[0]})
        folder.write(place, "tagger", model(1000))  # over the remains
        names = set(os.listdir(place)) == {
            "model.json",
            "weights.npz",
            "vocabulary.npz",
        }
        return "" if is_sound and names and number_of(place) == 1000 else "wrong"

    def act():
        folder.write(place, "tagger", model(count[0]))

    points = list(crash_points(prepare, act, check))
    assert len(points) > 15
    assert [point for point in points if point[2]] == []
    assert os.listdir(tmp_path) == ["m"]


def test_planted_links_are_not_followed_and_strangers_not_deleted(tmp_path):
    victim, place = tmp_path / "victim", tmp_path / "m"
    victim.write_text("mine")
    place.mkdir()
    for name in ("weights.npz", "weights.new.npz", "model.json", "checkpoint.npz"):
        (place / name).symlink_to(victim)
    (tmp_path / ".m.part").mkdir()
    (tmp_path / ".m.part" / "letter").write_text("dear")
    (tmp_path / ".m.previous").mkdir()
    (tmp_path / ".r.json.part").symlink_to(victim)
    folder.write(place, "tagger", model(1))
    files.write_bytes(tmp_path / "r.json", b"{}")
    assert number_of(place) == 1 and victim.read_text() == "mine"
    assert (tmp_path / ".m.part" / "letter").read_text() == "dear"
    assert (tmp_path / ".m.previous").exists()
    (place / files.LOCK).symlink_to(victim)
    with pytest.raises(OSError):
        folder.write(place, "tagger", model(2))
    (place / files.LOCK).unlink()
    os.link(victim, place / files.LOCK)
    with pytest.raises(InputError, match="is not a lock of this program"):
        folder.write(place, "tagger", model(2))
    assert victim.read_text() == "mine" and number_of(place) == 1


def test_a_folder_inside_the_folder_is_foreign(tmp_path):
    (tmp_path / "m" / "weights.npz").mkdir(parents=True)
    (tmp_path / "m" / "weights.npz" / "letter").write_text("dear")
    with pytest.raises(InputError, match="holds 'weights.npz'"):
        folder.write(tmp_path / "m", "tagger", model(1))


def test_a_lock_says_who_holds_it_and_is_free_when_its_process_is_gone(tmp_path):
    program = (
        "import sys\nfrom lowrank_jax.store import files\n"
        "with files.hold(sys.argv[1]):\n"
        "    print('ready', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "m")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout.readline() == b"ready\n"
        with pytest.raises(
            InputError, match=f"by process {process.pid} on .* since 20"
        ):
            folder.write(tmp_path / "m", "tagger", model(1))
        process.kill()
        process.wait()
        assert (tmp_path / "m" / files.LOCK).exists()
        with files.hold(tmp_path / "m"):
            folder.write(tmp_path / "m", "tagger", model(1))
        assert number_of(tmp_path / "m") == 1
    finally:
        process.kill()
        process.communicate()
    with files.hold(tmp_path / "new"):
        pass
    assert os.listdir(tmp_path) == ["m"]


def test_only_regular_files_of_a_size_that_is_there_are_read(tmp_path):
    path = tmp_path / "a.npz"
    path.symlink_to("/dev/zero")
    with pytest.raises(InputError, match="not a regular file"):
        arrays.read_arrays(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="not a regular file"):
        arrays.read_arrays(path)
    path.unlink()
    for name in ("a\0b", tmp_path / "none.npz"):
        with pytest.raises(InputError):
            arrays.read_arrays(name)
    np.save(tmp_path / "bare.npy", np.ones(3))
    with pytest.raises(InputError, match="one bare array"):
        arrays.read_arrays(tmp_path / "bare.npy")


def test_the_order_of_arrays_changes_no_bit(tmp_path):
    made = {"zero": np.eye(40), "transitions": np.ones(3)}  # the first is packed
    arrays.write_arrays(tmp_path / "a.npz", made)
    arrays.write_arrays(tmp_path / "b.npz", dict(reversed(made.items())))
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_an_archive_that_claims_more_than_it_has_is_refused_unread(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, a=np.zeros(1 << 23))
    with pytest.raises(InputError, match="unpacks to more than 16,777,216 bytes"):
        arrays.read_arrays(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(files.MAX_UNPACKED, str(1 << 27))
        assert arrays.read_arrays(path)["a"].size == 1 << 23
    np.savez(path, a=np.ones(3))
    content = path.read_bytes()
    path.write_bytes(content.replace(b"(3,), }", b"(10000000000000,), }"[:7]))
    with pytest.raises(InputError, match="damaged"):
        arrays.read_arrays(path)
    shape = np.array([10**7, 10**6])
    np.savez(
        path, **{"a.values": np.ones(1), "a.places": np.zeros(1, int), "a.shape": shape}
    )
    with pytest.raises(InputError, match="unpacks to more than 1,073,741,824 bytes"):
        arrays.read_arrays(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(files.MAX_UNPACKED, str(10**17))
        with pytest.raises(InputError, match="damaged"):  # no machine has so much
            arrays.read_arrays(path)
