r"""Many fits of a bilinear classifier side by side, for `choosing`.

Each rank and fold is a path: its points one after the other, the strongest penalties
first, each fit started from the last one. A fit starts anew, from the label start,
where the last one has lost a column of its factors, which would stay zero. No fit sees
matrices that its fold holds out. The paths move side by side in the same arrays. A
sweep moves the left block and then the right block by `batch.sblr.side_by_side`. A fit
ends within the tolerance of Eq. (8). The choice is fitted to all matrices from the
label start, as `fit` does. Start, stopping rule and trace are computed here, in NumPy:
the one program that is compiled stays small.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from lowrank_jax.batch.sblr import bcpd
from lowrank_jax.batch.sblr.side_by_side import Stepped, newton_step
from lowrank_jax.estimators.classifier.solving import SHARES, is_zero
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled

__all__ = ["Fitted", "fit_all", "fits_side_by_side"]
__dir__ = __all__.copy

_MOST_VARIABLES = 512  # variables of a block: the curvature has their square
_MOST_BYTES = 2**23  # memory of all products at a time
_SIZES = 2.0 ** np.arange(-12, 5)  # sizes of the start, as in `batch.sblr.start`


class Fitted(NamedTuple):
    """What became of the fits.

    Attributes:
      scores: Held-out scores, (num_points, n, m).
      sweeps: Number of sweeps, (num_points, num_folds).
      whole: One function per point: it fits all matrices, and returns the factors and
        the trace.
    """

    scores: np.ndarray
    sweeps: np.ndarray
    whole: list[Callable[[], tuple[Params, bcpd.Info]]]


def fits_side_by_side(given: bcpd.Settings, shape: Sequence[int], rank: int) -> bool:
    """Tell if `fit_all` does such fits: blocks are solved, from a start by name."""
    is_known = given.solver == "minimise" and isinstance(given.start, str)
    return is_known and rank * max(shape) <= _MOST_VARIABLES


class _Problem(NamedTuple):
    """Matrices in the shape of the program.

    Attributes:
      x: (n, a, b), padded with zeros to a square unless it is long.
      turned: (n, b, a).
      targets: (m, n).
      shape: Rows and columns of the matrices as they were.
      rank: Largest rank r.
      given: Settings of the descent.
      most: Largest number of sweeps.
    """

    x: np.ndarray
    turned: np.ndarray
    targets: np.ndarray
    shape: tuple[int, int]
    rank: int
    given: bcpd.Settings
    most: int


class _Lane:
    """One fit on its way."""

    params: Params
    objective: float

    def __init__(
        self,
        problem: _Problem,
        unit: "_Start",
        weights: np.ndarray,
        strengths: np.ndarray,
        before: "_Lane | None" = None,
    ) -> None:
        self.unit, self.weights, self.final = unit, weights, strengths
        self.shares: list[float] | None = None  # left to go, on a path from weak ones
        self._begin(problem, strengths)
        if before is not None and before.is_alive:
            self.params = before.params
            loss = before.objective - _penalty(self.params, before.strengths)
            self.objective = loss + _penalty(self.params, strengths)

    def _begin(self, problem: _Problem, strengths: np.ndarray) -> None:
        self.strengths, self.steps = strengths, list[dict[str, Any]]()
        found = _scaled(problem, self.unit, self.weights, strengths)
        self.params, self.objective = found
        self.scores = np.zeros(0)

    @property
    def is_alive(self) -> bool:
        """Tell if no column of the rank is zero."""
        has_both = self.params.left.any(1) & self.params.right.any(1)
        return bool(has_both.sum() == self.unit.left.any(1).sum())

    def is_done(self, problem: _Problem) -> bool:
        """Tell if an ended fit is the solution; if not, go on as `solving.alive`."""
        if self.shares is None:
            if not is_zero(self.params).any() or not self.final.any():
                return True
            self.before = self.params, self.objective, self.scores, self.steps
            self.shares = list(SHARES)
            self._begin(problem, self.shares.pop(0) * self.final)
            return False
        if self.shares:
            self.strengths, self.steps = self.shares.pop(0) * self.final, []
            return False
        if is_zero(self.params).all() or self.objective >= self.before[1]:
            self.params, self.objective, self.scores, self.steps = self.before
        return True

    def take(self, problem: _Problem, one: Any, two: Any, i: int, keeps: bool) -> bool:
        """Move to place `i` of a sweep; return whether the fit has ended."""
        new = Params(one.factors[i], two.factors[i], two.bias[i])
        objective = float(two.loss[i] + two.penalty[i] + one.penalty[i])
        pairs = list(zip(new, self.params, strict=True))
        length = np.sqrt(sum(((a - b) ** 2).sum() for a, b in pairs))
        before = np.sqrt(sum((b**2).sum() for _, b in pairs))
        fall = abs(objective - self.objective)
        change = float(max(length / (1 + before), fall / (1 + self.objective)))  # (8)
        step: dict[str, Any] = {"converged": change <= problem.given.tolerance}
        if keeps:
            step |= {"before": self.params, "after": new, "middle": one.bias[i]}
            step |= {"change": change, "objective": objective, "loss": two.loss[i]}
            step |= {"fall": self.objective - objective}
            step |= {"constants": (one.constant[i], two.constant[i])}
        self.steps.append(step)
        self.params, self.objective, self.scores = new, objective, two.scores[i].T
        return step["converged"] or len(self.steps) >= problem.most


def fit_all(
    labelled: Labelled,
    weights: np.ndarray,
    strengths: np.ndarray,
    points: np.ndarray,
    ranks: Sequence[int],
    given: bcpd.Settings,
    *,
    max_iterations: int,
    say: Callable[[str], None] | None = None,
) -> Fitted:
    """Fit every rank and point on every fold.

    Args:
      labelled: All matrices, with their weights.
      weights: (num_folds, n), zero where a matrix is held out.
      strengths: (num_points, num_folds, 4) mu1, mu2, nu1, nu2 of the folds.
      points: (num_points, 4) strengths on all matrices.
      ranks: Ranks; the fits are in the order of rank, then point.
      given: Settings of the descent; rank and strengths are not used.
      max_iterations: Largest number of sweeps of a fit.
      say: Function that is called with a line of progress.
    """
    problem = _problem(labelled, max(ranks), given, max_iterations)
    num_points, num_folds = strengths.shape[:2]
    num_classes, num_matrices = problem.targets.shape
    dtype = problem.x.dtype
    each = num_classes * num_matrices * (max(ranks) * max(problem.shape) + 1)
    num_places = int(np.clip(_MOST_BYTES // (each * dtype.itemsize), 8, 24))
    scores = np.zeros((len(ranks), num_points, num_matrices, num_classes), dtype)
    sweeps = np.zeros((len(ranks), num_points, num_folds), int)
    order = np.argsort(-points.sum(1), kind="stable")

    def path(rank: int, fold: int) -> Iterator[_Lane]:
        """Yield the fits of a path; a fit has ended when the next is asked for."""
        here, lane = weights[fold], None
        unit = _unit_start(problem, here, ranks[rank])
        for point in order:
            lane = _Lane(problem, unit, here, strengths[point, fold], lane)
            yield lane
            sweeps[rank, point, fold] = len(lane.steps)
            scores[rank, point, here == 0] = lane.scores[here == 0]

    paths = [path(*place) for place in np.ndindex(len(ranks), num_folds)][::-1]
    num_places = min(num_places, len(paths))
    _run(problem, paths, num_places, sweeps.size, say)

    def whole(rank: int, point: int) -> tuple[Params, bcpd.Info]:
        every = np.asarray(labelled.weights, np.float64)
        unit = _unit_start(problem, every, ranks[rank])
        lane = _Lane(problem, unit, every, points[point])
        _run(problem, [iter([lane])], num_places, 1, None, keeps=True)
        return _result(problem, lane, ranks[rank])

    return Fitted(
        scores.reshape(-1, num_matrices, num_classes),
        sweeps.reshape(-1, num_folds),
        [
            functools.partial(whole, *place)
            for place in np.ndindex(len(ranks), num_points)
        ],
    )


def _run(
    problem: _Problem,
    paths: list[Iterator[_Lane]],
    num_places: int,
    num_fits: int,
    say: Callable[[str], None] | None,
    keeps: bool = False,
) -> None:
    """Bring all paths to their ends, so many of them at a time."""
    begun, waiting = paths[:num_places], paths[num_places:]
    lanes: list[_Lane | None] = [next(path) for path in begun]
    lanes += [None] * (num_places - len(lanes))
    done = 0
    while any(lanes):
        one, two = _sweep(problem, lanes)
        for i, lane in enumerate(lanes):
            if lane is None or not lane.take(problem, one, two, i, keeps):
                continue
            if not lane.is_done(problem):
                continue
            done += 1
            lanes[i] = next(begun[i], None)
            if lanes[i] is None and waiting:
                begun[i] = waiting.pop(0)
                lanes[i] = next(begun[i])
        if say is not None:
            say(f"{done} of {num_fits} fits")


def _problem(
    labelled: Labelled, rank: int, given: bcpd.Settings, most: int
) -> _Problem:
    x, targets = np.asarray(labelled.x), np.asarray(labelled.targets)
    height, width = x.shape[1:]
    longest = max(height, width)
    if longest <= 2 * min(height, width):  # a square: one program for both blocks
        x = np.pad(x, ((0, 0), (0, longest - height), (0, longest - width)))
    turned = np.ascontiguousarray(x.transpose(0, 2, 1))
    targets = np.ascontiguousarray(targets.T)
    return _Problem(x, turned, targets, (height, width), rank, given, most)


#: Options of XLA for CPUs: the step compiles in a third of the time and is as fast.
_QUICK: Any = {
    "xla_backend_optimization_level": 1,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}


@functools.cache
def _program() -> Callable[..., Stepped]:
    """Jit the step, quick to compile where this XLA knows how."""
    if jax.default_backend() == "cpu":
        try:
            jax.jit(abs, compiler_options=_QUICK).lower(0.0).compile()
            return jax.jit(newton_step, compiler_options=_QUICK)
        except jax.errors.JaxRuntimeError:  # another version of XLA
            pass
    return jax.jit(newton_step)


def _sweep(problem: _Problem, lanes: Sequence[_Lane | None]) -> tuple[Any, Any]:
    """Move both blocks of all lanes; an empty place repeats the first fit."""
    used = next(lane for lane in lanes if lane is not None)
    every = [lane or used for lane in lanes]
    dtype = problem.x.dtype
    left, right, bias = (
        np.stack(part) for part in zip(*(lane.params for lane in every), strict=True)
    )
    weights = np.stack([lane.weights for lane in every]).astype(dtype)
    strengths = np.stack([lane.strengths for lane in every]).astype(dtype)
    exact = np.full(len(every), problem.given.block_tolerance / 3, dtype)
    common = problem.targets, weights
    step = _program()
    one = step(
        problem.x, *common, right, left, bias, strengths[:, :2], exact
    )  # (7a), (7b)
    two = step(
        problem.turned, *common, one.factors, right, one.bias, strengths[:, 2:], exact
    )  # (7c), (7d)
    return jax.device_get((one, two))


class _Start(NamedTuple):
    """Unit factors to start from on a fold, and their scores (m, n)."""

    left: np.ndarray
    right: np.ndarray
    linear: np.ndarray


def _unit_start(problem: _Problem, weights: np.ndarray, rank: int) -> _Start:
    """Return the singular vectors that `batch.sblr.start` takes."""
    (height, width), x, y = problem.shape, problem.x, problem.targets
    shares = np.broadcast_to(-weights, y.shape)  # SBLR-I1
    if problem.given.start == "label":
        shares = weights * (y - 1 / (len(y) + 1))
    means = (shares.astype(x.dtype) @ x.reshape(len(x), -1)).reshape(-1, *x.shape[1:])
    left = np.zeros((len(y), x.shape[1], problem.rank), x.dtype)
    right = np.zeros((len(y), x.shape[2], problem.rank), x.dtype)
    for c, mean in enumerate(means):
        u, _, vt = np.linalg.svd(mean[:height, :width], full_matrices=False)
        left[c, :height, :rank], right[c, :width, :rank] = u[:, :rank], vt[:rank].T
    return _Start(left, right, _linear_scores(x, left, right))


def _linear_scores(x: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the scores (m, n) without the bias."""
    products = left @ right.transpose(0, 2, 1)
    return products.reshape(len(left), -1) @ x.reshape(len(x), -1).T


def _scaled(
    problem: _Problem, unit: _Start, weights: np.ndarray, strengths: np.ndarray
) -> tuple[Params, float]:
    """Return the start in the size at which F is least, and F."""
    sizes = _SIZES if problem.given.is_scaled else np.ones(1)
    ahead = sizes[:, None, None] ** 2 * unit.linear
    total = np.logaddexp(np.logaddexp.reduce(ahead, axis=1), 0)
    each = total - (problem.targets * ahead).sum(1)
    objective = (weights * each).sum(1)
    for part, (l1, l2) in zip(unit[:2], (strengths[:2], strengths[2:]), strict=True):
        objective += l1 * sizes * np.abs(part).sum()
        objective += l2 / 2 * sizes**2 * (part**2).sum()
    best = int(np.argmin(objective))
    size = sizes[best].astype(unit.left.dtype)
    none: Any = np.zeros(len(unit.left), unit.left.dtype)
    return Params(size * unit.left, size * unit.right, none), float(objective[best])


def _penalty(params: Params, strengths: np.ndarray) -> float:
    """Return the penalty of both sides, Eq. (5)."""
    found = 0.0
    for part, (l1, l2) in zip(params[:2], (strengths[:2], strengths[2:]), strict=True):
        found += float(l1 * np.abs(part).sum() + l2 / 2 * (part**2).sum())
    return found


def _result(problem: _Problem, lane: _Lane, rank: int) -> tuple[Params, bcpd.Info]:
    """Return the factors in their own shape, and the trace."""
    height, width = problem.shape

    def cut(params: Params) -> Params:
        return Params(
            params.left[:, :height, :rank], params.right[:, :width, :rank], params.bias
        )

    rows = [_info(problem, lane, step) for step in lane.steps]
    columns: list[Any] = [np.asarray(column) for column in zip(*rows, strict=True)]
    return cut(lane.params), bcpd.Info(*columns)


def _info(problem: _Problem, lane: _Lane, step: dict[str, Any]) -> bcpd.Info:
    """Return what `batch.bcpd` tells of a sweep."""
    old, new, (mu1, mu2, nu1, nu2) = step["before"], step["after"], lane.final
    x, y, dtype = problem.x, problem.targets, problem.x.dtype
    scores = _linear_scores(x, new.left, new.right) + new.bias[:, None]
    total = np.logaddexp(np.logaddexp.reduce(scores, axis=0), 0)
    rest = lane.weights * (np.exp(scores - total) - y)
    slope = (rest @ x.reshape(len(x), -1)).reshape(-1, *x.shape[1:])  # (m, s, t)
    gaps = (
        _distance(new.left, np.einsum("cst,ctr->csr", slope, new.right), mu1, mu2),
        _distance(new.right, np.einsum("cst,csr->ctr", slope, new.left), nu1, nu2),
        np.sqrt((rest.sum(1) ** 2).sum()),
    )
    moves = [((a - b) ** 2).sum() for a, b in zip(new, old, strict=True)]
    middle = step["middle"]
    shifts = ((middle - old.bias) ** 2).sum() + ((new.bias - middle) ** 2).sum()
    least = float(problem.given.least_constant)
    in_left = mu1 * np.abs(new.left) + mu2 * new.left**2
    in_right = nu1 * np.abs(new.right) + nu2 * new.right**2
    numbers = {
        "objective": step["objective"],
        "loss": step["loss"],
        "change": step["change"],
        "left_constant": step["constants"][0],
        "right_constant": step["constants"][1],
        "decrease_slack": step["fall"] - least / 2 * (moves[0] + moves[1] + shifts),
        "tight_slack": step["fall"] - (mu2 * moves[0] + nu2 * moves[1]) / 2,  # DR-S3
        "stationarity": np.sqrt(sum(gap**2 for gap in gaps)),
        "balance": np.abs(in_left.sum(1) - in_right.sum(1)).max(),  # DR-S4
    }
    counts = {
        "num_trials": 2,
        "num_zero": is_zero(new).sum(),
        "left_support": (new.left != 0).sum(),
        "right_support": (new.right != 0).sum(),
    }
    found: dict[str, Any] = {k: dtype.type(value) for k, value in numbers.items()}
    found |= {k: np.int32(value) for k, value in counts.items()}
    found["converged"] = np.bool_(step["converged"])
    return bcpd.Info(**found)


def _distance(x: np.ndarray, gradient: np.ndarray, l1: float, l2: float) -> float:
    """Return the distance of 0 from the subgradients of F in one block."""
    smooth = gradient + l2 * x
    inside = np.sign(smooth) * np.maximum(np.abs(smooth) - l1, 0)
    found = np.where(x == 0, inside, smooth + l1 * np.sign(x))
    return float(np.sqrt((found**2).sum()))
