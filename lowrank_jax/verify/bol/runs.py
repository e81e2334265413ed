"""Runs of mirror descent on generated problems, for the statements on regret.

All problems of one shape go through one compiled program. A problem is a stream of
rounds with three candidates each; smaller shapes are also tried inside a larger one,
filled up with zeros, which changes no singular value but 0.
"""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import loops, streams
from lowrank_jax.online.bol import dense
from lowrank_jax.theory.bol import regret
from lowrank_jax.types import Learner
from lowrank_jax.verify.statement import Effort, cheaply

__all__ = [
    "BY_HAND",
    "NUM_ROUNDS",
    "POOLS",
    "TIED",
    "BlockRuns",
    "Problems",
    "Runs",
    "block_runs",
    "is_by_hand",
    "problems",
    "runs",
    "single",
]
__dir__ = __all__.copy

Array = Any  # NumPy array on the host, JAX array in a compiled program
NUM_ROUNDS = 32
BY_HAND = (
    "one mistake",
    "one mistake of rank two",
    "worst direction",
    "2 orthogonal rows",
    "3 orthogonal rows",
    "unmoved",
    "identity",
)
TIED = (*BY_HAND, "ties", "equal blocks", "zeros and repeats")  # equal scores
POOLS = (*BY_HAND, "separable", "nearly rank one", "ties", "equal blocks")


class Problems(NamedTuple):
    """Streams of one shape, one after another."""

    features: np.ndarray  # (b, t, 3, m, n)
    labels: np.ndarray  # (b, t) int32
    planted: np.ndarray  # (b, m, n)
    num_values: np.ndarray  # (b,)  l of the shape before it was filled up
    steps: np.ndarray  # (b,)  C
    cases: np.ndarray  # (b,) names


class Runs(NamedTuple):
    """What `online.bol.dense` did on each of them: (b, t, ...)."""

    info: Any  # dense.Info
    deltas: Array  # (b, t, m, n)  dPhi
    before: Array  # (b, t, m, n)  Theta_{t-1}
    after: Array  # (b, t, m, n)  Theta_t
    params: Array  # (b, t, m, n)  W_t
    average: Array  # (b, m, n)  averaged in the dual; W_N unless "frobenius"
    ratio: Array  # (b, t)  on the segment


def problems(effort: Effort, shape: tuple[int, int], count: int) -> Problems:
    """Make `count` problems of each kind, and those made by hand.

    Args:
      effort: Effort, which gives the seed.
      shape: m and n.
      count: Problems of each random kind.
    """
    rng = effort.generator(41, *shape)
    parts = [*_random(rng, shape, count)]
    if min(shape) >= 3:
        parts += [_by_hand(shape)]
        parts += [
            _filled_up(rng, shape, inner, count) for inner in ((1, 1), (1, 3), (2, 2))
        ]
    made = Problems(*(np.concatenate(field) for field in zip(*parts, strict=True)))
    # Half of them at C = 1; where 1 - <W, dPhi> would lose digits, and by hand, all.
    drawn = 10.0 ** rng.uniform(-2, 3, made.steps.shape)
    steps = np.where(rng.random(made.steps.shape) < 0.5, drawn, 1.0)
    is_plain = np.isin(made.cases, (*BY_HAND, "small", "any scale"))
    return made._replace(steps=np.where(is_plain, 1.0, steps))


def is_by_hand(made: Problems) -> np.ndarray:
    """Tell which problems were made by hand."""
    return np.isin(made.cases, BY_HAND)


def _binary(
    deltas: np.ndarray, planted: np.ndarray, num_values: int, case: str
) -> Problems:
    """Make rounds whose difference is the given one, or none."""
    count, rounds = deltas.shape[:2]
    features = np.zeros((count, rounds, 3, *deltas.shape[2:]))
    features[:, :, 1] = deltas
    return Problems(
        features,
        np.ones((count, rounds), np.int32),
        planted,
        np.full(count, num_values),
        np.ones(count),
        np.full(count, case, dtype=object),
    )


def _random(
    rng: np.random.Generator, shape: tuple[int, int], count: int
) -> Iterator[Problems]:
    m, n = shape
    low, many = min(shape), (count, NUM_ROUNDS)

    def normal(*sizes: int) -> np.ndarray:
        return rng.standard_normal(sizes)

    def rank_1() -> np.ndarray:
        left, right = _unit(normal(count, m)), _unit(normal(count, n))
        return left[:, :, None] * right[:, None, :]

    def powers(low: float, high: float) -> np.ndarray:
        return 10.0 ** rng.uniform(low, high, (count, 1, 1, 1))

    noisy = normal(count, NUM_ROUNDS, 3, m, n)
    labels = rng.integers(0, 3, many).astype(np.int32)
    for name, scale in (
        ("noisy", powers(-0.5, 0.5)),
        ("small", powers(-3.0, -2.5)),
        ("any scale", powers(-3.0, 8.0)),
    ):
        yield Problems(
            noisy * scale[..., None],
            labels,
            rank_1(),
            np.full(count, low),
            np.ones(count),
            np.full(count, name, dtype=object),
        )
    planted = rank_1()
    deltas = normal(*many, m, n)
    signs = np.sign(np.einsum("bmn,btmn->bt", planted, deltas))
    yield _binary(signs[..., None, None] * deltas, planted, low, "separable")
    # Nearly of rank one, near the planted one: the assumption of BOL-P5.
    for _ in range(4):
        planted = rank_1()
        spread = rng.uniform(0.0, 0.6, (count, 1, 1))
        u, _, vt = np.linalg.svd(planted)
        left = _unit(u[:, None, :, 0] + spread * normal(*many, m) / np.sqrt(m))
        right = _unit(vt[:, None, 0] + spread * normal(*many, n) / np.sqrt(n))
        near = left[..., :, None] * right[..., None, :]
        near = near + 0.03 * spread[..., None] * normal(*many, m, n)
        yield _binary(near * powers(-2.0, 2.0), planted, low, "nearly rank one")
    ties = rng.integers(-1, 2, (*many, m, n)).astype(float)
    yield _binary(ties, rank_1(), low, "ties")
    holes = normal(*many, m, n) * (rng.random((*many, 1, 1)) < 0.6)
    holes[:, 1::4] = holes[:, ::4]  # the same matrix twice
    yield _binary(holes, rank_1(), low, "zeros and repeats")
    if m >= 2 and n >= 4:  # two templates that fire at the same place: equal blocks
        blocks = np.zeros((*many, m, n))
        kinds = np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, 0.0], [0.0, -1.0]])
        chosen = kinds[rng.integers(0, 4, many)]
        blocks[:, :, 0, :2] = blocks[:, :, 1, 2:4] = chosen
        yield _binary(blocks, rank_1(), low, "equal blocks")


def _filled_up(
    rng: np.random.Generator, shape: tuple[int, int], inner: tuple[int, int], count: int
) -> Problems:
    m, n = inner
    features = np.zeros((count, NUM_ROUNDS, 3, *shape))
    scale = 10.0 ** rng.uniform(-2, 2, (count, 1, 1, 1, 1))
    sizes = (count, NUM_ROUNDS, 3, m, n)
    features[..., :m, :n] = scale * rng.standard_normal(sizes)
    planted = np.zeros((count, *shape))
    planted[:, 0, 0] = 1
    return Problems(
        features,
        rng.integers(0, 3, (count, NUM_ROUNDS)).astype(np.int32),
        planted,
        np.full(count, min(inner)),
        np.ones(count),
        np.full(count, f"{m}x{n}", dtype=object),
    )


def single(rows: int, columns: int, **entries: float) -> np.ndarray:
    """Return a zero matrix but for entries such as ``e11=1.0``."""
    matrix = np.zeros((rows, columns))
    for name, value in entries.items():
        matrix[int(name[1]) - 1, int(name[2]) - 1] = value
    return matrix


def _by_hand(shape: tuple[int, int]) -> Problems:
    """Return problems that attain a bound; see the comments."""
    one = functools.partial(single, *shape)
    top = one(e11=1.0)
    parts = []

    def add(case: str, stream: list[np.ndarray], planted: np.ndarray) -> None:
        rest = [stream[-1]] * (NUM_ROUNDS - len(stream))
        deltas = np.stack(stream + rest)[None]
        parts.append(_binary(deltas, planted[None], min(shape), case))

    # One mistake on a matrix of rank one: DR-B3, DR-B7 and DR-B8 with equality.
    for scale in (0.5, 1.0, 4.0):
        add("one mistake", [scale * top], top)
    # diag(1, s) and the leading pair: the ratio of BOL-P5 is s, as its bound.
    for s in (0.2, 0.9):
        add("one mistake of rank two", [one(e11=1.0, e22=s)], top)
    # To and fro in the direction of the largest curvature 1 / (1 - s): DR-B3. A pull
    # of 1e-7 keeps the margin of each round below 0.
    turn = one(e12=0.15, e21=0.15)
    pull = one(e11=-1e-7)
    swing = [turn + pull, -turn + pull] * (NUM_ROUNDS // 2)
    add("worst direction", [one(e11=1.0, e22=0.25), *swing[: NUM_ROUNDS - 1]], top)
    # Orthogonal matrices of one row space: as many mistakes as there are rows.
    rows = [one(e11=1.0), one(e21=1.0), one(e31=1.0)]
    for k in (2, 3):
        add(f"{k} orthogonal rows", rows[:k], sum(rows[:k]) / np.sqrt(k))
    # Orthogonal in rows and columns: W does not move, BOL-N3 with equality. And a U
    # of full rank, for which weak duality in the Frobenius norm is false (BOL-P4):
    # <U, Theta> = 2.43 against |U|_F^2 / 2 + F*(Theta) = 1.215 + 0.5.
    scaled = one(e11=0.9, e22=0.9, e33=0.9)
    add("unmoved", [one(e11=1.0), one(e22=0.9), one(e33=0.8)], scaled)
    # At the identity sigma_1 is tied, and M_2 / 2 is the margin of its own direction.
    eye = one(e11=1.0, e22=1.0, e33=1.0)
    add("identity", [eye], eye / 3)
    return Problems(*(np.concatenate(field) for field in zip(*parts, strict=True)))


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def _one(
    variant: Any, features: jax.Array, labels: jax.Array, step: jax.Array
) -> tuple[Any, ...]:
    averaging: Any = "dual" if variant == "frobenius" else "none"
    learner = dense.learner(
        variant=variant, step_size=step, averaging=averaging, num_inner_steps=2
    )

    def update(
        state: dense.State, example: dense.Choice
    ) -> tuple[dense.State, tuple[Any, ...]]:
        scores = jnp.einsum("ymn,mn->y", example.features, state.params)
        predicted = jnp.argmax(scores)
        delta = example.features[example.label] - example.features[predicted]
        new, info = learner.update(state, example)
        return new, (info, delta, state.theta, new.theta, new.params)

    stream = streams.Stacked(dense.Choice(features, labels))
    state = learner.init(jax.random.key(0), stream.example(0))
    order = jnp.arange(NUM_ROUNDS, dtype=jnp.int32)
    state, trace = loops.run(Learner(learner.init, update), state, stream, order)
    return *trace, dense.final_params(state)


@functools.lru_cache
def _program(variant: str) -> Any:
    return cheaply(jax.vmap(functools.partial(_one, variant)))


@functools.lru_cache
def _ratios() -> Any:
    return cheaply(jax.vmap(jax.vmap(regret.segment_ratio)))


def runs(made: Problems, *, variant: str, steps: np.ndarray | None = None) -> Runs:
    """Run one variant of `online.bol.dense` on all problems.

    Args:
      made: The problems.
      variant: Variant of `dense.learner`.
      steps: (b,) C of each run. It replaces the C of the problems.
    """
    steps = made.steps if steps is None else steps
    found = _program(variant)(made.features, made.labels, steps)
    info, deltas, before, after, params, average = jax.tree.map(np.asarray, found)
    ratio = np.zeros(before.shape[:2])
    if variant == "exact":
        pushes = steps[:, None, None, None] * deltas
        ratio = np.asarray(_ratios()(before, pushes))
    return Runs(info, deltas, before, after, params, average, ratio)


class BlockRuns(NamedTuple):
    """Mirror descent with a map of each block by itself (DR-B6)."""

    rounds: regret.Rounds  # (b, t)
    deltas: np.ndarray  # (b, t, k, s, s)
    params: np.ndarray  # (b, k, s, s)  the last W


def block_runs(deltas: np.ndarray, steps: np.ndarray) -> BlockRuns:
    """Run mirror descent on block features, with an SVD of every block.

    Args:
      deltas: (b, t, k, s, s) Difference of each round, if it is a mistake.
      steps: (b,) C.
    """
    theta = np.zeros_like(deltas[:, 0])
    weights, trace, before = theta, [], np.zeros(len(deltas))
    for t in range(deltas.shape[1]):
        margin = (weights * deltas[:, t]).sum((1, 2, 3))
        is_mistake = margin <= 0
        delta = deltas[:, t] * is_mistake[:, None, None, None]
        theta = theta + steps[:, None, None, None] * delta
        u, sigma, vt = np.linalg.svd(theta)
        weights = sigma[..., :1, None] * u[..., :, :1] * vt[..., :1, :]
        conjugate = (sigma[..., 0] ** 2).sum(1) / 2
        margin = margin * is_mistake
        increment = steps * is_mistake - (conjugate - before)  # BOL-N5
        bregman = conjugate - before - steps * margin  # DR-B4
        one = regret.Rounds(margin, is_mistake, increment, conjugate, bregman)
        trace.append((one, delta))
        before = conjugate
    rounds, deltas = jax.tree.map(lambda *parts: np.stack(parts, 1), *trace)
    return BlockRuns(rounds, deltas, weights)
