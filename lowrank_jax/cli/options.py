"""Options that several commands have, in the same words."""

import argparse

from lowrank_jax.cli import arguments as kinds

__all__ = ["add_checkpoints", "add_seed", "add_settings"]


def add_settings(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--set``; `what` names the things that can be set."""
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="extend",
        nargs="+",
        default=[],
        dest="settings",
        help=f"{what}; may be given again",
    )


def add_seed(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--seed``; `what` says of what."""
    parser.add_argument(
        "--seed", metavar="N", type=kinds.seed, default=0, help=f"{what}; default: 0"
    )


def add_checkpoints(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run that can be interrupted."""
    add = parser.add_argument
    add(
        "--resume",
        action="store_true",
        help="go on from the checkpoint in the model folder; the result is that of an "
        "unbroken run, bit for bit",
    )
    add(
        "--checkpoint-seconds",
        metavar="X",
        type=kinds.seconds,
        default=30.0,
        help="at least so long between two checkpoints, written at the end of a pass "
        "and when the run is interrupted; default: 30",
    )
    add(
        "--keep-checkpoint",
        action="store_true",
        help="keep a checkpoint beside the model, to add passes later",
    )
