r"""SMM Figure 1 once more: bases with sub-patterns, each solved to a small duality gap.

The trigram CRF and perceptron are given sub-patterns by hand: a place of a trigram
shows its bi-symbol, its letter alone, or nothing. The same strings belong to a Hankel
matrix once outputs, or inputs and outputs, may be empty (SMM-N5). The penalty
is the nuclear norm of the matrix over all such strings (`learners.subpatterns.mixing`).
Letters alone are input context, and empty places are lower orders.

Every max-margin model is solved by the accelerated method (`batch.smoothed`) with less
and less smoothing. For each strength the accuracy on the development words is taken
after the first stage. Only the chosen strength runs through the other stages, until the
gap is below 1 %. Its first stage and its end are scored on the test words. The weights
of the strings and the strengths to choose from are from development words of the first
split.
"""

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments.intervals import Mean, decide, mean_of
from experiments.protocol import Experiment, Result, Say, Setup, Verdict
from experiments.smm import baselines, subpatterns, words
from experiments.smm.learners.subpatterns import mixing
from experiments.smm.words import Split, Task
from experiments.tables import markdown
from lowrank_jax import data, loops
from lowrank_jax.batch.smm import smoothed
from lowrank_jax.decode.lattice_paths import best_paths, paths_to_words
from lowrank_jax.models import hankel
from lowrank_jax.streams.words import Lattice

__all__ = ["EXPERIMENT"]

NUM_WORDS = (500, 1_000, 2_000)
PASSES = (1, 2, 3, 4, 6, 8, 10, 15)
CRF_STRENGTHS, CRF_ITERATIONS = (0.3, 1.0, 3.0), (15, 30, 60)
SMOOTHINGS = (0.3, 0.1, 0.03, 0.01, 0.005)
ITERATIONS = (40, 40, 80, 600, 600)  # at most so many at each smoothing
TOLERANCE = 0.01
FIRST_STAGE = f", {ITERATIONS[0]} iterations at smoothing {SMOOTHINGS[0]}"
CRF, PERCEPTRON, WIDE = "CRF", "perceptron", "perceptron, seven letters"


class Method(NamedTuple):
    """A penalty over a basis.

    Attributes:
      regulariser: Name of the penalty.
      nothing: Weight of strings with empty places.
      letter: Weight of strings with letters alone.
      strengths: Strengths to choose from at 500 words.
    """

    regulariser: str
    nothing: float
    letter: float
    strengths: tuple[float, ...]


SPECTRAL, SQUARED = "spectral, sub-patterns", "L2, sub-patterns"
METHODS = {
    "spectral, bi-symbols alone": Method("nuclear", 0.0, 0.0, (3.0, 6.0, 12.0)),
    "spectral, lower orders": Method("nuclear", 0.5, 0.0, (4.0, 8.0, 16.0)),
    SPECTRAL: Method("nuclear", 0.5, 1.0, (8.0, 16.0, 32.0)),
    SQUARED: Method("squared_frobenius", 0.5, 1.0, (1.0, 3.0, 10.0)),
}


def run(setup: Setup) -> Result:
    """Train and score all methods; small: 500 words and three methods."""
    is_full, say = setup.is_full, setup.say
    corpus = words.read_words(setup.data_dir)
    result: Result = {
        "experiment": "smm-certified",
        "scale": setup.scale,
        "splits": 3,
        "sizes": list(NUM_WORDS if is_full else NUM_WORDS[:1]),
        "smoothings": list(SMOOTHINGS),
        "tolerance": TOLERANCE,
        "rows": [],
    }
    split_of = functools.cache(functools.partial(words.draw_split, corpus))
    for size in result["sizes"]:

        @functools.cache
        def task_of(seed: int, size: int = size) -> Task:
            return words.make_task(split_of(seed), size, has_end=True)

        for name in _names(is_full, size):
            for seed in range(result["splits"]):
                row = {"split": seed, "num_words": size, "method": name}
                fit = functools.partial(_fit, name, split_of, size, seed, task_of, say)
                row |= setup.cell(f"{size}, {seed}, {name}", fit)
                result["rows"] += _rows(row)
                gap = f", gap {100 * row['gap']:.2f} %" if "gap" in row else ""
                say(
                    f"{size:6,} words split {seed} {name:27} development "
                    f"{row['development']:.2f} test {row['test']:.2f}{gap}"
                )
    return result


def _rows(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the row, and one of the same run after its first stage."""
    if "first_stage" not in row:
        return [row]
    early = {name: row[name] for name in ("split", "num_words")}
    early["method"] = row["method"] + FIRST_STAGE
    return [row, early | row["first_stage"]]


def _names(is_full: bool, size: int) -> list[str]:
    """Return the methods; the smaller bases stand beside at the smallest size."""
    if not is_full:
        return [SPECTRAL, CRF, PERCEPTRON]
    smaller = [name for name in METHODS if name not in (SPECTRAL, SQUARED)]
    others = [SPECTRAL, SQUARED, CRF, PERCEPTRON, WIDE]
    return (smaller if size == NUM_WORDS[0] else []) + others


def _fit(
    name: str,
    split_of: Callable[[int], Split],
    size: int,
    seed: int,
    task_of: Callable[[int], Task],
    say: Say,
) -> dict[str, Any]:
    began = time.perf_counter()
    if name in METHODS:
        found = solve(METHODS[name], task_of(seed), size, say)
    elif name == CRF:
        found = subpatterns.fit_crf(
            split_of(seed), size, CRF_STRENGTHS, CRF_ITERATIONS, say
        )
    elif name == PERCEPTRON:
        found = subpatterns.fit_perceptron(split_of(seed), size, PASSES, seed)
    else:
        found = baselines.fit_perceptron(split_of(seed), size, "nettalk", PASSES, seed)
    return found | {"seconds": time.perf_counter() - began}


def solve(method: Method, task: Task, size: int, say: Say) -> dict[str, Any]:
    """Choose the strength on development words, solve to the gap, score on the test.

    Args:
      method: Penalty, basis and strengths.
      task: Words to learn from and to score on.
      size: Number of training words. Strengths grow with its fourth root.
      say: Takes one line of progress.
    """
    mix = mixing(task.alphabet.letter_of, method.nothing, method.letter)
    scale = (size / NUM_WORDS[0]) ** 0.25
    tried, best = [], None
    for strength in (scale * base for base in method.strengths):
        start = _start(method.regulariser, task.train)
        state, info, _ = _stage(method, 0, start, task.train, strength, mix)
        score = _accuracy(state, mix, task, "development")
        tried.append({"strength": strength, "development": score})
        say(f"    tau {strength:<6.3g} {score:.2f}, gap {float(info.gap):.3f}")
        if best is None or score > best[0]:
            best = score, strength, state
    assert best is not None
    development, strength, state = best
    first = {"development": development, "test": _accuracy(state, mix, task, "test")}
    num_iterations = ITERATIONS[0]
    for stage in range(1, len(SMOOTHINGS)):
        state, info, done = _stage(method, stage, state, task.train, strength, mix)
        num_iterations += done
        say(
            f"    smoothing {SMOOTHINGS[stage]:<5g} {done:3}, gap {float(info.gap):.4f}"
        )
        if bool(info.converged):
            break
    return {
        "setting": {"strength": strength},
        "tried": tried,
        "first_stage": first,
        "development": _accuracy(state, mix, task, "development"),
        "test": _accuracy(state, mix, task, "test"),
        "objective": float(info.best_objective),
        "gap": float(info.gap),
        "rank": int(info.rank),
        "num_symbols": task.alphabet.num_symbols,
        "iterations": num_iterations,
    }


def _stage(
    method: Method, stage: int, state: Any, lattice: Lattice, strength: float, mix: Any
) -> tuple[Any, Any, int]:
    """Run one stage; return the state, the last `Info` and the number of iterations."""
    state, trace, done = _advance(
        method.regulariser,
        ITERATIONS[stage],
        state,
        lattice,
        np.float32(strength),
        np.float32(SMOOTHINGS[stage]),
        mix,
    )
    return state, jax.tree.map(lambda part: part[int(done) - 1], trace), int(done)


@functools.partial(jax.jit, static_argnums=0)
def _start(regulariser: Any, lattice: Lattice) -> Any:
    learner = smoothed.learner(regulariser=regulariser)
    return learner.init(jax.random.key(0), lattice)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _advance(
    regulariser: Any,
    num_iterations: int,
    state: Any,
    lattice: Lattice,
    strength: jax.Array,
    smoothing: jax.Array,
    mix: jax.Array,
) -> tuple[Any, Any, jax.Array]:
    learner = smoothed.learner(
        regulariser=regulariser,
        strength=strength,
        smoothing=smoothing,
        mixing=mix,
        tolerance=TOLERANCE,
    )
    return loops.converge(learner, state, lattice, max_iterations=num_iterations)


def _accuracy(state: Any, mix: jax.Array, task: Task, name: str) -> float:
    part = getattr(task, name)
    paths = _decode(state.best_params, mix, part.lattice)
    return data.hamming_accuracy(part.words, paths_to_words(paths, part.lattice))


@jax.jit
def _decode(params: hankel.Params, mix: jax.Array, lattice: Lattice) -> Any:
    table = hankel.score_table(hankel.basis(3), params, mixing=mix)
    return best_paths(table, lattice, cost=0.0)


def ahead(result: Result, left: str, right: str, size: int) -> Mean | None:
    """Return the mean difference on the same splits; None if one was not run."""
    scores = {
        (row["split"], row["method"]): row["test"]
        for row in result["rows"]
        if row["num_words"] == size
    }
    pairs = [(scores.get((s, left)), scores.get((s, right))) for s, _ in scores]
    pairs = list(dict.fromkeys(pairs))
    both = [a - b for a, b in pairs if a is not None and b is not None]
    return mean_of(both) if both else None


def verdicts(result: Result) -> list[Verdict]:
    """Decide each claim at each size by its interval over the splits."""
    found = []
    for size in result["sizes"]:
        for left in (SPECTRAL, SPECTRAL + FIRST_STAGE):
            for right in (CRF, PERCEPTRON, WIDE, SQUARED):
                difference = ahead(result, left, right, size)
                if difference is not None:
                    claim = f"{size:,} words: {left} above {right}"
                    found.append(decide(claim, difference))
    gaps = [row["gap"] for row in result["rows"] if "gap" in row]
    found.append(
        {
            "claim": f"every optimum has a gap below {100 * TOLERANCE:g} %",
            "value": max(gaps),
            "interval": None,
            "verdict": "holds" if max(gaps) <= TOLERANCE else "fails",
            "found": f"largest {100 * max(gaps):.2f} %",
        }
    )
    return found


def table(result: Result) -> str:
    """Write accuracies, gaps and differences as Markdown."""
    sizes, names = result["sizes"], _methods(result)
    rows, gaps, differences = [], [], []
    for name in names:
        own = [row for row in result["rows"] if row["method"] == name]
        at = [[row for row in own if row["num_words"] == size] for size in sizes]
        tests = [[row["test"] for row in part] for part in at]
        rows.append([name, *(mean_of(one).shown() if one else "" for one in tests)])
        if "gap" in own[0]:
            gaps.append([name, *(_optimum(part) if part else "" for part in at)])
    for right in names:
        if right != SPECTRAL:
            found = [ahead(result, SPECTRAL, right, size) for size in sizes]
            shown = [one.shown("+") if one else "" for one in found]
            differences.append([right, *shown])
    columns = [f"{size:,}" for size in sizes]
    return (
        markdown(["test accuracy (%)", *columns], rows)
        + f"\nMeans over {result['splits']} random splits with 95 % intervals. "
        "The optima, gap (largest), rank and iterations (means):\n\n"
        + markdown(["optimum", *columns], gaps)
        + f"\nPoints of {SPECTRAL} above each on the same splits:\n\n"
        + markdown(["above", *columns], differences)
    )


def _methods(result: Result) -> list[str]:
    """Return the methods of a result, in the order of their runs."""
    return list(dict.fromkeys(row["method"] for row in result["rows"]))


def _optimum(rows: list[dict[str, Any]]) -> str:
    rank = np.mean([row["rank"] for row in rows])
    iterations = np.mean([row["iterations"] for row in rows])
    shown = f"gap {100 * max(row['gap'] for row in rows):.2f} %"
    return shown + (f", rank {rank:.0f}" if rank >= 0 else "") + f", {iterations:.0f}"


def picture(figure: Any, result: Result) -> None:
    """Draw the points above the CRF, with intervals, against the number of words."""
    figure.set_size_inches(6.4, 4.0)
    axes = figure.subplots()
    axes.axhline(0, color="0.5", linestyle="--", label=CRF)
    names = [name for name in _methods(result) if name != CRF]
    for place, name in enumerate(names):
        found = [ahead(result, name, CRF, size) for size in result["sizes"]]
        points = [(i, one) for i, one in enumerate(found) if one]
        axes.errorbar(
            [i + 0.06 * (place - (len(names) - 1) / 2) for i, _ in points],
            [one.mean for _, one in points],
            yerr=[one.half for _, one in points],
            marker="os^DvP"[place % 6],
            linestyle="none",
            capsize=2,
            label=name,
        )
    axes.set_xticks(range(len(result["sizes"])), [f"{n:,}" for n in result["sizes"]])
    axes.set_xlim(-0.5, len(result["sizes"]) - 0.5)
    axes.set_xlabel("training words")
    axes.set_ylabel("points above the CRF")
    axes.set_title("NETtalk, certified optima", loc="left")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize="small")


EXPERIMENT = Experiment(
    "smm-certified",
    "SMM: spectral with sub-patterns against CRF and perceptron, at certified optima",
    "the paper's data",
    "NETtalk",
    run,
    table,
    picture,
    verdicts=verdicts,
)
