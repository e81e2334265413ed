"""Compiled programs are kept, survive damage, and are not needed for short texts."""

import os
import subprocess
import sys

import pytest

from lowrank_jax.cli import programs
from tests.cli.conftest import chunk_lines

CLEAN = ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE")


def run(
    place, *words, code="import lowrank_jax.cli as c; assert c.main(sys.argv[1:]) == 0"
):
    environment = {k: v for k, v in os.environ.items() if k not in CLEAN}
    return subprocess.run(
        [sys.executable, "-c", f"import sys; {code}", *map(str, words)],
        env=environment | {"XDG_CACHE_HOME": str(place / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("programs")
    (place / "train.txt").write_text(chunk_lines(12, 2, noise=0.1))
    return place


def train(place, name, *before):
    given = ("--train", place / "train.txt", "--passes", 2, "--model", place / name)
    done = run(place, *before, "train", "sp", *given)
    assert "warn" not in done.stderr.lower()
    return (place / name / "weights.npz").read_bytes()


@pytest.mark.slow
def test_programs_are_kept_and_damage_is_repaired(place):
    plain = train(place, "a", "--no-cache")
    folder = place / "cache" / "lowrank_jax" / "programs"
    assert not folder.exists()
    assert train(place, "b") == plain
    (inside,) = folder.iterdir()
    assert inside.stat().st_mode & 0o777 == 0o700
    kept = {item.name: item.read_bytes() for item in inside.iterdir()}
    assert len(kept) < 15
    for item in inside.iterdir():
        item.write_bytes(item.read_bytes()[:50])
    assert train(place, "c") == plain
    assert all(len(item.read_bytes()) > 50 for item in inside.iterdir())
    assert train(place, "d") == plain  # from the programs that were kept


def test_a_short_text_is_labelled_without_jax(place):
    train(place, "short")
    code = (
        "import lowrank_jax.cli as c; assert c.main(sys.argv[1:]) == 0; "
        "assert 'jax' not in sys.modules"
    )
    found = run(place, "tag", place / "short", place / "train.txt", code=code)
    assert len(found.stdout.split()[3:]) > 3


def test_only_a_folder_of_the_user_alone_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(
        sys, "modules", {k: v for k, v in sys.modules.items() if k != "jax"}
    )
    for name in CLEAN:
        monkeypatch.delenv(name, raising=False)
    folder = programs.folder_of("tag")
    assert folder != programs.folder_of("train")
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    programs.keep_programs("tag")
    assert CLEAN[0] not in os.environ
    monkeypatch.setenv("XLA_FLAGS", "--other")
    assert folder != programs.folder_of("tag")
