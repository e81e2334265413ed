"""TM-Fig4: the 20 largest singular values of the mapped surrogate, both mappings.

The surrogate is a perceptron after one pass over 4,000 lists; its weights are laid out
as a matrix (D = 2) by TM-Alg1 and in the order of their ids.
"""

from typing import Any

import numpy as np

from experiments.intervals import stated
from experiments.protocol import Experiment, Result, Setup, Verdict
from experiments.tables import bullets, markdown
from experiments.tm import grid
from experiments.tm.grid import Tensor
from experiments.tm.table1 import NOTES
from lowrank_jax.features import mapping

__all__ = ["EXPERIMENT"]

NUM_VALUES = 20


def run(setup: Setup) -> Result:
    """Train the surrogate and decompose it."""
    size = 4000 if setup.is_full else 500
    made = grid.read_lists(setup.scale, setup.data_dir, setup.say)
    task = grid.make_task(made, (size,))
    surrogate = grid.surrogate_of(task, size).astype(np.float64)
    rows = []
    for name in ("surrogate", "sequential"):
        setting = Tensor(mapping=name)
        sizes = setting.shape(task.num_features).sizes
        place = grid.place_of(setting, task.num_features, surrogate)
        matrix = mapping.mapped(surrogate, place, sizes)
        values = mapping.leading_singular_values(matrix, NUM_VALUES)
        energy = float(values[0] ** 2 / (surrogate**2).sum())
        rows.append(
            {
                "mapping": name,
                "sizes": list(sizes),
                "singular_values": values.tolist(),
                "sigma_ratio": float(values[1] / values[0]),
                "rank_one_energy": energy,
            }
        )
        setup.say(
            f"{name:10} sigma2/sigma1 {rows[-1]['sigma_ratio']:.3f}, rank-1 energy "
            f"{energy:.3f}"
        )
    return {
        "experiment": "tm-fig4",
        "scale": setup.scale,
        "size": size,
        "num_features": task.num_features,
        "num_nonzero": int((surrogate != 0).sum()),
        "notes": list(NOTES[:2]),
        "rows": rows,
    }


def table(result: Result) -> str:
    """Write the singular values."""
    text = (
        f"Perceptron after one pass over {result['size']:,} lists: "
        f"{result['num_nonzero']:,} of {result['num_features']:,} weights are not "
        "zero.\n\n"
    )
    head = ["mapping", "matrix", "sigma_2 / sigma_1", "rank-1 energy"]
    rows = [
        [
            row["mapping"],
            "x".join(map(str, row["sizes"])),
            f"{row['sigma_ratio']:.3f}",
            f"{row['rank_one_energy']:.3f}",
            ", ".join(f"{value:.1f}" for value in row["singular_values"][:5]),
        ]
        for row in result["rows"]
    ]
    notes = bullets(result["notes"])
    return text + markdown([*head, "largest five"], rows) + "\n" + notes


def picture(figure: Any, result: Result) -> None:
    """Draw the singular values of both mappings."""
    figure.set_size_inches(5.6, 3.8)
    axes = figure.subplots()
    for row, marker in zip(result["rows"], "os", strict=True):
        values = row["singular_values"]
        label = f"{row['mapping']} ({row['rank_one_energy']:.0%} of the energy in one)"
        axes.plot(range(1, len(values) + 1), values, marker=marker, label=label)
    axes.set_xticks(range(1, NUM_VALUES + 1, 2))
    axes.set_ylim(0)
    axes.set_xlabel("index")
    axes.set_ylabel("singular value")
    axes.set_title("The mapped surrogate, 20 largest singular values", loc="left")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)


def verdicts(result: Result) -> list[Verdict]:
    """Decide whether the surrogate mapping is closer to rank 1."""
    share = {row["mapping"]: row["rank_one_energy"] for row in result["rows"]}
    found = "rank-1 energy {surrogate:.3f}, {sequential:.3f}".format(**share)
    claim = "the surrogate mapping is closer to rank 1 than the sequential one"
    return [stated(claim, share["surrogate"] > share["sequential"], found)]


EXPERIMENT = Experiment(
    "tm-fig4",
    "TM Figure 4: singular values of the mapped surrogate",
    "a stand-in",
    "50-best chunkings of CoNLL-2000 (stand-in for 50-best parses of the WSJ)",
    run,
    table,
    picture,
    verdicts=verdicts,
)
