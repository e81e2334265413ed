"""The section on sequences: scores, learning curves, regret, spectra, sentences."""

import html
from typing import Any

from lowrank_jax.data import words_from_labels
from lowrank_jax.demo import draw_curves, marked, rows_table
from lowrank_jax.demo.bol import Demo
from lowrank_jax.report.page import BLUE, GREEN, GREY, ORANGE, PURPLE, picture, table

__all__ = ["cut_sentences", "section"]
__dir__ = __all__.copy

_COLOURS = {
    "sp": GREY,
    "averaged sp": PURPLE,
    "mira": GREEN,
    "bol paper": ORANGE,
    "bol block": BLUE,
}
_NUM_SENTENCES = 4
# The made-up characters are shown as letters that every screen has.
_SHOWN = dict(
    enumerate(
        "abcdefghijklmnopqrstuvwxyzαβγδεζηθικλμνξοπρστυφχψω"
        "бвгджзилмнптфцчшщъыьэюяDFGLNQR",
        start=0x4E00,
    )
)


def cut_sentences(demo: Demo) -> list[list[tuple[str, bool]]]:
    """Return words of some test sentences by the last learner, and if each is right."""
    test = demo.test
    some = slice(0, _NUM_SENTENCES)
    characters = test.columns[0]
    assert test.labels is not None
    gold = words_from_labels(characters, test.labels, test.offsets)[some]
    found = words_from_labels(characters, demo.predicted, test.offsets)[some]
    sentences = []
    for true_words, words in zip(gold, found, strict=True):
        right = set(_spans(true_words))
        spans = _spans(words)
        pairs = zip(words, spans, strict=True)
        sentences.append(
            [(word.translate(_SHOWN), span in right) for word, span in pairs]
        )
    return sentences


def _spans(words: list[str]) -> list[tuple[int, int]]:
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word)
    return spans


def section(demo: Demo) -> list[str]:
    """Return the section; HTML."""
    last = html.escape(demo.rows[-1].name)
    return [
        "<h2>Sequences: cutting text into words</h2>",
        _about(demo),
        rows_table(demo.rows),
        '<p class="small">Word F1 and accuracy of labels on the test sentences, in '
        "percent. Training time of all passes, compilation left out.</p>",
        f"<p>Some test sentences as <b>{last}</b> cuts them; wrong words in red:</p>",
        *(_paragraph(words) for words in cut_sentences(demo)),
        picture(
            lambda figure: _draw_curves(figure, demo),
            "The upper panel shows how many training sentences each learner gets wrong "
            "in a pass, the lower panel its word F1 on the test sentences afterwards.",
            height=4.6,
        ),
        picture(
            lambda figure: _draw_regret(figure, demo),
            "The solid line is the regret of the learner, summed over rounds, and the "
            "dashed line is the most that its certificate allows. The certificate "
            "(DR-B4) comes from the run itself: the loss of a "
            "fixed model U (here the averaged perceptron, at its best size), its "
            "penalty F**(U), and the growth of the dual. It assumes nothing of the "
            "data.",
            height=4.2,
        ),
        table(
            ("run", "loss", "loss of U", "regret", "at most", "best C"),
            [
                (
                    regret.name,
                    f"{regret.loss:,.0f}",
                    f"{regret.comparator:,.0f}",
                    f"{regret.along.regret[-1]:,.0f}",
                    f"{regret.along.certificate[-1]:,.0f}",
                    f"{regret.best_step_size:.2g}",
                )
                for regret in demo.regrets
            ],
        ),
        picture(
            lambda figure: _draw_spectra(figure, demo),
            "The bars show how close the weights on pairs of labels are to rank 1: the "
            "share of their squares that blocks of rank 1 to 4 hold. A block "
            "belongs to one feature: 4 labels by 4 "
            "labels before, and the start of the sentence.",
            height=2.6,
        ),
    ]


def _about(demo: Demo) -> str:
    return (
        "<p>The task is to cut text into words, and the text is made up. A lexicon of "
        f"{demo.num_words:,} words of 1 to 4 characters was drawn at random, and "
        "sentences from it, some words far more often than others (Zipf). There are "
        f"{demo.train.num_sentences:,} sentences to learn from and "
        f"{demo.test.num_sentences:,} to test on. All learners see the same features: "
        "five characters around each place and their adjacent pairs, with weights on "
        "labels and on pairs of labels.</p>"
    )


def _paragraph(words: list[tuple[str, bool]]) -> str:
    spans = [marked(html.escape(word), is_right) for word, is_right in words]
    return f"<p>{''.join(spans)}</p>"


def _draw_curves(figure: Any, demo: Demo) -> None:
    top, bottom = figure.subplots(2, 1, sharex=True)
    runs = [row for row in demo.rows if row.name != "averaged sp"]  # the run of sp
    draw_curves(top, runs, "mistakes", _COLOURS)
    draw_curves(bottom, demo.rows, "f1", _COLOURS)
    top.set(yscale="log", ylabel="sentences wrong in training")
    bottom.set(xlabel="pass", ylabel="test word F1, %")
    bottom.xaxis.get_major_locator().set_params(integer=True)
    for axes in (top, bottom):
        axes.legend(fontsize=8)


def _draw_regret(figure: Any, demo: Demo) -> None:
    panels = figure.subplots(len(demo.regrets), 1, sharex=True)
    for axes, regret in zip(panels, demo.regrets, strict=True):
        rounds = range(1, len(regret.along.regret) + 1)
        colour = _COLOURS[regret.name]
        axes.plot(
            rounds, regret.along.certificate, "--", color=colour, label="certificate"
        )
        axes.plot(rounds, regret.along.regret, color=colour, label="regret")
        axes.set_title(regret.name, fontsize=10, loc="left")
        axes.set(ylabel="summed", ylim=(0, None))
    panels[0].legend(fontsize=9, loc="center right")
    panels[-1].set_xlabel("round (one sentence each)")


def _draw_spectra(figure: Any, demo: Demo) -> None:
    axis = figure.subplots()
    colours = (GREY, BLUE)
    for i, (name, shares) in enumerate(demo.spectra.items()):
        places = [rank + 1 + 0.4 * (i - 0.5) for rank in range(len(shares))]
        bars = axis.bar(places, 100 * shares, 0.38, color=colours[i], label=name)
        axis.bar_label(bars, fmt="%.0f", fontsize=8)
    axis.set(xticks=range(1, len(shares) + 1), yticks=[0, 50, 100], ylim=(0, 140))
    axis.set(xlabel="rank", ylabel="share held, %")
    axis.legend(fontsize=8, loc="upper left", ncols=2)
