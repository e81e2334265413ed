"""The table that ``lowrank-jax verify`` prints, row by row, and its summary."""

import textwrap
from collections import Counter
from collections.abc import Sequence

from lowrank_jax.verify.statement import Result

__all__ = ["head", "row", "summary"]
__dir__ = __all__.copy

_WIDTH = 88
_COLUMNS = "{:<22} {:<20} {:>10} {:>11}  {}"


def head() -> str:
    """Return the line above the table."""
    return _COLUMNS.format("id", "status", "trials", "worst slack", "").rstrip()


def row(result: Result) -> str:
    """Return one row, with the words of the statement below it."""
    name = f"{result.id} {result.form}".rstrip()
    verdict = "" if result.as_expected else "NOT AS EXPECTED"
    slack = f"{result.worst_slack:.1e}" if result.trials else "-"
    first = _COLUMNS.format(name, result.status, f"{result.trials:,}", slack, verdict)
    lines = [first.rstrip()]
    lines += textwrap.wrap(
        result.statement, _WIDTH, initial_indent="    ", subsequent_indent="    "
    )
    if not result.as_expected:
        lines.append(f"    {result.failures:,} fail; worst case: {result.worst_case}")
    return "\n".join(lines)


def summary(results: Sequence[Result], seconds: float) -> str:
    """Return one or two lines on what came out."""
    counts = Counter(result.status for result in results if result.as_expected)
    parts = [
        f"{counts[status]} {words}"
        for status, words in (
            ("proved", "proved and hold"),
            ("checked", "checked and hold"),
            ("printed-form-fails", "fail as printed, as they should"),
        )
        if counts[status]
    ]
    num_wrong = sum(not result.as_expected for result in results)
    if num_wrong:
        parts.append(f"{num_wrong} NOT AS EXPECTED")
    trials = sum(result.trials for result in results)
    first = f"{len(results)} statements, {trials:,} trials in {seconds:.0f} s: "
    return "\n" + textwrap.fill(first + ", ".join(parts) + ".", _WIDTH)
