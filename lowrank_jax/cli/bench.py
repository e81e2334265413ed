"""``lowrank-jax bench``: ours and the peers on the same work in one run, as ratios."""

import argparse
import importlib
import importlib.util
import time
from typing import Any

from lowrank_jax.checks import InputError
from lowrank_jax.cli import files, machine

__all__ = ["add_parser", "run"]

_DESCRIPTION = """\
Measure speed and memory beside the peers people use today, in one run on this machine,
compilation apart. Run it with nothing else running. The peers are the extra `bench`.
"""

_EPILOG = """\
examples:
  lowrank-jax bench sequence --data-dir ~/data --json bench.json
  lowrank-jax bench sblr --data-dir ~/data
"""

_ONLINE = ("certify", "sequence", "tm")


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    from lowrank_jax.bench import BENCHES

    parser = commands.add_parser(
        "bench",
        help="ours and the peers on the same work, as ratios",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "name",
        nargs="?",
        default="sequence",
        choices=sorted(BENCHES),
        help="what to measure (default: sequence)",
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    files.add_data_dir(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure and print; return the exit status."""
    from lowrank_jax.bench import BENCHES

    files.check_json(arguments.json)
    if arguments.name in _ONLINE:
        machine.use_one_core()  # as `train` does
    module = importlib.import_module(BENCHES[arguments.name])
    for needed, title in getattr(module, "NEEDS", {}).items():
        if importlib.util.find_spec(needed) is None:
            raise InputError(
                f"`bench {arguments.name}` compares with {title}, which is not "
                "installed: pip install 'lowrank_jax[bench]'."
            )

    def say(line: str) -> None:
        print(line, flush=True)

    began = time.perf_counter()
    result = module.run(arguments.data_dir, say)
    result["command"] = f"lowrank-jax bench {arguments.name}"
    result["seconds"] = time.perf_counter() - began
    result["versions"] = machine.versions()
    files.write_json(arguments.json, result)
    return 0
