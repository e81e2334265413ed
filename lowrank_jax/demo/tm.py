"""Lists: Tensor-MIRA beside MIRA and the perceptron.

A feature is a pair of properties, and its true weight a product of one number for each
of the two (`data.made.lists`): laid out as a table the weights have rank 1.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from lowrank_jax import loops, metrics, streams
from lowrank_jax.data import lists
from lowrank_jax.data.made.lists import reranking_task
from lowrank_jax.demo import Row, Size, draw_curves, rows_table
from lowrank_jax.estimators import reranker as choosing
from lowrank_jax.models import candidates, tensor
from lowrank_jax.models.tensor import Shape
from lowrank_jax.online import rerank, tensor_mira
from lowrank_jax.report.page import BLUE, GREEN, GREY, ORANGE, picture
from lowrank_jax.types import Learner

__all__ = ["TITLE", "Demo", "run", "section"]
__dir__ = __all__.copy

TITLE = "Lists: the best of some candidates"
_SIZES, _NUM_COMPONENTS = (20, 20), 2
_NUM_PASSES, _NUM_TEST = 8, 400
_MAX_STEP = 0.1  # C; the best of some on tasks of other seeds, for all learners
_COLOURS = {
    "perceptron": GREY,
    "MIRA": GREEN,
    "Tensor-MIRA, paper": ORANGE,
    "Tensor-MIRA, descent": BLUE,
}


class Demo(NamedTuple):
    """What the section shows."""

    num_train: int
    base: float  # quality of the first candidates
    rows: list[Row]
    planted: np.ndarray  # (n_1, n_2) the true weights, each in its cell
    found: np.ndarray  # (n_1, n_2) the weights of the last learner


class _Task(NamedTuple):
    """Lists to learn from and to test on, on the device."""

    train: streams.lists.Stream
    test: streams.lists.Stream
    test_lists: lists.Lists


def run(size: Size, tell: Callable[[Row], None]) -> Demo:
    """Train all learners; `tell` takes the row of each."""
    train, test, truth = reranking_task(
        size.lists, _NUM_TEST, seed=0, sizes=_SIZES, noise=0.3, shuffled=False
    )
    task = _Task(streams.lists.stream(train), streams.lists.stream(test), test)
    shape = Shape(_SIZES, _NUM_COMPONENTS)
    linear = _Model(candidates.linear_scores, rerank.final_params, train.num_features)
    folded = _Model(
        tensor.scores, tensor_mira.final_params, _NUM_COMPONENTS * sum(_SIZES)
    )

    def tensor_learner(step: Any) -> Learner:
        return tensor_mira.learner(
            shape=shape,
            step=step,
            start="random",
            averaging="average",
            max_step_size=_MAX_STEP,
        )

    rows = []
    for name, learner, model in (
        ("perceptron", rerank.learner(rule="perceptron"), linear),
        ("MIRA", rerank.learner(max_step_size=_MAX_STEP), linear),
        ("Tensor-MIRA, paper", tensor_learner("paper"), folded),
        ("Tensor-MIRA, descent", tensor_learner("bcd"), folded),
    ):
        row, params = _train(name, task, learner, model)
        tell(row)
        rows.append(row)
    left, right = (np.asarray(part) for part in params)
    return Demo(
        num_train=size.lists,
        base=metrics.quality_of(test, np.zeros(_NUM_TEST, int)).base,
        rows=rows,
        planted=truth.weights.reshape(_SIZES, order="F"),
        found=np.einsum("hi,hj->ij", left, right),
    )


class _Model(NamedTuple):
    scores: Callable[..., Any]
    final_params: Callable[[Any], Any]
    num_parameters: int


@functools.lru_cache
def _chooser(scores: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(functools.partial(choosing.choose, scores))


def _train(name: str, task: _Task, learner: Learner, model: _Model) -> tuple[Row, Any]:
    choose = _chooser(model.scores)
    quality, seconds = [], 0.0
    for done in loops.passes(
        learner, task.train, key=jax.random.key(0), num_passes=_NUM_PASSES
    ):
        params = model.final_params(done.state)
        chosen = choose(params, task.test)
        quality.append(metrics.quality_of(task.test_lists, chosen).chosen)
        seconds += done.seconds
    cells = {"quality": f"{quality[-1]:.3f}", "weights": f"{model.num_parameters:,}"}
    return Row(name, cells, seconds, {"quality": quality}), params


def section(demo: Demo) -> list[str]:
    """Return the section; HTML."""
    return [
        "<h2>Lists: a weight vector folded into a tensor</h2>",
        "<p>The task is to choose the best candidate of a list. There are "
        f"{demo.num_train:,} lists to learn from, with noise, and {_NUM_TEST:,} to "
        f"test on. Each of the {demo.planted.size:,} features is a pair of properties, "
        "and its true weight a product of two numbers. Tensor-MIRA lays the weights "
        f"out as a table of {_SIZES[0]} x {_SIZES[1]} and learns "
        f"{_NUM_COMPONENTS * sum(_SIZES)} numbers in their place. The paper's step can "
        "make its own objective worse; block descent never does.</p>",
        rows_table(demo.rows),
        '<p class="small">Mean quality of the chosen candidates, between 0 (the worst '
        "of its list) and 1 (the best). The first candidates have "
        f"{demo.base:.3f}.</p>",
        picture(
            lambda figure: _draw_quality(figure, demo),
            "The curves show the mean quality of the candidates that are chosen from "
            "the test lists, after each pass.",
            height=3.0,
        ),
        picture(
            lambda figure: _draw_weights(figure, demo),
            "The left table shows the true weights of all features, the right table "
            "the weights that Tensor-MIRA by block descent found: blue is positive, "
            "red negative.",
            height=2.5,
        ),
    ]


def _draw_quality(figure: Any, demo: Demo) -> None:
    axes = figure.subplots()
    draw_curves(axes, demo.rows, "quality", _COLOURS)
    axes.set(xlabel="pass", ylabel="test quality")
    axes.xaxis.get_major_locator().set_params(integer=True)
    figure.legend(fontsize=9, loc="outside upper left", ncols=2)


def _draw_weights(figure: Any, demo: Demo) -> None:
    panels = figure.subplots(1, 2)
    for axes, title, image in zip(
        panels, ("true", "found"), (demo.planted, demo.found), strict=True
    ):
        limit = float(np.abs(image).max()) or 1.0
        axes.imshow(image, "RdBu", vmin=-limit, vmax=limit)
        axes.set(xticks=[], yticks=[], title=title)
        axes.grid(visible=False)
