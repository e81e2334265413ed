"""Choose rank and strengths together, from matrices and labels, in one program."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.estimators.classifier.fitting import descent_of, prepare
from lowrank_jax.estimators.classifier.model import (
    check_matrices,
    precision_of,
    scaling_of,
)
from lowrank_jax.estimators.classifier.selection import (
    NAMES,
    Selection,
    classes_of,
    cross_validate,
    figures,
    fold_weights,
    grid_points,
    merit,
)

__all__ = ["LOOSE", "POINTS", "choose"]

#: Points that `choose` tries where no grid is given, the same on both sides. At a
#: stationary point the two sides balance (DR-S4), so one strength for both is enough.
POINTS = np.array(
    [(l1, l2, l1, l2) for l2 in (0.1, 0.03, 0.01, 0.003) for l1 in (3e-3, 1e-3, 0.0)]
)

#: Tolerance of the fits. On `bci2_iv` a tighter one costs more and chooses the same.
LOOSE = {"tolerance": 1e-3}


def choose(
    x: np.ndarray,
    y: np.ndarray | Sequence[Any],
    *,
    ranks: Sequence[int] = (1, 2),
    grid: Mapping[str, Sequence[float]] | None = None,
    cv: Any = 5,
    scoring: str = "accuracy",
    seed: int = 0,
    fixed: Mapping[str, Sequence[float]] | None = None,
    sample_weight: np.ndarray | Sequence[float] | None = None,
    scale: str = "global",
    multi_class: str = "joint",
    say: Callable[[str], None] | None = None,
    **options: Any,
) -> Selection:
    """Choose rank and strengths together, from matrices and labels.

    Scores are means over the folds, as in scikit-learn. Of equals the smaller rank and
    the stronger penalties are chosen. With ``scale="global"``, each fold is scaled by
    its training part alone.

    Args:
      x: (n, s, t) real numbers.
      y: (n,) labels.
      ranks: Ranks to try.
      grid: Values of mu1, mu2, nu1, nu2; one left out is 0. None takes `POINTS`.
      cv: Number of folds, a splitter of scikit-learn, or pairs of training and test
        places.
      scoring: ``"accuracy"``, or ``"roc_auc"`` for two classes.
      seed: Seed of the folds if `cv` is a number.
      fixed: Strengths that are not chosen, one value each, in place of the grid's.
      sample_weight: (n,) weight of each matrix in the fits; None weighs all alike.
      scale: Scaling of the matrices, as in `fit`.
      multi_class: ``"joint"``, or ``"binary"``, which refuses more than two classes.
      say: Function that is called with a line of progress.
      **options: Other settings of `fit`.

    Raises:
      InputError: If an argument is out of range.
    """
    checks.choice(("accuracy", "roc_auc"), scoring=scoring)
    if not ranks:
        raise InputError("`ranks` must name at least one rank.")
    checks.whole(**{f"ranks[{i}]": rank for i, rank in enumerate(ranks)})
    x = check_matrices(x)
    ranks = sorted({min(int(rank), *x.shape[1:]) for rank in ranks})
    points = POINTS.copy() if grid is None else grid_points(grid)
    for name, (value,) in (fixed or {}).items():
        checks.non_negative(**{name: value})
        points[:, NAMES.index(name)] = value
    _, first = np.unique(points, axis=0, return_index=True)
    points = points[np.sort(first)]
    given = descent_of({"solver": "minimise"} | LOOSE | options)
    extra = {k: v for k, v in options.items() if k not in given._fields}
    options = {k: getattr(given, k) for k in given._fields if k not in (*NAMES, "rank")}
    for name in ("left_penalty", "right_penalty"):
        if options.pop(name) is not None:
            raise InputError(f"`{name}` replaces what is chosen: leave it out.")
    with precision_of(x):
        data = prepare(x, y, scale=scale, multi_class=multi_class)
        classes = classes_of(data.labelled.targets)
        weights = _folds(cv, x, classes, seed)
        if sample_weight is not None:
            weights = weights * np.asarray(sample_weight, np.float64)
            weights = weights / weights.sum(1, keepdims=True)
        sizes = None
        if scale == "global":
            each = [scaling_of(x[w > 0], scale, w[w > 0]).size for w in weights]
            sizes = np.ravel(each) / data.scaling.size.item()
        scores, sweeps = cross_validate(
            data.labelled,
            np.tile(points, (len(ranks), 1)),
            weights,
            rank=max(ranks),
            ranks=np.repeat(ranks, len(points)),
            sizes=sizes,
            say=say,
            **options,
            **extra,
        )
    rows = [
        {"rank": rank}
        | dict(zip(NAMES, map(float, point), strict=True))
        | _fold_figures(scores[i], classes, weights)
        | {"sweeps": float(sweeps[i].mean())}
        for i, (rank, point) in enumerate(itertools.product(ranks, points))
    ]
    if scoring == "roc_auc" and rows[0]["auc"] is None:
        raise InputError(
            f"`scoring` must be 'accuracy' for {len(data.classes)} classes, got "
            "'roc_auc'."
        )
    order = 1 if scoring == "accuracy" else -1
    best = max(rows, key=lambda row: merit(row)[::order])
    settings = {name: best[name] for name in NAMES}
    return Selection(best["rank"], settings, best["accuracy"], best["auc"], rows, [])


def _folds(cv: Any, x: np.ndarray, classes: np.ndarray, seed: int) -> np.ndarray:
    """Return weights (num_folds, n), zero where a matrix is held out."""
    if isinstance(cv, int):
        return fold_weights(classes, num_folds=cv, seed=seed)
    pairs = list(cv.split(x, classes) if hasattr(cv, "split") else cv)
    kept = np.zeros((len(pairs), len(x)))
    for row, (train, _) in zip(kept, pairs, strict=True):
        row[train] = 1
    if len(pairs) < 2 or (kept.sum(0) == len(pairs)).any():
        raise InputError("`cv` must hold out every matrix once, in two folds or more.")
    return kept / kept.sum(1, keepdims=True)


def _fold_figures(
    scores: np.ndarray, classes: np.ndarray, weights: np.ndarray
) -> dict[str, Any]:
    """Return means over the folds; AUC over all matrices if a fold has one class."""
    held = [w == 0 for w in weights]
    whole = figures(scores, classes)
    if whole["auc"] is not None and min(len(set(classes[h])) for h in held) == 1:
        return whole
    each = [figures(scores[h], classes[h]) for h in held]
    auc = None if whole["auc"] is None else float(np.mean([e["auc"] for e in each]))
    return {"accuracy": float(np.mean([e["accuracy"] for e in each])), "auc": auc}
