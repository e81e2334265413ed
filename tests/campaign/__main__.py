"""``python -m tests.campaign --minutes 15``: everything, within so many minutes."""

import argparse
import os
import pathlib
import sys
import tempfile
import time

import jax

from tests.campaign import inputs, numbers, report, runs

#: Parts and their shares of the time.
PARTS = (
    (inputs.fuzz_readers, 0.1),
    (inputs.fuzz_models, 0.05),
    (runs.crash_saves, 0.1),
    (runs.crash_trainings, 0.1),
    (runs.kill_trainings, 0.3),
    (runs.starve, 0.05),
    (numbers.extremes, 0.2),
    (runs.repeat, 0.1),
)


def main() -> int:
    """Run all parts; return 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", metavar="NAME", help="one part by its function")
    given = parser.parse_args()
    print(f"seed {given.seed}", file=sys.stderr)
    done = []
    kept = tempfile.TemporaryDirectory()  # each program is compiled once
    jax.config.update("jax_compilation_cache_dir", kept.name)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = kept.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    for run, share in PARTS:
        if given.only not in (None, run.__name__):
            continue
        with tempfile.TemporaryDirectory() as folder:
            seconds = given.minutes * 60 * (share if given.only is None else 1)
            part = run(pathlib.Path(folder), seconds, given.seed)
        print(f"{part.name}: {part.tried} tried, {len(part.found)} found", flush=True)
        done.append(part)
    print(f"\n{report.table(done)}")
    return int(any(part.found for part in done))


if __name__ == "__main__":
    sys.exit(main())
