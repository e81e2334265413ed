"""The step rules ``"bcd"`` and ``"paper"`` of Tensor-MIRA at every C, on real lists.

Both run in float64 with the same decoding, start and seeds, without a choice of passes:
the development F1 after the last pass, its difference with an interval, and how many
sub-steps raised objective (3) by more than rounding (DR-T2 says none of ``"bcd"``).
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.intervals import Bootstrap, answer
from experiments.protocol import Say
from experiments.tm import grid, scores
from experiments.tm.grid import Task, Tensor

__all__ = ["run"]

LIMITS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


def run(
    task: Task,
    size: int,
    num_seeds: int,
    num_passes: int,
    say: Say,
    *,
    limits: Sequence[float] = LIMITS,
    models: Sequence[tuple[int, str]] = ((1, "constant"), (2, "positive")),
    decodings: Sequence[str] = ("cost", "plain"),
) -> list[dict[str, Any]]:
    """Compare the two rules, for D = 2 and the surrogate mapping.

    Args:
      task: The lists.
      size: Number of training lists.
      num_seeds: Number of runs at each C.
      num_passes: Number of passes of each run.
      say: Takes one line of progress.
      limits: Values of C to try.
      models: Numbers of components and their starts.
      decodings: Decodings of the learner to try.

    Returns:
      One row for each model and C.
    """
    surrogate = grid.surrogate_of(task, size)
    cells = grid.cells_of(task, Tensor(), surrogate)
    split = task.splits["development"]
    bootstrap = Bootstrap(split.lists.num_lists)
    rows = []
    for number, start in models:
        for decoding in decodings:
            found, raises, substeps = {}, {}, {}
            for step in ("bcd", "paper"):
                setting = Tensor(2, number, "surrogate", step, decoding, start)
                with jax.enable_x64(True):
                    swept = grid.sweep(
                        setting,
                        cells["train"],
                        size=size,
                        limits=[c for c in limits for _ in range(num_seeds)],
                        seeds=list(range(num_seeds)) * len(limits),
                        num_passes=num_passes,
                        num_rounds=task.num_rounds,
                        num_features=task.num_features,
                        dtype=jnp.float64,
                    )
                    found[step] = grid.choose(
                        swept.params[-1], cells["development"], is_tensor=True
                    )
                raises[step] = np.sum([part["raises"] for part in swept.sums], 0)
                substeps[step] = np.sum([part["substeps"] for part in swept.sums], 0)
            for i, limit in enumerate(limits):
                lanes = slice(i * num_seeds, (i + 1) * num_seeds)
                scored = {
                    step: scores.outcome(split, chosen[lanes])
                    for step, chosen in found.items()
                }
                f1 = {step: float(scores.f1_of(s).mean()) for step, s in scored.items()}
                samples = bootstrap.sample(*scored["bcd"])
                samples -= bootstrap.sample(*scored["paper"])
                rows.append(
                    {
                        "components": number,
                        "start": start,
                        "decoding": decoding,
                        "size": size,
                        "C": limit,
                        "bcd_f1": f1["bcd"],
                        "paper_f1": f1["paper"],
                        "difference": answer(samples, f1["bcd"] - f1["paper"]),
                        "bcd_raises": int(raises["bcd"][lanes].sum().round()),
                        "paper_raises": int(raises["paper"][lanes].sum().round()),
                        "bcd_substeps": int(substeps["bcd"][lanes].sum()),
                        "paper_substeps": int(substeps["paper"][lanes].sum()),
                    }
                )
                say(_line(rows[-1]))
    return rows


def _line(row: dict[str, Any]) -> str:
    return (
        f"H={row['components']} {row['decoding']:5} C={row['C']:<6g} development F1: "
        f"bcd {row['bcd_f1']:.2f}, paper {row['paper_f1']:.2f}; raised (3): "
        f"{row['bcd_raises']} of {row['bcd_substeps']}, {row['paper_raises']} of "
        f"{row['paper_substeps']}"
    )
