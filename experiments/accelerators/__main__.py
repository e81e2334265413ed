"""``python -m experiments.accelerators``: compile the programs and keep the figures.

    python -m experiments.accelerators [--only WORD] [--target h100|v5e] [--json FILE]

Each compilation is a process of its own. A compilation that is not done in `--limit`
processor seconds is ended and kept as such. Nothing runs on an accelerator. A stopped
run with `--json` resumes from FILE.cells.json if the sources are the same.

Exit status: 0 if all programs compile, 1 if some do not, 2 bad input.
"""

import argparse
import functools
import json
import math
import os
import pathlib
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from experiments.accelerators import tables, targets
from experiments.accelerators.programs import PROGRAMS, shapes_of
from experiments.cells import Cells
from lowrank_jax.checks import InputError
from lowrank_jax.cli import files, output

__all__ = ["main", "measure"]


def main(argv: list[str] | None = None) -> int:
    """Compile what is asked for and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.accelerators",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--only", default="", metavar="WORD", help="programs with this in their name")
    add("--target", choices=targets.TARGETS, action="append", help="default: both")
    add("--limit", type=float, default=120.0, help="processor seconds of a program")
    add("--json", metavar="FILE", help="file for the figures")
    add("--fresh", action="store_true", help="leave FILE.cells.json aside")
    add("--text", metavar="DIR", help="folder for the compiled programs")
    add("--one", nargs=4, help=argparse.SUPPRESS)
    files.add_data_dir(parser)
    given = parser.parse_args(argv)
    if given.one:
        name, target, count, place = given.one
        shapes = pickle.loads(pathlib.Path(place).read_bytes())
        print(json.dumps(measure(name, target, int(count), shapes, given.text)))
        return 0
    try:
        return _all(given)
    except InputError as error:
        print(f"experiments.accelerators: {error}", file=sys.stderr)
        return 2


def _all(given: argparse.Namespace) -> int:
    wanted = given.target or [name for name in targets.TARGETS]
    for target in wanted:
        if not targets.is_installed(target):
            raise InputError(
                f"the compiler for {target} is not installed: run `make accelerators`."
            )
    files.check_json(given.json)
    began, rows, cells = time.perf_counter(), [], None
    if given.json not in (None, "-"):
        path = pathlib.Path(f"{given.json}.cells.json")
        cells = Cells(path, f"limit {given.limit}", is_fresh=given.fresh)
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder) / "shapes"
        place.write_bytes(pickle.dumps(shapes_of(given.data_dir)))
        for name, entry in PROGRAMS.items():
            if given.only not in name:
                continue
            for target in wanted:
                for count in getattr(entry, "devices", (1,)):
                    one = functools.partial(_apart, name, target, count, place, given)
                    cell = f"{name}, {target} x {count}"
                    row = cells(cell, one) if cells else one()
                    rows.append(row)
                    print(tables.line(row), flush=True)
    result = {
        "command": "make accelerators",
        "seconds": time.perf_counter() - began,
        **(cells.facts() if cells else {}),
        "limit": given.limit,
        "versions": output.versions(),
        "rows": rows,
    }
    if given.json:
        files.write_json(given.json, result)
    if cells:
        cells.path.unlink(missing_ok=True)
    return int(not all(row["compiles"] for row in rows))


def _apart(
    name: str, target: str, count: int, place: pathlib.Path, given: argparse.Namespace
) -> dict[str, Any]:
    """Compile in a process of its own."""
    command = [sys.executable, "-m", "experiments.accelerators"]
    command += ["--one", name, target, str(count), str(place)]
    if given.text:
        command += ["--text", given.text]
    row: dict[str, Any] = {"program": name, "target": target, "devices": count}
    seconds = math.ceil(given.limit)
    late = f"not done in {seconds} processor seconds"
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=20 * given.limit,  # a machine may be busy
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds,) * 2),
        )
    except subprocess.TimeoutExpired:
        return row | {"compiles": False, "reason": late}
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return row | {"compiles": False, "reason": late}
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "Error" in line]
        reason = lines[-1][:300] if lines else f"status {done.returncode}"
        return row | {"compiles": False, "reason": reason}
    return row | json.loads(done.stdout.splitlines()[-1])


def measure(
    name: str, target: str, count: int, shapes: Any, folder: str | None = None
) -> dict[str, Any]:
    """Compile one program; return its figures.

    Args:
      name: Name of the program.
      target: ``"h100"`` or ``"v5e"``.
      count: Number of devices.
      shapes: Shapes of the corpora.
      folder: Folder for the text of the compiled program, or None.
    """
    devices, is_gpu = targets.mesh(target, count), target == "h100"
    entry: Any = PROGRAMS[name]
    program = entry(shapes, devices) if hasattr(entry, "devices") else entry(shapes)
    before = sum(os.times()[:4])
    report = targets.compile_for(
        program.function,
        program.arguments,
        devices=devices,
        is_gpu=is_gpu,
        shardings=program.shardings,
        donate=program.donate,
        trips=program.trips,
    )
    spent, counts = sum(os.times()[:4]) - before, report.counts
    if folder:
        path = pathlib.Path(folder) / f"{name.replace(' ', '_')}.{target}.{count}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(report.text)
    number = program.num_sentences
    return {
        "compiles": True,
        "seconds": report.seconds,
        "processor_seconds": spent,
        "argument_bytes": report.argument_bytes,
        "temp_bytes": report.temp_bytes,
        "num_examples": number,
        "launches": counts.launches,
        "launches_per_1000": counts.launches * 1000 / number if number else None,
        "waits": counts.waits,
        "cycles": counts.cycles,
        "moved_bytes": counts.moved_bytes,
        "loops": counts.loops,
        "scatter_loops": counts.scatter_loops,
        "copies": counts.copies,
        "collectives": counts.collectives,
        "top": sorted(counts.by_source.items(), key=lambda pair: -pair[1])[:6],
    }


if __name__ == "__main__":
    sys.exit(main())
