"""Words: spectral max-margin tagging beside other penalties.

The words are made by a hidden automaton of few states (`data.made.words`): a letter
sounds differently in each state, and the letters about it tell which.
"""

import html
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from lowrank_jax import loops, metrics, streams
from lowrank_jax.batch.smm import fobos
from lowrank_jax.data.bisymbols import alphabet_of, encode_words
from lowrank_jax.data.corpus import Corpus
from lowrank_jax.data.made.words import spelling_task
from lowrank_jax.demo import Size
from lowrank_jax.estimators.speller import Speller
from lowrank_jax.report.page import BLUE, GREY, ORANGE, picture, table

__all__ = ["HEAD", "Demo", "Result", "cells", "run", "section"]

HEAD = ("penalty", "accuracy", "rank", "gap", "training")
_BASIS: dict[str, Any] = {"order": 3, "lower_orders": "none", "unfolding": "last"}
# Strength for each training word, and step: the best of some on tasks of other seeds.
_SETTINGS: dict[str, tuple[str, float, float]] = {
    "none": ("none", 0.0, 0.05),
    "L2": ("squared_frobenius", 1 / 40, 0.3),
    "spectral": ("nuclear", 1 / 15, 0.3),
}
_COLOURS = {"none": GREY, "L2": ORANGE, "spectral": BLUE}
_NUM_WORDS = 12
_EVERY = 10


class Result(NamedTuple):
    """One penalty.

    Attributes:
      name: of the penalty.
      iterations: at which the test words were tagged.
      accuracies: of their letters, percent.
      values: (n,) singular values of the table of scores at the end.
      gap: between objective and lower bound at the end, percent; nan without a bound.
      seconds: of the training, compilation left out.
      predicted: (num_tokens,) outputs for the test letters.
    """

    name: str
    iterations: list[int]
    accuracies: list[float]
    values: np.ndarray
    gap: float
    seconds: float
    predicted: np.ndarray

    @property
    def rank(self) -> int:
        """Of the table, up to rounding."""
        return int((self.values > 1e-4 * self.values[0]).sum())


class Demo(NamedTuple):
    """What the section shows."""

    train: Corpus
    test: Corpus
    num_states: int
    results: list[Result]


def run(size: Size, tell: Callable[[Result], None]) -> Demo:
    """Train with each penalty; `tell` hears of each."""
    train, test, truth = spelling_task(size.words, 400, seed=0, noise=0.05)
    results = []
    for name in _SETTINGS:
        result = _train(name, train, test, size.iterations)
        tell(result)
        results.append(result)
    return Demo(train, test, len(truth.moves), results)


def _train(name: str, train: Corpus, test: Corpus, number: int) -> Result:
    alphabet = alphabet_of(train)
    lattice = jax.device_put(fobos.lay_out(alphabet, encode_words(alphabet, train)))
    regulariser, strength, step_size = _SETTINGS[name]
    learner = fobos.learner(
        regulariser=regulariser,
        strength=strength * train.num_sentences,
        step_size=step_size,
        tolerance=0.0,
        **_BASIS,
    )
    assert test.labels is not None
    iterations, accuracies, seconds = [], [], 0.0
    for done in loops.passes(
        learner, streams.Whole(lattice), key=jax.random.key(0), num_passes=number
    ):
        seconds += done.seconds
        if (done.pass_index + 1) % _EVERY == 0 or done.pass_index + 1 == number:
            params = fobos.final_params(done.state, "average")
            predicted = Speller.from_params(alphabet, params, _BASIS).predict(test)
            iterations.append(done.pass_index + 1)
            accuracies.append(metrics.token_accuracy(test.labels, predicted))
    last = np.asarray(fobos.final_params(done.state)[0])
    return Result(
        name,
        iterations,
        accuracies,
        np.linalg.svd(last, compute_uv=False),
        100 * float(done.trace.gap) if name == "spectral" else float("nan"),
        seconds,
        predicted,
    )


def cells(result: Result) -> tuple[str, ...]:
    """Return the row of a penalty in the table."""
    return (
        result.name,
        f"{result.accuracies[-1]:.1f} %",
        str(result.rank),
        "-" if np.isnan(result.gap) else f"{result.gap:.1f} %",
        f"{result.seconds:.2f} s",
    )


def section(demo: Demo) -> list[str]:
    """Return the section; HTML."""
    return [
        "<h2>Words: a penalty on the rank</h2>",
        f"<p>A hidden automaton of {demo.num_states} states writes words and speaks "
        "them: in each state a letter sounds differently, and only its neighbours tell "
        f"where the automaton stands. There are {demo.train.num_sentences:,} words to "
        f"learn from, and {demo.test.num_sentences:,} to test on. A table scores three "
        "neighbouring pairs of letter and output; a penalty on its singular values "
        "looks for an automaton of few states behind it.</p>",
        table(HEAD, [cells(result) for result in demo.results]),
        '<p class="small">Accuracy of the test letters, by the averaged table; rank of '
        "the last one; the gap is between the objective and a lower bound on the "
        "optimum (DR-M2).</p>",
        "<p>Some test words with the outputs found by the <b>spectral</b> penalty; "
        "wrong ones in red:</p>",
        _words(demo),
        picture(
            lambda figure: _draw(figure, demo),
            "Left: accuracy on the test words along the iterations. Right: singular "
            "values of the table at the end; the spectral penalty takes the small ones "
            "to 0.",
            height=2.6,
            width=5.4,
        ),
    ]


def _words(demo: Demo) -> str:
    """Show some words, each letter with its output, wrong ones marked."""
    letters, gold = demo.test.columns[0], demo.test.labels
    assert gold is not None
    found, offsets = demo.results[-1].predicted, demo.test.offsets
    words = []
    for begin, end in zip(offsets[:_NUM_WORDS], offsets[1:], strict=False):
        spans = []
        for i in range(begin, end):
            kind = "word" if found[i] == gold[i] else "word wrong"
            sound = html.escape(str(found[i])[1:])
            shown = f"{html.escape(letters[i])}<sub>{sound}</sub>"
            spans.append(f'<span class="{kind}">{shown}</span>')
        words.append(f'<span style="display:inline-block">{"".join(spans)}</span>')
    return "<p>" + " &ensp; ".join(words) + "</p>"


def _draw(figure: Any, demo: Demo) -> None:
    course, spectrum = figure.subplots(1, 2)
    for result in demo.results:
        look = {"color": _COLOURS[result.name], "label": result.name}
        course.plot(result.iterations, result.accuracies, **look)
        values = np.where(
            result.values > 1e-4 * result.values[0], result.values, np.nan
        )
        places = np.arange(1, len(values) + 1)
        spectrum.plot(places, values, marker=".", **look)
    course.set(xlabel="iteration", title="test accuracy, %")
    spectrum.set(xlabel="number", title="singular values", yscale="log")
    names = course.get_legend_handles_labels()
    figure.legend(*names, fontsize=9, loc="outside upper center", ncols=3)
