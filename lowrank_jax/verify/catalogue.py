"""All statements, in the order of the papers."""

import importlib

from lowrank_jax.verify.statement import Statement

__all__ = ["statements"]

_MODULES = ("bol_geometry", "bol_regret", "sblr", "smm", "tm")


def statements() -> tuple[Statement, ...]:
    """Return every statement that `verify` checks."""
    found: list[Statement] = []
    for name in _MODULES:
        module = importlib.import_module(f"lowrank_jax.verify.{name}")
        found.extend(module.STATEMENTS)
    return tuple(found)
