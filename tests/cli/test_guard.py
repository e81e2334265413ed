"""Hostile files, full disks, two writers, finished runs: one sentence, no harm."""

import gzip
import json
import os

import numpy as np
import pytest

from lowrank_jax import data
from lowrank_jax.checks import InputError
from lowrank_jax.estimators import Tagger, training
from lowrank_jax.features import parse_template
from lowrank_jax.store import checkpoint
from lowrank_jax.store import files as store
from tests.cli.test_bad_input import refused


def train(files, place, *more):
    given = ("--train", files.train, "--passes", 2, "--model", place)
    return ("train", "sp", *given, *more)


def test_resume_of_a_finished_run_trains_nothing(cli, files, tmp_path, monkeypatch):
    given = train(files, tmp_path / "m", "--json", tmp_path / "r.json")
    assert cli(*given).status == 0
    before = (tmp_path / "m" / "weights.npz").read_bytes()
    first = json.loads((tmp_path / "r.json").read_text())
    assert first["machine"]["threads"] >= 1
    refused(cli(*given, "--resume", "--seed", 5), "finished model made with seed=0")
    monkeypatch.setattr(training, "run", lambda *_: 1 / 0)
    done = cli(*given, "--resume")
    assert done.status == 0 and "the finished model of this run" in done.err
    assert (tmp_path / "m" / "weights.npz").read_bytes() == before
    again = json.loads((tmp_path / "r.json").read_text())
    for name in ("history", "num_parameters", "run", "passes"):
        assert again[name] == first[name]
    monkeypatch.undo()
    (tmp_path / "m" / "vocabulary.npz").unlink()  # a damaged model is trained again
    assert cli(*given, "--resume").status == 0
    assert (tmp_path / "m" / "weights.npz").read_bytes() == before


def test_a_second_training_into_one_folder_is_told_who_is_there(cli, files, tmp_path):
    (tmp_path / "m").mkdir()
    with store.hold(tmp_path / "m"):
        held = os.open(tmp_path / "m" / store.LOCK, os.O_RDONLY)
        store._held.clear()  # as another process
        refused(cli(*train(files, tmp_path / "m")), f"process {os.getpid()} on")
        store._held[(tmp_path / "m").resolve()] = 0
    os.close(held)
    assert os.listdir(tmp_path / "m") == []


def test_a_checkpoint_that_fails_does_not_end_the_training(cli, files, tmp_path):
    def fail(*_):
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "save", fail)
        done = cli(*train(files, tmp_path / "m", "--checkpoint-seconds", 0))
    assert done.status == 0 and Tagger.load(tmp_path / "m").learner == "sp"
    assert "checkpoint.npz was not written (No space left on device)" in done.err
    assert "tries again later" in done.err


def test_a_batch_run_says_that_its_bits_belong_to_another_machine(tmp_path):
    class Whole:
        is_batch = True

    here = training.machine()
    assert training._other_machine(Whole, {"machine": here}) == ""
    other = here | {"threads": here["threads"] + 1}
    told = training._other_machine(Whole, {"machine": other})
    assert f"PJRT_NPROC={other['threads']}" in told and "last bits may differ" in told
    Whole.is_batch = False
    assert training._other_machine(Whole, {"machine": other}) == ""


def test_a_small_file_that_unpacks_to_a_huge_one(cli, tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"a b\n" * (5 << 20)))
    refused(
        cli("eval", path), "unpacks to more than 16,777,216 bytes", "--max-unpacked"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOWRANK_JAX_MAX_UNPACKED", "1")
        small = tmp_path / "b.txt.gz"
        small.write_bytes(gzip.compress(b"the B-NP B-NP\n"))
        refused(cli("eval", small), "unpacks to more than 1 bytes")
        assert cli("eval", small, "--max-unpacked", 100).status == 0


def test_devices_pipes_and_zero_bytes_as_data(cli, tmp_path):
    refused(cli("eval", "/dev/zero"), "/dev/zero is not a regular file")
    refused(cli("eval", "a\0b"), "zero byte")
    given = ("train", "sp", "--train", "a", "--model", tmp_path / "m")
    refused(cli(*given, "--json", "r\0"), "zero byte")
    with pytest.raises(InputError, match="zero byte"):
        Tagger.load("a\0b")


def test_templates_that_are_huge(tmp_path):
    with pytest.raises(InputError, match="no data have so many"):
        parse_template(f"U0:%x[0,{'1' * 5000}]")
    assert len(parse_template("U0:%x[0,0]\n" * 20_000).columns) == 20_000
    mixed = parse_template("U:%x[0,0]\nU:%x[0,0]\nB:%x[0,0]\nB:%x[0,0]\nB:%x[0,0]")
    assert mixed.orders == ("01", "01", "1")
    with pytest.raises(InputError) as caught:
        parse_template("X" + "y" * 3_000_000)
    assert len(str(caught.value)) < 1500 and "must begin with U or B" in str(
        caught.value
    )
    assert "\n" not in str(InputError("a\nb\x1b[2J")) and "\x1b" not in str(
        InputError("\x1b")
    )


@pytest.mark.parametrize("scale", [np.ones(3), np.array("x"), np.ones((1, 1, 1, 1))])
def test_a_scale_that_does_not_fit_the_matrices(tmp_path, scale):
    np.savez(tmp_path / "a.npz", x=np.ones((4, 2, 5)), scale=scale)
    with pytest.raises(InputError, match="`scale` of the file must hold numbers"):
        data.read_matrices(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", x=np.ones((4, 2, 5)), scale=np.full((2, 1), 3))
    assert (data.read_matrices(tmp_path / "a.npz").x == 3).all()
    np.savez(tmp_path / "a.npz", x=np.ones((2, 2, 5)), y=np.array([b"a", b"b"]))
    with pytest.raises(InputError, match=r"decode bytes with y.astype\(str\)"):
        data.read_matrices(tmp_path / "a.npz")


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"format_version": 1, "files": []}', "[]", "1", '"x"'],
)
def test_a_model_json_of_another_kind(tmp_path, text):
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(InputError):
        Tagger.load(tmp_path)


def test_arrays_that_do_not_fit_together_are_found_at_load(chunker, tmp_path):
    from lowrank_jax.store import arrays, folder

    found = folder.read(chunker, "tagger")

    def spoilt(file, name, change):
        new = {part: dict(content) for part, content in found.arrays.items()}
        new[file][name] = change(new[file][name].copy())
        folder.write(tmp_path / "m", "tagger", folder.Content(found.about, new))
        with pytest.raises(InputError):
            Tagger.load(tmp_path / "m")

    def put(value):
        def change(array):
            array[(-1,) * array.ndim] = value
            return array

        return change

    for name, array in found.arrays["weights"].items():
        spoilt("weights", name, put(np.nan))
        spoilt("weights", name, lambda a: np.append(a, a))
        spoilt("weights", name, lambda a: np.full_like(a, 1e38))
        if array.ndim:
            spoilt("weights", name, lambda a: a[:-1])
    for name in found.arrays["vocabulary"]:
        spoilt("vocabulary", name, lambda a: a[:-1])
        spoilt("vocabulary", name, lambda a: a.astype(np.float32))
        if not name.startswith("values_text"):
            spoilt("vocabulary", name, put(-1 if name[0] != "f" else 9))
    for key in ("encoder", "training", "hyperparameters", "model", "format"):
        content = folder.Content(found.about | {key: 3}, found.arrays)
        folder.write(tmp_path / "m", "tagger", content)
        with pytest.raises(InputError):
            Tagger.load(tmp_path / "m")
    assert arrays.read_json(chunker / "model.json")


def test_extremes_through_python_are_told_or_harmless():
    from lowrank_jax.estimators import BilinearClassifier

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 3, 4)), np.arange(12) % 2
    x[:, 0, 0] += 4 * y
    given = {"rank": 1, "max_iterations": 5}
    plain = BilinearClassifier(**given).fit(x, y)
    for size in (1e300, 1e-300):
        found = BilinearClassifier(**given).fit(x * size, y)
        assert (found.predict(x * size) == plain.predict(x)).all()
    with pytest.raises(InputError, match=r"decode them with y.astype\(str\)"):
        BilinearClassifier(**given).fit(x, np.where(y, b"a", b"b"))
    with pytest.raises(InputError, match="`mu1` must be a number, got 1j"):
        BilinearClassifier(mu1=1j).fit(x, y)
    sentences, labels = [["a", "b", "a"], ["b", "b"]], [["x", "y", "x"], ["y", "y"]]
    with pytest.raises(InputError, match="weights are not finite after 2 passes"):
        Tagger("sp", 2, step_size=1e38).fit(sentences, labels)


def test_a_space_without_columns_is_named():
    from lowrank_jax.data.sequences import Space
    from lowrank_jax.models import linear

    with pytest.raises(InputError, match="must have a column of features"):
        linear.zeros(Space(0, 2, ()), np.dtype("float32"))
