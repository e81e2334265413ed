"""The page of a tagger: strongest features, transitions, reasons for labels."""

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lowrank_jax.report import page

if TYPE_CHECKING:
    from lowrank_jax.estimators.tagger.inspection import Reason

__all__ = ["tagger_page"]
__dir__ = __all__.copy

_MOST_LABELS = 40  # in one picture of transitions
_MOST_PARTS = 6  # contributions shown per token


def tagger_page(about: dict[str, Any], reasons: "Sequence[Reason]" = ()) -> str:
    """Return the HTML page of a tagger.

    Args:
      about: Content that ``lowrank-jax show --json`` prints.
      reasons: Reasons for the labels of a sentence, from `Tagger.explain`.
    """
    facts = [
        [name.removeprefix("num_"), f"{v:,}" if isinstance(v, int) else f"{v}"]
        for name, v in ((name, about[name]) for name in about["facts"])
    ]
    body = [page.table(["folder", about["folder"]], facts)]
    if reasons:
        body += ["<h2>Why these labels</h2>", _reasons(reasons)]
    if "factors" in about:
        body.append(f"<h2>Factors of {html.escape(about['feature'])}</h2>")
        for factors in about["factors"]:
            for name, factor in factors.items():
                pairs = sorted(factor.items(), key=lambda pair: -abs(pair[1]))
                body.append(
                    _bars(
                        [p for p in pairs[:20] if p[1]], f"Factor of the {name} label."
                    )
                )
    body += ["<h2>Transitions</h2>", _transitions(about["transitions"])]
    body.append("<h2>Strongest features</h2>")
    for label, found in about["top_features"].items():
        body += [
            f"<h3>{html.escape(label)}</h3>",
            _bars(found, f"Strongest features of {label}."),
        ]
    return page.page(f"Tagger {about['folder']}", body)


def _transitions(found: dict[str, dict[str, float]]) -> str:
    """Draw the table of transitions, previous labels in rows."""
    table = np.array([list(row.values()) for row in found.values()])
    current, previous = list(next(iter(found.values()))), list(found)
    if not table.any():
        return "<p>The model has no weights on pairs of labels alone.</p>"
    if len(current) > _MOST_LABELS:
        size = np.abs(table).max(axis=0)
        kept = np.sort(np.argsort(-size, kind="stable")[:_MOST_LABELS])
        rows = [*kept.tolist(), len(previous) - 1]
        table = table[np.ix_(rows, kept)]
        current, previous = [current[i] for i in kept], [previous[i] for i in rows]
    most = float(np.abs(table).max())

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        image = axes.imshow(table, cmap="RdBu", vmin=-most, vmax=most, aspect="auto")
        axes.set_xticks(range(len(current)), current, rotation=90)
        axes.set_yticks(range(len(previous)), previous)
        axes.set(xlabel="label of a token", ylabel="label before it")
        axes.grid(False)
        figure.colorbar(image, shrink=0.6)

    caption = (
        "Weight of each pair of labels. Blue is in favour of the pair, red is against."
    )
    height = 1.6 + 0.19 * len(previous)
    return page.picture(draw, caption, height, width=2.2 + 0.22 * len(current))


def _bars(found: Sequence[tuple[str, float]], caption: str) -> str:
    if not found:
        return "<p>No features.</p>"
    names = [name if len(name) <= 32 else name[:31] + "\u2026" for name, _ in found]
    values = [value for _, value in found]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        colours = [page.BLUE if value >= 0 else page.ORANGE for value in values]
        places = range(len(values))
        axes.barh(places, values, color=colours)
        axes.set_yticks(places, [name.replace("$", r"\$") for name in names])
        axes.invert_yaxis()
        axes.set_xlabel("weight")

    return page.picture(draw, html.escape(caption), 0.8 + 0.22 * len(values), width=5.0)


def _reasons(reasons: "Sequence[Reason]") -> str:
    rows = [
        [
            " ".join(reason.token)
            if isinstance(reason.token, tuple)
            else str(reason.token),
            reason.label,
            reason.rival,
            f"{reason.margin:.3g}",
            ", ".join(f"{n} {v:+.3g}" for n, v in reason.contributions[:_MOST_PARTS]),
        ]
        for reason in reasons
    ]
    head = ["token", "label", "rival", "margin", "largest contributions"]
    return page.table(head, rows, text=("largest contributions",))
