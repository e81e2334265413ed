"""Markdown for tables and for numbers in their cells."""

from collections.abc import Iterable

__all__ = ["bullets", "markdown", "number"]


def markdown(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table; a cell that is None stays empty.

    Args:
      head: Titles of the columns.
      rows: Cells of each row, as many as there are titles.
    """
    titles = list(head)
    lines = [titles, ["---"] * len(titles)]
    lines += [["" if cell is None else str(cell) for cell in row] for row in rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def number(value: float | None, form: str) -> str:
    """Return a number in a format, and nothing for None."""
    return "" if value is None else format(value, form)


def bullets(notes: Iterable[str]) -> str:
    """Return a Markdown list."""
    return "".join(f"* {note}\n" for note in notes)
