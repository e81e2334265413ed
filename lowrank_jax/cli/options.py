"""Arguments that several commands have, in the same words, and their types."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "add_checkpoints",
    "add_help",
    "add_seed",
    "add_settings",
    "count",
    "seconds",
    "seed",
    "share",
]


def count(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"must be a whole number of at least 1, got {text!r}"
        )
    return int(text)


def seed(text: str) -> int:
    """Read the seed of a random key."""
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(
            f"must be a whole number from 0 to {2**32 - 1}, got {text!r}"
        )
    return int(text)


def share(text: str) -> float:
    """Read a share, above 0 and at most 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 1, got {text!r}")
    return value


def seconds(text: str) -> float:
    """Read a time, 0 or more."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise argparse.ArgumentTypeError(
            f"must be a number of seconds, 0 or more, got {text!r}"
        )
    return value


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
    """Add ``--seed``; `what` describes it."""
    parser.add_argument(
        "--seed", metavar="N", type=seed, default=0, help=f"{what}; default: 0"
    )


def add_checkpoints(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run that can be interrupted."""
    add = parser.add_argument
    add(
        "--resume",
        action="store_true",
        help="resume from the checkpoint in the model folder; the result equals an "
        "unbroken run bit for bit",
    )
    add(
        "--checkpoint-seconds",
        metavar="X",
        type=seconds,
        default=30.0,
        help="least time between two checkpoints, which are written at the end of a "
        "pass; an interrupted run writes one too; default: 30",
    )
    add(
        "--keep-checkpoint",
        action="store_true",
        help="keep a checkpoint beside the model, to add passes later",
    )


class _Help(argparse.Action):
    def __init__(
        self, *, describe: Callable[[argparse.Namespace], str], **given: Any
    ) -> None:
        super().__init__(nargs=0, **given)
        self.describe = describe

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        parser.print_help()
        text = self.describe(namespace)
        if text:
            print(f"\n{text}", end="")
        parser.exit()


def add_help(
    parser: argparse.ArgumentParser,
    describe: Callable[[argparse.Namespace], str],
    words: str = "show this help and the settings",
) -> None:
    """Add ``-h`` and ``--help`` to a parser made without them.

    Args:
      parser: Parser to add them to.
      describe: Function from the arguments parsed so far to the text after the help,
        which may be empty.
      words: Help on the option itself.
    """
    parser.add_argument("-h", "--help", action=_Help, describe=describe, help=words)
