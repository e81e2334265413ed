"""One table or figure of a paper, with the paper's numbers beside ours.

An experiment is a module with ``run(scale, data_dir, say) -> dict`` and
``plot(result, path)``. Its result is plain JSON; tables in the documentation are made
from these files, so that no figure is typed by hand.
"""

from typing import NamedTuple

__all__ = ["EXPERIMENTS", "Experiment"]


class Experiment(NamedTuple):
    """What `reproduce --list` tells of an experiment.

    Attributes:
      module: that runs it.
      title: the table or figure, in words.
      data: what it runs on, and for what that stands in.
    """

    module: str
    title: str
    data: str


#: By the name that `reproduce` takes.
EXPERIMENTS = {
    "bol-table1": Experiment(
        "lowrank_jax.reproduce.bol_table1",
        "BOL Table 1: Chinese word segmentation, word F1",
        "PFR 1998-01 to train (stand-in for SIGHAN-2005 pku), PKU test",
    ),
    "bol-fig3": Experiment(
        "lowrank_jax.reproduce.bol_fig3",
        "BOL Figure 3: chunking, F1 against the share of training data",
        "CoNLL-2000, the paper's own data",
    ),
}
