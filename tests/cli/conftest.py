"""Small files and a trained model for the tests of the command line."""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

from lowrank_jax import data
from lowrank_jax.cli import main
from lowrank_jax.demo import bol
from lowrank_jax.theory.bol.regret import AlongRounds
from lowrank_jax.verify import curves


class Done(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def cli(capsys):
    """Run the command line in this process."""

    def run(*arguments: object) -> Done:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        return Done(status, *capsys.readouterr())

    return run


@pytest.fixture
def process():
    """Run the command line in a process of its own."""

    def run(*arguments: object, given: str | None = None) -> Done:
        done = subprocess.run(
            command(*arguments),
            input=given,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "lowrank_jax", *map(str, arguments)]


def chunk_lines(num_sentences: int, seed: int, noise: float = 0.0) -> str:
    """Sentences such as ``the DT B-NP``: a rule that features can learn."""
    rng = np.random.default_rng(seed)
    nouns = [f"noun{i}" for i in range(6)]
    verbs = [f"verb{i}" for i in range(4)]
    lines = []
    for _ in range(num_sentences):
        for _ in range(rng.integers(1, 4)):
            if rng.random() < 0.7:
                lines.append("the DT B-NP")
                lines.append(f"{rng.choice(nouns)} NN I-NP")
            else:
                lines.append(f"{rng.choice(nouns)} NN B-NP")
            label = "O" if rng.random() < noise else "B-VP"
            lines.append(f"{rng.choice(verbs)} VB {label}")
        lines += [". . O", ""]
    return "\n".join(lines) + "\n"


def words_text(corpus: data.Corpus) -> str:
    sentences = data.words_from_labels(corpus.columns[0], corpus.labels, corpus.offsets)
    return "".join("  ".join(words) + "\n" for words in sentences)


class Files(NamedTuple):
    folder: pathlib.Path
    train: pathlib.Path
    noisy: pathlib.Path
    test: pathlib.Path
    words: pathlib.Path
    words_test: pathlib.Path
    nettalk: pathlib.Path


@pytest.fixture(scope="package")
def files(tmp_path_factory) -> Files:
    """Training and test files of all formats."""
    folder = tmp_path_factory.mktemp("files")
    made = Files(folder, *(folder / f"{name}.txt" for name in Files._fields[1:]))
    made.train.write_text(chunk_lines(40, 0))
    made.noisy.write_text(chunk_lines(40, 2, noise=0.2))
    made.test.write_text(chunk_lines(15, 1))
    train, test, _ = data.segmentation_task(40, 15, seed=0, num_words=30)
    made.words.write_text(words_text(train), encoding="utf-8")
    made.words_test.write_text(words_text(test), encoding="utf-8")
    entries = ["cat\tk@t\t>1<\t0", "cab\tk@b\t>1<\t0", "tac\tt@k\t>1<\t0"] * 5
    made.nettalk.write_text("\n".join(entries) + "\n")
    return made


@pytest.fixture(scope="package")
def chunker(files, tmp_path_factory) -> pathlib.Path:
    """A model folder, trained in this process; do not change it."""
    folder = tmp_path_factory.mktemp("models") / "chunker"
    assert main(train_arguments("sp", files.train, folder)) == 0
    return folder


@pytest.fixture(scope="package")
def segmenter(files, tmp_path_factory) -> pathlib.Path:
    """A segmentation model; do not change it."""
    folder = tmp_path_factory.mktemp("models") / "segmenter"
    arguments = train_arguments("sp", files.words, folder)
    assert main([*arguments, "--format", "segmentation"]) == 0
    return folder


def train_arguments(learner: str, train: object, model: object) -> list[str]:
    given = ["train", learner, "--train", train, "--model", model, "--passes", 2]
    return [str(argument) for argument in given]


def listing(folder: pathlib.Path) -> dict[str, bytes]:
    """All files of a folder with their content."""
    return {
        os.path.relpath(path, folder): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class DemoReport(NamedTuple):
    status: int
    out: str
    page: pathlib.Path
    sequences: object


@pytest.fixture(scope="package")
def demo_report(tmp_path_factory) -> DemoReport:
    """The demo in small, once; the runs behind its last plots are made up."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    kept, output = [], io.StringIO()

    def keep(*given):
        kept.append(run(*given))
        return kept[0]

    run = bol.run
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        patch.setattr(bol, "run", keep)
        patch.setattr(curves, "compute", made_up_curves)
        status = main(["demo", "--small", "--out", str(folder)])
    return DemoReport(status, output.getvalue(), folder / "report.html", kept[0])


def made_up_curves() -> curves.Curves:
    """Arrays such as `curves.compute` returns."""
    up = np.linspace(1.0, 9.0, 50)
    rounds = curves.Rounds(up, up[::-1])
    duals = ("sp", "bol block", "bol paper", "bol exact")
    return curves.Curves(
        regret=AlongRounds(up, 2 * up, 3 * up, 4 * up, up),
        duals={name: curves.Duals(up, up, up, up, up / 10, up) for name in duals},
        descent=curves.Descent(1 / up, 0.1, 1 / up, 0.9),
        gap=curves.Gap(1 + 1 / up, 1 + 1 / up, 1 - 1 / up),
        rounds={step: rounds for step in ("paper", "exact", "bcd")},
    )
