"""All statements, in the order of the papers."""

import importlib

from lowrank_jax.verify.statement import Statement

__all__ = ["PARTS", "part", "statements"]

#: Modules of this package that hold statements; each shares runs among its own.
PARTS = (
    "bol.geometry",
    "bol.regret",
    "sblr.statements",
    "smm.hankel",
    "tm.construction",
)


def part(name: str) -> tuple[Statement, ...]:
    """Return the statements of one part."""
    return importlib.import_module(f"lowrank_jax.verify.{name}").STATEMENTS


def statements() -> tuple[Statement, ...]:
    """Return every statement that `verify` checks."""
    return tuple(statement for name in PARTS for statement in part(name))
