"""A page that stands by itself: text, tables and pictures in one HTML file."""

import base64
import html
import io
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["page", "picture", "table"]

_STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 46rem; padding: 1rem; background: #fff; color: #222;
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.2; }
h2 { font-size: 1.15rem; margin-top: 2rem; }
figure { margin: 1rem 0; }
img { width: 100%; max-width: 34rem; height: auto; }
figcaption, .small { color: #555; font-size: .875rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #ddd;
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
code, pre { font-family: ui-monospace, monospace; font-size: .875rem; }
pre { background: #f5f5f5; padding: .75rem; overflow-x: auto; }
.word { background: #e3edf7; border-radius: .2rem; padding: 0 .15rem; margin: 0 .1rem; }
.wrong { background: #f9d9d6; }
"""


def page(title: str, body: Sequence[str]) -> str:
    """Return the whole page; `body` is HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style></head>\n"
        f"<body>\n<h1>{html.escape(title)}</h1>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table that scrolls by itself where the screen is narrow."""
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    lines = [
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    ]
    body = "\n".join(lines)
    return f'<div class="wide"><table><tr>{top}</tr>\n{body}\n</table></div>'


def picture(draw: Callable[[Any], None], caption: str, height: float = 3.0) -> str:
    """Draw with matplotlib and return a figure; without matplotlib a remark.

    Args:
      draw: gets an empty `matplotlib.figure.Figure`.
      caption: below the picture; HTML.
      height: in inches; the width is 4.6, so that text can be read on a phone.
    """
    content = draw_png(draw, height)
    if content is None:
        return (
            "<p class='small'>(A picture belongs here; it needs matplotlib: "
            "pip install 'lowrank_jax[cli]'.)</p>"
        )
    code = base64.b64encode(content).decode()
    alt = html.escape(caption.split(".")[0], quote=True)
    return (
        f'<figure><img alt="{alt}" src="data:image/png;base64,{code}">\n'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def draw_png(draw: Callable[[Any], None], height: float) -> bytes | None:
    """Return a picture as PNG, or None where matplotlib is not installed."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        return None
    look: dict[Any, Any] = {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#e5e5e5",
        "axes.axisbelow": True,
        "legend.frameon": False,
        "lines.linewidth": 1.6,
    }
    with matplotlib.rc_context(look):
        # Figure by itself, not pyplot: no window system is touched.
        figure = Figure(figsize=(4.6, height), dpi=180, layout="constrained")
        draw(figure)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
    return buffer.getvalue()
