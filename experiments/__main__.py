"""``python -m experiments``: tables and figures of the papers, and benches.

    python -m experiments --list
    python -m experiments NAME [--scale small|full] [--out DIR] [--resume]
    python -m experiments bench-NAME [--json FILE]

A table or figure writes its numbers (NAME.json), a table with the paper's numbers
beside ours (NAME.md) and a plot (NAME.png) to a folder. A bench measures ours and the
peers on the same work in one run, compilation apart. Run it with nothing else running.

Exit status: 0 done, 2 bad input (one sentence on standard error), 130 interrupted.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import sys
import time

from experiments import catalogue
from experiments.protocol import Experiment, Result, Setup
from lowrank_jax.checks import InputError
from lowrank_jax.cli import files, output

__all__ = ["draw", "listing", "main"]

_PARTS = ("rows", "protocols")  # names under which an interrupted run keeps its parts


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
    add("--resume", action="store_true", help="resume from DIR/NAME.partial.json")
    add("--json", metavar="FILE", help="file for the numbers of a bench")
    files.add_data_dir(parser)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    name = arguments.name
    if arguments.list:
        print(listing())
        return 0
    if name not in catalogue.NAMES:
        raise InputError(
            f"`NAME` must be one of {', '.join(catalogue.NAMES)}, got {name!r}; "
            "`python -m experiments --list` says what they are."
        )
    if name.startswith("bench-"):
        return _bench(name, arguments)
    return _reproduce(name, arguments)


def _reproduce(name: str, arguments: argparse.Namespace) -> int:
    if arguments.json is not None:
        raise InputError(f"`--json`: {name} writes {name}.json to --out; leave it out.")
    folder = pathlib.Path(arguments.out or "results")
    if not folder.is_dir() and (folder.exists() or folder.is_symlink()):
        raise InputError(
            f"--out {folder} is not a folder; name a new folder, or one that is there."
        )
    files.check_place(folder)
    experiment = catalogue.load(name)
    place = folder / name
    unfinished = place.with_suffix(".partial.json")
    setup = Setup(
        scale=arguments.scale or "small",
        data_dir=arguments.data_dir,
        say=_say,
        keep=lambda result: files.write_json(str(unfinished), result),
    )
    if arguments.resume:
        if not experiment.can_resume:
            raise InputError(f"`--resume`: {name} cannot be resumed; leave it out.")
        setup = setup._replace(before=_read_unfinished(unfinished, setup.scale))
    result = _timed(experiment, setup, f" --scale {setup.scale}")
    result.setdefault("seed", 0)  # the first one if there are several
    files.write_json(f"{place}.json", result)
    unfinished.unlink(missing_ok=True)
    files.write_text(f"{place}.md", experiment.table(result))
    draw(experiment, result, place.with_suffix(".png"))
    print(f"wrote {place}.json, {place}.md and {place}.png")
    return 0


def _bench(name: str, arguments: argparse.Namespace) -> int:
    for option in ("scale", "out", "resume"):
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
    result = _timed(experiment, Setup(data_dir=arguments.data_dir, say=_say), "")
    files.write_json(arguments.json, result)
    return 0


def _timed(experiment: Experiment, setup: Setup, options: str) -> Result:
    """Run, and note the command, the seconds and the versions."""
    began = time.perf_counter()
    result = experiment.run(setup)
    return result | {
        "command": f"python -m experiments {experiment.name}{options}",
        "seconds": time.perf_counter() - began,
        "versions": output.versions(),
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


def _read_unfinished(path: pathlib.Path, scale: str) -> Result:
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
    if not is_kept or not any(isinstance(kept.get(name), list) for name in _PARTS):
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
