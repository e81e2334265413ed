"""Words: spectral max-margin tagging beside other penalties.

A hidden automaton of few states makes the words (`data.made.words`). The sound of a
letter depends on the state, and the neighbouring letters reveal the state.
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
from lowrank_jax.demo import Row, Size, draw_curves, marked, rows_table
from lowrank_jax.estimators.speller import Speller
from lowrank_jax.report.page import BLUE, GREY, ORANGE, picture

__all__ = ["TITLE", "Demo", "run", "section"]
__dir__ = __all__.copy

TITLE = "Words: an output for each letter"
_BASIS: dict[str, Any] = {"order": 3, "lower_orders": "none", "unfolding": "last"}
# Strength for each training word, and step: the best of some on tasks of other seeds.
_SETTINGS: dict[str, tuple[Any, float, float]] = {
    "none": ("none", 0.0, 0.05),
    "L2": ("squared_frobenius", 1 / 40, 0.3),
    "spectral": ("nuclear", 1 / 15, 0.3),
}
_COLOURS = {"none": GREY, "L2": ORANGE, "spectral": BLUE}
_NUM_WORDS = 12
_EVERY = 10


class Demo(NamedTuple):
    """What the section shows."""

    train: Corpus
    test: Corpus
    num_states: int
    rows: list[Row]
    predicted: np.ndarray  # (num_tokens,) outputs for the test letters by the last


def run(size: Size, tell: Callable[[Row], None]) -> Demo:
    """Train with each penalty; `tell` takes the row of each."""
    train, test, truth = spelling_task(size.words, 400, seed=0, noise=0.05)
    rows = []
    for name in _SETTINGS:
        row, predicted = _train(name, train, test, size.iterations)
        tell(row)
        rows.append(row)
    return Demo(train, test, len(truth.moves), rows, predicted)


def _train(
    name: str, train: Corpus, test: Corpus, number: int
) -> tuple[Row, np.ndarray]:
    alphabet = alphabet_of(train)
    lattice = jax.device_put(
        streams.words.lattice(alphabet, encode_words(alphabet, train))
    )
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
    values = np.linalg.svd(last, compute_uv=False)
    values = values[values > 1e-4 * values[0]]  # others are 0 up to rounding
    cells = {
        "accuracy": f"{accuracies[-1]:.1f} %",
        "rank": str(len(values)),
        "gap": f"{100 * float(done.trace.gap):.1f} %" if name == "spectral" else "-",
    }
    along = {"at": iterations, "accuracy": accuracies, "values": values}
    return Row(name, cells, seconds, along, kind="penalty"), predicted


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
        rows_table(demo.rows),
        '<p class="small">Accuracy on the test letters is by the averaged table, the '
        "rank is of the last table. The gap is between the objective and a lower bound "
        "on the optimum (DR-M2).</p>",
        "<p>Some test words with the outputs found by the <b>spectral</b> penalty; "
        "wrong ones in red:</p>",
        _words(demo),
        picture(
            lambda figure: _draw(figure, demo),
            "The left panel shows the accuracy on the test words along the iterations, "
            "the right panel the singular values of the table at the end: the spectral "
            "penalty takes the small ones to 0.",
            height=2.6,
            width=5.4,
        ),
    ]


def _words(demo: Demo) -> str:
    """Show some words, each letter with its output, wrong ones marked."""
    letters, gold = demo.test.columns[0], demo.test.labels
    assert gold is not None
    found, offsets = demo.predicted, demo.test.offsets
    words = []
    for begin, end in zip(offsets[:_NUM_WORDS], offsets[1:], strict=False):
        spans = []
        for i in range(begin, end):
            sound = html.escape(str(found[i])[1:])
            shown = f"{html.escape(letters[i])}<sub>{sound}</sub>"
            spans.append(marked(shown, found[i] == gold[i]))
        words.append(f'<span style="display:inline-block">{"".join(spans)}</span>')
    return "<p>" + " &ensp; ".join(words) + "</p>"


def _draw(figure: Any, demo: Demo) -> None:
    course, spectrum = figure.subplots(1, 2)
    draw_curves(course, demo.rows, "accuracy", _COLOURS)
    for row in demo.rows:
        values = row.along["values"]
        places = np.arange(1, len(values) + 1)
        spectrum.plot(places, values, marker=".", color=_COLOURS[row.name])
    course.set(xlabel="iteration", title="test accuracy, %")
    spectrum.set(xlabel="number", title="singular values", yscale="log")
    names = course.get_legend_handles_labels()
    figure.legend(*names, fontsize=9, loc="outside upper center", ncols=3)
