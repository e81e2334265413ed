"""A page that stands by itself: text, tables and pictures in one HTML file.

Pictures are drawn by matplotlib as SVG and stand in the page, so that they take its
colours, light or dark. Nothing is fetched, and there is no script.
"""

import html
import importlib.util
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "PURPLE",
    "can_draw",
    "draw_png",
    "figure",
    "page",
    "picture",
    "table",
]
__dir__ = __all__.copy

# Seen well on white and on black.
BLUE, ORANGE, GREEN = "#3d7fc4", "#e0703c", "#2a9d8f"
GREY, PURPLE = "#8c8c8c", "#9a6fc9"

_TEXT, _GRID = "#010203", "#040506"  # stand for the colours of the page

_STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #222; --soft: #5a5a5a;
  --line: #ddd; --box: #f5f5f5; --word: #dbe9f8; --wrong: #f9d3cf; --good: #1b7a3d;
  --seen: #1f5fa8; --known: #8a5a00; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --back: #16181c; --text: #e4e4e4; --soft: #a8a8a8; --line: #3a3d44;
    --box: #22252b; --word: #1f3a57; --wrong: #6b2a26; --good: #6fcf8f;
    --seen: #8ab8f0; --known: #e8b45a; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 56rem; padding: 1rem; background: var(--back);
  color: var(--text); font: 16px/1.55 system-ui, sans-serif;
  overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.5rem 0 .5rem;
  border-top: 1px solid var(--line); padding-top: 1rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .25rem; }
figure { margin: 1.25rem 0; }
svg, img { display: block; width: 100%; max-width: 38rem; height: auto; }
p, figcaption { max-width: 44rem; }
figcaption, .small { color: var(--soft); font-size: .875rem; }
figcaption { margin-top: .4rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums;
  font-size: .9rem; line-height: 1.4; }
th, td { padding: .3rem .6rem; text-align: right; vertical-align: top;
  border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; }
th:first-child, td:first-child, .text { text-align: left; }
th:first-child, td:first-child { padding-left: 0; }
td.text { white-space: normal; min-width: 12rem; }
.good { color: var(--good); }
.seen { color: var(--seen); }
.known { color: var(--known); }
.bad { color: var(--bad); font-weight: 600; }
code, pre { font-family: ui-monospace, monospace; font-size: .875rem; }
pre { background: var(--box); padding: .75rem; border-radius: .3rem;
  overflow-x: auto; }
.word { background: var(--word); border-radius: .2rem; padding: 0 .2rem;
  margin: 0 .1rem; display: inline-block; }
.wrong { background: var(--wrong); }
@media (max-width: 40rem) {
  .stack tr:first-child { display: none; }
  .stack tr { display: block; padding: .4rem 0; border-bottom: 1px solid var(--line); }
  .stack td, .stack td.text { display: inline-block; border: 0; padding: 0 .9rem 0 0;
    text-align: left; white-space: normal; min-width: 0; }
  .stack td:first-child, .stack td.text { display: block; }
  .stack td:first-child { font-weight: 600; }
  .stack td:not(:first-child):not(.text)::before { content: attr(data-title) " ";
    color: var(--soft); font-weight: 400; } }
"""

_MOST_COLUMNS = 3  # columns of numbers that fit a phone

_LOOK: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
}
_PAGE_LOOK = _LOOK | {
    **{
        name: _TEXT
        for name in ("text.color", "axes.labelcolor", "xtick.color", "ytick.color")
    },
    "axes.edgecolor": _GRID,
    "grid.color": _GRID,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "lowrank_jax",
    "font.size": 10,
}


def page(title: str, body: Sequence[str]) -> str:
    """Return the whole page; `body` is HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style></head>\n"
        f"<body>\n<h1>{html.escape(title)}</h1>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    text: Sequence[str] = (),
    marks: Sequence[str] | None = None,
) -> str:
    """Return a table. On a narrow screen, more than three columns become lines.

    Args:
      head: Titles of the columns.
      rows: Cells of each row, as plain text; they are escaped here.
      text: Titles of the columns that hold sentences, broken into lines.
      marks: CSS class of the last cell of each row: "good", "seen", "known" or "bad".
    """
    kinds = [' class="text"' if cell in text else "" for cell in head]
    is_stacked = len(head) > _MOST_COLUMNS
    titles = [
        f' data-title="{html.escape(cell)}"' if is_stacked else "" for cell in head
    ]
    top = "".join(
        f"<th{kind}>{html.escape(cell)}</th>"
        for cell, kind in zip(head, kinds, strict=True)
    )
    lines = []
    for i, row in enumerate(rows):
        styles = list(kinds)
        if marks is not None:
            styles[-1] = f' class="{marks[i]}"'
        cells = [
            f"<td{style}{title}>{html.escape(cell)}</td>"
            for cell, style, title in zip(row, styles, titles, strict=True)
        ]
        lines.append("<tr>" + "".join(cells) + "</tr>")
    body = "\n".join(lines)
    stack = ' class="stack"' if is_stacked else ""
    return f'<div class="wide"><table{stack}><tr>{top}</tr>\n{body}\n</table></div>'


def can_draw() -> bool:
    """Return True if matplotlib is installed."""
    try:
        return importlib.util.find_spec("matplotlib") is not None
    except ValueError:  # it is barred
        return False


def picture(
    draw: Callable[[Any], None],
    caption: str,
    height: float = 3.0,
    *,
    width: float = 4.8,
) -> str:
    """Draw with matplotlib and return a figure; without matplotlib a remark.

    Args:
      draw: Draws into the empty `matplotlib.figure.Figure` it is given.
      caption: Text below the picture; HTML.
      height: Height in inches.
      width: Width in inches. On a phone, text of 10 points can be read up to about 5.
    """
    if not can_draw():
        return (
            "<p class='small'>(A picture belongs here; it needs matplotlib: "
            "pip install 'lowrank_jax[cli]'.)</p>"
        )
    drawn = _draw(draw, (width, height), "svg", _PAGE_LOOK).decode()
    return figure(_inline(drawn, _plain(caption)), caption)


def figure(content: str, caption: str) -> str:
    """Return a figure with a caption; both are HTML."""
    return f"<figure>{content}\n<figcaption>{caption}</figcaption></figure>"


def draw_png(draw: Callable[[Any], None], size: tuple[float, float]) -> bytes:
    """Return a picture of a size in inches, as PNG.

    Args:
      draw: Draws into the empty `matplotlib.figure.Figure` it is given.
      size: Width and height.
    """
    return _draw(draw, size, "png", _LOOK)


def _draw(
    draw: Callable[[Any], None], size: tuple[float, float], kind: str, look: dict
) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(look):
        # Figure by itself, not pyplot: no window system is touched.
        drawing = Figure(figsize=size, dpi=150, layout="constrained")
        draw(drawing)
        buffer = io.BytesIO()
        drawing.savefig(buffer, format=kind)
    return buffer.getvalue()


def _inline(drawn: str, label: str) -> str:
    """Bring an SVG file into a page: without its head, in the page's colours."""
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn)[0]
    content = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    content = re.sub(r"^.*?<svg[^>]*>", "", content, flags=re.DOTALL)
    content = content.replace(_TEXT, "currentColor").replace(_GRID, "var(--line)")
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{html.escape(label, quote=True)}">{content.rstrip()}'
    )


def _plain(caption: str) -> str:
    """Return the first sentence of a caption, without markup."""
    return html.unescape(re.sub(r"<[^>]*>", "", caption)).split(". ")[0]
