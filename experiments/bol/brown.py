"""Part-of-speech tags of Brown, 190 of them: accuracy, seconds and peak memory.

Every tenth file is the test. A seed draws the training files, whole, and the order of
the sentences. Tags lose the prefix FW- and the suffixes -TL, -HL and -NC. All methods
have the words at -1, 0 and 1 with weights on labels, and weights on pairs of tags. The
rows of bol, sp and mira have weights on pairs of tags for each word beside, which
CRFsuite does not know. Nothing is tuned: settings are the defaults of the learners.

Each fit is a process of its own, so that its peak of memory is its own. The peak is
taken when training has ended, with the reading of the corpus before:

    python -m experiments.bol.brown METHOD SHARE SEED PASSES FOLDER
"""

import dataclasses
import functools
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bol.tagging import decided, differences
from experiments.crfsuite import attributes
from experiments.intervals import mean_of
from experiments.protocol import Experiment, Result, Setup, Verdict
from experiments.tables import markdown
from lowrank_jax import Tagger, data, features
from lowrank_jax.data.corpus import Corpus

__all__ = ["EXPERIMENT", "measure", "simplified", "split"]

_WORDS = "U0:%x[-1,0]\nU1:%x[0,0]\nU2:%x[1,0]\n"
_PAIRED = _WORDS + _WORDS.replace("U", "B")
_CRFSUITE = "CRFsuite ap"
#: Learner and template of each method.
METHODS = {
    "bol": ("bol", _PAIRED + "B"),
    "bol, no tag pairs alone": ("bol", _PAIRED),
    "sp": ("sp", _PAIRED + "B"),
    "mira": ("mira", _PAIRED + "B"),
    "sp, 0-order": ("sp", _WORDS + "B"),
    _CRFSUITE: ("ap", _WORDS),
}
SHARES, NUM_SEEDS, NUM_PASSES = (0.05, 0.2, 1.0), 3, 5
#: Pairs whose difference is shown.
CLAIMS = tuple(
    ("bol", "accuracy", other, "accuracy") for other in METHODS if other != "bol"
)


def simplified(tag: str) -> str:
    """Take off the marks of foreign words, titles, headlines and cited words."""
    return re.sub(r"(-(TL|HL|NC))+$", "", tag.removeprefix("FW-"))


def read(folder: Path) -> tuple[Corpus, np.ndarray]:
    """Return the corpus with simplified tags, and the file of each sentence."""
    corpus = data.read_conll(folder / "brown.txt.xz")
    tags = np.array([simplified(tag) for tag in np.asarray(corpus.labels)], object)
    lines = (folder / "sections.tsv").read_text("utf-8").splitlines()[1:]
    sizes = [int(line.split("\t")[3]) for line in lines]
    files = np.repeat(np.arange(len(sizes)), sizes)
    return dataclasses.replace(corpus, labels=tags), files


def split(files: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the training sentences in the order of the seed, and the test sentences.

    Args:
      files: File of each sentence.
      share: Share of the training files, at least one file.
      seed: Seed of the draw.
    """
    rng, is_test = np.random.default_rng((26, seed)), files % 10 == 9
    mine = rng.permutation(np.unique(files[~is_test]))
    mine = mine[: max(1, round(share * len(mine)))]
    train = rng.permutation(np.flatnonzero(np.isin(files, mine)))
    return train, np.flatnonzero(is_test)


def measure(
    method: str, train: Corpus, test: Corpus, num_passes: int, seed: int
) -> dict[str, float]:
    """Train once; return accuracy, seconds without compilation, and the peak in MB."""
    name, text = METHODS[method]
    template = features.parse_template(text, "words of Brown")
    fit = _peer if method == _CRFSUITE else functools.partial(_ours, name, seed)
    seconds, predict = fit(template, train, num_passes)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    right = np.asarray(test.labels) == predict(test)
    return {
        "accuracy": 100 * float(right.mean()),
        "seconds": seconds,
        "MB": peak,
        "sentences": train.num_sentences,
        "labels": len(set(np.asarray(train.labels).tolist())),
    }


def _ours(
    name: str, seed: int, template: features.Template, train: Corpus, num_passes: int
) -> tuple[float, Callable[[Corpus], np.ndarray]]:
    tagger = Tagger(
        name, num_passes, template, orders="template", seed=seed, format="conllu"
    ).fit(train)
    return tagger.training_["train_seconds"], tagger.predict


def _peer(
    template: features.Template, train: Corpus, num_passes: int
) -> tuple[float, Callable[[Corpus], np.ndarray]]:
    import pycrfsuite

    encoder, sequences = features.Encoder.fit_transform(train, template)
    trainer = pycrfsuite.Trainer(algorithm="ap", verbose=False)
    labels = np.asarray(train.labels).tolist()
    bounds = zip(train.offsets[:-1], train.offsets[1:], strict=True)
    for items, (a, b) in zip(attributes(sequences), bounds, strict=True):
        trainer.append(items, labels[a:b])
    trainer.set("max_iterations", num_passes)
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "model")
        began = time.perf_counter()
        trainer.train(model)
        seconds = time.perf_counter() - began
        tagger = pycrfsuite.Tagger()
        tagger.open(model)

    def predict(test: Corpus) -> np.ndarray:
        items = attributes(encoder.transform(test, unseen_label="ignore"))
        return np.array([label for one in items for label in tagger.tag(one)], object)

    return seconds, predict


def _process(
    method: str, share: float, seed: int, num_passes: int, folder: Path
) -> dict[str, Any]:
    """Measure one fit in a process of its own."""
    given = [method, share, seed, num_passes, folder.resolve()]
    command = [sys.executable, "-m", __name__, *map(str, given)]
    root = Path(__file__).parents[2]  # experiments are not installed
    own = os.environ | {"PJRT_NPROC": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=root, env=own
    )
    return json.loads(done.stdout.splitlines()[-1])


def run(setup: Setup) -> Result:
    """Measure all methods; small: one file in a hundred, one seed, one pass."""
    shares = SHARES if setup.is_full else (0.01,)
    num_seeds, num_passes = (NUM_SEEDS, NUM_PASSES) if setup.is_full else (1, 1)
    folder = data.find("brown/brown.txt.xz", setup.data_dir).parent
    rows = []
    for share in shares:
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in METHODS}
        for seed in range(num_seeds):
            for name in METHODS:
                given = name, share, seed, num_passes, folder
                found = setup.cell(
                    f"{share}, {seed}, {name}", functools.partial(_process, *given)
                )
                runs[name].append(found)
                setup.say(
                    f"{100 * share:g} %, {seed}, {name}: {found['accuracy']:.2f} %, "
                    f"{found['seconds']:.1f} s, {found['MB']:.0f} MB"
                )
        row = {"share": share, "runs": runs}
        rows.append(row | {"claims": differences(runs, CLAIMS)})
    return {"seeds": num_seeds, "passes": num_passes, "rows": rows}


def verdicts(result: Result) -> list[Verdict]:
    """Return the differences of accuracy by share."""
    return [
        found
        for row in result["rows"]
        for found in decided(f"Brown, {100 * row['share']:g} %", row["claims"])
    ]


def table(result: Result) -> str:
    """Write accuracy, seconds and memory by share of the training files."""
    cells = []
    for row in result["rows"]:
        for name, runs in row["runs"].items():
            right, seconds, peak = (
                np.array([one[key] for one in runs])
                for key in ("accuracy", "seconds", "MB")
            )
            spread = f" ± {right.std(ddof=1):.2f}" if len(runs) > 1 else ""
            share = f"{100 * row['share']:g} %, {runs[0]['sentences']:,}"
            accuracy = f"{right.mean():.2f}{spread}"
            numbers = [f"{np.median(seconds):.1f}", f"{peak.max():.0f}"]
            cells.append([share, name, accuracy, *numbers])
    head = ["training files, sentences", "method", "tags right, %", "seconds", "MB"]
    return (
        f"{result['passes']} passes, {result['seeds']} seeds (± standard deviation), "
        "seconds of training without compilation (median), peak memory of the process "
        "(largest).\n\n"
    ) + markdown(head, cells)


def picture(figure: Any, result: Result) -> None:
    """Draw the accuracy of each method by share of the training files."""
    figure.set_size_inches(6.4, 4.4)
    axes = figure.subplots()
    shares = [100 * row["share"] for row in result["rows"]]
    for i, name in enumerate(METHODS):
        means = [
            mean_of([one["accuracy"] for one in row["runs"][name]])
            for row in result["rows"]
        ]
        axes.errorbar(
            [share * 1.02 ** (i - 2) for share in shares],
            [mean.mean for mean in means],
            yerr=[mean.half for mean in means],
            marker="os^vD*"[i],
            capsize=2,
            label=name,
        )
    axes.set_xscale("log")
    axes.set_xticks(shares, [f"{share:g}" for share in shares])
    axes.minorticks_off()
    axes.set_xlabel("share of the training files (%)")
    axes.set_ylabel("tags right (%), 95 % intervals")
    axes.set_title("Parts of speech of Brown, 190 tags", loc="left")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)


EXPERIMENT = Experiment(
    "bol-brown",
    "BOL with many labels: part-of-speech tags of Brown, beside sp, mira and CRFsuite",
    "a stand-in",
    "Brown, 190 tags, split by files",
    run,
    table,
    picture,
    needs={"pycrfsuite": "python-crfsuite"},
    verdicts=verdicts,
)


def _main(method: str, share: str, seed: str, passes: str, folder: str) -> None:
    corpus, files = read(Path(folder))
    train, test = split(files, float(share), int(seed))
    given = corpus.take(train), corpus.take(test)
    print(json.dumps(measure(method, *given, int(passes), int(seed))))


if __name__ == "__main__":
    _main(*sys.argv[1:])
