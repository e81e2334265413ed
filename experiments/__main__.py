"""``python -m experiments``: tables and figures of the papers, and benches.

    python -m experiments --list
    python -m experiments NAME [--scale small|full] [--out DIR] [--resume]
    python -m experiments bench-NAME [--json FILE]

A table or figure writes numbers (JSON), a plot (PNG) and a table with the paper's
numbers beside ours (Markdown) to a folder. A bench measures ours and the peers on the
same work in one run, compilation apart; run it with nothing else running.
"""

import argparse
import importlib
import importlib.util
import inspect
import json
import pathlib
import sys
import time
from typing import Any

from experiments.bench import BENCHES
from experiments.protocol import EXPERIMENTS, NOT_RUN
from lowrank_jax.checks import InputError
from lowrank_jax.cli import files, output

_ROWS = ("rows", "protocols")  # what an interrupted run has done so far
_ONLINE = ("certify", "sequence", "tm")  # benches that run on one core, as `train`


def main(argv: list[str] | None = None) -> int:
    """Run one experiment or bench and return the exit status."""
    try:
        return _run(_parser().parse_args(argv))
    except SystemExit as stop:  # argparse: --help, a wrong argument
        return stop.code if isinstance(stop.code, int) else 0
    except InputError as error:
        print(f"experiments: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("name", nargs="?", metavar="NAME", help="see --list")
    add("--list", action="store_true", help="name what can be run")
    add(
        "--scale",
        choices=("small", "full"),
        default="small",
        help="small: minutes; full: as in the paper (default: small)",
    )
    add("--out", metavar="DIR", default="results", help="default: results")
    add(
        "--resume",
        action="store_true",
        help="resume from NAME.partial.json in DIR (smm-fig1, sblr-table4)",
    )
    add("--json", metavar="FILE", help="file for the figures of a bench")
    files.add_data_dir(parser)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    if arguments.list:
        print(listing())
        return 0
    name = arguments.name or ""
    if name.startswith("bench-") and name.removeprefix("bench-") in BENCHES:
        return _bench(name.removeprefix("bench-"), arguments)
    if name not in EXPERIMENTS:
        known = ", ".join([*EXPERIMENTS, *(f"bench-{bench}" for bench in BENCHES)])
        raise InputError(
            f"`NAME` must be one of {known}, got {arguments.name!r}; "
            "`python -m experiments --list` tells what they are."
        )
    return _reproduce(name, arguments)


def _reproduce(name: str, arguments: argparse.Namespace) -> int:
    folder = pathlib.Path(arguments.out)
    if not folder.is_dir() and (folder.exists() or folder.is_symlink()):
        raise InputError(
            f"--out {folder} is not a folder; name a new folder, or one that is there."
        )
    files.check_place(folder)
    module = importlib.import_module(EXPERIMENTS[name].module)
    place = folder / name
    unfinished = place.with_suffix(".partial.json")

    def keep(result: dict[str, Any]) -> None:
        files.write_json(str(unfinished), result)

    takes = inspect.signature(module.run).parameters
    more: dict[str, Any] = {"keep": keep} if "keep" in takes else {}
    if arguments.resume:
        if "before" not in takes:
            raise InputError(f"`--resume`: {name} cannot be resumed; leave it.")
        more["before"] = _read_unfinished(unfinished, arguments.scale)
    began = time.perf_counter()
    result = module.run(arguments.scale, arguments.data_dir, _say, **more)
    result["command"] = f"python -m experiments {name} --scale {arguments.scale}"
    result["seconds"] = time.perf_counter() - began
    result.setdefault("seed", 0)  # of several seeds the first
    result["versions"] = output.versions()
    files.write_json(f"{place}.json", result)
    unfinished.unlink(missing_ok=True)
    files.write_text(f"{place}.md", getattr(module, "table", table)(result))
    module.plot(result, place.with_suffix(".png"))
    print(f"wrote {place}.json, {place}.md and {place}.png")
    return 0


def _bench(name: str, arguments: argparse.Namespace) -> int:
    files.check_json(arguments.json)
    if name in _ONLINE:
        output.use_one_core()
    module = importlib.import_module(BENCHES[name])
    for needed, title in getattr(module, "NEEDS", {}).items():
        if importlib.util.find_spec(needed) is None:
            raise InputError(
                f"bench-{name} compares with {title}, which is not installed: "
                "pip install 'lowrank_jax[bench]'."
            )
    began = time.perf_counter()
    result = module.run(arguments.data_dir, _say)
    result["command"] = f"python -m experiments bench-{name}"
    result["seconds"] = time.perf_counter() - began
    result["versions"] = output.versions()
    files.write_json(arguments.json, result)
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


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
    """Name every table, figure and bench with its status."""
    lines = []
    for name, experiment in EXPERIMENTS.items():
        lines += [
            f"{name}",
            f"  {experiment.title}",
            f"  reproduced on {experiment.status}: {experiment.data}",
        ]
    lines += ["", "benches", *(f"  bench-{name}" for name in BENCHES)]
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


if __name__ == "__main__":
    sys.exit(main())
