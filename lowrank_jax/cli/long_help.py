"""``--help`` that goes on with what the parser alone does not know."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["add_help"]


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
      parser: to add them to.
      describe: what was parsed so far to the text after the help; it may be empty.
      words: on the option itself.
    """
    parser.add_argument("-h", "--help", action=_Help, describe=describe, help=words)
