"""Choose rank and strengths together, from matrices and labels."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from lowrank_jax import checks
from lowrank_jax.batch.sblr import bcpd
from lowrank_jax.checks import InputError
from lowrank_jax.estimators.classifier import lanes
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
    figures,
    fold_weights,
    grid_points,
    merit,
)
from lowrank_jax.estimators.classifier.solving import alive, solve
from lowrank_jax.models import bilinear_logit
from lowrank_jax.streams.matrices import Labelled

__all__ = ["LOOSE", "POINTS", "choose"]
__dir__ = __all__.copy

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
    max_iterations: int = 1000,
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
      max_iterations: Largest number of sweeps of a fit.
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
    usual = {"solver": "minimise", "start": "label"}  # as in `fit`
    given = descent_of(usual | LOOSE | options)
    for name in ("left_penalty", "right_penalty"):
        if getattr(given, name) is not None:
            raise InputError(f"`{name}` replaces what is chosen: leave it out.")
    given.check()
    with precision_of(x):
        data = prepare(x, y, scale=scale, multi_class=multi_class)
        classes = classes_of(data.labelled.targets)
        weights = _folds(cv, x, classes, seed)
        if sample_weight is not None:
            weights = weights * np.asarray(sample_weight, np.float64)
            weights = weights / weights.sum(1, keepdims=True)
        sizes = np.ones(len(weights))
        if scale == "global":
            each = [scaling_of(x[w > 0], scale, w[w > 0]).size for w in weights]
            sizes = np.ravel(each) / data.scaling.size.item()
        fits = _Fits(data.labelled, weights, sizes, given, max_iterations, say)
        found = [fits.all(part, points) for part in _groups(ranks)]
    scores = np.concatenate([part.scores for part in found])
    sweeps = np.concatenate([part.sweeps for part in found])
    whole = [one for part in found for one in part.whole]
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
    place = max(range(len(rows)), key=lambda i: merit(rows[i])[::order])
    best = rows[place]
    settings = {name: best[name] for name in NAMES}
    return Selection(
        best["rank"],
        settings,
        best["accuracy"],
        best["auc"],
        rows,
        [],
        whole[place]() if whole else None,
    )


def _groups(ranks: Sequence[int]) -> list[list[int]]:
    """Divide ranks in order so that none is below half the largest of its group."""
    found: list[list[int]] = []
    for rank in sorted(ranks, reverse=True):
        if not found or 2 * rank < found[0][-1]:
            found.insert(0, [])
        found[0].insert(0, rank)
    return found


class _Fits(NamedTuple):
    """All fits of some ranks. A fold is a vector of weights on the same matrices."""

    labelled: Labelled
    weights: np.ndarray
    sizes: np.ndarray
    given: bcpd.Settings
    most: int
    say: Callable[[str], None] | None

    def all(self, ranks: Sequence[int], points: np.ndarray) -> lanes.Fitted:
        """Return the fits of every rank and point, in this order.

        Dividing the matrices of a fold by c is the same as l1 strengths times c^(1/2)
        and squared strengths times c.
        """
        factors = self.sizes[:, None] ** np.array([0.5, 1, 0.5, 1])
        strengths = points[:, None] * factors
        if lanes.fits_side_by_side(self.given, self.labelled.x.shape[1:], max(ranks)):
            return lanes.fit_all(
                self.labelled,
                self.weights,
                strengths,
                points,
                ranks,
                self.given,
                max_iterations=self.most,
                say=self.say,
            )
        each = np.repeat(ranks, len(points)).tolist()
        return self._one_by_one(each, np.tile(strengths, (len(ranks), 1, 1)))

    def _one_by_one(self, ranks: Sequence[int], strengths: np.ndarray) -> lanes.Fitted:
        """Do the fits in turn: side by side, all would wait for the longest."""
        dtype = self.labelled.x.dtype
        scores = np.zeros((len(ranks), *self.labelled.targets.shape), dtype)
        sweeps = np.zeros(strengths.shape[:2], int)
        for done, (i, fold) in enumerate(np.ndindex(sweeps.shape), start=1):
            fixed, numbers = self.given._replace(rank=ranks[i]).split()
            here = numbers | dict(zip(NAMES, strengths[i, fold].tolist(), strict=True))
            weights: Any = self.weights[fold].astype(dtype)
            part = self.labelled._replace(weights=weights)
            problem = part, here, None, fixed, self.most
            params, _, sweeps[i, fold] = alive(problem, solve(*problem))
            held = self.weights[fold] == 0
            scores[i, held] = np.asarray(_score(params, self.labelled.x))[held]
            if self.say is not None:
                self.say(f"rank {ranks[i]}: {done} of {sweeps.size} fits")
        return lanes.Fitted(scores, sweeps, [])


_score = jax.jit(bilinear_logit.scores)


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
