"""``python -m lowrank_jax`` is the command ``lowrank-jax``."""

import sys

from lowrank_jax.cli import main

if __name__ == "__main__":
    sys.exit(main())
