"""SBLR-E1: seconds and iterations of Algorithms 1 and 2 on growing matrices (Table 1).

100 matrices of two classes, ``randn(s, t) + 1`` and ``randn(s, t) - 1``, s = t; rank 1;
stop at q <= 1e-3 or 500 iterations; float32. The start (an SVD of one matrix) is
counted, and shown apart as well; compilation is not counted. Algorithm 1 solves each
block to a gradient mapping of 1e-5 and keeps :math:`X_i V` (then :math:`X_i^T U`) while
it does: like Algorithm 2 it reads the matrices twice an outer iteration, which the
paper's Algorithm 1 may not have done, so that the ratio of the two is the smaller here.
What it would take if every inner step read the matrices is estimated: one product of
all matrices with a vector an inner step more.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import loops
from lowrank_jax.batch import bcpd
from lowrank_jax.models import bilinear_logit
from lowrank_jax.models.logistic import Labelled, label_matrices

__all__ = ["matrices_of", "plot", "run", "stream_ratio", "table"]

NUM_MATRICES = 100
TOLERANCE = 1e-3
MAX_ITERATIONS = 500
SIZES = (50, 100, 250, 500, 750, 1000)
#: Of the paper, by mu2 = nu2 and size: seconds and iterations of Alg1, then of Alg2.
PAPER = {
    1.0: {
        50: (0.79, 5, 0.03, 9),
        100: (1.13, 6, 0.06, 11),
        250: (3.89, 6, 0.56, 31),
        500: (9.96, 5, 1.80, 4),
        750: (18.60, 7, 4.04, 4),
        1000: (16.25, 3, 7.92, 4),
    },
    0.0: {
        50: (6.87, 17, 0.37, 282),
        100: (14.39, 29, 0.38, 47),
        250: (21.73, 8, 3.49, 28),
        500: (78.32, 7, 4.07, 11),
        750: (129.23, 8, 4.31, 4),
        1000: (218.49, 9, 8.19, 4),
    },
}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "Alg1": {"solver": "minimise"},
    "Alg2": {},
    "Alg2, label start": {"start": "label"},
}


def matrices_of(size: int, seed: int, num_matrices: int = NUM_MATRICES) -> Labelled:
    """Draw the data of the table."""
    rng = np.random.default_rng(seed)
    signs = np.where(np.arange(num_matrices) % 2 == 0, 1, -1)
    x = rng.standard_normal((num_matrices, size, size), np.float32)
    x += signs[:, None, None].astype(np.float32)
    return label_matrices(x, signs)[0]


def _timed(call: Callable[..., Any], *given: Any) -> tuple[Any, float]:
    began = time.perf_counter()
    found = jax.block_until_ready(call(*given))
    return found, time.perf_counter() - began


def run(
    scale: str,
    data_dir: Path | str | None,
    say: Callable[[str], None],
    keep: Callable[[dict[str, Any]], None] = lambda result: None,
) -> dict[str, Any]:
    """Time all sizes, settings and seeds; see `sblr_table2.run` for the arguments."""
    del data_dir  # the data are drawn
    sizes, num_seeds = (SIZES, 5) if scale == "full" else (SIZES[:3], 2)
    result: dict[str, Any] = {
        "experiment": "sblr-table1",
        "scale": scale,
        "seeds": num_seeds,
        "num_matrices": NUM_MATRICES,
        "dtype": "float32",
        "block_tolerance": 1e-5,
        "remark": "Alg1 here keeps X V for each block, so that it reads X twice an "
        'outer iteration as Alg2 does; the paper\'s may not have. "Rereading" is an '
        "estimate: one product with X more for each inner step.",
        "rows": [],
    }
    for size in sizes:
        result["rows"] += size_rows(size, num_seeds, say)
        keep(result)
    result["stream"] = stream_ratio(matrices_of(sizes[-1], 0), say)
    return result


def size_rows(
    size: int,
    num_seeds: int,
    say: Callable[[str], None],
    algorithms: dict[str, dict[str, Any]] = ALGORITHMS,
) -> list[dict[str, Any]]:
    """Return the rows of one size: a setting and an algorithm each."""
    names = [(l2, name) for l2 in PAPER for name in algorithms]
    runs: dict[tuple[float, str], list[dict[str, float]]] = {key: [] for key in names}
    compiled: dict[str, tuple[Any, Any, float]] = {}
    product_seconds = 0.0
    for seed in range(num_seeds):
        labelled = matrices_of(size, seed)
        if seed == 0:
            product_seconds = _product_seconds(labelled)
        for name, options in algorithms.items():
            if name not in compiled:
                compiled[name] = _compile(labelled, options)
            init, descend, _ = compiled[name]
            for l2 in PAPER:
                strength = jnp.float32(l2)
                state, start = _timed(init, labelled, strength)
                found, seconds = _timed(descend, state, labelled, strength)
                state, trace, number = found
                last = int(number) - 1
                runs[l2, name].append(
                    {
                        "seconds": start + seconds,
                        "start_seconds": start,
                        "iterations": last + 1,
                        "inner": int(trace.num_trials[: last + 1].sum()),
                        "objective": float(state.objective),
                        "left_support": int(trace.left_support[last]),
                        "converged": bool(trace.converged[last]),
                    }
                )
        del labelled
    rows: list[dict[str, Any]] = []
    for (l2, name), each in runs.items():
        paper = PAPER[l2].get(size)
        at = 0 if name == "Alg1" else 2
        rows.append(
            {
                "size": size,
                "l2": l2,
                "algorithm": name,
                "seconds": float(np.mean([one["seconds"] for one in each])),
                "start_seconds": float(np.mean([one["start_seconds"] for one in each])),
                "compile_seconds": compiled[name][2],
                "iterations": float(np.median([one["iterations"] for one in each])),
                "inner": float(np.median([one["inner"] for one in each])),
                "objective": float(np.mean([one["objective"] for one in each])),
                "converged": all(one["converged"] for one in each),
                "paper_seconds": None if paper is None else paper[at],
                "paper_iterations": None if paper is None else paper[at + 1],
                "runs": each,
            }
        )
        row = rows[-1]
        if name == "Alg1":
            more = row["inner"] * product_seconds
            row["reread_seconds"] = row["seconds"] + more  # an estimate
        say(
            f"{size:5} mu2 {l2:.0f} {name:18} {row['seconds']:9.4f} s "
            f"(start {row['start_seconds']:.4f})  {row['iterations']:5.0f} iterations  "
            f"F {row['objective']:.6f}  paper {row['paper_seconds']} s"
        )
    return rows


def _compile(labelled: Labelled, options: dict[str, Any]) -> tuple[Any, Any, float]:
    """Compile the start and the descent, with the strength of the ridges open."""

    def build(l2: jax.Array) -> Any:
        return bcpd.learner(
            mu1=0.1, nu1=0.1, mu2=l2, nu2=l2, tolerance=TOLERANCE, **options
        )

    def init(labelled: Labelled, l2: jax.Array) -> bcpd.State:
        return build(l2).init(jax.random.key(0), labelled)

    def descend(state: bcpd.State, labelled: Labelled, l2: jax.Array) -> Any:
        return loops.converge(build(l2), state, labelled, max_iterations=MAX_ITERATIONS)

    began = time.perf_counter()
    strength = jnp.float32(0)
    start = jax.jit(init).lower(labelled, strength).compile()
    shape = jax.eval_shape(init, labelled, strength)
    down = jax.jit(descend).lower(shape, labelled, strength).compile()
    return start, down, time.perf_counter() - began


def _product_seconds(labelled: Labelled) -> float:
    """Return the seconds that all X_i v take, the median of five."""
    call = jax.jit(bilinear_logit.left_features)
    vector = jnp.ones((1, labelled.x.shape[2], 1), labelled.x.dtype)
    jax.block_until_ready(call(labelled, vector))
    return float(np.median([_timed(call, labelled, vector)[1] for _ in range(5)]))


def stream_ratio(
    labelled: Labelled,
    say: Callable[[str], None],
    *,
    num_iterations: int = 10,
    num_repeats: int = 5,
) -> dict[str, float]:
    """Time an iteration of Algorithm 2 beside one reading of all matrices.

    Args:
      labelled: the matrices.
      say: takes one line.
      num_iterations: in one run, which does not stop before.
      num_repeats: medians are of so many, taken in turn.
    """
    learner = bcpd.learner(mu1=0.1, nu1=0.1, mu2=1.0, nu2=1.0, tolerance=0.0)

    @jax.jit
    def descend(state: bcpd.State, labelled: Labelled) -> Any:
        return loops.converge(learner, state, labelled, max_iterations=num_iterations)[
            1:
        ]

    read = jax.jit(lambda x: x.sum())
    state = jax.jit(learner.init)(jax.random.key(0), labelled)
    # The stopping rule has q <= 0: a run that has come to a standstill ends early.
    number = int(descend(state, labelled)[1])
    jax.block_until_ready(read(labelled.x))
    reads, runs = [], []
    for _ in range(num_repeats):
        reads.append(_timed(read, labelled.x)[1])
        runs.append(_timed(descend, state, labelled)[1])
    stream, iteration = float(np.median(reads)), float(np.median(runs)) / number
    size = labelled.x.shape[1]
    say(
        f"an iteration of Alg2 at {size}: {1e3 * iteration:.2f} ms; reading X once "
        f"{1e3 * stream:.2f} ms; ratio {iteration / stream:.2f}"
    )
    return {
        "size": size,
        "iteration_seconds": iteration,
        "stream_seconds": stream,
        "ratio": iteration / stream,
    }


def table(result: dict[str, Any]) -> str:
    """Write the result as Markdown."""
    by = {(r["l2"], r["size"], r["algorithm"]): r for r in result["rows"]}
    lines = [
        f"{result['num_matrices']} matrices, float32, mean seconds / median iterations "
        f"of {result['seeds']} seeds, the start counted, compilation apart. "
        f"{result['remark']}\n"
    ]
    for l2 in PAPER:
        lines += [
            f"mu1 = nu1 = 0.1, mu2 = nu2 = {l2:g}:\n",
            "| s = t | Alg1 | Alg2 | Alg2, label start | start alone "
            "| Alg1 / Alg2 | Alg1, rereading "
            "| F of Alg1, Alg2, label start | paper Alg1 | paper Alg2 |",
            "|---" * 10 + "|",
        ]
        for size in sorted({row["size"] for row in result["rows"]}):
            rows = [by[l2, size, name] for name in ALGORITHMS]
            cells = [f"{r['seconds']:.3g} / {r['iterations']:.0f}" for r in rows]
            cells.append(f"{rows[1]['start_seconds']:.3g}")
            cells.append(f"{rows[0]['seconds'] / rows[1]['seconds']:.1f}")
            again = rows[0]["reread_seconds"]
            cells.append(f"{again:.3g} ({again / rows[1]['seconds']:.1f})")
            cells.append(", ".join(f"{row['objective']:.4f}" for row in rows))
            cells += [
                "" if r["paper_seconds"] is None
                else f"{r['paper_seconds']:g} / {r['paper_iterations']}"
                for r in rows[:2]
            ]  # fmt: skip
            lines.append(f"| {size} | " + " | ".join(cells) + " |")
        lines.append("")
    stream = result["stream"]
    lines.append(
        f"An iteration of Alg2 at s = t = {stream['size']} takes "
        f"{1e3 * stream['iteration_seconds']:.1f} ms, {stream['ratio']:.2f} times as "
        f"long as reading X once ({1e3 * stream['stream_seconds']:.1f} ms)."
    )
    return "\n".join(lines) + "\n"


def plot(result: dict[str, Any], path: Path) -> None:
    """Draw seconds against size, one panel a setting, the paper's dashed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        1, 2, figsize=(8.4, 3.6), layout="constrained", sharey=True
    )
    for axes, l2 in zip(panels, PAPER, strict=True):
        for name, colour in zip(ALGORITHMS, ("C3", "C0", "C2"), strict=True):
            rows = [
                row
                for row in result["rows"]
                if row["l2"] == l2 and row["algorithm"] == name
            ]
            sizes = [row["size"] for row in rows]
            axes.loglog(
                sizes, [r["seconds"] for r in rows], "o-", color=colour, label=name
            )
            if "start" not in name:
                axes.loglog(
                    sizes,
                    [row["paper_seconds"] for row in rows],
                    "s--",
                    color=colour,
                    alpha=0.5,
                    markerfacecolor="none",
                    label=f"{name}, paper",
                )
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.set_xlabel("s = t")
        axes.set_title(f"mu1 = nu1 = 0.1, mu2 = nu2 = {l2:g}", loc="left")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("seconds to q <= 1e-3")
    panels[1].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)
