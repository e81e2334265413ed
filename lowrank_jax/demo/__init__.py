"""The four systems in small, on data that need no download, and a page about them.

One module a system: `run` trains it beside its baselines, `section` tells of it.
"""

from typing import NamedTuple

__all__ = ["FULL", "SMALL", "Size"]


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
