"""The four systems in small, on data that need no download, and a page about them.

One module per system: `TITLE` names its task, `run` trains it beside its baselines,
`section` is its part of the page. `run` hands out a `Row` as each learner ends.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from lowrank_jax.report.page import table

__all__ = ["FULL", "SMALL", "Row", "Size", "draw_curves", "marked", "rows_table"]
__dir__ = __all__.copy


class Size(NamedTuple):
    """How much to do."""

    sentences: int  # to learn from, `bol`
    passes: int  # over them
    matrices: int  # to learn from, `sblr`
    sweeps: int  # over them, at most
    words: int  # to learn from, `smm`
    iterations: int  # over them
    lists: int  # to learn from, `tm`
    statements: tuple[str, ...] | None  # ids to verify; None for all


FULL = Size(1000, 8, 1200, 500, 120, 120, 120, None)
SMALL = Size(400, 5, 300, 60, 40, 30, 60, ("TM-N2", "TM-Eq6"))


class Row(NamedTuple):
    """One learner, as the table and the pictures of a section show it.

    Attributes:
      name: Name of the learner.
      cells: Further cells of the table by the title of their column.
      seconds: Training time, compilation left out.
      along: Values along the training by name, for the pictures.
      about: The learner in a few words.
      kind: Title of the first column.
    """

    name: str
    cells: dict[str, str]
    seconds: float
    along: dict[str, Any]
    about: str = ""
    kind: str = "learner"

    @property
    def head(self) -> tuple[str, ...]:
        """Return the titles of the columns."""
        return (self.kind, *self.cells, "training")

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the cells below `head`."""
        return (self.name, *self.cells.values(), f"{self.seconds:.2f} s")


def rows_table(rows: Sequence[Row]) -> str:
    """Return the table of a section; HTML."""
    if not rows[0].about:
        return table(rows[0].head, [row.texts for row in rows])
    about = "what it is"
    texts = [(*row.texts, row.about) for row in rows]
    return table((*rows[0].head, about), texts, text=(about,))


def marked(content: str, is_right: bool) -> str:
    """Return HTML in a coloured box, red if it is wrong."""
    kind = "word" if is_right else "word wrong"
    return f'<span class="{kind}">{content}</span>'


def draw_curves(
    axes: Any, rows: Sequence[Row], name: str, colours: dict[str, str]
) -> None:
    """Draw one curve per learner against the number of its pass or iteration.

    Args:
      axes: Axes of matplotlib.
      rows: The learners.
      name: Key of `Row.along`. Values under ``"at"`` number them, else 1, 2, ... do.
      colours: Colours by learner.
    """
    for row in rows:
        values = row.along[name]
        at = row.along.get("at", range(1, len(values) + 1))
        axes.plot(at, values, color=colours[row.name], label=row.name)
