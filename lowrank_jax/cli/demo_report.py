"""The page that ``lowrank-jax demo`` writes: one HTML file, pictures inside."""

import html
from typing import TYPE_CHECKING, Any

from lowrank_jax.cli.report import page, picture, table

if TYPE_CHECKING:
    from lowrank_jax.cli.demo_runs import Demo, Result

__all__ = ["HEAD", "cells", "cut_sentences", "report"]

#: Head of the table of results.
HEAD = ("learner", "word F1", "accuracy", "weights", "training")

_COLOURS = {
    "sp": "#9e9e9e",
    "averaged sp": "#555555",
    "mira": "#2a9d8f",
    "bol paper": "#e76f51",
    "bol block": "#1d5fa8",
}
_NUM_SENTENCES = 4


def cells(result: "Result") -> tuple[str, ...]:
    """Return the row of a learner in the table of results, below `HEAD`."""
    return (
        result.name,
        f"{result.f1[-1]:.2f}",
        f"{result.accuracy:.2f}",
        f"{result.num_parameters:,}",
        f"{result.seconds:.2f} s",
    )


def cut_sentences(demo: "Demo") -> list[list[tuple[str, bool]]]:
    """Words of some test sentences by the last learner, and whether each is right."""
    from lowrank_jax.data import words_from_labels

    test = demo.test
    some = slice(0, _NUM_SENTENCES)
    characters = test.columns[0]
    assert test.labels is not None
    gold = words_from_labels(characters, test.labels, test.offsets)[some]
    labels = demo.results[-1].predicted
    found = words_from_labels(characters, labels, test.offsets)[some]
    sentences = []
    for true_words, words in zip(gold, found, strict=True):
        right = set(_spans(true_words))
        spans = _spans(words)
        pairs = zip(words, spans, strict=True)
        sentences.append([(word, span in right) for word, span in pairs])
    return sentences


def _spans(words: list[str]) -> list[tuple[int, int]]:
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word)
    return spans


def report(demo: "Demo") -> str:
    """Return the page."""
    last = html.escape(demo.results[-1].name)
    body = [
        _about(demo),
        table(
            (*HEAD, "what it is"),
            [(*cells(result), result.about) for result in demo.results],
        ),
        '<p class="small">Word F1 and accuracy of labels on the test sentences, in '
        "percent. Training time of all passes, compilation left out.</p>",
        "<h2>Learning</h2>",
        picture(
            lambda figure: _draw_curves(figure, demo),
            "Mistakes in training, and word F1 on the test sentences.",
            height=4.6,
        ),
        "<h2>Regret certificate</h2>",
        picture(
            lambda figure: _draw_regret(figure, demo),
            "Summed loss of the learner, and what its certificate allows. The "
            "certificate (DR-B4) comes from the run itself: the loss of a fixed model "
            "U (here the averaged perceptron, at its best size), its penalty F**(U), "
            "and the sum of the Bregman terms of the rounds. It assumes nothing of "
            "the data.",
            height=4.2,
        ),
        table(
            ("run", "loss of U", "regret", "at most", "slack"),
            [
                (
                    regret.name,
                    f"{regret.comparator[-1]:,.0f}",
                    *(f"{float(value):,.0f}" for value in regret.certificate[:3]),
                )
                for regret in demo.regrets
            ],
        ),
        "<h2>How close to rank 1</h2>",
        picture(
            lambda figure: _draw_spectra(figure, demo),
            "Share of the squared weights on pairs of labels that blocks of rank 1 to "
            "4 hold. A block belongs to one feature: 4 labels by 4 labels before, and "
            "the start of the sentence.",
            height=2.6,
        ),
        f"<h2>Sentences</h2><p>As {last} cuts them; wrong words in red.</p>",
        *(_paragraph(words) for words in cut_sentences(demo)),
        "<h2>On real data</h2>",
        "<pre>lowrank-jax datasets\n"
        "lowrank-jax train bol --train conll2000/train.txt \\\n"
        "    --test conll2000/test.txt --model chunker\n"
        "lowrank-jax tag chunker new.txt</pre>",
        f'<p class="small">Made by lowrank-jax demo in {demo.seconds:.0f} s.</p>',
    ]
    return page("Low-rank tagging, in small", body)


def _about(demo: "Demo") -> str:
    return (
        "<p>The task is made up: to cut text into words. A lexicon of "
        f"{demo.num_words:,} words of 1 to 4 characters was drawn at random, and "
        "sentences from it, some words far more often than others (Zipf). There are "
        f"{demo.train.num_sentences:,} sentences to learn from and "
        f"{demo.test.num_sentences:,} to test on. All learners see the same features: "
        "five characters around each place and their adjacent pairs, with weights on "
        "labels and on pairs of labels.</p>"
    )


def _paragraph(words: list[tuple[str, bool]]) -> str:
    spans = []
    for word, is_right in words:
        kind = "word" if is_right else "word wrong"
        spans.append(f'<span class="{kind}">{html.escape(word)}</span>')
    return f"<p>{''.join(spans)}</p>"


def _draw_curves(figure: Any, demo: "Demo") -> None:
    top, bottom = figure.subplots(2, 1, sharex=True)
    for result in demo.results:
        passes = range(1, len(result.f1) + 1)
        colour = _COLOURS[result.name]
        if result.name != "averaged sp":  # the same run as sp
            top.plot(passes, result.mistakes, color=colour, label=result.name)
        bottom.plot(passes, result.f1, color=colour, label=result.name)
    top.set_yscale("log")
    top.set_ylabel("sentences wrong in training")
    top.legend(fontsize=8)
    bottom.set_ylabel("test word F1, %")
    bottom.set_xlabel("pass")
    bottom.legend(fontsize=8)


def _draw_regret(figure: Any, demo: "Demo") -> None:
    axes = figure.subplots(len(demo.regrets), 1, sharex=True)
    for axis, regret in zip(axes, demo.regrets, strict=True):
        rounds = range(1, len(regret.loss) + 1)
        colour = _COLOURS[regret.name]
        axis.plot(rounds, regret.bound, "--", color=colour, label="certificate")
        axis.plot(rounds, regret.loss, color=colour, label="loss of the learner")
        axis.set_title(regret.name, fontsize=9, loc="left")
        axis.set_ylabel("summed loss")
        axis.set_ylim(bottom=0)
    axes[0].legend(fontsize=8, loc="center right")
    axes[-1].set_xlabel("round (one sentence each)")


def _draw_spectra(figure: Any, demo: "Demo") -> None:
    axis = figure.subplots()
    colours = ("#555555", "#1d5fa8")
    for i, (name, shares) in enumerate(demo.spectra.items()):
        places = [rank + 1 + 0.4 * (i - 0.5) for rank in range(len(shares))]
        bars = axis.bar(places, 100 * shares, 0.38, color=colours[i], label=name)
        axis.bar_label(bars, fmt="%.0f", fontsize=7, color="#444")
    axis.set_xticks(range(1, len(shares) + 1))
    axis.set_xlabel("rank")
    axis.set_ylabel("share held, %")
    axis.set_ylim(0, 140)
    axis.set_yticks([0, 50, 100])
    axis.legend(fontsize=8, loc="upper left", ncols=2)
