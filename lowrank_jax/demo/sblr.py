"""Matrices: sparse bilinear logistic regression beside logistic regression.

The matrices are scikit-learn's handwritten digits, 8 x 8 pixels. If scikit-learn is not
installed, they are made up: three classes, each with a pattern of rank 1.
"""

import importlib.util
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import loops, streams
from lowrank_jax.batch.sblr import fista
from lowrank_jax.demo import Row, Size, draw_curves, rows_table
from lowrank_jax.estimators import classifier
from lowrank_jax.models import matrix_logit
from lowrank_jax.report.page import BLUE, ORANGE, picture

__all__ = ["TITLE", "Demo", "run", "section"]
__dir__ = __all__.copy

TITLE = "Matrices: digits told apart by sparse factors"
_RANKS = (1, 2)
_COLOURS = {"sblr, rank 1": ORANGE, "sblr, rank 2": BLUE}
_STRENGTH = 1e-3  # the best of some for a part of the training digits held out


class Demo(NamedTuple):
    """What the section shows."""

    about: str  # the data, HTML
    classes: list[str]
    left: np.ndarray  # (m, s, r)  U of the largest rank
    right: np.ndarray  # (m, t, r)  V
    rows: list[Row]


class _Data(NamedTuple):
    x: np.ndarray
    y: np.ndarray
    about: str


def run(size: Size, tell: Callable[[Row], None]) -> Demo:
    """Fit models of rank 1, 2 and of full rank; `tell` takes the row of each."""
    every = _digits() if importlib.util.find_spec("sklearn") else _made_up()
    order = np.random.default_rng(0).permutation(len(every.x))
    train, test = order[: size.matrices], order[size.matrices : size.matrices + 500]
    x, y = every.x[train], every.y[train]
    rows = []
    for rank in _RANKS:
        done = classifier.fit(
            x,
            y,
            rank=rank,
            mu1=_STRENGTH,
            nu1=_STRENGTH,
            mu2=0.0,
            nu2=0.0,
            solver="proximal",
            multi_class="one-vs-all",
            max_iterations=size.sweeps,
        )
        model = done.classifier
        is_right = model.scores(every.x[test]).argmax(1) == every.y[test]
        parts = (model.params.left, model.params.right)
        trace = [np.asarray(trace.objective) for trace in done.traces]
        longest = max(len(part) for part in trace)
        padded = [np.pad(part, (0, longest - len(part)), "edge") for part in trace]
        weights = np.concatenate([np.ravel(part) for part in parts])
        cells, along = _cells(is_right, weights), {"objective": np.sum(padded, axis=0)}
        name = f"sblr, rank {rank}"
        rows.append(Row(name, cells, done.seconds, along, kind="model"))
        tell(rows[-1])
    rows.append(_logistic_regression(every, train, test))
    tell(rows[-1])
    return Demo(
        about=every.about.format(len(train), len(test)),
        classes=[str(c) for c in model.classes],
        left=np.asarray(model.params.left),
        right=np.asarray(model.params.right),
        rows=rows,
    )


def _cells(is_right: np.ndarray, weights: np.ndarray) -> dict[str, str]:
    return {
        "accuracy": f"{100 * is_right.mean():.1f} %",
        "weights": f"{weights.size:,}",
        "not 0": f"{int((weights != 0).sum()):,}",
    }


def _digits() -> _Data:
    from sklearn.datasets import load_digits

    found = load_digits()
    about = (
        "Handwritten digits of 8 x 8 pixels (scikit-learn's), {:,} to learn from, {:,} "
        "to test on."
    )
    return _Data(found.images.astype(np.float32), found.target, about)


def _made_up() -> _Data:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 1800)
    left, right = rng.normal(size=(3, 8)), rng.normal(size=(3, 8))
    left, right = (np.where(np.abs(part) > 0.5, part, 0) for part in (left, right))
    x = 0.4 * np.einsum("ns,nt->nst", left[y], right[y])
    x = (x + rng.normal(size=x.shape)).astype(np.float32)
    about = (
        "Made-up matrices of 8 x 8, three classes with a sparse pattern of rank 1 each "
        "in noise, {:,} to learn from, {:,} to test on."
    )
    return _Data(x, y, about)


def _logistic_regression(every: _Data, train: np.ndarray, test: np.ndarray) -> Row:
    """Fit one weight per pixel with a ridge, all classes jointly (FISTA)."""
    scaling = classifier.scaling_of(every.x[train], "global")
    labelled, classes = streams.matrices.label_matrices(
        scaling(every.x[train]), every.y[train]
    )
    learner = fista.learner(l2=2e-3, restart=True, tolerance=1e-4)
    program = jax.jit(
        lambda labelled: loops.converge(
            learner,
            learner.init(jax.random.key(0), labelled),
            labelled,
            max_iterations=400,
        )
    )
    compiled = program.lower(labelled).compile()
    began = time.perf_counter()
    state, _, _ = jax.block_until_ready(compiled(labelled))
    seconds = time.perf_counter() - began
    params = fista.final_params(state)
    found = matrix_logit.scores(params, jnp.asarray(scaling(every.x[test])))
    scores = np.pad(np.asarray(found), ((0, 0), (0, 1)))  # the reference class
    cells = _cells(
        classes[scores.argmax(1)] == every.y[test], np.asarray(params.weights)
    )
    return Row("logistic regression", cells, seconds, {}, kind="model")


def section(demo: Demo) -> list[str]:
    """Return the section; HTML."""
    return [
        "<h2>Matrices: weights that are an outer product</h2>",
        f"<p>{demo.about} Sparse bilinear logistic regression scores a matrix X by "
        "tr(U<sup>T</sup>XV): a weight for each row and for each column, many of them "
        "exactly 0, instead of one for each entry.</p>",
        rows_table(demo.rows),
        picture(
            lambda figure: _draw_patterns(figure, demo),
            "Each square shows what a class looks for: U (on its left), V (above it) "
            f"and their product UV<sup>T</sup>, of rank {demo.left.shape[2]}. Blue "
            "speaks for the class, red against it; white weights are exactly 0 or "
            "nearly so.",
            height=2.6 if len(demo.classes) > 5 else 1.8,
            width=5.2,
        ),
        picture(
            lambda figure: _draw_course(figure, demo),
            "The curves show the objective of the sparse models, summed over the "
            "classes, which falls in every iteration.",
            height=2.6,
        ),
    ]


def _draw_patterns(figure: Any, demo: Demo) -> None:
    num_classes = len(demo.left)
    num_columns = 5 if num_classes > 5 else num_classes
    panels = figure.subplots(-(-num_classes // num_columns), num_columns, squeeze=False)
    for axes in panels.flat:
        axes.axis("off")
    for axes, left, right, name in zip(
        panels.flat, demo.left, demo.right, demo.classes, strict=False
    ):
        axes.imshow(_composed(left, right), "RdBu", vmin=-1, vmax=1)
        axes.set_title(name, fontsize=10)


def _composed(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Put U to the left of the product and V above it, each to its own scale."""
    rank = left.shape[1]
    image = np.full((len(left) + rank + 1, len(right) + rank + 1), np.nan)
    for rows, columns, part in (
        (slice(rank + 1, None), slice(None, rank), left),
        (slice(None, rank), slice(rank + 1, None), right.T),
        (slice(rank + 1, None), slice(rank + 1, None), left @ right.T),
    ):
        image[rows, columns] = part / max(float(np.abs(part).max()), 1e-9)
    return image


def _draw_course(figure: Any, demo: Demo) -> None:
    axes = figure.subplots()
    draw_curves(axes, demo.rows[:-1], "objective", _COLOURS)
    axes.set(xscale="log", xlabel="iteration", ylabel="objective")
    axes.legend(fontsize=9)
