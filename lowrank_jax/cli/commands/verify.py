"""``lowrank-jax verify``: every statement of the papers, tried on made-up problems."""

import argparse
import math
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lowrank_jax.cli import files, options

if TYPE_CHECKING:
    from lowrank_jax.verify import Result

__all__ = ["add_parser", "run"]
__dir__ = __all__.copy

_DESCRIPTION = """\
Check every statement of the four papers, and the exact results derived beside them, in
double precision. The problems are random, or made so that the statement is tightest.
The table shows the status of each statement:

  proved              must hold in every trial
  checked             found to hold; there is no proof here
  printed-form-fails  as the paper prints it: the trials hold a counter-example

The table shows the smallest slack over all trials, divided by the larger side. For an
identity it may be slightly negative, from rounding. The exit status is 1 if any
statement behaves otherwise.
"""

_EPILOG = """\
examples:
  lowrank-jax verify --quick
  lowrank-jax verify --html statements.html --json statements.json
  lowrank-jax verify --only BOL-P4 DR-B3
"""

_MOST_WORKERS = 4  # there are five parts to share out


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "verify",
        help="check the statements of the papers, one by one",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="fewer trials: about one minute instead of five",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the results there; - prints them"
    )
    parser.add_argument(
        "--html", metavar="FILE", help="write a page with the table and plots there"
    )
    parser.add_argument(
        "--seed", type=options.seed, default=0, metavar="N", help="seed of the trials"
    )
    parser.add_argument(
        "--only", nargs="+", metavar="ID", help="statements to check; default: all"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check the statements and print the table; return the exit status."""
    files.check_json(arguments.json)
    if arguments.html is not None:
        files.check_file(arguments.html, "the page")

    if arguments.quick:
        _compile_fast()

    from lowrank_jax.verify import catalogue, table, workers

    catalogue.choose(arguments.only)  # an unknown id is told before the work
    out = sys.stderr if arguments.json == "-" else sys.stdout

    def say(text: str) -> None:
        print(text, file=out, flush=True)

    began = time.perf_counter()
    say(table.head())
    results = workers.check(
        arguments.only,
        arguments.quick,
        seed=arguments.seed,
        num_workers=min(os.cpu_count() or 1, _MOST_WORKERS),
        tell=lambda result: say(table.row(result)),
    )
    seconds = time.perf_counter() - began
    say(table.summary(results, seconds))
    files.write_json(arguments.json, _as_json(results, arguments, seconds))
    if arguments.html is not None:
        from lowrank_jax.verify import Effort, curves, page

        say("Runs for the plots ...")
        effort = Effort(is_quick=arguments.quick, seed=arguments.seed)
        text = page.page(results, curves.compute(effort.seed), effort, seconds)
        files.write_text(arguments.html, text)
        say(f"Page: {arguments.html}")
    return 0 if all(result.as_expected for result in results) else 1


def _compile_fast() -> None:
    """Spare LLVM the effort: hundreds of small programs run once or a few times."""
    if "XLA_FLAGS" not in os.environ and "jax" not in sys.modules:
        flags = "backend_optimization_level=0", "llvm_disable_expensive_passes=true"
        os.environ["XLA_FLAGS"] = " ".join(f"--xla_{flag}" for flag in flags)


def _as_json(
    results: Sequence["Result"], arguments: argparse.Namespace, seconds: float
) -> dict[str, Any]:
    from lowrank_jax.cli.output import describe_machine

    return {
        "command": "lowrank-jax verify" + (" --quick" if arguments.quick else ""),
        "num_cores": os.cpu_count(),
        "statements": [
            {name: _finite(value) for name, value in result._asdict().items()}
            for result in results
        ],
        "as_expected": all(result.as_expected for result in results),
        "is_quick": arguments.quick,
        "seed": arguments.seed,
        "seconds": seconds,
        **describe_machine(),
    }


def _finite(value: Any) -> Any:
    """Return the value, None for a number that JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
