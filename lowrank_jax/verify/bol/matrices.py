"""Matrices on which BOL's statements are tried: random, tied, tiny, of all scales."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.verify.statement import Effort, cheaply

__all__ = [
    "Rng",
    "Shape",
    "batched",
    "matrices",
    "orthonormal",
    "problems",
    "scales",
    "separated",
    "shapes",
    "steps",
    "worst_direction",
]
__dir__ = __all__.copy

Rng = np.random.Generator
Shape = tuple[int, int]


@functools.cache
def batched(
    function: Callable[..., Certificate], **static: Any
) -> Callable[..., Certificate]:
    """Return the function of many problems at once, compiled once per shape.

    Its keywords (`is_printed`) then hold one value per problem, as all arguments do.

    Args:
      function: Function of one problem.
      **static: Arguments that are the same for all problems.
    """
    return cheaply(jax.vmap(functools.partial(function, **static)))


def shapes(effort: Effort) -> tuple[Shape, ...]:
    """Return the shapes to try: one, or also wide, tall and tiny ones."""
    if effort.is_quick:
        return ((4, 3),)
    return ((4, 3), (1, 5), (1, 1), (6, 1), (2, 2), (3, 7), (8, 8))


def problems(effort: Effort, rank: int = 1) -> Iterator[tuple[Rng, int, Shape]]:
    """Yield a generator, a number of trials and a shape, for each shape.

    Args:
      effort: Number and seed of the trials.
      rank: Least of m and n. Smaller shapes are left out.
    """
    rng = effort.generator(10)
    for shape in shapes(effort):
        if min(shape) >= rank:
            yield rng, effort.trials(450, 4500), shape


def scales(rng: Rng, num: int) -> np.ndarray:
    """Return powers of ten from 1e-8 to 1e8: (num, 1, 1)."""
    return 10 ** rng.uniform(-8, 8, (num, 1, 1))


def orthonormal(rng: Rng, num: int, size: int, rank: int) -> np.ndarray:
    """Return random matrices with orthonormal columns: (num, size, rank)."""
    return np.linalg.qr(rng.normal(size=(num, size, rank)))[0]


def separated(
    rng: Rng, num: int, shape: Shape, *, least: float = 1e-3
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return factors of matrices with singular values 1 = s_1 > s_2 > ... >= 0.

    Args:
      rng: Generator that draws them.
      num: Number of matrices.
      shape: (m, n).
      least: The least gap between two singular values; gaps span all sizes above it.

    Returns:
      Left vectors (num, m, l), values (num, l), right vectors (num, n, l).
    """
    size = min(shape)
    gaps = 10 ** rng.uniform(np.log10(least), 0, (num, size))
    values = np.cumsum(gaps[:, ::-1], axis=1)[:, ::-1]
    left, right = (orthonormal(rng, num, side, size) for side in shape)
    return left, values / values[:, :1], right


def worst_direction(left: np.ndarray, right: np.ndarray, rank: int = 1) -> np.ndarray:
    """Return the unit matrices along which the conjugate bends most.

    Args:
      left: (num, m, l), singular vectors, l > k.
      right: (num, n, l).
      rank: k.
    """
    i, j = rank - 1, rank
    pairs = left[:, :, [i, j]] @ right[:, :, [j, i]].transpose(0, 2, 1)
    return pairs / np.sqrt(2)


def matrices(rng: Rng, num: int, shape: Shape) -> np.ndarray:
    """Return matrices of many kinds and scales, in turn: (num, m, n).

    Gaussian, of rank one, tied at the top, nearly tied, sparse counts, block-diagonal,
    tiny ones within zeros, and zero.
    """
    size = min(shape)
    left, right = (orthonormal(rng, num, side, size) for side in shape)
    values = rng.uniform(0, 1, (num, size))
    near = 1 - 10 ** rng.uniform(-12, -1, (num, size))
    gauss = rng.normal(size=(num, *shape))
    product = gauss[:, :, :1] @ rng.normal(size=(num, 1, shape[1]))
    halves = [np.arange(side) < max(1, side // 2) for side in shape]
    corner = np.arange(shape[0])[:, None] + np.arange(shape[1])[None] == 0
    kinds = [
        gauss,
        product,
        left @ right.transpose(0, 2, 1),
        (left * near[:, None]) @ right.transpose(0, 2, 1),
        rng.integers(-2, 3, (num, *shape)).astype(float),
        gauss * (halves[0][:, None] == halves[1][None]),
        gauss * corner,
        (left * values[:, None]) @ right.transpose(0, 2, 1),
        np.zeros((num, *shape)),
    ]
    kind = np.arange(num) % len(kinds)
    return np.stack(kinds)[kind, np.arange(num)] * scales(rng, num)


def steps(
    rng: Rng, num: int, shape: Shape, *, rank: int = 1
) -> Iterator[tuple[np.ndarray, np.ndarray, str]]:
    """Yield matrices and steps from them: any, long, and along the worst direction."""
    thetas = matrices(rng, num, shape)
    sizes = np.linalg.norm(thetas, axis=(1, 2), keepdims=True)
    lengths = sizes * 10 ** rng.uniform(-3, 1, (num, 1, 1))
    yield thetas, lengths * rng.normal(size=thetas.shape), "random"
    left, values, right = separated(rng, num, shape)
    size = scales(rng, num)
    thetas = (left * values[:, None]) @ right.transpose(0, 2, 1) * size
    gap = values[:, rank - 1] - (values[:, rank] if min(shape) > rank else 0)
    moves = rng.normal(size=thetas.shape)
    if min(shape) > rank:
        moves = worst_direction(left, right, rank)
        moves[1::2] += 0.1 * rng.normal(size=moves[1::2].shape)
    share = 10 ** rng.uniform(-2.5, 0, num)
    yield thetas, moves * size * (share * gap)[:, None, None], "worst direction"
