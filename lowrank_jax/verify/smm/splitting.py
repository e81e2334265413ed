"""The statements of SMM on the loss and on runs of FOBOS, and their trials.

One small corpus: two letters with two outputs each, words of one to three letters, so
that every path can be enumerated. Its runs serve all statements.
"""

import functools
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.batch.smm import fobos as learners
from lowrank_jax.batch.smm import smoothed
from lowrank_jax.batch.smm.hinge import hinge, smoothed_hinge
from lowrank_jax.data.bisymbols import Alphabet, Words
from lowrank_jax.models import hankel as models
from lowrank_jax.streams.words import Lattice, lattice
from lowrank_jax.theory.certificate import at_most
from lowrank_jax.theory.smm import splitting
from lowrank_jax.verify.statement import Certify, Effort, Found, fails, proved

__all__: list[str] = []
__dir__ = __all__.copy

_FIRST, _NUM_CANDIDATES = np.array([0, 1, 3]), np.array([1, 2, 2])
_NUM_SYMBOLS, _NUM_OUTPUTS = 5, 2
_ALPHABET = Alphabet(
    letters=np.array(["a", "b"]),
    outputs=np.array(["", "0", "1", "0", "1"]),
    letter_of=np.array([0, 1, 1, 2, 2]),
    first=_FIRST,
    num_candidates=_NUM_CANDIDATES,
)
_BLOCKS = models.basis(3)
_SHAPE = _BLOCKS[0].shape(_NUM_SYMBOLS)
_STRENGTHS = (0.0, 0.3, 1.0, 3.0, 20.0)  # tau
_STEP_SIZES = (0.01, 0.1, 1.0)  # c
_GRID = list(itertools.product(_STRENGTHS, _STEP_SIZES))


class _Corpus(NamedTuple):
    letters: np.ndarray  # (num_words, 3), 0 beyond the end
    gold: np.ndarray
    lengths: np.ndarray


def _corpus(*, is_fixed: bool) -> _Corpus:
    """Words whose outputs are drawn, or (fixed) a function of the letter."""
    rng = np.random.default_rng(5)
    lengths = np.array([1, 2, 3, 3, 2])
    inside = np.arange(3)[None] < lengths[:, None]
    letters = np.where(inside, rng.integers(1, 3, (5, 3)), 0)
    drawn = 0 if is_fixed else rng.integers(0, 2, (5, 3))
    return _Corpus(letters, np.where(inside, _FIRST[letters] + drawn, -1), lengths)


def _lattice(corpus: _Corpus) -> Lattice:
    candidates = _FIRST[corpus.letters][..., None] + np.arange(_NUM_OUTPUTS)
    mask = np.broadcast_to((corpus.letters > 0)[..., None], candidates.shape)
    words = Words(corpus.letters, candidates, mask, corpus.gold, corpus.lengths)
    return lattice(_ALPHABET, words, order=3)


@jax.jit
def _hinges(lattice: Lattice, points: jax.Array) -> tuple:
    """Loss, cost and subgradient at each of (K, 25, 5) matrices."""

    def one(point: jax.Array) -> tuple:
        found = hinge(_BLOCKS, (point,), lattice)
        return found.loss, found.num_wrong.astype(point.dtype), found.gradient[0]

    return jax.lax.map(one, points)


@jax.jit
def _smoothed(lattice: Lattice, points: jax.Array, smoothing: jax.Array) -> tuple:
    """Smoothed loss and gradient at each of (K, 25, 5) matrices."""

    def one(inputs: tuple) -> tuple:
        found = smoothed_hinge(_BLOCKS, (inputs[0],), lattice, inputs[1])
        return found.loss, found.gradient[0]

    return jax.lax.map(one, (points, smoothing))


def _nuclear(points: np.ndarray) -> np.ndarray:
    return np.linalg.svd(points, compute_uv=False).sum(-1)


class _Runs(NamedTuple):
    """Runs for each tau and c of the grid, R of them, T iterations each."""

    points: np.ndarray  # (R, T + 1, 25, 5)  H_1 .. H_{T+1}
    averages: np.ndarray  # (R, T, 25, 5)
    objectives: np.ndarray  # (R, T + 1)
    average_objectives: np.ndarray  # (R, T)
    gradients: np.ndarray  # (R, T + 1, 25, 5)
    costs: np.ndarray  # (R, T + 1)
    info: learners.Info  # (R, T)


@functools.lru_cache
def _runs(effort: Effort) -> _Runs:
    lattice = _lattice(_corpus(is_fixed=False))
    length = effort.trials(40, 400)

    def one(inputs: tuple) -> tuple:
        learner = learners.learner(
            strength=inputs[0], step_size=inputs[1], gap_every=1, dtype=jnp.float64
        )
        start = learner.init(jax.random.key(0), lattice)

        def step(state: learners.State, _: None) -> tuple:
            state, info = learner.update(state, lattice)
            return state, (state.params[0], state.average[0], info)

        return jax.lax.scan(step, start, None, length=length)[1]

    grid = tuple(np.array(_GRID).T)
    run = jax.jit(lambda grid: jax.lax.map(one, grid))
    moved, averages, info = jax.device_get(run(grid))
    points = np.concatenate([np.zeros_like(moved[:, :1]), moved], axis=1)
    both = np.concatenate([points, averages], axis=1)
    flat = both.reshape(-1, *_SHAPE)
    losses, costs, gradients = jax.device_get(_hinges(lattice, flat))
    losses, costs = (part.reshape(both.shape[:2]) for part in (losses, costs))
    objectives = losses + grid[0][:, None] * _nuclear(both)
    end = length + 1
    return _Runs(
        points,
        averages,
        objectives[:, :end],
        objectives[:, end:],
        gradients.reshape(both.shape)[:, :end],
        costs[:, :end],
        info,
    )


class _Compared(NamedTuple):
    """A run against a matrix H', any."""

    run: int
    objective: float  # F(H')
    distance: float  # ||H'||^2
    name: str


@functools.lru_cache
def _compared(effort: Effort) -> list[_Compared]:
    """The best matrix of all runs of this tau, and three of the run itself."""
    runs, found = _runs(effort), []
    for r, (strength, _) in enumerate(_GRID):
        same = [i for i, (other, _) in enumerate(_GRID) if other == strength]
        own = [(r, t) for t in (1, 5, -1)]
        best = min(same, key=lambda i: runs.objectives[i].min())
        for i, t in [(best, int(runs.objectives[best].argmin())), *own]:
            square = float((runs.points[i, t] ** 2).sum())
            name = f"run {_GRID[r]} against iterate {t} of run {_GRID[i]}"
            found.append(_Compared(r, float(runs.objectives[i, t]), square, name))
    return found


@fails(
    "SMM-Alg1: printed",
    "the objective falls in each iteration of FOBOS",
    splitting.monotone_certificate,
)
def _monotone(certify: Certify, effort: Effort) -> Iterator[Found]:
    yield Found(jax.jit(certify)(_runs(effort).objectives), "runs of FOBOS")


@proved(
    "SMM-Alg1: best iterate",
    "best F(H_t) - F(H') <= (||H'||^2 + sum eta^2 ||G||^2) / (2 sum eta)",
    splitting.splitting_certificate,
    kind="best",
)
@proved(
    "SMM-Alg1: averaged iterate",
    "the average too, with ||G_{t+1} - G_t||^2 instead of ||G_t||^2",
    splitting.splitting_certificate,
    kind="average",
)
@proved(
    "SMM-Alg1: rate",
    "with c/sqrt(t) the best iterate comes within O(log T / sqrt T)",
    splitting.rate_certificate,
    is_tight=False,
    kind="rate",
)
def _gaps(certify: Certify, effort: Effort, *, kind: str) -> Iterator[Found]:
    runs, compared = _runs(effort), _compared(effort)
    which = np.array([one.run for one in compared])
    optimum = np.array([one.objective for one in compared])
    distance = np.array([one.distance for one in compared])
    start = runs.objectives[which, :1]
    gradients = runs.gradients[which]
    squares = (gradients[:, :-1] ** 2).sum((2, 3))
    objectives = np.minimum.accumulate(runs.objectives[which, :-1], axis=1)
    if kind == "average":
        objectives = runs.average_objectives[which]
        squares = ((gradients[:, 1:] - gradients[:, :-1]) ** 2).sum((2, 3))
    gaps = objectives - optimum[:, None]
    steps = runs.info.step_size[which]
    if kind == "rate":
        steps, squares = np.array(_GRID)[which, 1], squares.max(1)
    check = jax.jit(jax.vmap(certify))
    found = check(gaps, steps, squares, distance, scale=start)
    yield Found(found, f"runs of FOBOS, {kind}, against several matrices")


def _learner_objectives(effort: Effort) -> Iterator[Found]:
    """What the runs report, against the loss and the norm computed anew."""
    runs = _runs(effort)
    best = np.minimum.accumulate(runs.objectives[:, :-1], axis=1)
    check = jax.jit(at_most)
    yield Found(check(runs.info.lower_bound, best), "bound and best of one run")
    strengths = np.array(_GRID)[:, 0]
    least = np.array(
        [runs.objectives[strengths == s].min() for s in strengths]
    )  # all runs of this tau
    if not effort.is_quick:
        least = np.minimum(least, _smooth_optima(effort)[0])
        bounds = _smooth_optima(effort)[1]
        yield Found(check(bounds, least), "bound of the smoothed method")
    found = check(runs.info.lower_bound, least[:, None])
    yield Found(found, "bound of one run, least objective of all")


@functools.lru_cache
def _smooth_optima(effort: Effort) -> tuple[np.ndarray, np.ndarray]:
    """Best objective and bound of the smoothed method, for each of the grid."""
    lattice = _lattice(_corpus(is_fixed=False))

    def one(strength: jax.Array) -> tuple[jax.Array, jax.Array]:
        learner = smoothed.learner(
            smoothing=0.003, strength=strength, first_curvature=100.0, dtype=jnp.float64
        )
        start = learner.init(jax.random.key(0), lattice)

        def step(state: smoothed.State, _: None) -> tuple:
            return learner.update(state, lattice)[0], None

        state = jax.lax.scan(step, start, None, length=1000)[0]
        return state.best_objective, state.lower_bound

    run = jax.jit(lambda strengths: jax.lax.map(one, strengths))
    best, bound = jax.device_get(run(np.array(_STRENGTHS)))
    repeats = len(_STEP_SIZES)
    return np.repeat(best, repeats), np.repeat(bound, repeats)


@proved(
    "DR-M2",
    "min(1, tau / sigma_1(G)) cost <= optimum <= best objective",
    splitting.duality_certificate,
)
def _duality(certify: Certify, effort: Effort) -> Iterator[Found]:
    """Dual points mixed from subgradients anywhere against matrices anywhere."""
    yield from _learner_objectives(effort)
    runs, rng = _runs(effort), effort.generator(31)
    number = effort.trials(600, 20_000)
    gradients = runs.gradients.reshape(-1, *_SHAPE)
    costs = runs.costs.reshape(-1)
    chosen = rng.integers(0, len(costs), (number, 4))
    weights = rng.dirichlet(np.ones(4), number)
    mean = np.einsum("nk,nkab->nab", weights, gradients[chosen])
    cost = (weights * costs[chosen]).sum(1)
    at = rng.integers(0, runs.objectives.size, number)
    at[:100] = 0  # H = 0
    objectives = runs.objectives.reshape(-1)[at]
    strengths = np.repeat(np.array(_GRID)[:, 0], runs.objectives.shape[1])[at]
    found = jax.jit(jax.vmap(certify))(mean, cost, strengths, objectives)
    yield Found(found, "mixed subgradients")


# The smoothed loss


def _points(effort: Effort, salt: int) -> np.ndarray:
    rng = effort.generator(32, salt)
    number = effort.trials(400, 2000)
    scales = 10.0 ** rng.integers(-8, 3, (number, 1, 1))
    points = scales * rng.normal(size=(number, *_SHAPE))
    points[0] = 0
    return points


@proved(
    "SMM-X1",
    "the smoothed loss exceeds the hinge by 0 to mu T log|Y|",
    splitting.smoothing_certificate,
)
def _smoothing(certify: Certify, effort: Effort) -> Iterator[Found]:
    points = _points(effort, 0)
    values = np.resize(10.0 ** np.arange(-4, 3), len(points))
    check = jax.jit(jax.vmap(certify, in_axes=(0, 0, 0, None, None)))
    for is_fixed in (False, True):
        corpus = _corpus(is_fixed=is_fixed)
        lattice = _lattice(corpus)
        at = points
        if is_fixed:  # a wrong output scores -1, which its cost makes good: all tie
            wrong = np.ones(_NUM_SYMBOLS)
            wrong[[0, *_FIRST[1:]]] = 0
            at = np.broadcast_to(-wrong, points.shape)
        exact = _hinges(lattice, at)[0]
        smooth = _smoothed(lattice, at, values)[0]
        total = float(corpus.lengths.sum())
        found = check(exact, smooth, values, total, float(_NUM_OUTPUTS))
        yield Found(found, "all paths tie" if is_fixed else "random matrices")


def _path_counts(corpus: _Corpus, i: int) -> tuple[np.ndarray, int]:
    """Counts of trigrams of all outputs of a word, (paths, 125), and the true one."""
    letters = corpus.letters[i, : corpus.lengths[i]]
    choices = [_FIRST[x] + np.arange(_NUM_CANDIDATES[x]) for x in letters]
    paths = list(itertools.product(*choices))
    counts = np.zeros((len(paths), _NUM_SYMBOLS**3))
    for row, path in zip(counts, paths, strict=True):
        full = (0, 0, *path)
        for t in range(len(path)):
            row[np.ravel_multi_index(full[t : t + 3], (_NUM_SYMBOLS,) * 3)] += 1
    return counts, paths.index(tuple(corpus.gold[i, : len(letters)]))


def _path_squares(corpus: _Corpus, *, is_recipe: bool) -> np.ndarray:
    found = []
    for i in range(len(corpus.lengths)):
        counts, true = _path_counts(corpus, i)
        apart = ((counts[:, None] - counts[None]) ** 2).sum(2)
        found.append(apart[true].max() if is_recipe else apart.max() / 4)
    return np.array(found)


@functools.lru_cache
def _slopes(effort: Effort) -> list[tuple[str, _Corpus, tuple[np.ndarray, ...]]]:
    """Pairs of points, the gradients there, and mu: for two corpora."""
    one, other = (np.clip(_points(effort, salt), -3, 3) for salt in (1, 2))
    mu = np.resize(10.0 ** np.arange(-2, 2), len(one))
    corpora = [("words of 1 to 3 letters", _corpus(is_fixed=False), one, one + other)]
    # One letter, where both outputs are as likely, and along what tells them apart.
    single = _Corpus(np.array([[1]]), np.array([[1]]), np.array([1]))
    even, direction = np.zeros_like(one), np.zeros(_SHAPE)
    even[:, 0, 2] = -1
    direction[0, 1:3] = (1, -1)
    ahead = even + 0.01 * mu[:, None, None] * direction
    corpora.append(("one letter, two outputs as likely", single, even, ahead))
    found = []
    for name, corpus, begin, end in corpora:
        lattice = _lattice(corpus)
        slopes = [np.asarray(_smoothed(lattice, at, mu)[1]) for at in (begin, end)]
        found.append((name, corpus, (begin, end, *slopes, mu)))
    return found


@proved(
    "SMM-X1: constant of the recipe",
    "gradient Lipschitz with sum_i max_z ||counts(z) - counts(y)||^2 / mu",
    splitting.smoothness_certificate,
    is_tight=False,
    is_recipe=True,
)
@proved(
    "SMM-X1: tight constant",
    "and with sum_i max_{z,z'} ||counts(z) - counts(z')||^2 / (4 mu)",
    splitting.smoothness_certificate,
    is_recipe=False,
)
def _smoothness(
    certify: Certify, effort: Effort, *, is_recipe: bool
) -> Iterator[Found]:
    check = jax.jit(jax.vmap(certify, in_axes=(0,) * 5 + (None,)))
    for name, corpus, arrays in _slopes(effort):
        squares = _path_squares(corpus, is_recipe=is_recipe)
        squares = np.pad(squares, (0, 5 - len(squares)))
        yield Found(check(*arrays, squares), name)
