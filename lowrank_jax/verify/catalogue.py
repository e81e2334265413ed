"""All statements, in the order of the papers, and the check of some of them."""

import difflib
import importlib
from collections.abc import Callable, Collection, Iterable

from lowrank_jax.checks import InputError
from lowrank_jax.verify.statement import Effort, Result, Statement, rows_of, run

__all__ = ["PARTS", "check", "choose", "part", "statements"]

#: Modules that hold statements. The modules of one part share runs.
PARTS = (
    ("bol.geometry", "bol.curvature", "bol.rank_k", "bol.blocks"),
    ("bol.regret", "bol.step_size", "bol.margin"),
    ("sblr.constants", "sblr.landscape", "sblr.descent", "sblr.limits"),
    ("smm.hankel", "smm.prox", "smm.splitting"),
    ("tm.construction", "tm.steps"),
)

_MANY = 20  # statements that are worth starting processes for


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


def check(
    only: Collection[str] | None = None,
    quick: bool = True,
    *,
    seed: int = 0,
    num_workers: int = 1,
    tell: Callable[[Result], None] | None = None,
) -> list[Result]:
    """Check statements of the papers; return what the trials of each row found.

    Args:
      only: Ids such as "BOL-P4", in any case. None takes all statements.
      quick: Make fewer trials.
      seed: Seed of the trials.
      num_workers: Number of processes. They are started only for many statements, and
        need the caller's main module to be importable.
      tell: Called with each result as it comes.
    """
    from lowrank_jax.verify import workers

    chosen, effort = choose(only), Effort(is_quick=quick, seed=seed)
    found: Iterable[Result] = (run(statement, effort) for statement in chosen)
    if num_workers > 1 and len(chosen) >= _MANY:
        ids = frozenset(statement.id for statement in chosen)
        found = workers.results(effort, num_workers=num_workers, only=ids)
    results = []
    for result in found:
        results.append(result)
        if tell is not None:
            tell(result)
    order = {(one.id, one.form): i for i, one in enumerate(chosen)}
    return sorted(results, key=lambda result: order[result.id, result.form])
