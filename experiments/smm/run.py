"""Run everything that the SMM paper measures, at full scale, into docs/results.

    python experiments/smm/run.py --data-dir DIR [NAME ...]

Without names all are run, one after the other; nothing else should run beside them.
"""

import argparse
import pathlib
import sys

from lowrank_jax.cli import main

RESULTS = pathlib.Path(__file__).parent.parent.parent / "docs" / "results"
COMMANDS = {
    "smm-fig2": ["reproduce", "smm-fig2", "--scale", "full", "--out", str(RESULTS)],
    "smm-fig1": ["reproduce", "smm-fig1", "--scale", "full", "--out", str(RESULTS)],
    "bench-smm": ["bench", "smm", "--json", str(RESULTS / "bench-smm.json")],
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *COMMANDS], default=[])
    parser.add_argument("--data-dir")
    given = parser.parse_args()
    where = ["--data-dir", given.data_dir] if given.data_dir else []
    for name in given.names or COMMANDS:
        status = main(COMMANDS[name] + where)
        if status:
            sys.exit(status)
