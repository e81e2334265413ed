"""TM-E1 on few chunkings of CoNLL-2000, made by another base tagger.

`tm.table1` has the same grid, choices and findings. Here the base tagger is MIRA on 400
sentences, and the lists are its 20 best chunkings. So there are few lists and many
features, as in `tm.tags`.
"""

from typing import Any

from experiments import nbest
from experiments.protocol import Experiment, Result, Setup
from experiments.tm import drawing, findings, table1, tags

__all__ = ["EXPERIMENT"]


def run(setup: Setup) -> Result:
    """Make the lists; train, choose and score all methods."""
    sizes: dict[str, Any] = {"num_train": 400, "num_development": 400}
    if not setup.is_full:
        sizes = {"num_train": 100, "num_development": 60, "num_test": 100}
        sizes |= {"num_folds": 4, "num_passes": 2}
    made = nbest.chunk_lists(
        setup.data_dir,
        base="mira",
        num_best=20 if setup.is_full else 5,
        min_count=2,
        say=setup.say,
        **sizes,
    )
    number = made.test.lists.num_lists
    notes = {"test": f"CoNLL-2000 test, {number} sentences, chunk F1, base tagger MIRA"}
    found = table1.grid_of(
        setup, made, tags.SCALES[setup.scale], notes | {"notes": list(tags.NOTES)}
    )
    return {"experiment": "tm-chunks"} | found


EXPERIMENT = Experiment(
    "tm-chunks",
    "TM grid with few lists: reranking 20-best chunkings of MIRA on 400 sentences",
    "a stand-in",
    "20-best chunkings of CoNLL-2000 (stand-in for 50-best parses of the WSJ)",
    run,
    drawing.table,
    drawing.picture,
    verdicts=findings.verdicts,
)
