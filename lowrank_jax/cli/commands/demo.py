"""``lowrank-jax demo``: the four systems on made-up data, verified, with a report."""

import argparse
import contextlib
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from lowrank_jax.checks import InputError
from lowrank_jax.cli import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lowrank_jax.demo import Row, bol
    from lowrank_jax.verify import Result

__all__ = ["add_parser", "run"]
__dir__ = __all__.copy

_DESCRIPTION = """\
Train the four systems beside their baselines in small, without any download: cutting
made-up text into words, telling handwritten digits apart (made-up matrices where
scikit-learn is not installed), spelling to sound, choosing from lists. Then check the
statements of the papers (verify --quick). Prints tables and some sentences, and writes
report.html with learning curves, weights, regret certificates and all statements.
"""

_EPILOG = """\
example:
  lowrank-jax demo --out demo-report
"""


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "demo",
        help="see it work on made-up data, in a few minutes",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        default="demo-report",
        help="folder for report.html; default: demo-report",
    )
    parser.add_argument(
        "--small",
        action="store_true",
        help="less of everything, and only some statements",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; return the exit status."""
    target = pathlib.Path(arguments.out) / "report.html"
    files.check_file(str(target), "the report")
    began = time.perf_counter()
    _say("Compiling and training ...")

    from lowrank_jax import demo as demos
    from lowrank_jax.demo import bol, page, sblr, smm, tm
    from lowrank_jax.verify import curves, table

    size = demos.SMALL if arguments.small else demos.FULL
    with _verifying(size.statements) as verified:
        _title(bol.TITLE)
        sequences = bol.run(size, _table())
        _say(_regret_text(sequences))
        _say(_sentences_text(sequences, is_coloured=_has_colours()))
        _title(sblr.TITLE)
        matrices = sblr.run(size, _table())
        _title(smm.TITLE)
        words = smm.run(size, _table())
        _title(tm.TITLE)
        lists = tm.run(size, _table())
        _title("Runs that show what the statements say ...")
        shown = curves.compute()
        _title("Statements of the papers")
        results, seconds = verified()
    _say(table.summary(results, seconds))
    took = time.perf_counter() - began
    text = page.page(sequences, matrices, words, lists, results, shown, took)
    files.write_text(target, text)
    _say(f"All in {took:.0f} s. Report: {target}")
    return 0 if all(result.as_expected for result in results) else 1


@contextlib.contextmanager
def _verifying(
    only: tuple[str, ...] | None,
) -> "Iterator[Callable[[], tuple[list[Result], float]]]":
    """Run ``verify --quick`` in a process beside this one; what is given waits for it.

    Args:
      only: ids of statements; None for all.
    """
    from lowrank_jax.verify import Result

    with tempfile.TemporaryDirectory() as folder:
        found, rows = pathlib.Path(folder, "found.json"), pathlib.Path(folder, "rows")
        command = [sys.executable, "-m", "lowrank_jax", "verify", "--quick"]
        command += ["--json", str(found), *(["--only", *only] if only else [])]
        with open(rows, "wb") as out:
            child = subprocess.Popen(command, stdout=out)

        def wait() -> tuple[list[Result], float]:
            while True:
                try:
                    child.wait(timeout=10)
                    break
                except subprocess.TimeoutExpired:
                    lines = rows.read_text("utf-8").splitlines()[1:]
                    number = sum(not line.startswith(" ") for line in lines)
                    _say(f"{number} checked ...")
            if not found.exists():
                raise InputError(
                    f"verify --quick stopped with status {child.returncode}; run it by "
                    "itself to see why."
                )
            told = json.loads(found.read_text("utf-8"))
            statements: list[dict[str, Any]] = [
                {k: math.nan if v is None else v for k, v in row.items()}
                for row in told["statements"]
            ]
            return [Result(**row) for row in statements], told["seconds"]

        try:
            yield wait
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGINT)  # it ends its own processes
                try:
                    child.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()


def _say(text: str) -> None:
    print(text, flush=True)


def _title(text: str) -> None:
    _say(f"\n{text}")


def _table() -> "Callable[[Row], None]":
    """Return a function that prints rows as they come, the first below its head."""
    printed: list[Row] = []

    def tell(row: "Row") -> None:
        for name, *cells in ([] if printed else [row.head]) + [row.texts]:
            _say(f"{name:<26}" + "".join(f"{cell:>11}" for cell in cells))
        printed.append(row)

    return tell


def _regret_text(demo: "bol.Demo") -> str:
    lines = [
        "",
        "Regret certificate (DR-B4): total loss minus the loss of a fixed model",
    ]
    for regret in demo.regrets:
        observed, bound = regret.along.regret[-1], regret.along.certificate[-1]
        verdict = "holds" if observed <= bound else "DOES NOT HOLD"
        numbers = f"observed {observed:,.0f}, at most {bound:,.0f}"
        lines.append(f"{regret.name:<12}{numbers}: {verdict}")
    return "\n".join(lines)


def _sentences_text(demo: "bol.Demo", *, is_coloured: bool) -> str:
    """Some test sentences as the last learner cuts them, wrong words marked."""
    from lowrank_jax.demo.bol_section import cut_sentences

    lines = ["", f"Sentences as {demo.rows[-1].name} cuts them, wrong words marked"]
    for words in cut_sentences(demo):
        if is_coloured:
            codes = [44 if is_right else 41 for _, is_right in words]
            shown = [
                f"\033[97;{code}m{word}\033[0m"
                for code, (word, _) in zip(codes, words, strict=True)
            ]
        else:
            shown = [word if is_right else f"[{word}]" for word, is_right in words]
        lines.append("  " + " ".join(shown))
    return "\n".join(lines)


def _has_colours() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ
