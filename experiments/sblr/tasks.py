"""Methods that classify matrices, chosen by cross-validation and scored on a test part.

Strengths and rank are chosen on folds of the training part, all points of a grid on all
folds side by side. Then one fit on the whole training part scores the test part. The
mean matrix of the training part is taken off all matrices beforehand.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax import metrics
from lowrank_jax.batch.sblr import bcpd, fista
from lowrank_jax.estimators.classifier import selection, solving
from lowrank_jax.linalg import penalties
from lowrank_jax.models import bilinear_logit, matrix_logit
from lowrank_jax.streams.matrices import Labelled

__all__ = [
    "CHUNK",
    "Method",
    "Task",
    "choose_and_score",
    "convex_scores",
    "evaluate",
    "evaluate_all",
    "view_folds",
]

#: Fits at a time: few enough that what they work on stays in the cache.
CHUNK = 16

_MAX_ITERATIONS = 1000  # of FISTA
_TOLERANCE = 1e-5  # on its q^k


class Method(NamedTuple):
    """How to fit, and what to choose from."""

    name: str
    is_bilinear: bool  # else one weight per entry
    points: np.ndarray  # (P, 4) mu1, mu2, nu1, nu2, or (P, 2) l1, l2; strongest first
    ranks: tuple[int, ...] = (1,)  # tried without penalty, where bilinear
    is_joint: bool = False  # many classes in one model, else one against all others
    paper: float | None = None
    penalty: str = "net"  # elastic net; "nuclear" and "variation" take (P, 1) strengths
    max_iterations: int = _MAX_ITERATIONS  # of FISTA


class Task(NamedTuple):
    """Matrices with a training part."""

    x: np.ndarray  # (n, s, t)
    codes: np.ndarray  # (n,) classes 0..K-1
    is_train: np.ndarray  # (n,) bool
    folds: np.ndarray  # (num_folds, n_train) weights within the training part


def evaluate(method: Method, task: Task, *, rank: int | None = None) -> dict[str, Any]:
    """Choose rank and strengths within the training part, then score the test part.

    Of equals the smaller rank and the stronger penalty are chosen.

    Args:
      method: What to fit, and the points to choose from.
      task: The matrices.
      rank: Rank of the model. None chooses it among the method's.

    Returns:
      ``accuracy`` and ``auc`` (of two classes, else None) on the test part, and the
      ``choice`` with its cross-validated accuracy.
    """
    scores, choice = choose_and_score(method, task, rank=rank)
    accuracy, auc = _figures(scores, task.codes[~task.is_train])
    return {"accuracy": accuracy, "auc": auc, "choice": choice}


def choose_and_score(
    method: Method, task: Task, *, rank: int | None = None
) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the scores (n_test, K) of the test part and what was chosen.

    Of two classes the second has a score, and the first has 0. The arguments are
    explained by `evaluate`.
    """
    if method.penalty == "variation":  # its penalty goes down the columns
        task = task._replace(x=task.x.transpose(0, 2, 1))
    # The offset makes up for the mean; without it the steps can be far longer.
    mean = task.x[task.is_train].mean(0)
    train, others = task.x[task.is_train] - mean, task.x[~task.is_train] - mean
    codes = task.codes[task.is_train]
    groups = _groups(method, codes, int(task.codes.max()) + 1)
    points, folds = method.points, task.folds
    if rank is None and len(method.ranks) > 1:
        nothing = np.zeros((1, 4))
        found = [
            _held_out(method, train, groups, nothing, folds, r)[0] for r in method.ranks
        ]
        rank = method.ranks[_best(found, codes)]
    if rank is None:
        rank = method.ranks[0]
    choice: dict[str, Any] = {"rank": rank} if method.is_bilinear else {}
    point = points[0]
    if len(points) > 1:
        found = list(_held_out(method, train, groups, points, folds, rank))
        best = _best(found, codes)
        point = points[best]
        choice["cv_accuracy"] = _figures(found[best], codes)[0]
        choice["num_failed"] = sum(not np.isfinite(scores).all() for scores in found)
    names = selection.NAMES if method.is_bilinear else ("l1", "l2")[: len(point)]
    choice |= dict(zip(names, map(float, point), strict=True))
    convex = functools.partial(_fit, method.penalty, method.max_iterations)
    parts = []
    for marks in groups:
        labelled = _label(train, marks)
        strengths = jnp.asarray(point, jnp.float32)
        fit = functools.partial(_fit_bilinear, rank) if method.is_bilinear else convex
        parts.append(np.asarray(fit(labelled, strengths, others)))
    return _joined(method, parts, len(groups[0][0])), choice


def evaluate_all(
    methods: Sequence[Method], task: Task
) -> Iterator[tuple[Method, dict[str, Any]]]:
    """Evaluate methods in turn; a sparse method takes the rank that its plain one has.

    Thus SBLR has the rank chosen for BLR, and M-SBLR the rank chosen for M-BLR.
    """
    ranks: dict[str, int | None] = {}
    for method in methods:
        found = evaluate(method, task, rank=ranks.get(method.name))
        ranks[method.name.replace("BLR", "SBLR")] = found["choice"].get("rank")
        yield method, found


def evaluate_by_name(
    methods: Sequence[Method], task: Task
) -> dict[str, dict[str, Any]]:
    """Return what `evaluate_all` finds, by the name of the method."""
    return {method.name: found for method, found in evaluate_all(methods, task)}


def _groups(method: Method, codes: np.ndarray, num_classes: int) -> list[np.ndarray]:
    """Return the targets (n, m) of each model that the method fits."""
    marks = codes[:, None] == np.arange(num_classes)[None]
    if num_classes == 2:
        return [marks[:, 1:]]
    if method.is_joint:
        return [marks[:, :-1]]
    return [marks[:, c : c + 1] for c in range(num_classes)]


def _joined(method: Method, parts: list[np.ndarray], width: int) -> np.ndarray:
    """Join the scores of all models on the last axis: one per class, or one for two."""
    if method.is_joint and width > 1:
        parts = [*parts, np.zeros_like(parts[0][..., :1])]  # the reference class
    return np.concatenate(parts, axis=-1)


def _label(x: np.ndarray, marks: np.ndarray) -> Labelled:
    given = jnp.asarray(x, jnp.float32)
    return Labelled(
        x=given,
        targets=jnp.asarray(marks, given.dtype),
        weights=jnp.full(len(x), 1 / len(x), given.dtype),
        turned=jnp.array(given.transpose(0, 2, 1)),
    )


def _held_out(
    method: Method,
    x: np.ndarray,
    groups: list[np.ndarray],
    points: np.ndarray,
    folds: np.ndarray,
    rank: int,
) -> np.ndarray:
    """Return the scores (P, n, K) of matrices by the fits that have not seen them."""
    parts = []
    for marks in groups:
        labelled = _label(x, marks)
        if method.is_bilinear:
            scores, _ = selection.cross_validate(
                labelled, points, folds, rank=rank, chunk_size=CHUNK
            )
        else:
            scores = convex_scores(
                labelled,
                points,
                folds,
                penalty=method.penalty,
                max_iterations=method.max_iterations,
            )
        parts.append(scores)
    return _joined(method, parts, len(groups[0][0]))


def _fit_bilinear(
    rank: int, labelled: Labelled, point: jax.Array, others: np.ndarray
) -> jax.Array:
    """Fit as `selection.cross_validate` does; return the scores of other matrices.

    A model that falls to zero is tried again from weak strengths, as `fit` does.
    """
    given = bcpd.Settings(rank=rank, start="label", tolerance=1e-3)
    fixed, numbers = given.split()
    numbers |= dict(zip(selection.NAMES, point, strict=True))
    problem = labelled, numbers, None, fixed, 500
    params = solving.alive(problem, solving.solve(*problem))[0]
    return _bilinear_scores(params, others)


_bilinear_scores = jax.jit(bilinear_logit.scores)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _fit(
    penalty: str, most: int, labelled: Labelled, point: jax.Array, others: jax.Array
) -> jax.Array:
    """Fit as `convex_scores` does; return the scores of other matrices."""
    state = _convex(penalty, most, labelled, point[None], labelled.weights[None])
    params = jax.tree.map(lambda part: part[0, 0], state.params)
    return matrix_logit.scores(params, others)


def convex_scores(
    labelled: Labelled,
    points: np.ndarray,
    weights: np.ndarray,
    *,
    penalty: str = "net",
    max_iterations: int = _MAX_ITERATIONS,
) -> np.ndarray:
    """Fit logistic regression at every point on every fold; score what is held out.

    Args:
      labelled: All matrices; their own weights are not used.
      points: (P, 2) l1, l2, or (P, 1) strengths of another penalty.
      weights: (num_folds, n), zero where held out.
      penalty: Penalty of the weights, as in `Method`.
      max_iterations: Largest number of iterations.

    Returns:
      (P, n, m).
    """
    dtype = labelled.x.dtype
    given = np.asarray(points, dtype), np.asarray(weights, dtype)
    state = _convex(penalty, max_iterations, labelled, *given)
    found = np.asarray(state.scores)
    scores = np.zeros((len(points), *labelled.targets.shape), dtype)
    for fold, row in enumerate(weights):
        scores[:, row == 0] = found[:, fold][:, row == 0]
    return scores


@functools.partial(jax.jit, static_argnums=(0, 1))
def _convex(
    penalty: str,
    max_iterations: int,
    labelled: Labelled,
    points: jax.Array,
    weights: jax.Array,
) -> fista.State:
    """Return the states of all points and folds at the end of FISTA with restarts."""

    def make(point: jax.Array) -> Any:
        if penalty == "nuclear":
            given: dict[str, Any] = {
                "penalty": penalties.nuclear_norm(strength=point[0])
            }
        elif penalty == "variation":
            given = {"penalty": penalties.total_variation(strength=point[0])}
        else:
            given = {"l1": point[0], "l2": point[1]}
        return fista.learner(restart=True, tolerance=_TOLERANCE, **given)

    def begin(weights: jax.Array) -> fista.State:  # the penalty of 0 is 0
        start = fista.learner(restart=True).init
        return start(jax.random.key(0), labelled._replace(weights=weights))

    def step(
        state: fista.State, point: jax.Array, weights: jax.Array
    ) -> tuple[fista.State, jax.Array]:
        state, info = make(point).update(state, labelled._replace(weights=weights))
        return state, info.converged

    over_folds = jax.vmap(step, in_axes=(0, None, 0))
    over_points = jax.vmap(over_folds, in_axes=(0, 0, None))
    start = jax.vmap(begin)(weights)
    num_points = points.shape[0]
    state = jax.tree.map(
        lambda part: jnp.broadcast_to(part, (num_points, *part.shape)), start
    )

    def advance(carry: tuple) -> tuple:
        state, count, _ = carry
        state, converged = over_points(state, points, weights)
        return state, count + 1, converged.all()

    zero = jnp.zeros((), jnp.int32)
    state, _, _ = lax.while_loop(
        lambda carry: (carry[1] < max_iterations) & ~carry[2],
        advance,
        (state, zero, jnp.zeros((), bool)),
    )
    return state


def _figures(scores: np.ndarray, codes: np.ndarray) -> tuple[float, float | None]:
    """Return accuracy and, for two classes, the area under the curve."""
    if scores.shape[1] == 1:
        accuracy = float(((scores[:, 0] > 0) == (codes == 1)).mean())
        return accuracy, float(metrics.auc(codes, scores[:, 0]))
    return float((scores.argmax(1) == codes).mean()), None


def _best(found: Sequence[np.ndarray], codes: np.ndarray) -> int:
    """Return the first of the best by accuracy, then by area under the curve."""
    failed = (-1.0, None)  # a fit that is not finite is never chosen
    merits = [
        _figures(scores, codes) if np.isfinite(scores).all() else failed
        for scores in found
    ]
    ranked = [(accuracy, 0.0 if auc is None else auc) for accuracy, auc in merits]
    return max(range(len(ranked)), key=ranked.__getitem__)


def view_folds(views: np.ndarray) -> np.ndarray:
    """Return weights (num_folds, n) that leave one view of every object out.

    Args:
      views: (n,) number of each matrix's view, 0, 1, ...
    """
    kept = views[None] != np.arange(int(views.max()) + 1)[:, None]
    return kept / kept.sum(1, keepdims=True)
