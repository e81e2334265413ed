"""Names of all experiments, and what the papers show beside them."""

import importlib
from typing import NamedTuple

from experiments.protocol import Experiment

__all__ = ["NAMES", "NOT_RUN", "ONE_CORE", "NotRun", "load"]

#: Names of all experiments. The module of ``bol-fig3`` is `experiments.bol.fig3`.
NAMES = (
    "bol-table1",
    "bol-fig1",
    "bol-fig2",
    "bol-fig3",
    "bol-tasks",
    "bol-why",
    "bol-predict",
    "bol-brown",
    "bol-regret",
    "bol-chunking",
    "sblr-table1",
    "sblr-fig3",
    "sblr-table2",
    "sblr-table4",
    "sblr-real",
    "smm-fig1",
    "smm-fig2",
    "smm-certified",
    "smm-operators",
    "tm-table1",
    "tm-tags",
    "tm-chunks",
    "tm-defaults",
    "tm-fig3",
    "tm-fig4",
    "bench-sequence",
    "bench-wide",
    "bench-certify",
    "bench-sblr",
    "bench-eeg",
    "bench-tagger",
    "bench-smm",
    "bench-tm",
)

#: Benches of online learners. Like ``lowrank-jax train`` they run each operation on one
#: core, which must be set before JAX is loaded, and so before their modules are.
ONE_CORE = ("bench-sequence", "bench-certify", "bench-tagger", "bench-tm")


class NotRun(NamedTuple):
    """A table or figure that cannot be reproduced here, and the reason."""

    title: str
    why: str


NOT_RUN = (
    NotRun(
        "BOL Table 1 and Figure 1, columns msr, cityu, as",
        "the training files of SIGHAN-2005 are not obtainable as a whole; of msr a "
        "normalised tenth is (bol-fig1)",
    ),
    NotRun("SBLR Figures 1 and 2", "drawings of the models, no data"),
    NotRun("SBLR Figure 4: sample images of ALOI", "pictures of the data, no result"),
    NotRun(
        "SBLR Figure 5: UCF sports videos",
        "videos and SIFT features are not at hand; Table 5 has a stand-in",
    ),
    NotRun(
        "TM Figures 1 and 2: a tensor, and the mapping as an algorithm",
        "no data; the mapping is features/mapping.py",
    ),
)


def load(name: str) -> Experiment:
    """Import the module of an experiment and return it."""
    module = importlib.import_module(f"experiments.{name.replace('-', '.')}")
    return module.EXPERIMENT
