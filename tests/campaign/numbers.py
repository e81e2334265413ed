"""Numerical extremes of every learner and estimator, through Python.

A fit with extreme data or settings ends with finite numbers or with one sentence, and
so does what the fitted estimator predicts for further extreme data.
"""

import collections
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


#: What was given, the numbers found, and a further prediction (None: no numbers go in).
Made = tuple[object, Any, Callable[[], Any] | None]
PREDICTIONS = 4  # by each fitted estimator


def drawn(rng: random.Random) -> object:
    """Return an extreme number, or now and then what is no number at all."""
    return rng.choice(WRONG if rng.random() < 0.3 else SIZES)


def tagger(rng: random.Random, place: pathlib.Path) -> Made:
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

    def marginals(x: list[list[Any]]) -> np.ndarray:
        found = model.predict_marginals(x)
        return np.array(
            [p for tokens in found for token in tokens for p in token.values()]
        )

    def again() -> np.ndarray:
        return marginals([[{"a": drawn(rng), "f": drawn(rng)}, {"b": 1.0}]])

    return (learner, given, value), marginals(x), again


def classifier(rng: random.Random, place: pathlib.Path) -> Made:
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

    def again() -> np.ndarray:
        with np.errstate(all="ignore"):
            further = (x * rng.choice(SIZES)).astype(dtype)
        further[rng.randrange(12), 1, 1] *= rng.choice((1.0, 1e6, np.inf, np.nan))
        return model.predict_proba(further)

    return (given, size), model.predict_proba(scaled), again


def reranker(rng: random.Random, place: pathlib.Path) -> Made:
    """Fit a reranker to lists with extreme features, or with an extreme setting."""
    path = place / "lists.jsonl"

    def written(names: Any = None) -> tuple[str, Any, Any]:
        value = rng.choice("1e38 1e-45 -1e38 0 1e30 1 1e300 -1e-300 1e400 NaN".split())
        text = JSON_LISTS.replace(b'"f": 1', b'"f": ' + value.encode())
        path.write_bytes(text * 2)
        return value, *data.read_json_lists(path, names=names)

    value, lists, names = written()
    learner = rng.choice(("tm", "mira", "perceptron"))
    given = {}
    if learner != "perceptron" and rng.random() < 0.5:
        given["max_step_size"] = drawn(rng)
    model = Reranker(learner, 2, **given).fit(lists, names=names)

    def scores(lists: Any) -> np.ndarray:
        return np.concatenate([np.ravel(s) for s in model.decision_function(lists)])

    def again() -> np.ndarray:
        return scores(written(names)[1])

    return (learner, given, value), scores(lists), again


def speller(rng: random.Random, place: pathlib.Path) -> Made:
    """Fit a speller with an extreme setting."""
    given: dict[str, Any] = {"order": 2}
    given[rng.choice(("strength", "step_size", "tolerance"))] = drawn(rng)
    model = Speller("smm", 3, **given).fit(SENTENCES, LABELS)
    found = np.concatenate([np.asarray(part).ravel() for part in model.params_])
    return given, found, None


MAKERS: tuple[Callable[[random.Random, pathlib.Path], Made], ...] = (
    tagger,
    tagger,
    classifier,
    classifier,
    reranker,
    speller,
)


def wrong_with(name: str, act: Callable[[], Made]) -> tuple[str, Made | None]:
    """Return what is wrong with a trial ("" if nothing), and what it made."""
    try:
        made = act()
        if np.isfinite(made[1]).all():
            return "", made
        return f"{name} {made[0]}: numbers that are not finite", None
    except InputError as error:
        text = str(error)
        return (
            f"{name}: not one sentence: {text[:200]!r}" if "\n" in text else ""
        ), None
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{pathlib.Path(last.filename).name}:{last.lineno}"
        text = repr(str(error)[:200])
        return f"{name}: {type(error).__name__} at {where}: {text}", None


def work(place: pathlib.Path, seconds: float, seed: str) -> int:
    """Make trials in a child; write one line for each: what it is, what was wrong."""
    rng, end = random.Random(seed), time.monotonic() + seconds
    warnings.simplefilter("ignore")  # a fit may say that it did not converge
    with open(place / "found.txt", "w", encoding="utf-8") as file:

        def tell(kind: str, wrong: str) -> None:
            print(kind, wrong.replace("\n", " "), file=file, flush=True)

        while time.monotonic() < end:
            make = rng.choice(MAKERS)
            wrong, made = wrong_with(make.__name__, lambda make=make: make(rng, place))
            tell("fit", wrong)
            again = made[2] if made else None
            for _ in range(PREDICTIONS if again else 0):
                name = f"prediction of the {make.__name__}"
                given = made and made[0]
                wrong, _ = wrong_with(name, lambda g=given, a=again: (g, a(), None))
                tell("prediction", wrong)
    return 0


def extremes(place: pathlib.Path, seconds: float, seed: int) -> Part:
    """Fit estimators with extreme data and settings: finite numbers or one sentence."""
    part = Part("numerical extremes through Python", seconds)
    counts: collections.Counter[str] = collections.Counter()

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
            kind, _, wrong = line.partition(" ")
            counts[kind] += 1
            part.trial(wrong or None)
        if child.exitcode != 0:
            part.trial(f"ended with {child.exitcode}: {(own / 'err').read_text()}")

    children.side_by_side(one)
    part.note = ", ".join(f"{kind}s {count}" for kind, count in counts.items())
    return part.end()
