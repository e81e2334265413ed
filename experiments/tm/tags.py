"""TM-E1 on a second task: the best tag sequences of Brown, few lists, many features.

`tm.table1` has the same grid, choices and findings. The lists are the 20
best tag sequences of a base tagger trained on 400 sentences, less than 1 % of Brown
(`nbest.tag_lists`), with 90 tags. Chunk F1 is the share of right tags here.
"""

from typing import Any

from experiments import nbest
from experiments.protocol import Experiment, Result, Setup
from experiments.tm import drawing, findings, table1
from experiments.tm.table1 import NUM_SEEDS, Scale

__all__ = ["EXPERIMENT"]

NOTES = (
    "Features are selected on all training lists without their labels, whatever the "
    "reranker's training size.",
    "The base tagger of a training list was trained on the other folds.",
    "The surrogate is a perceptron after one pass over the reranker's training lists.",
    "Training F1 is measured on the first lists of the training set, as many as the "
    "smallest training size.",
)
SCALES = {
    "full": Scale((100, 200, 400), NUM_SEEDS, 3, (2, 3), (1, 2, 3)),
    "small": Scale((50, 100), NUM_SEEDS, 2, (2,), (1, 2)),
}


def run(setup: Setup) -> Result:
    """Make the lists; train, choose and score all methods."""
    sizes: dict[str, Any] = {}
    if not setup.is_full:
        sizes = {"num_train": 100, "num_development": 60, "num_test": 100}
        sizes |= {"num_best": 5, "num_folds": 4, "num_passes": 2}
    made = nbest.tag_lists(setup.data_dir, say=setup.say, **sizes)
    number = made.test.lists.num_lists
    notes = {"test": f"Brown, {number} sentences of other files, share of right tags"}
    found = table1.grid_of(
        setup, made, SCALES[setup.scale], notes | {"notes": list(NOTES)}
    )
    return {"experiment": "tm-tags"} | found


EXPERIMENT = Experiment(
    "tm-tags",
    "TM grid on a second task: reranking tag sequences of Brown, 1 % of the data",
    "a stand-in",
    "20-best tag sequences of Brown (stand-in for 50-best parses of the WSJ)",
    run,
    drawing.table,
    drawing.picture,
    verdicts=findings.verdicts,
)
