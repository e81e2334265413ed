"""``lowrank-jax reproduce``: a table or figure of a paper, its numbers beside ours."""

import argparse
import importlib
import inspect
import json
import pathlib
import time
from typing import Any

from lowrank_jax.checks import InputError
from lowrank_jax.cli import files, machine

__all__ = ["add_parser", "run"]

_DESCRIPTION = """\
Run one table or figure of a paper and write numbers (JSON), a plot (PNG) and a table
with the paper's numbers beside ours (Markdown) to a folder. Long ones keep what they
have so far in ID.partial.json there; some can go on from it (--resume).
"""

_EPILOG = """\
examples:
  lowrank-jax reproduce --list
  lowrank-jax reproduce bol-fig3 --scale small --out results
"""

_ROWS = ("rows", "protocols")  # what an interrupted run has done so far


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "reproduce",
        help="a table or figure of a paper, the paper's numbers beside ours",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("id", nargs="?", metavar="ID", help="see --list")
    parser.add_argument("--list", action="store_true", help="name what can be run")
    parser.add_argument(
        "--scale",
        choices=("small", "full"),
        default="small",
        help="small: minutes; full: as in the paper (default: small)",
    )
    parser.add_argument(
        "--out", metavar="DIR", default="results", help="default: results"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on from ID.partial.json in DIR (smm-fig1, sblr-table4)",
    )
    files.add_data_dir(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run one experiment; return the exit status."""
    from lowrank_jax.reproduce import EXPERIMENTS

    if arguments.list:
        print(listing())
        return 0
    if arguments.id not in EXPERIMENTS:
        known = ", ".join(EXPERIMENTS)
        raise InputError(
            f"`ID` must be one of {known}, got {arguments.id!r}; "
            "`lowrank-jax reproduce --list` tells what they are."
        )
    folder = pathlib.Path(arguments.out)
    if not folder.is_dir() and (folder.exists() or folder.is_symlink()):
        raise InputError(
            f"--out {folder} is not a folder; name a new folder, or one that is there."
        )
    files.check_place(folder)
    module = importlib.import_module(EXPERIMENTS[arguments.id].module)

    def say(line: str) -> None:
        print(line, flush=True)

    place = folder / arguments.id
    unfinished = place.with_suffix(".partial.json")

    def keep(result: dict[str, Any]) -> None:
        files.write_json(str(unfinished), result)

    takes = inspect.signature(module.run).parameters
    more: dict[str, Any] = {"keep": keep} if "keep" in takes else {}
    if arguments.resume:
        if "before" not in takes:
            raise InputError(f"`--resume`: {arguments.id} cannot be resumed; leave it.")
        more["before"] = _read_unfinished(unfinished, arguments.scale)
    began = time.perf_counter()
    result = module.run(arguments.scale, arguments.data_dir, say, **more)
    result["command"] = (
        f"lowrank-jax reproduce {arguments.id} --scale {arguments.scale}"
    )
    result["seconds"] = time.perf_counter() - began
    result.setdefault("seed", 0)  # of several seeds the first
    result["versions"] = machine.versions()
    files.write_json(f"{place}.json", result)
    unfinished.unlink(missing_ok=True)
    files.write_text(f"{place}.md", getattr(module, "table", table)(result))
    module.plot(result, place.with_suffix(".png"))
    print(f"wrote {place}.json, {place}.md and {place}.png")
    return 0


def _read_unfinished(path: pathlib.Path, scale: str) -> dict[str, Any]:
    """Read what an interrupted run kept."""
    try:
        kept = json.loads(path.read_text())
    except OSError as error:
        raise InputError(
            f"{path}: nothing to resume ({error.strerror}); leave out `--resume`."
        ) from None
    except ValueError:
        raise InputError(
            f"{path}: not whole JSON; remove it and leave out `--resume`."
        ) from None
    is_kept = isinstance(kept, dict) and isinstance(kept.get("scale"), str)
    if not is_kept or not any(isinstance(kept.get(name), list) for name in _ROWS):
        raise InputError(
            f"{path}: not what an interrupted run kept; remove it and leave out "
            "`--resume`."
        )
    if kept["scale"] != scale:
        raise InputError(
            f"{path}: kept at `--scale {kept['scale']}`, not {scale}; give that scale."
        )
    return kept


def listing() -> str:
    """Name every table and figure of the papers with its status."""
    from lowrank_jax.reproduce import EXPERIMENTS, NOT_RUN

    lines = []
    for name, experiment in EXPERIMENTS.items():
        lines += [
            f"{name}",
            f"  {experiment.title}",
            f"  reproduced on {experiment.status}: {experiment.data}",
        ]
    lines += ["", "not possible here"]
    for absent in NOT_RUN:
        lines += [f"  {absent.title}", f"    {absent.why}"]
    return "\n".join(lines)


def table(result: dict[str, Any]) -> str:
    """Write a result that has rows of F1 as a Markdown table."""
    has_templates = any("template" in row for row in result["rows"])
    head = ["method", *(["template"] if has_templates else []), "F1", "+-", "seconds"]
    lines = [[*head, "paper"], ["---"] * (len(head) + 1)]
    for row in result["rows"]:
        spread = "" if row["f1_std"] is None else f"{row['f1_std']:.2f}"
        paper = "" if row["paper"] is None else f"{row['paper']:.1f}"
        cells = [row["method"]] + ([row["template"]] if has_templates else [])
        cells += [f"{row['f1']:.2f}", spread, f"{row['train_seconds']:.1f}", paper]
        lines.append(cells)
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)
