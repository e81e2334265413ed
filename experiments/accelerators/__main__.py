"""``python -m experiments.accelerators``: compile the programs and keep the figures.

    python -m experiments.accelerators [--only WORD] [--target h100|v5e] [--json FILE]

Each compilation is a process of its own. One that has not ended in `--limit` processor
seconds is stopped, and its row says so. Nothing runs on an accelerator.

FILE is written after each program. A row has a key: the hash of the program as given to
the compiler, of the compilers' versions and of what counts (`key_of`). The next run
lowers each program and compiles it only if FILE has no row with its key, so a stopped
run resumes and a later version compiles what it has changed.

Exit status: 0 if all programs compile, 1 if some do not, 2 bad input.
"""

import argparse
import hashlib
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
from collections.abc import Collection
from typing import Any

from experiments.accelerators import counting, programs, tables, targets
from experiments.accelerators.programs import shapes_of
from experiments.accelerators.spread import SPREAD
from lowrank_jax.checks import InputError
from lowrank_jax.cli import files, output

__all__ = ["key_of", "main", "measure"]

PROGRAMS: dict[str, Any] = programs.PROGRAMS | SPREAD


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
    add("--fresh", action="store_true", help="compile anew what FILE has")
    add("--text", metavar="DIR", help="folder for the compiled programs")
    add("--one", nargs=4, help=argparse.SUPPRESS)
    files.add_data_dir(parser)
    given = parser.parse_args(argv)
    if given.one:
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(given.limit),) * 2)
        name, target, count, folder = given.one
        shapes, keys = pickle.loads((pathlib.Path(folder) / "given").read_bytes())
        measure(name, target, int(count), shapes, keys, given.text)
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
    path = pathlib.Path(given.json) if given.json not in (None, "-") else None
    before = _read(path) if path and path.exists() else []
    rows = {_cell(row): row | {"is_checked": False} for row in before}
    named = [
        (name, target, count)
        for name, entry in PROGRAMS.items()
        for target in targets.TARGETS
        for count in getattr(entry, "devices", (1,))
    ]
    not_run = {"is_checked": False, "compiles": False, "reason": "not run"}
    rows = {cell: rows.get(cell, _head(*cell) | not_run) for cell in named}
    with tempfile.TemporaryDirectory() as folder:
        kept = {
            row["key"]: row
            for row in before
            if "key" in row and not given.fresh and _is_final(row, given.limit)
        }
        place = pathlib.Path(folder) / "given"
        place.write_bytes(pickle.dumps((shapes_of(given.data_dir), set(kept))))
        for cell in named:
            if given.only not in cell[0] or cell[1] not in wanted:
                continue
            row = _apart(*cell, folder, given)
            if row.get("key") in kept:
                row = kept[row["key"]] | _head(*cell)
            rows[cell] = row
            print(tables.line(row), flush=True)
            if path:
                files.write_json(given.json, _result(rows))
    if given.json == "-":
        files.write_json("-", _result(rows))
    return int(not all(row["compiles"] for row in rows.values() if row["is_checked"]))


def _cell(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["program"], row["target"], row["devices"]


def _head(name: str, target: str, count: int) -> dict[str, Any]:
    return {"program": name, "target": target, "devices": count, "is_checked": True}


def _is_final(row: dict[str, Any], limit: float) -> bool:
    """Tell whether the same program would get the same row."""
    return row["compiles"] or ("limit" in row and row["limit"] >= limit)


def _read(path: pathlib.Path) -> list[dict[str, Any]]:
    """Return the rows of an earlier run."""
    try:
        rows = json.loads(path.read_text())["rows"]
        for row in rows:
            _cell(row)
        return rows
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path}: not a file of this command; remove it.") from None


def _result(rows: dict[tuple[str, str, int], dict[str, Any]]) -> dict[str, Any]:
    compilers = {k: v for found in targets.COMPILERS.values() for k, v in found.items()}
    return {
        "command": "make accelerators",
        "versions": output.versions() | compilers,
        "rows": list(rows.values()),
    }


def _apart(
    name: str, target: str, count: int, folder: str, given: argparse.Namespace
) -> dict[str, Any]:
    """Lower in a process of its own, and compile there unless the key is known."""
    command = [sys.executable, "-m", "experiments.accelerators"]
    command += ["--one", name, target, str(count), folder]
    command += ["--limit", str(given.limit)]
    if given.text:
        command += ["--text", given.text]
    seconds = math.ceil(given.limit)
    row = _head(name, target, count) | {"compiles": False}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, errors = process.communicate(timeout=20 * given.limit)  # a busy machine
    except subprocess.TimeoutExpired:
        process.kill()
        out, errors = process.communicate()
    for line in out.splitlines():
        row |= json.loads(line)
    if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        late = f"not ended within {seconds} processor seconds"
        return row | {"reason": late, "limit": given.limit}
    if process.returncode:
        lines = [line for line in errors.splitlines() if "Error" in line]
        reason = lines[-1][:300] if lines else f"status {process.returncode}"
        return row | {"reason": reason}
    return row


def key_of(text: str, target: str, others: Any) -> str:
    """Return the key of a program.

    Args:
      text: The program as it is given to the compiler.
      target: ``"h100"`` or ``"v5e"``.
      others: What else its row depends on, as plain JSON.
    """
    versions = output.versions()["jaxlib"], targets.COMPILERS[target]
    counted = pathlib.Path(counting.__file__).read_text()
    whole = json.dumps([text, target, others, counted, versions], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()


def measure(
    name: str,
    target: str,
    count: int,
    shapes: Any,
    keys: Collection[str] = (),
    folder: str | None = None,
) -> None:
    """Lower a program, print its key, compile it and print its figures.

    Args:
      name: Name of the program.
      target: ``"h100"`` or ``"v5e"``.
      count: Number of devices.
      shapes: Shapes of the corpora.
      keys: Programs with one of these keys are not compiled.
      folder: Folder for the text of the compiled program, or None.
    """
    devices, is_gpu = targets.mesh(target, count), target == "h100"
    entry: Any = PROGRAMS[name]
    program = entry(shapes, devices) if hasattr(entry, "devices") else entry(shapes)
    before = sum(os.times()[:4])
    lowered = targets.lower(
        program.function,
        program.arguments,
        devices=devices,
        shardings=program.shardings,
        donate=program.donate,
    )
    others = [count, program.num_sentences, program.trips]
    key = key_of(lowered.as_text(), target, others)
    print(json.dumps({"key": key}), flush=True)
    if key in keys:
        return
    report = targets.compile_lowered(lowered, is_gpu=is_gpu, trips=program.trips)
    spent, counts = sum(os.times()[:4]) - before, report.counts
    if folder:
        path = pathlib.Path(folder) / f"{name.replace(' ', '_')}.{target}.{count}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(report.text)
    number = program.num_sentences
    row = {
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
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    sys.exit(main())
