"""Numerical extremes of every learner and estimator, through Python.

A fit with extreme data or settings ends with finite numbers or with one sentence.
"""

import pathlib
import random
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from lowrank_jax import data
from lowrank_jax.checks import InputError
from lowrank_jax.estimators import BilinearClassifier, Reranker, Speller, Tagger
from tests.campaign import children
from tests.campaign.inputs import JSON_LISTS
from tests.campaign.report import Part

SIZES = (0.0, 1e-45, 1e-38, 1e-30, 1e-8, 1.0, 1e8, 1e30, 1e38, 1e39, 1e300)
WRONG = (np.inf, -np.inf, np.nan, -1.0, -0.0, True, None, "1", 1j, 10**400)
SENTENCES = [["a", "b", "a"], ["b", "b"]]
LABELS = [["x", "y", "x"], ["y", "y"]]
#: Settings that are numbers, of each learner.
TAGGERS = {
    "sp": ("step_size",),
    "mira": ("max_step_size",),
    "bcd": ("max_step_size",),
    "crf": ("strength", "tolerance"),
    "bol": ("step_size", "start", "divisor_factor"),
}


def drawn(rng: random.Random) -> object:
    """Return an extreme number, or now and then what is no number at all."""
    return rng.choice(WRONG if rng.random() < 0.3 else SIZES)


def tagger(rng: random.Random, place: pathlib.Path) -> tuple[object, Any]:
    """Fit a tagger with an extreme setting, or to features with an extreme value."""
    learner = rng.choice(sorted(TAGGERS))
    given: dict[str, Any] = {}
    if learner == "bol":
        given["variant"] = rng.choice(("block", "paper", "exact"))
    x: list[list[Any]] = SENTENCES
    if rng.random() < 0.3:
        value: Any = drawn(rng)
        x = [[{word: 1.0, "f": value} for word in words] for words in SENTENCES]
    else:
        value = given[rng.choice(TAGGERS[learner])] = drawn(rng)
    model = Tagger(learner, 2, **given).fit(x, LABELS)
    found = model.predict_marginals(x)
    numbers = [p for tokens in found for token in tokens for p in token.values()]
    return (learner, given, value), np.array(numbers)


def classifier(rng: random.Random, place: pathlib.Path) -> tuple[object, Any]:
    """Fit a classifier to matrices of extreme size, with extreme strengths."""
    draw = np.random.default_rng(rng.randrange(2**32))
    x, y = draw.normal(size=(12, 3, 4)), np.arange(12) % 2
    x[:, 0, 0] += 3 * y
    size, dtype = rng.choice(SIZES), rng.choice((np.float32, np.float64))
    with np.errstate(all="ignore"):
        scaled = (x * size).astype(dtype)
        scaled[rng.randrange(12)] *= rng.choice((1.0, 1.0, 1e6, 1e-6))
    if rng.random() < 0.1:
        scaled[3, 1, 1] = rng.choice((np.inf, np.nan, -np.inf))
    given: dict[str, Any] = {"rank": 1, "max_iterations": 10}
    given["scale"] = rng.choice(("global", "row"))
    name = rng.choice(("mu1", "mu2", "nu1", "nu2"))
    given[name] = rng.choice((0.01, drawn(rng)))
    model = BilinearClassifier(**given).fit(scaled, y)
    return (given, size), model.predict_proba(scaled)


def reranker(rng: random.Random, place: pathlib.Path) -> tuple[object, Any]:
    """Fit a reranker to lists with extreme features, or with an extreme setting."""
    value = rng.choice("1e38 1e-45 -1e38 0 1e30 1 1e300 -1e-300 1e400 NaN".split())
    text = JSON_LISTS.replace(b'"f": 1', b'"f": ' + value.encode())
    path = place / f"{rng.randrange(2**32)}.jsonl"
    path.write_bytes(text * 2)
    lists, names = data.read_json_lists(path)
    learner = rng.choice(("tm", "mira", "perceptron"))
    given = {}
    if learner != "perceptron" and rng.random() < 0.5:
        given["max_step_size"] = drawn(rng)
    model = Reranker(learner, 2, **given).fit(lists, names=names)
    found = model.decision_function(lists)
    return (learner, given, value), np.concatenate([np.ravel(part) for part in found])


def speller(rng: random.Random, place: pathlib.Path) -> tuple[object, Any]:
    """Fit a speller with an extreme setting."""
    given: dict[str, Any] = {"order": 2}
    given[rng.choice(("strength", "step_size", "tolerance"))] = drawn(rng)
    model = Speller("smm", 3, **given).fit(SENTENCES, LABELS)
    found = np.concatenate([np.asarray(part).ravel() for part in model.params_])
    return given, found


MAKERS: tuple[Callable[[random.Random, pathlib.Path], tuple[object, Any]], ...] = (
    tagger,
    tagger,
    classifier,
    classifier,
    reranker,
    speller,
)


def work(place: pathlib.Path, seconds: float, seed: str) -> int:
    """Make trials in a child; write one line for each: "", or what was wrong."""
    rng, end = random.Random(seed), time.monotonic() + seconds
    warnings.simplefilter("ignore")  # a fit may say that it did not converge
    with open(place / "found.txt", "w", encoding="utf-8") as file:
        while time.monotonic() < end:
            make, wrong = rng.choice(MAKERS), ""
            try:
                given, numbers = make(rng, place)
                if not np.isfinite(numbers).all():
                    wrong = f"{make.__name__} {given}: numbers that are not finite"
            except InputError as error:
                if "\n" in str(error):
                    wrong = f"{make.__name__}: not one sentence: {str(error)[:200]!r}"
            except Exception as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{pathlib.Path(last.filename).name}:{last.lineno}"
                wrong = f"{make.__name__}: {type(error).__name__} at {where}: "
                wrong += repr(str(error)[:200])
            file.write(wrong.replace("\n", " ") + "\n")
            file.flush()
    return 0


def extremes(place: pathlib.Path, seconds: float, seed: int) -> Part:
    """Fit estimators with extreme data and settings: finite numbers or one sentence."""
    part = Part("numerical extremes through Python", seconds)

    def one(index: int) -> None:
        own = place / f"{index}"
        own.mkdir()
        given = own, seconds, f"{seed} {index}"
        flags = "--xla_backend_optimization_level=0"  # each fit compiles anew
        flags += " --xla_llvm_disable_expensive_passes=true"
        env = {"XLA_FLAGS": flags}
        child = children.start(work, *given, err=own / "err", env=env)
        child.join(seconds + 600)
        for line in (own / "found.txt").read_text("utf-8").split("\n")[:-1]:
            part.trial(line or None)
        if child.exitcode != 0:
            part.trial(f"ended with {child.exitcode}: {(own / 'err').read_text()}")

    children.side_by_side(one)
    return part.end()
