"""The form of every table, figure and bench: one `Experiment` per module.

The module `experiments.bol.fig3` exports ``EXPERIMENT`` and is run as ``bol-fig3``. The
result of a run is plain JSON. Table and picture are made from this JSON alone, so
that the documentation can be made from kept results.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NotRequired, TypedDict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Experiment", "Result", "Say", "Setup", "Status", "Verdict"]

Status = Literal[
    "the paper's data", "a stand-in", "data made as in the paper", "made data"
]
Result = dict[str, Any]
Say = Callable[[str], None]


class Verdict(TypedDict):
    """A claim and what a run says of it.

    Attributes:
      claim: The claim, in words that stand alone. It names the experiment's verdict.
      value: The estimate, mostly a paired difference; None if the claim has no number.
      interval: The 95 % interval of the estimate, or None.
      verdict: ``"holds"`` if the whole interval is on the side of the claim,
        ``"fails"`` if it is on the other side, else ``"not decided"``.
      found: The numbers in words, where a claim is about several.
    """

    claim: str
    value: float | None
    interval: list[float] | None
    verdict: Literal["holds", "fails", "not decided"]
    found: NotRequired[str]


def _compute(name: str, compute: Callable[[], Any]) -> Any:
    """Compute a cell and keep nothing."""
    return compute()


class Setup(NamedTuple):
    """What a run is given.

    Attributes:
      scale: ``"small"`` for minutes, ``"full"`` for the sizes of the paper. A bench has
        one size.
      data_dir: Folder of the data sets, as `data.find` takes it.
      say: Takes one line of progress.
      cell: Takes the name of a part of the run and a function that computes the part
        as plain JSON. Returns the part, which is computed once: a stopped run that is
        begun again has its finished cells (`experiments.cells`).
    """

    scale: str = "small"
    data_dir: Path | str | None = None
    say: Say = print
    cell: Callable[[str, Callable[[], Any]], Any] = _compute

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
      verdicts: Returns the claims that a result decides, from the result alone.
    """

    name: str
    title: str
    status: Status
    data: str
    run: Callable[[Setup], Result]
    table: Callable[[Result], str]
    picture: "Callable[[Figure, Result], None] | None" = None
    needs: Mapping[str, str] = {}
    verdicts: Callable[[Result], list[Verdict]] | None = None
