"""``lowrank-jax verify``: every statement of the papers, tried on made-up problems."""

import argparse
import difflib
import math
import os
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lowrank_jax.checks import InputError
from lowrank_jax.cli import files, options

if TYPE_CHECKING:
    from lowrank_jax.verify import Effort, Result, Statement

__all__ = ["add_parser", "check", "run", "summary"]

_DESCRIPTION = """\
Check every statement of the four papers, and the exact results derived beside them, in
double precision on problems made for it: random ones, and those where the statement is
tightest. A table tells of each:

  proved              must hold in every trial
  checked             found to hold; there is no proof here
  printed-form-fails  as the paper prints it: the trials hold a counter-example

The slack is that of the worst trial, as a share of the larger side; rounding makes that
of an identity a little less than 0. Exit status 1 if a statement does not come out so.
"""

_EPILOG = """\
examples:
  lowrank-jax verify --quick
  lowrank-jax verify --html statements.html --json statements.json
  lowrank-jax verify --only BOL-P4 DR-B3
"""

_WIDTH = 88
_MOST_WORKERS = 4  # there are five parts to share out
_MANY = 20  # statements that are worth starting processes for
_COLUMNS = "{:<22} {:<20} {:>10} {:>11}  {}"


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "verify",
        help="check the statements of the papers, one by one",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer trials: a minute, not a quarter"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the results there; - prints them"
    )
    parser.add_argument(
        "--html", metavar="FILE", help="write a page with the table and plots there"
    )
    parser.add_argument(
        "--seed", type=options.seed, default=0, metavar="N", help="of the trials"
    )
    parser.add_argument(
        "--only", nargs="+", metavar="ID", help="statements to check; default: all"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check and tell; return the exit status."""
    files.check_json(arguments.json)
    if arguments.html is not None:
        files.check_file(arguments.html, "the page")

    if arguments.quick:
        _compile_fast()

    from lowrank_jax.verify import Effort, catalogue

    effort = Effort(is_quick=arguments.quick, seed=arguments.seed)
    chosen = _choose(catalogue.statements(), arguments.only)
    out = sys.stderr if arguments.json == "-" else sys.stdout

    def say(text: str) -> None:
        print(text, file=out, flush=True)

    began = time.perf_counter()
    results = check(chosen, effort, say)
    seconds = time.perf_counter() - began
    say(summary(results, seconds))
    files.write_json(arguments.json, _as_json(results, effort, seconds))
    if arguments.html is not None:
        from lowrank_jax.verify import curves, page

        say("Runs for the plots ...")
        text = page.page(results, curves.compute(effort.seed), effort, seconds)
        files.write_text(arguments.html, text)
        say(f"Page: {arguments.html}")
    return 0 if all(result.as_expected for result in results) else 1


def _compile_fast() -> None:
    """Spare LLVM the effort: hundreds of small programs run once or a few times."""
    if "XLA_FLAGS" not in os.environ and "jax" not in sys.modules:
        flags = "backend_optimization_level=0", "llvm_disable_expensive_passes=true"
        os.environ["XLA_FLAGS"] = " ".join(f"--xla_{flag}" for flag in flags)


def check(
    chosen: Sequence["Statement"], effort: "Effort", say: Callable[[str], None]
) -> list["Result"]:
    """Check statements; each is told of as a row of a table when it is done.

    Many are checked by a process for each core: compiling takes most of the time.

    Args:
      chosen: what to check, all statements of an id together.
      effort: how hard.
      say: gets the lines.
    """
    from lowrank_jax.verify import run as run_statement
    from lowrank_jax.verify import workers

    say(_COLUMNS.format("id", "status", "trials", "worst slack", "").rstrip())
    num_workers = min(os.cpu_count() or 1, _MOST_WORKERS)
    found: Iterable[Result]
    if num_workers > 1 and len(chosen) >= _MANY:
        only = frozenset(statement.id for statement in chosen)
        found = workers.results(effort, num_workers=num_workers, only=only)
    else:
        found = (run_statement(statement, effort) for statement in chosen)
    results = []
    for result in found:
        results.append(result)
        say(_row(result))
    order = {(one.id, one.form): i for i, one in enumerate(chosen)}
    return sorted(results, key=lambda result: order[result.id, result.form])


def _choose(
    every: Sequence["Statement"], only: Sequence[str] | None
) -> list["Statement"]:
    """Return the statements of some ids, in the order of the papers."""
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


def _row(result: "Result") -> str:
    """Write one row, the words of the statement below it."""
    name = f"{result.id} {result.form}".rstrip()
    verdict = "" if result.as_expected else "NOT AS EXPECTED"
    slack = f"{result.worst_slack:.1e}" if result.trials else "-"
    head = _COLUMNS.format(name, result.status, f"{result.trials:,}", slack, verdict)
    lines = [head.rstrip()]
    lines += textwrap.wrap(
        result.statement, _WIDTH, initial_indent="    ", subsequent_indent="    "
    )
    if not result.as_expected:
        lines.append(f"    {result.failures:,} fail; worst case: {result.worst_case}")
    return "\n".join(lines)


def summary(results: Sequence["Result"], seconds: float) -> str:
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


def _as_json(
    results: Sequence["Result"], effort: "Effort", seconds: float
) -> dict[str, Any]:
    from lowrank_jax.cli.output import describe_machine

    return {
        "command": "lowrank-jax verify" + (" --quick" if effort.is_quick else ""),
        "num_cores": os.cpu_count(),
        "statements": [
            {name: _finite(value) for name, value in result._asdict().items()}
            for result in results
        ],
        "as_expected": all(result.as_expected for result in results),
        "is_quick": effort.is_quick,
        "seed": effort.seed,
        "seconds": seconds,
        **describe_machine(),
    }


def _finite(value: Any) -> Any:
    """Return the value, None for a number that JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
