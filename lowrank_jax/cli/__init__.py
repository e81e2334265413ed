"""The command line: ``lowrank-jax COMMAND ...``, one module per command.

A command is a module with ``add_parser(commands)``, which adds its parser and sets
``run``, a function from the parsed arguments to the exit status. To add one, write the
module and put its name into `COMMANDS`. A command's module is loaded only when that
command is called. JAX takes long to import, so a module imports it, and what needs it,
inside its functions.

Exit status: 0 done, 1 a check failed, 2 bad input (one sentence on standard error, no
traceback), 130 interrupted.
"""

import argparse
import importlib
import os
import sys
from typing import Any, NoReturn

from lowrank_jax import __version__
from lowrank_jax.checks import InputError
from lowrank_jax.cli import programs

__all__ = ["COMMANDS", "main"]
__dir__ = __all__.copy

#: Names of the commands, in the order of the help; each is a module of this package.
COMMANDS = (
    "demo",
    "train",
    "tag",
    "eval",
    "show",
    "fit",
    "predict",
    "rerank",
    "verify",
    "datasets",
)

_DESCRIPTION = """\
Low-rank bilinear models for sequences and matrices, with certificates.
"""

_EPILOG = """\
examples:
  lowrank-jax demo --out demo-report
  lowrank-jax train bol --train train.txt --test test.txt --model chunker
  lowrank-jax tag chunker new.txt > tagged.txt
  lowrank-jax eval test.txt tagged.txt
  lowrank-jax show chunker --html chunker.html
  lowrank-jax fit trials.npz --cv 5 --model eeg-model
  lowrank-jax predict eeg-model new-trials.npz --out predicted.csv
  lowrank-jax rerank train lists.jsonl --model reranker
  lowrank-jax verify --quick --html statements.html

lowrank-jax COMMAND --help tells more about each command.
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit status.

    Args:
      argv: Arguments; None takes the arguments of the process.
    """
    argv = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8")
    try:
        for word in argv:
            if "\0" in word:
                raise InputError(f"{word} holds a zero byte; check the path.")
        arguments, unknown = _parser(argv).parse_known_args(argv)
        if unknown:
            told = f"unrecognized arguments: {' '.join(unknown)}"
            name = unknown[0].lstrip("-").partition("=")[0].replace("-", "_")
            if _is_setting(name, getattr(arguments, "learner", None)):
                told += f"; give the setting as --set {name}=VALUE"
            _Parser(prog=f"lowrank-jax {arguments.command}").error(told)
        if not arguments.no_cache:
            programs.keep_programs(arguments.command)
        status = arguments.run(arguments)
        sys.stdout.flush()  # a closed pipe is noticed here, not at the exit
        return status
    except SystemExit as stop:  # argparse: --help, --version, a wrong argument
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        print("lowrank-jax: interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever reads has enough (head): not an error
        _forget_output()
        return 0
    except InputError as error:
        print(f"lowrank-jax: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # a full disk, a folder without permission
        place = f"{error.filename}: " if error.filename else ""
        reason = error.strerror or str(error)
        full = InputError(f"{place}{reason}; make room or name another place.")
        print(f"lowrank-jax: {full}", file=sys.stderr)
        return 2
    except (RuntimeError, AssertionError):
        from lowrank_jax.verify.workers import absent_device

        absent = absent_device()
        if absent is None:
            raise
        print(f"lowrank-jax: {absent}", file=sys.stderr)
        return 2
    except MemoryError as error:
        short = InputError(f"the memory is not enough ({error}); take fewer data.")
        print(f"lowrank-jax: {short}", file=sys.stderr)
        return 2


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence."""

    def __init__(self, **given: Any) -> None:
        given.setdefault("allow_abbrev", False)
        given.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**given)

    def error(self, message: str) -> NoReturn:
        """Print one sentence and exit with status 2."""
        told = InputError(f"{self.prog}: {message}; see {self.prog} --help.")
        print(told, file=sys.stderr)
        raise SystemExit(2)


def _parser(argv: list[str]) -> argparse.ArgumentParser:
    """Return the parser of the command that is called, or of all commands."""
    parser = _Parser(prog="lowrank-jax", description=_DESCRIPTION, epilog=_EPILOG)
    version = f"lowrank-jax {__version__}"
    parser.add_argument("--version", action="version", version=version)
    parser.add_argument(
        "--no-cache",
        action="store_true",
        help="compile anew; by default compiled programs are kept in the user's cache "
        "folder, or in $JAX_COMPILATION_CACHE_DIR",
    )
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    called = next((word for word in argv if not word.startswith("-")), None)
    for name in (called,) if called in COMMANDS else COMMANDS:
        importlib.import_module(f"lowrank_jax.cli.commands.{name}").add_parser(commands)
    return parser


def _is_setting(name: str, learner: str | None) -> bool:
    """Tell whether a learner has a setting of this name."""
    from lowrank_jax.estimators import learners

    spec = {**learners.LEARNERS, **learners.RERANKERS}.get(learner or "")
    return spec is not None and name in learners.options_of(spec)


def _forget_output() -> None:
    """Send what is still to be written nowhere, so that the exit is quiet."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # a stream without a file behind it
        pass
