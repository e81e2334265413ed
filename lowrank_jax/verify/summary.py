"""What came out of a check of the statements, in one or two lines."""

import textwrap
from collections import Counter
from collections.abc import Sequence

from lowrank_jax.verify.statement import Result

__all__ = ["summary"]

_WIDTH = 88


def summary(results: Sequence[Result], seconds: float) -> str:
    """Say in one or two lines what came out."""
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
    head = f"{len(results)} statements, {trials:,} trials in {seconds:.0f} s: "
    return "\n" + textwrap.fill(head + ", ".join(parts) + ".", _WIDTH)
