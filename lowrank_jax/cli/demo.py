"""``lowrank-jax demo``: the main job on made-up data, with a report."""

import argparse
import os
import pathlib
import sys
from typing import TYPE_CHECKING, Any

from lowrank_jax.cli import files
from lowrank_jax.cli.demo_report import HEAD, cells, cut_sentences, report

if TYPE_CHECKING:
    from lowrank_jax.cli.demo_runs import Demo

__all__ = ["add_parser", "run"]

_DESCRIPTION = """\
Train the learners side by side on a small made-up task, without any download: cutting
text into words of a random lexicon. Prints a table and some sentences, and writes
report.html with learning curves, a regret certificate and the spectrum of the weights.
"""

_EPILOG = """\
example:
  lowrank-jax demo --out demo-report
"""


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "demo",
        help="see it work on made-up data, in a minute",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        default="demo-report",
        help="folder for report.html; default: demo-report",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; return the exit status."""
    target = pathlib.Path(arguments.out) / "report.html"
    files.check_place(target)
    print(
        "Made-up data: text cut into words, drawn at random from a made-up lexicon.\n"
        "Compiling and training ...\n\n" + _row(*HEAD),
        flush=True,
    )

    from lowrank_jax.checkpoint import replace_file
    from lowrank_jax.cli.demo_runs import run_demo

    demo = run_demo(lambda result: print(_row(*cells(result)), flush=True))
    print(_regret_text(demo))
    print(_sentences_text(demo, is_coloured=_has_colours()))
    target.parent.mkdir(parents=True, exist_ok=True)
    content = report(demo).encode()
    replace_file(target, lambda file: _put(file, content))
    print(f"All in {demo.seconds:.0f} s. Report: {target}")
    return 0


def _row(name: str, *cells: str) -> str:
    return f"{name:<12}" + "".join(f"{cell:>10}" for cell in cells)


def _regret_text(demo: "Demo") -> str:
    lines = ["", "Regret certificate (DR-B4): total loss over that of a fixed model"]
    for regret in demo.regrets:
        observed, bound = map(float, regret.certificate[:2])
        verdict = "holds" if regret.certificate.holds else "DOES NOT HOLD"
        numbers = f"observed {observed:,.0f}, at most {bound:,.0f}"
        lines.append(f"{regret.name:<12}{numbers}: {verdict}")
    return "\n".join(lines)


def _sentences_text(demo: "Demo", *, is_coloured: bool) -> str:
    """Some test sentences as the last learner cuts them, wrong words marked."""
    lines = ["", f"Sentences as {demo.results[-1].name} cuts them, wrong words marked"]
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
    return "\n".join([*lines, ""])


def _has_colours() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _put(file: Any, content: bytes) -> None:
    file.write(content)
