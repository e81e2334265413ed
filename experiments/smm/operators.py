"""SMM Theorem 1 in use: accuracy against the number of states of an automaton, NETtalk.

Beyond the paper, which recovers operators in theory alone. A tagger is learnt, made an
automaton (an input-output OOM) of fewer and fewer states, and scored on the test words
with the automaton's own piecewise scores (SMM-Eq4). Four ways:

* spectral on both unfoldings, and unregularised: the learnt trigram table becomes an
  automaton by DR-M3, its two unfoldings cut at r: 2 + 2r states;
* spectral on the tied basis, ties kept by averaging or exactly (SMM-X2): operators
  recovered from its blocks (DR-M1), r states.

Strengths are chosen on the development words by the learnt table itself, before it is
made an automaton; step size and iterations are the same for all.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from experiments.intervals import Mean, decide, mean_of
from experiments.protocol import Experiment, Result, Say, Setup, Verdict
from experiments.smm import words
from experiments.smm.learners import tied as tied_fobos
from experiments.smm.words import Part, Split
from experiments.tables import markdown
from lowrank_jax import data
from lowrank_jax.batch.smm import fobos
from lowrank_jax.decode.lattice_paths import best_paths, paths_to_words
from lowrank_jax.models import hankel, operators
from lowrank_jax.streams.words import Lattice
from lowrank_jax.types import Learner

__all__ = ["EXPERIMENT"]

NUM_WORDS = 2_000
RANKS = (5, 10, 20, 30, 40, 60, 80)
STRENGTHS = (5.0, 10.0, 20.0)
STEP_SIZE = 0.3
SPECTRAL, PLAIN = "spectral", "unregularised"
PROJECTED, EXACT = "tied, averaged", "tied, exact"


class _Method(NamedTuple):
    """How a tagger is learnt, and how it becomes an automaton of rank r."""

    strengths: tuple[float, ...]
    has_end: bool  # True if words end in a boundary symbol
    learn: Callable[[Lattice, jax.Array], Any]
    table: Callable[[Any], jax.Array]
    cut: Callable[[Any, int], operators.Operators]
    has_lower_orders: bool


def run(setup: Setup) -> Result:
    """Learn, cut and score; small has one split, few iterations, no exact ties."""
    num_iterations = 200 if setup.is_full else 50
    corpus = words.read_words(setup.data_dir)
    methods = _methods(num_iterations)
    if not setup.is_full:
        del methods[EXACT]
    rows: list[dict[str, Any]] = []
    num_splits = 3 if setup.is_full else 1
    for seed in range(num_splits):
        split = words.draw_split(corpus, seed)
        for name, method in methods.items():
            make = functools.partial(_rows, split, method, setup.say)
            for row in setup.cell(f"{seed}, {name}", make):
                rows.append({"split": seed, "method": name, **row})
                setup.say(
                    f"split {seed} {name:15} {row['states']:4} states, "
                    f"{row['weights']:9,} weights: test {row['test']:.2f} "
                    f"(table {row['table_test']:.2f})"
                )
    return {
        "experiment": "smm-operators",
        "scale": setup.scale,
        "splits": num_splits,
        "num_words": NUM_WORDS,
        "iterations": num_iterations,
        "step_size": STEP_SIZE,
        "rows": rows,
        "curves": _curves(rows),
    }


def _methods(num_iterations: int) -> dict[str, _Method]:
    def iterate(learner: Learner, lattice: Lattice) -> Any:
        return lax.scan(
            lambda state, _: (learner.update(state, lattice)[0], None),
            learner.init(jax.random.key(0), lattice),
            length=num_iterations,
        )[0]

    def untied(regulariser: Any, unfolding: Any) -> _Method:
        blocks = hankel.basis(3, unfolding=unfolding)

        @jax.jit
        def learn(lattice: Lattice, strength: jax.Array) -> hankel.Params:
            learner = fobos.learner(
                regulariser=regulariser,
                unfolding=unfolding,
                strength=strength,
                step_size=STEP_SIZE,
            )
            return fobos.final_params(iterate(learner, lattice))

        def table(params: hankel.Params) -> jax.Array:
            return hankel.score_table(blocks, params)

        def cut(params: hankel.Params, rank: int) -> operators.Operators:
            return operators.from_trigrams(table(params), ranks=(rank, rank))

        strengths = STRENGTHS if regulariser == "nuclear" else (0.0,)
        return _Method(strengths, False, learn, jax.jit(table), _jit(cut), False)

    def tied(ties: str) -> _Method:
        @jax.jit
        def learn(lattice: Lattice, strength: jax.Array) -> jax.Array:
            learner = tied_fobos.learner(
                ties=ties, strength=strength, step_size=STEP_SIZE, max_prox_steps=20
            )
            return tied_fobos.final_params(iterate(learner, lattice))

        def table(matrix: jax.Array) -> jax.Array:
            return hankel.score_table(
                tied_fobos.BLOCKS, tied_fobos.table_params(matrix)
            )

        def cut(matrix: jax.Array, rank: int) -> operators.Operators:
            return operators.recover(hankel.sub_blocks(matrix), rank)

        return _Method(STRENGTHS, True, learn, jax.jit(table), _jit(cut), True)

    return {
        SPECTRAL: untied("nuclear", "both"),
        PLAIN: untied("none", "last"),
        PROJECTED: tied("projection"),
        EXACT: tied("exact"),
    }


def _jit(cut: Callable[[Any, int], operators.Operators]) -> Any:
    return jax.jit(cut, static_argnums=1)


def _rows(split: Split, method: _Method, say: Say) -> list[dict[str, Any]]:
    """Return one row per rank."""
    task = words.make_task(split, NUM_WORDS, has_end=method.has_end)
    best = words.Best()
    for strength in method.strengths:
        params = method.learn(task.train, jnp.float32(strength))
        found = _accuracy(method.table(params), task.development)
        say(f"    strength {strength:g}: development {found:.2f}")
        best = best.or_better(found, {"strength": strength}, params)
    params = best.params
    table_test = _accuracy(method.table(params), task.test)
    rows = []
    for rank in RANKS:
        if rank > task.alphabet.num_symbols:
            break
        model = method.cut(params, rank)
        scores = _trigram_table(model, lower_orders=method.has_lower_orders)
        row = {
            "rank": rank,
            "states": int(model.alpha.shape[0]),
            "weights": operators.num_weights(model),
            "test": _accuracy(scores, task.test),
            "table_test": table_test,
            "table_weights": int(np.count_nonzero(method.table(params))),
            "development": best.development,
            **best.setting,
        }
        rows.append(row)
    return rows


_trigram_table = jax.jit(operators.trigram_table, static_argnames="lower_orders")
_best_paths = jax.jit(functools.partial(best_paths, cost=0.0))


def _accuracy(scores: jax.Array, part: Part) -> float:
    found = paths_to_words(_best_paths(scores, part.lattice), part.lattice)
    return data.hamming_accuracy(part.words, found)


def _curves(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Average over splits; the last point of a curve is the table itself."""
    curves: dict[str, list[dict[str, Any]]] = {}
    for name in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == name]
        curve = []
        for states in sorted({row["states"] for row in own}):
            some = [row for row in own if row["states"] == states]
            curve.append(_point(states, some, ""))
        first = [row for row in own if row["rank"] == own[0]["rank"]]
        curves[name] = [*curve, _point(None, first, "table_")]
    return curves


def _point(
    states: int | None, rows: list[dict[str, Any]], prefix: str
) -> dict[str, Any]:
    found = mean_of([row[f"{prefix}test"] for row in rows])
    return {
        "states": states,
        "weights": float(np.mean([row[f"{prefix}weights"] for row in rows])),
        "test": found.mean,
        "half_width": found.half,
    }


def table(result: Result) -> str:
    """Write the curves as Markdown."""
    rows = [
        [
            name,
            "the table" if point["states"] is None else point["states"],
            f"{point['weights']:,.0f}",
            Mean(point["test"], point["half_width"]).shown(),
        ]
        for name, curve in result["curves"].items()
        for point in curve
    ]
    return (
        f"Letter accuracy on test words (%), {result['num_words']:,} training words, "
        f"means over {result['splits']} random splits with half the 95 % interval; "
        "weights that are not zero.\n\n"
        + markdown(["method", "states", "weights", "accuracy"], rows)
    )


def picture(figure: Any, result: Result) -> None:
    """Draw accuracy against states; the table as a dotted line."""
    figure.set_size_inches(6.4, 4.4)
    axes = figure.subplots()
    for (name, curve), marker in zip(result["curves"].items(), "os^D", strict=False):
        points = [point for point in curve if point["states"] is not None]
        (line, *_) = axes.errorbar(
            [point["states"] for point in points],
            [point["test"] for point in points],
            yerr=[point["half_width"] for point in points],
            marker=marker,
            capsize=2,
            label=name,
        )
        axes.axhline(curve[-1]["test"], color=line.get_color(), linestyle=":")
    axes.set_xlabel("states of the automaton (dotted: the table it is made from)")
    axes.set_ylabel("test accuracy (%)")
    axes.set_title(f"NETtalk, {result['num_words']:,} words", loc="left")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize="small")


def verdicts(result: Result) -> list[Verdict]:
    """Compare automata of spectral and unregularised tables, by states and split."""
    tests: dict[int, dict[str, dict[int, float]]] = {}
    for row in result["rows"]:
        at = tests.setdefault(row["rank"], {}).setdefault(row["method"], {})
        at[row["split"]] = row["test"]
    found = []
    for rank, of in sorted(tests.items()):
        if SPECTRAL in of and PLAIN in of and of[SPECTRAL].keys() == of[PLAIN].keys():
            pairs = [of[SPECTRAL][split] - of[PLAIN][split] for split in of[PLAIN]]
            claim = f"cut at rank {rank}: spectral above unregularised"
            found.append(decide(claim, mean_of(pairs)))
    return found


EXPERIMENT = Experiment(
    "smm-operators",
    "SMM Theorem 1 in use: accuracy against the states of a recovered automaton",
    "the paper's data",
    "NETtalk",
    run,
    table,
    picture,
    verdicts=verdicts,
)
