r"""Choose the rank and the penalties of a bilinear model by cross-validation.

As the paper does it (SBLR-E3): first the rank, without penalties; then a grid over
:math:`\mu_1, \mu_2, \nu_1, \nu_2` at that rank. A fold is a vector of weights on the
same matrices, so that all points of the grid on all folds are one `vmap`ped program,
run in chunks that bound its memory. Every 25 sweeps, converged fits are replaced by new
ones, so no fit waits for the slowest of its chunk.
"""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import checks, loops, metrics
from lowrank_jax.batch.sblr import bcpd
from lowrank_jax.batch.sblr.start import start_params
from lowrank_jax.checks import InputError
from lowrank_jax.models import bilinear_logit
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.types import Learner

__all__ = [
    "GRID",
    "Selection",
    "classes_of",
    "cross_validate",
    "figures",
    "fold_weights",
    "grid_points",
    "merit",
    "select",
]
__dir__ = __all__.copy

NAMES = ("mu1", "mu2", "nu1", "nu2")

#: Strengths tried where none are given: 6 x 5 x 6 x 5 points as in the paper, whose
#: values it does not tell.
GRID = {
    "mu1": (0.0, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2),
    "mu2": (1e-4, 1e-3, 1e-2, 0.1, 1.0),
    "nu1": (0.0, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2),
    "nu2": (1e-4, 1e-3, 1e-2, 0.1, 1.0),
}


class Selection(NamedTuple):
    """What cross-validation has chosen, and on what grounds.

    Attributes:
      rank: Chosen rank.
      settings: Chosen mu1, mu2, nu1, nu2.
      accuracy: Cross-validated accuracy of the choice: share of matrices labelled
        rightly by the fit that had not seen them.
      auc: Area under the curve of the choice, over all matrices' held-out scores; None
        for many classes.
      rows: One row per point: rank, settings, accuracy, auc, mean number of sweeps.
      ranks: One row per rank tried: rank, accuracy, auc.
      whole: Factors and trace of the choice on all matrices, if the search made them.
    """

    rank: int
    settings: dict[str, float]
    accuracy: float
    auc: float | None
    rows: list[dict[str, Any]]
    ranks: list[dict[str, Any]]
    whole: tuple[Params, bcpd.Info] | None = None


def grid_points(grid: Mapping[str, Sequence[float]]) -> np.ndarray:
    """Return all points of a grid, (num_points, 4), the strongest penalties first."""
    unknown = set(grid) - set(NAMES)
    if unknown:
        raise InputError(
            f"`grid` may name {', '.join(NAMES)}, got {', '.join(sorted(unknown))}."
        )
    axes = [tuple(grid.get(name, (0.0,))) for name in NAMES]
    for name, values in zip(NAMES, axes, strict=True):
        if not values:
            raise InputError(f"`grid` has no value for {name}.")
        for value in values:
            checks.non_negative(**{name: value})
    points = np.array(list(itertools.product(*axes)))
    # Fits of like strength converge together.
    return points[np.argsort(-points.sum(1), kind="stable")]


def fold_weights(classes: np.ndarray, *, num_folds: int, seed: int = 0) -> np.ndarray:
    """Return weights (num_folds, n), zero where a matrix is held out.

    Folds hold each class in its proportion; ``num_folds = n`` leaves one out.

    Args:
      classes: (n,) labels.
      num_folds: Number of folds, at least 2.
      seed: Seed of the shuffle.
    """
    num_matrices = len(classes)
    checks.whole(least=2, num_folds=num_folds)
    if num_folds > num_matrices:
        raise InputError(
            f"`num_folds` must be at most {num_matrices}, the number of matrices, got "
            f"{num_folds}."
        )
    smallest = int(np.unique(classes, return_counts=True)[1].min())
    if num_folds != num_matrices and num_folds > smallest:
        raise InputError(
            f"`num_folds` must be at most {smallest}, the size of the smallest class, "
            f"or {num_matrices} to leave one out, got {num_folds}."
        )
    order = np.random.default_rng(seed).permutation(num_matrices)
    order = order[np.argsort(np.asarray(classes)[order], kind="stable")]
    fold = np.empty(num_matrices, int)
    fold[order] = np.arange(num_matrices) % num_folds
    kept = fold[None] != np.arange(num_folds)[:, None]
    return kept / kept.sum(1, keepdims=True)


def cross_validate(
    labelled: Labelled,
    points: np.ndarray,
    weights: np.ndarray,
    *,
    rank: int = 1,
    start: str = "label",
    max_iterations: int = 500,
    chunk_size: int | None = None,
    round_size: int | None = None,
    say: Callable[[str], None] | None = None,
    **settings: Any,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Fit every point on every fold, and score the matrices held out.

    Args:
      labelled: All matrices. Their own weights are not used.
      points: (num_points, 4) mu1, mu2, nu1, nu2.
      weights: (num_folds, n), zero where a matrix is held out.
      rank: Rank r.
      start: Start as in `bcpd.learner`.
      max_iterations: Largest number of sweeps of a fit.
      chunk_size: Number of fits at a time. None takes as many as keep their products
        in a cache (4 MB), at least 8: more of them wait longer for the slowest.
      round_size: Number of sweeps between two looks at which fits have converged. None
        takes 25, or 1 with ``solver="minimise"``, whose sweeps are few and long.
      say: Function that is called with a line of progress.
      **settings: Other fields of `bcpd.Settings`, strengths and penalties excepted.

    Returns:
      The scores (num_points, n, m) of each matrix by the fit that had not seen it
      (by the last of them, should several folds hold it out), and the number of sweeps
      (num_points, num_folds).
    """
    if round_size is None:
        round_size = 1 if settings.get("solver") == "minimise" else 25
    checks.whole(rank=rank, max_iterations=max_iterations, round_size=round_size)
    idle = sorted({*NAMES, "left_penalty", "right_penalty"} & set(settings))
    if idle:
        raise InputError(f"`{idle[0]}` is set by `points`: leave it out.")
    given = bcpd.Settings(rank=rank, start=start, **settings)
    given.check()
    fixed, numbers = given.split()
    num_matrices, height, width = labelled.x.shape
    num_classes, num_folds = labelled.targets.shape[1], len(weights)
    num_fits = len(points) * num_folds
    if chunk_size is None:
        each = 4 * num_classes * rank * num_matrices * (height + width)
        chunk_size = int(np.clip(2**22 // each, 8, 1024))
    checks.whole(chunk_size=chunk_size)
    chunk_size = min(chunk_size, num_fits)
    dtype = labelled.x.dtype
    points, weights = np.asarray(points, dtype), np.asarray(weights, dtype)
    starts = _starts(labelled, weights, rank, start)
    numbers = {name: dtype.type(numbers[name]) for name in numbers if name not in NAMES}
    program = _program(fixed, round_size)
    states = _empty_states(chunk_size, labelled, starts)

    scores = np.zeros((len(points), num_matrices, num_classes), dtype)
    sweeps = np.zeros(num_fits, int)
    fits = np.full(chunk_size, -1)  # point * num_folds + fold at each place
    num_begun, num_done = 0, 0
    while num_done < num_fits:
        is_free = fits < 0
        fresh = np.arange(num_begun, min(num_begun + is_free.sum(), num_fits))
        places = np.flatnonzero(is_free)[: len(fresh)]
        fits[places] = fresh
        num_begun += len(fresh)
        is_fresh = np.zeros(chunk_size, bool)
        is_fresh[places] = True
        folds = np.maximum(fits, 0) % num_folds
        is_used = fits >= 0
        left = np.where(is_used, max_iterations - sweeps[fits], 1)
        states, counts, has_ended, found = program(
            states,
            labelled._replace(weights=weights[folds]),
            jax.tree.map(lambda part, folds=folds: part[folds], starts),
            points[np.maximum(fits, 0) // num_folds],
            is_fresh,
            left.astype(np.int32),
            numbers,
        )
        sweeps[fits[is_used]] += np.asarray(counts)[is_used]
        is_done = is_used & np.asarray(has_ended)
        if is_done.any():
            found = np.asarray(found)
            for place in np.flatnonzero(is_done):
                point, fold = divmod(int(fits[place]), num_folds)
                held_out = weights[fold] == 0
                scores[point, held_out] = found[place, held_out]
            num_done += int(is_done.sum())
            fits[is_done] = -1
            if say is not None:
                say(f"{num_done} of {num_fits} fits")
    return scores, sweeps.reshape(len(points), num_folds)


@functools.partial(jax.jit, static_argnums=(2, 3))
def _starts(labelled: Labelled, weights: jax.Array, rank: int, start: str) -> Params:
    """Return the factors to start from on each fold."""

    def one(weights: jax.Array) -> Params:
        fold = labelled._replace(weights=weights)
        return start_params(fold, rank=rank, start=start)

    return jax.vmap(one)(weights)


def _limited(learner: Learner) -> Learner:
    """Return a learner that ends after so many sweeps, which its state counts down."""

    def update(
        state: tuple[bcpd.State, jax.Array], labelled: Labelled
    ) -> tuple[tuple[bcpd.State, jax.Array], bcpd.Info]:
        inner, info = learner.update(state[0], labelled)
        left = state[1] - 1
        return (inner, left), info._replace(converged=info.converged | (left <= 0))

    return Learner(learner.init, update)


@functools.cache
def _program(fixed: bcpd.Settings, round_size: int) -> Any:
    """Jit a round of sweeps of many fits side by side; numbers stay open."""

    def one(
        state: bcpd.State,
        labelled: Labelled,
        factors: Params,
        point: jax.Array,
        is_fresh: jax.Array,
        left: jax.Array,
        numbers: dict[str, Any],
    ) -> tuple[bcpd.State, jax.Array, jax.Array, jax.Array]:
        settings = fixed._asdict() | dict(zip(NAMES, point, strict=True)) | numbers
        settings |= {"start": factors, "scale_start": fixed.is_scaled}
        learner = bcpd.learner(**settings)
        fresh = learner.init(jax.random.key(0), labelled)
        state = jax.tree.map(lambda a, b: jnp.where(is_fresh, a, b), fresh, state)
        (state, _), trace, num_sweeps = loops.converge(
            _limited(learner), (state, left), labelled, max_iterations=round_size
        )
        params = state.params
        scores = bilinear_logit.block_scores(state.features, params.left, params.bias)
        return state, num_sweeps, trace.converged[num_sweeps - 1], scores

    data = Labelled(x=None, targets=None, weights=0, turned=None)  # type: ignore[arg-type]
    together = jax.vmap(one, in_axes=(0, data, 0, 0, 0, 0, None))
    return jax.jit(together, donate_argnums=0)


def _empty_states(size: int, labelled: Labelled, starts: Params) -> bcpd.State:
    """Return states to be overwritten: all places are fresh in the first round."""
    one = jax.tree.map(lambda part: part[0], starts)
    init = bcpd.learner(rank=one.left.shape[-1], start=one).init
    shape = jax.eval_shape(init, jax.random.key(0), labelled)
    return jax.tree.map(lambda leaf: jnp.zeros((size, *leaf.shape), leaf.dtype), shape)


def select(
    labelled: Labelled,
    *,
    num_folds: int,
    ranks: Sequence[int] = (1, 2, 3),
    grid: Mapping[str, Sequence[float]] | None = None,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
    **options: Any,
) -> Selection:
    """Choose the rank without penalties, then the penalties at that rank (SBLR-E3).

    Of equals the smaller rank and the stronger penalties are chosen.

    Args:
      labelled: Training matrices.
      num_folds: Number of folds, at least 2. The number of matrices leaves one out.
      ranks: Ranks to try. A single rank is taken without trying.
      grid: Values of mu1, mu2, nu1, nu2; one left out is 0; None takes `GRID`.
      seed: Seed of the folds.
      say: Function that is called with a line of progress.
      **options: Options of `cross_validate`.
    """
    if not ranks:
        raise InputError("`ranks` must name at least one rank.")
    classes = classes_of(labelled.targets)
    weights = fold_weights(classes, num_folds=num_folds, seed=seed)
    tried = []
    for rank in sorted(set(ranks)) if len(set(ranks)) > 1 else []:
        if say is not None:
            say(f"rank {rank}, no penalty")
        scores, _ = cross_validate(
            labelled, np.zeros((1, 4)), weights, rank=rank, say=say, **options
        )
        tried.append({"rank": rank} | figures(scores[0], classes))
    best_rank = max(tried, key=merit)["rank"] if tried else next(iter(ranks))
    points = grid_points(GRID if grid is None else grid)
    if say is not None:
        say(f"rank {best_rank}, {len(points)} points on {num_folds} folds")
    scores, sweeps = cross_validate(
        labelled, points, weights, rank=best_rank, say=say, **options
    )
    rows = [
        {"rank": best_rank}
        | dict(zip(NAMES, map(float, point), strict=True))
        | figures(scores[i], classes)
        | {"sweeps": float(sweeps[i].mean())}
        for i, point in enumerate(points)
    ]
    best = max(rows, key=merit)
    settings = {name: best[name] for name in NAMES}
    return Selection(best_rank, settings, best["accuracy"], best["auc"], rows, tried)


def merit(row: dict[str, Any]) -> tuple[float, float]:
    """Return the key by which the best row is found."""
    return row["accuracy"], 0.0 if row["auc"] is None else row["auc"]


def classes_of(targets: jax.Array) -> np.ndarray:
    """Return the class of each matrix, 0..m, from its targets."""
    marks = np.asarray(targets)
    if marks.shape[1] == 1:
        return marks[:, 0].astype(int)
    return np.where(marks.any(1), marks.argmax(1), marks.shape[1])


def figures(scores: np.ndarray, classes: np.ndarray) -> dict[str, Any]:
    """Return accuracy and, for two classes, the area under the curve."""
    if scores.shape[1] == 1:
        found = (scores[:, 0] > 0).astype(int)
        auc = float(metrics.auc(classes, scores[:, 0]))
    else:
        found = np.concatenate([scores, np.zeros((len(scores), 1))], axis=1).argmax(1)
        auc = None
    return {"accuracy": float((found == classes).mean()), "auc": auc}
