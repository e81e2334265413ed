"""``lowrank-jax datasets``: which data sets are here, and are they what they should be.

Nothing is downloaded. The table says where to get each data set, and under which terms.
"""

import argparse
import textwrap
from typing import Any

from lowrank_jax.cli import files

__all__ = ["add_parser", "run"]
__dir__ = __all__.copy

_DESCRIPTION = """\
List the data sets of the experiments: present or not, counts and checksum verified,
terms, and where to get them. Nothing is downloaded.
"""

_EPILOG = """\
examples:
  lowrank-jax datasets --data-dir ~/data
  LOWRANK_JAX_DATA=~/data lowrank-jax datasets --json -
"""

_WIDTH = 88


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "datasets",
        help="list the data sets and verify the files that are here",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the list there; - prints it"
    )
    files.add_data_dir(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the list; return the exit status."""
    files.check_json(arguments.json)

    from lowrank_jax import data

    statuses = data.check_files(data_dir=arguments.data_dir)
    folders = [str(folder) for folder in data.data_folders(arguments.data_dir)]
    if arguments.json != "-":
        print(f"looked for in {' and '.join(folders)}")
        for dataset in data.DATASETS.values():
            mine = [status for status in statuses if status.name == dataset.name]
            print("\n" + _describe(dataset, mine), end="")
    result = {
        "folders": folders,
        "datasets": [
            {
                "name": dataset.name,
                "title": dataset.title,
                "terms": dataset.terms,
                "citation": dataset.citation,
                "origin": dataset.origin,
                "files": [s._asdict() for s in statuses if s.name == dataset.name],
            }
            for dataset in data.DATASETS.values()
        ],
    }
    files.write_json(arguments.json, result)
    return 0


def _describe(dataset: Any, statuses: list[Any]) -> str:
    """Describe one data set: a table of its files, notes, terms and origin."""
    lines = [f"{dataset.name}: {dataset.title}"]
    width = max(len(status.file) for status in statuses)
    lines.append(f"  {'file':<{width}}  present  counts  checksum")
    for status in statuses:
        words = [_word(status.present), _word(status.counts_ok, "ok", "WRONG")]
        words.append(_word(status.checksum_ok, "ok", "WRONG"))
        cells = f"{words[0]:<7}  {words[1]:<6}  {words[2]}"
        lines.append(f"  {status.file:<{width}}  {cells}")
    for status in statuses:
        if status.present and not (status.counts_ok and status.checksum_ok):
            lines.append(_fill("note: ", status.message))
    lines.append(_fill("terms: ", dataset.terms))
    lines.append(_fill("from: ", dataset.origin))
    return "\n".join(lines) + "\n"


def _word(truth: bool | None, yes: str = "yes", no: str = "no") -> str:
    if truth is None:
        return "-"
    return yes if truth else no


def _fill(label: str, text: str) -> str:
    return textwrap.fill(
        label + text,
        _WIDTH,
        initial_indent="  ",
        subsequent_indent=" " * (2 + len(label)),
        break_on_hyphens=False,
        break_long_words=False,
    )
