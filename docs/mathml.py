"""Formulas as MathML, which browsers draw by themselves: nothing is fetched.

A formula that cannot be translated is a warning, and so ends the build.
"""

import html
import re

import latex2mathml.converter
from sphinx.util import logging

_LOG = logging.getLogger(__name__)
#: Commands that the translator does not know, in words that it knows.
_SAME = {r"\tfrac": r"\frac", r"\dfrac": r"\frac", r"\lVert": r"\|", r"\rVert": r"\|"}


def translate(latex, display):
    """Return the MathML of a formula.

    Args:
      latex: The formula.
      display: "inline" or "block".
    """
    for old, new in _SAME.items():
        latex = latex.replace(old, new)
    latex = re.sub(r"\\(?:label|tag)\{[^}]*\}", "", latex).strip()
    return latex2mathml.converter.convert(latex, display=display)


def _render(self, node, display):
    latex = node.astext()
    try:
        return translate(latex, display)
    except Exception as error:  # the translator raises errors of many kinds
        _LOG.warning("formula %r: %s", latex, error, location=node)
        return f"<code>{html.escape(latex)}</code>"


def _inline(self, node):
    self.body.append(_render(self, node, "inline"))
    raise _skip()


def _block(self, node):
    self.body.append(f'<div class="math">{_render(self, node, "block")}</div>')
    raise _skip()


def _skip():
    from docutils import nodes

    return nodes.SkipNode()


def setup(app):
    """Add the renderer; ``html_math_renderer = "mathml"`` takes it."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
