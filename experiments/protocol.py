"""The form of every table, figure and bench: one `Experiment` per module.

The module `experiments.bol.fig3` exports ``EXPERIMENT`` and is run as ``bol-fig3``. The
result of a run is plain JSON. Table and picture are made from this JSON alone, so
that the documentation can be made from kept results.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Experiment", "Result", "Say", "Setup", "Status"]

Status = Literal[
    "the paper's data", "a stand-in", "data made as in the paper", "made data"
]
Result = dict[str, Any]
Say = Callable[[str], None]


def _forget(result: Result) -> None:
    """Keep nothing."""


class Setup(NamedTuple):
    """What a run is given.

    Attributes:
      scale: ``"small"`` for minutes, ``"full"`` for the sizes of the paper. A bench has
        one size.
      data_dir: Folder of the data sets, as `data.find` takes it.
      say: Takes one line of progress.
      keep: Takes the result so far. It is written to a file for ``--resume``.
      before: Result that an interrupted run kept. Its parts are not run again.
    """

    scale: str = "small"
    data_dir: Path | str | None = None
    say: Say = print
    keep: Callable[[Result], None] = _forget
    before: Result | None = None

    @property
    def is_full(self) -> bool:
        """True for the sizes of the paper."""
        return self.scale == "full"


class Experiment(NamedTuple):
    """A table or figure of a paper, or a bench.

    Attributes:
      name: Name on the command line.
      title: The table or figure, in words.
      status: Kind of data it is run on.
      data: Names of the data sets, and what they stand in for.
      run: Returns the result.
      table: Returns the result as Markdown, the paper's numbers beside ours.
      picture: Draws the result into an empty figure; None if there is nothing to draw.
      needs: Names of peers by module. Without them a bench cannot run.
      can_resume: True if `run` reads `Setup.before`.
    """

    name: str
    title: str
    status: Status
    data: str
    run: Callable[[Setup], Result]
    table: Callable[[Result], str]
    picture: "Callable[[Figure, Result], None] | None" = None
    needs: Mapping[str, str] = {}
    can_resume: bool = False
