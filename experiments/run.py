"""Run everything that a paper measures, at full scale, into docs/results.

    python experiments/run.py PAPER [NAME ...] [--data-dir DIR]

Without names all of the paper's are run, one after the other; nothing else should run
beside them.
"""

import argparse
import pathlib
import sys

from lowrank_jax.cli import main
from lowrank_jax.reproduce import EXPERIMENTS

RESULTS = pathlib.Path(__file__).parent.parent / "docs" / "results"
BENCHES = {"bol": "sequence", "sblr": "sblr", "smm": "smm", "tm": "tm"}


def commands(paper: str) -> dict[str, list[str]]:
    """Return the command lines of a paper, by the name of what they write."""
    found = {
        name: ["reproduce", name, "--scale", "full", "--out", str(RESULTS)]
        for name in EXPERIMENTS
        if name.startswith(f"{paper}-")
    }
    bench = f"bench-{BENCHES[paper]}"
    found[bench] = ["bench", BENCHES[paper], "--json", str(RESULTS / f"{bench}.json")]
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paper", choices=BENCHES)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--data-dir")
    given = parser.parse_args()
    known = commands(given.paper)
    for name in given.names:
        if name not in known:
            parser.error(f"NAME must be one of {', '.join(known)}, got {name!r}")
    where = ["--data-dir", given.data_dir] if given.data_dir else []
    for name in given.names or known:
        status = main(known[name] + where)
        if status:
            sys.exit(status)
