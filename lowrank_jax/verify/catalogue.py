"""All statements, in the order of the papers."""

import difflib
import importlib
from collections.abc import Collection

from lowrank_jax.checks import InputError
from lowrank_jax.verify.statement import Statement, rows_of

__all__ = ["PARTS", "choose", "part", "statements"]
__dir__ = __all__.copy

#: Modules that hold statements. The modules of one part share runs.
PARTS = (
    ("bol.geometry", "bol.curvature", "bol.rank_k", "bol.blocks"),
    ("bol.regret", "bol.step_size", "bol.margin", "bol.prior", "bol.wide"),
    ("sblr.constants", "sblr.landscape", "sblr.descent", "sblr.limits"),
    ("smm.hankel", "smm.prox", "smm.splitting"),
    ("tm.construction", "tm.steps"),
)


def part(names: tuple[str, ...]) -> tuple[Statement, ...]:
    """Return the statements of one part."""
    modules = (importlib.import_module(f"lowrank_jax.verify.{name}") for name in names)
    return tuple(row for module in modules for row in rows_of(module))


def statements() -> tuple[Statement, ...]:
    """Return every statement that `verify` checks."""
    return tuple(row for names in PARTS for row in part(names))


def choose(only: Collection[str] | None) -> list[Statement]:
    """Return the statements of some ids, or all, in the order of the papers."""
    every = statements()
    if only is None:
        return list(every)
    known = {statement.id.lower(): statement.id for statement in every}
    for id in only:
        if id.lower() not in known:
            near = difflib.get_close_matches(id.lower(), known, n=3, cutoff=0.4)
            names = ", ".join(known[name] for name in near) or ", ".join(known.values())
            raise InputError(f"--only {id}: no statement has this id; try {names}.")
    wanted = {id.lower() for id in only}
    return [statement for statement in every if statement.id.lower() in wanted]
