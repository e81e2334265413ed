"""SMM Figure 1: test accuracy against the number of training words, NETtalk.

Every max-margin method chooses from three settings, two numbers of iterations and two
iterates, on the development words of each split and size. The strengths come from the
path of Figure 2 and grow with the fourth root of the number of words. Above 5,000 words
a method keeps the setting that the same split chose at 5,000. If this setting has a
strength, the method chooses between its step size and a third of it. The other methods
choose from as many settings or more. Only what was chosen is scored on the test words.
"""

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from experiments.intervals import Mean, mean_of
from experiments.protocol import Experiment, Result, Say, Setup
from experiments.smm import baselines, subpatterns, words
from experiments.smm.words import Setting, Split, Task
from experiments.tables import markdown

__all__ = ["EXPERIMENT"]

NUM_WORDS = (500, 1_000, 2_000, 5_000, 10_000, 15_000)
CHECKPOINTS = (100, 200)
PASSES = (1, 2, 3, 4, 6, 8, 10, 15)
CRF_STRENGTHS, CRF_ITERATIONS = (0.3, 1.0, 3.0), (15, 30, 60)
HMM_STATES = (10, 20, 40, 60, 80, 100)
LATENT_STATES, LATENT_STRENGTHS = (2, 4), (1e-4, 1e-3, 1e-2)

SPECTRAL, PLAIN, SQUARED = "spectral", "unregularised", "L2"
PERCEPTRON, CRF = "perceptron", "CRF"
WIDE = "perceptron, seven letters"
HMM, LATENT = "spectral IO-HMM", "latent SVM"
MANY = 5_000  # above so many words the setting chosen for as many is taken
MANY_LATENT = 2_000  # the same for the latent SVM


def settings_of(name: str, num_words: int) -> list[Setting]:
    """Return the three settings of a max-margin method."""
    scale = float((num_words / 2_000) ** 0.25)
    step_sizes = (0.05, 0.15, 0.5)
    return {
        SPECTRAL: [
            Setting("nuclear", t * scale, 0.3, "both") for t in (5.0, 10.0, 20.0)
        ],
        PLAIN: [Setting("none", 0.0, c) for c in step_sizes],
        SQUARED: [
            Setting("squared_frobenius", t * scale, 0.15) for t in (0.15, 0.5, 1.5)
        ],
    }[name]


def run(setup: Setup) -> Result:
    """Train and score all methods at all sizes.

    Small has one split of three, the first three sizes, fewer settings and iterations,
    and the quicker methods.
    """
    is_full, say = setup.is_full, setup.say
    corpus = words.read_words(setup.data_dir)
    result: Result = {
        "experiment": "smm-fig1",
        "scale": setup.scale,
        "splits": 3 if is_full else 1,
        "sizes": list(NUM_WORDS if is_full else NUM_WORDS[:3]),
        "checkpoints": list(CHECKPOINTS if is_full else (25, 50)),
        "rows": [],
    }
    for seed in range(result["splits"]):
        split = words.draw_split(corpus, seed)
        for size in result["sizes"]:
            # Each method of a size shares the words laid out for decoding.
            task = functools.cache(functools.partial(words.make_task, split, size))
            for name, fit in _methods(is_full).items():
                many = MANY_LATENT if name == LATENT else MANY
                given = _Given(
                    split=split,
                    size=size,
                    seed=seed,
                    task=task,
                    checkpoints=result["checkpoints"],
                    chosen=_row_of(result["rows"], seed, many, name),
                    say=say,
                )
                found = setup.cell(
                    f"{seed}, {size}, {name}", functools.partial(_timed, fit, given)
                )
                row = {"split": seed, "num_words": size, "method": name} | found
                result["rows"].append(row)
                say(
                    f"split {seed} {size:6,} words {name:28} "
                    f"development {row['development']:.2f} test {row['test']:.2f}"
                )
    result |= _summary(result["rows"])
    for claim in result["claims"]:
        say(f"{claim['claim']}: {claim['found']}: {claim['answer']}")
    return result


def _timed(
    fit: Callable[["_Given"], dict[str, Any]], given: "_Given"
) -> dict[str, Any]:
    """Fit, and note the seconds."""
    began = time.perf_counter()
    return fit(given) | {"seconds": time.perf_counter() - began}


class _Given(NamedTuple):
    """What a method may use."""

    split: Split
    size: int
    seed: int
    task: Callable[[], Task]
    checkpoints: list[int]
    chosen: dict[str, Any] | None  # its row for `MANY` (`MANY_LATENT`) words
    say: Say


def _row_of(
    rows: list[dict[str, Any]], seed: int, size: int, name: str
) -> dict[str, Any] | None:
    for row in rows:
        if (row["split"], row["num_words"], row["method"]) == (seed, size, name):
            return row
    return None


def _methods(is_full: bool) -> dict[str, Callable[[_Given], dict[str, Any]]]:
    """Return how each method is fitted, by its name."""

    def max_margin(name: str, given: _Given) -> dict[str, Any]:
        settings = settings_of(name, given.size)[:: 1 if is_full else 2]
        if given.size > MANY and given.chosen is not None:
            scores = [tried["development"] for tried in given.chosen["tried"]]
            best = settings[scores.index(max(scores))]
            settings = [best]
            if best.strength:
                size = best.step_size / 3
                settings.append(dataclasses.replace(best, step_size=size))
        task = given.task()
        found, tried = words.choose(settings, task, given.checkpoints, given.say)
        test = words.accuracy(found.setting, found.params, task.test)
        return {**found.summary(), "test": test, "tried": tried}

    def perceptron(given: _Given) -> dict[str, Any]:
        return subpatterns.fit_perceptron(given.split, given.size, PASSES, given.seed)

    def crf(given: _Given) -> dict[str, Any]:
        strengths: tuple[float, ...] = CRF_STRENGTHS
        if given.size > MANY and given.chosen is not None:
            strengths = (given.chosen["setting"]["strength"],)
        return subpatterns.fit_crf(
            given.split, given.size, strengths, CRF_ITERATIONS, given.say
        )

    def wide(given: _Given) -> dict[str, Any]:
        return baselines.fit_perceptron(
            given.split, given.size, "nettalk", PASSES, given.seed
        )

    def hmm(given: _Given) -> dict[str, Any]:
        return baselines.fit_io_hmm(given.split, given.size, HMM_STATES)

    def latent(given: _Given) -> dict[str, Any]:
        states: tuple[int, ...] = LATENT_STATES
        strengths: tuple[float, ...] = LATENT_STRENGTHS
        if given.size > MANY_LATENT and given.chosen is not None:
            setting = given.chosen["setting"]
            states, strengths = (setting["states"],), (setting["strength"],)
        return baselines.fit_latent_svm(
            given.split, given.size, states, strengths, given.seed, given.say
        )

    quick: dict[str, Callable[[_Given], dict[str, Any]]]
    quick = {
        name: functools.partial(max_margin, name) for name in (SPECTRAL, PLAIN, SQUARED)
    }
    quick |= {PERCEPTRON: perceptron, WIDE: wide, HMM: hmm}
    return quick | {CRF: crf, LATENT: latent} if is_full else quick


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the curves, and the paper's claims with an answer to each."""
    curves: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        curves.setdefault(row["method"], [])
    for name, curve in curves.items():
        own = [row for row in rows if row["method"] == name]
        for size in sorted({row["num_words"] for row in own}):
            tests = [row["test"] for row in own if row["num_words"] == size]
            found = mean_of(tests)
            curve.append(
                {
                    "num_words": size,
                    "test": found.mean,
                    "half_width": found.half,
                    "num_splits": len(tests),
                }
            )
    return {"curves": curves, "claims": _claims(rows)}


def _claims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Answer each claim of the paper from differences on the same splits."""
    scores = {(r["split"], r["num_words"], r["method"]): r["test"] for r in rows}
    splits = sorted({row["split"] for row in rows})
    sizes = sorted({row["num_words"] for row in rows})

    def ahead(left: str, at: int, right: str, of: int) -> Mean:
        pairs = [((s, at, left), (s, of, right)) for s in splits]
        both = [pair for pair in pairs if pair[0] in scores and pair[1] in scores]
        return mean_of([scores[mine] - scores[theirs] for mine, theirs in both])

    claims = []

    def add(claim: str, found: dict[str, Mean], answer: bool) -> None:
        text = ", ".join(f"{m.shown('+')} ({where})" for where, m in found.items())
        claims.append(
            {"claim": claim, "found": text, "answer": "yes" if answer else "no"}
        )

    halves = [(n, 2 * n) for n in sizes if 2 * n in sizes and n <= 1_000]
    found = {
        f"spectral at {n:,} less unregularised at {m:,}": ahead(SPECTRAL, n, PLAIN, m)
        for n, m in halves
    }
    if found:
        add(
            "spectral needs half the words of unregularised, small sizes",
            found,
            all(one.mean >= 0 for one in found.values()),
        )
    small = [n for n in sizes if n <= 2_000]
    large = [n for n in sizes if n >= 10_000]

    def against(name: str, where: list[int]) -> dict[str, Mean]:
        return {f"{n:,} words": ahead(SPECTRAL, n, name, n) for n in where}

    found = against(SQUARED, small)
    add(
        "spectral beats L2 at small sizes",
        found,
        all(one.mean - one.half > 0 for one in found.values()),
    )
    if large:
        found = against(SQUARED, large)
        add(
            "L2 comes near spectral at large sizes (within 0.5 points)",
            found,
            all(abs(one.mean) <= 0.5 for one in found.values()),
        )
    for name in (CRF, PERCEPTRON, WIDE):
        if (splits[0], sizes[0], name) not in scores:
            continue
        found = against(name, small)
        add(
            f"spectral is near the {name} at small sizes (within 1 point)",
            found,
            all(abs(one.mean) <= 1 for one in found.values()),
        )
        if large:
            found = against(name, large)
            add(
                f"spectral is above the {name} at large sizes",
                found,
                all(one.mean > 0 for one in found.values()),
            )
    return claims


def table(result: Result) -> str:
    """Write curves and claims as Markdown."""
    sizes = result["sizes"]
    head = ["test accuracy (%)", *(f"{size:,}" for size in sizes)]
    rows = []
    for name, curve in result["curves"].items():
        points = {point["num_words"]: point for point in curve}
        cells = [name]
        for size in sizes:
            point = points.get(size)
            text = Mean(point["test"], point["half_width"]).shown() if point else ""
            if point and point["num_splits"] < result["splits"]:
                text += f" ({point['num_splits']} splits)"
            cells.append(text)
        rows.append(cells)
    return (
        markdown(head, rows)
        + f"\nMeans over {result['splits']} random splits, and half the width of the "
        "95 % interval where there are several. The paper has no table.\n\n"
        + words.claims_table(result["claims"])
    )


def picture(figure: Any, result: Result) -> None:
    """Draw accuracy against the number of words."""
    figure.set_size_inches(6.4, 4.4)
    axes = figure.subplots()
    markers = "os^DvPX*"
    for (name, curve), marker in zip(result["curves"].items(), markers, strict=False):
        axes.errorbar(
            [point["num_words"] for point in curve],
            [point["test"] for point in curve],
            yerr=[point["half_width"] for point in curve],
            marker=marker,
            capsize=2,
            label=name,
        )
    axes.set_xscale("log")
    axes.set_xticks(result["sizes"], [f"{size:,}" for size in result["sizes"]])
    axes.minorticks_off()
    axes.set_xlabel("training words")
    axes.set_ylabel("test accuracy (%)")
    axes.set_title("NETtalk (SMM Figure 1)", loc="left")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize="small")


EXPERIMENT = Experiment(
    "smm-fig1",
    "SMM Figure 1: letters to phonemes, accuracy against the number of words",
    "the paper's data",
    "NETtalk",
    run,
    table,
    picture,
    verdicts=words.verdicts,
)
