"""``python -m experiments``: tables and figures of the papers, and benches.

    python -m experiments --list
    python -m experiments NAME [--scale small|full] [--out DIR] [--fresh]
    python -m experiments all [--scale small|full] [--out DIR] [--fresh]
    python -m experiments check [--out DIR]
    python -m experiments bench-NAME [--json FILE]

A table or figure writes its numbers (NAME.json), a table with the paper's numbers
beside ours (NAME.md) and a plot (NAME.png) to a folder. A stopped run resumes where it
was stopped, if the sources are the same: finished cells are kept in NAME.cells.json
until the run has ended. `all` runs all tables and figures and says how long each took.
`check` runs them at small scale and compares their verdicts with those that are kept in
DIR/verdicts-small.json (default: docs/results). A bench measures ours and the peers on
the same work in one run, compilation apart. Run it with nothing else running.

Exit status: 0 done, 1 a verdict has changed, 2 bad input (one sentence on standard
error), 130 interrupted.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import platform
import sys
import tempfile
import time
from typing import Any

from experiments import catalogue
from experiments.cells import Cells, sources
from experiments.protocol import Experiment, Result, Setup, Verdict
from lowrank_jax.checks import InputError
from lowrank_jax.cli import files, output

__all__ = ["draw", "listing", "main"]

#: Verdicts at small scale that are kept, for `check`.
KEPT_VERDICTS = "verdicts-small.json"


def main(argv: list[str] | None = None) -> int:
    """Run one experiment and return the exit status.

    Args:
      argv: The arguments; None takes the arguments of the process.
    """
    try:
        status = _run(_parser().parse_args(argv))
        sys.stdout.flush()  # a closed pipe is noticed here, not at the exit
        return status
    except SystemExit as stop:  # argparse: --help, a wrong argument
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        print("experiments: interrupted.", file=sys.stderr)
        return 130
    except InputError as error:
        print(f"experiments: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of a pipe has enough: not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a full disk, a folder without permission
        place = f"{error.filename}: " if error.filename else ""
        print(f"experiments: {place}{error.strerror or error}.", file=sys.stderr)
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
    add("--list", action="store_true", help="say what can be run, and on which data")
    add(
        "--scale",
        choices=("small", "full"),
        help="small: minutes; full: as in the paper (default: small)",
    )
    add("--out", metavar="DIR", help="folder for the result (default: results)")
    add("--fresh", action="store_true", help="leave DIR/NAME.cells.json aside")
    add("--json", metavar="FILE", help="file for the numbers of a bench")
    files.add_data_dir(parser)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    name = arguments.name
    if arguments.list:
        print(listing())
        return 0
    if name == "all":
        return _all(arguments)
    if name == "check":
        return _check(arguments)
    if name not in catalogue.NAMES:
        raise InputError(
            f"`NAME` must be all, check or one of {', '.join(catalogue.NAMES)}, got "
            f"{name!r}; `python -m experiments --list` says what they are."
        )
    if name.startswith("bench-"):
        return _bench(name, arguments)
    folder = _folder(arguments, name)
    _reproduce(name, folder, arguments.scale or "small", arguments)
    return 0


def _folder(arguments: argparse.Namespace, name: str, default: str = "results") -> Any:
    """Return the folder of results, which need not be there yet."""
    if arguments.json is not None:
        raise InputError(f"`--json`: {name} writes to --out; leave it out.")
    folder = pathlib.Path(arguments.out or default)
    if not folder.is_dir() and (folder.exists() or folder.is_symlink()):
        raise InputError(
            f"--out {folder} is not a folder; name a new folder, or one that is there."
        )
    files.check_place(folder)
    return folder


def _tables() -> list[str]:
    return [name for name in catalogue.NAMES if not name.startswith("bench-")]


def _reproduce(
    name: str, folder: pathlib.Path, scale: str, arguments: argparse.Namespace
) -> Result:
    """Run a table or figure and write its files; return the result."""
    experiment = catalogue.load(name)
    place = folder / name
    cells = Cells(folder / f"{name}.cells.json", scale, is_fresh=arguments.fresh)
    if cells.num_kept:
        _say(f"{name}: {cells.num_kept} cells of {cells.path} are not run again")
    setup = Setup(scale, arguments.data_dir, _say, cells)
    result = experiment.run(setup) | _facts(f"{name} --scale {scale}") | cells.facts()
    result.setdefault("seed", 0)  # the first one if there are several
    if experiment.verdicts is not None:
        result["verdicts"] = experiment.verdicts(result)
        for verdict in result["verdicts"]:
            _say(f"{verdict['claim']}: {verdict['verdict']}")
    files.write_json(f"{place}.json", result)
    files.write_text(f"{place}.md", experiment.table(result))
    draw(experiment, result, place.with_suffix(".png"))
    cells.path.unlink(missing_ok=True)
    print(f"wrote {place}.json, {place}.md and {place}.png")
    return result


def _all(arguments: argparse.Namespace) -> int:
    """Run all tables and figures; results of these sources are not run again."""
    folder, scale = _folder(arguments, "all"), arguments.scale or "small"
    now, lines = sources(), []
    for name in _tables():
        try:
            kept = json.loads((folder / f"{name}.json").read_text())
            is_done = (kept["sources"], kept["scale"]) == (now, scale)
        except (OSError, ValueError, KeyError, TypeError):
            is_done = False
        if is_done and not arguments.fresh:
            result = kept
        else:
            result = _reproduce(name, folder, scale, arguments)
        lines.append(f"{name:16} {result['seconds'] / 60:6.1f} minutes")
        _say(lines[-1])
    _say("\n".join(["", *lines]))
    return 0


def _check(arguments: argparse.Namespace) -> int:
    """Run all at small scale; status 1 if a verdict is not the one that is kept."""
    if arguments.scale not in (None, "small"):
        raise InputError("`--scale`: check runs at small scale; leave it out.")
    kept_at = _folder(arguments, "check", "docs/results") / KEPT_VERDICTS
    kept = json.loads(kept_at.read_text()) if kept_at.exists() else {}
    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in _tables():
            if catalogue.load(name).verdicts is None:
                continue
            result = _reproduce(name, pathlib.Path(folder), "small", arguments)
            found[name] = _by_claim(result["verdicts"])
    if not kept:
        files.write_json(str(kept_at), found)
        _say(f"wrote {kept_at}: the verdicts to compare with from now on")
        return 0
    changed = [
        f"{name}: {claim}: {old} before, {found[name].get(claim, 'no verdict')} now"
        for name, claims in kept.items()
        if name in found
        for claim, old in claims.items()
        if found[name].get(claim) != old
    ]
    for line in changed:
        print(f"experiments: {line}.", file=sys.stderr)
    if not changed:
        _say(f"{sum(map(len, found.values()))} verdicts are as kept in {kept_at}")
    return 1 if changed else 0


def _by_claim(verdicts: list[Verdict]) -> dict[str, str]:
    return {verdict["claim"]: verdict["verdict"] for verdict in verdicts}


def _bench(name: str, arguments: argparse.Namespace) -> int:
    for option in ("scale", "out", "fresh"):
        if getattr(arguments, option):
            raise InputError(
                f"`--{option}`: {name} has one size and writes to --json alone; leave "
                "it out."
            )
    files.check_json(arguments.json)
    if name in catalogue.ONE_CORE:
        output.use_one_core()
    experiment = catalogue.load(name)
    for needed, title in experiment.needs.items():
        if importlib.util.find_spec(needed) is None:
            raise InputError(
                f"{name} compares with {title}, which is not installed: "
                "pip install 'lowrank_jax[bench]'."
            )
    began = time.perf_counter()
    result = experiment.run(Setup(data_dir=arguments.data_dir, say=_say))
    facts = {"seconds": time.perf_counter() - began, "sources": sources()}
    facts |= _facts(name)
    if both := facts.keys() & result.keys():
        raise ValueError(f"{name} returns {sorted(both)}, which the file has already.")
    files.write_json(arguments.json, result | facts)
    return 0


def _facts(command: str) -> Result:
    """Return the command, the versions and the machine."""
    return {
        "command": f"python -m experiments {command}",
        "versions": output.versions(),
        "machine": {
            "num_cores": os.cpu_count(),
            "architecture": platform.machine(),
            "system": platform.system(),
        },
    }


def draw(experiment: Experiment, result: Result, path: pathlib.Path) -> None:
    """Draw the picture of a result, if there is one, into a PNG file."""
    from matplotlib.figure import Figure  # not pyplot: no window system is touched

    if experiment.picture is None:
        return
    figure = Figure(layout="constrained")
    experiment.picture(figure, result)
    figure.savefig(path, dpi=150)


def _say(line: str) -> None:
    print(line, flush=True)


def listing() -> str:
    """Return all experiments with their titles and data, and what is missing."""
    lines = []
    for name in catalogue.NAMES:
        experiment = catalogue.load(name)
        lines += [
            name,
            f"  {experiment.title}",
            f"  on {experiment.status}: {experiment.data}",
        ]
    lines += ["", "not possible here"]
    for absent in catalogue.NOT_RUN:
        lines += [f"  {absent.title}", f"    {absent.why}"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
