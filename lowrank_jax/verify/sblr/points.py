"""Points on which SBLR's statements are tried; no run is needed for them.

There are a few thousand: random ones of all scales and those which attain the bounds.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.theory.sblr.landscape import Strengths
from lowrank_jax.theory.sblr.lipschitz import Point
from lowrank_jax.verify.statement import Effort, Found, cheaply

__all__ = ["Block", "Trial", "on_blocks", "on_points"]
__dir__ = __all__.copy

#: (m, n, r, size) of blocks. The first two attain the constants.
BLOCKS = ((1, 12, 2, 4), (3, 12, 1, 4), (1, 1, 1, 1), (2, 3, 1, 20))
#: (n, s, t, r) of problems.
POINTS = ((8, 4, 3, 2), (5, 1, 6, 1), (1, 1, 1, 1))


class Block(NamedTuple):
    """Features of one block, a point and a move: (number, ...), or one of them."""

    features: Any  # (m, n, r, size)
    weights: Any  # (n,)
    point: Point
    move: Point

    @property
    def num_classes(self) -> int:
        """Number of classes but the reference."""
        return self.features.shape[0]

    @property
    def scores(self) -> jax.Array:
        """Scores at the point: (n, m)."""
        return _scores(self.features, self.point)

    @property
    def moves(self) -> jax.Array:
        """Scores of the move: (n, m)."""
        return _scores(self.features, self.move)


class Trial(NamedTuple):
    """A problem, a point and another near it: (number, ...), or one of them."""

    labelled: Labelled
    strengths: Strengths
    params: Params
    other: Params


def _scores(features: jax.Array, at: Point) -> jax.Array:
    return jnp.einsum("mnrs,msr->nm", features, at.factors) + at.bias[None]


def _sizes(rng: np.random.Generator, low: int, high: int, number: int) -> np.ndarray:
    return 10.0 ** rng.uniform(low, high, number)


def _scaled(rng: np.random.Generator, values: np.ndarray, low: int) -> np.ndarray:
    """Return a factor per trial that brings the largest value to a random size."""
    largest = np.abs(values).reshape(len(values), -1).max(1)
    return _sizes(rng, low, 1, len(values)) / np.where(largest == 0, 1, largest)


def _weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Return weights that sum to 1; some are 0."""
    weights = rng.uniform(0.1, 1, shape)
    if shape[1] > 2:
        weights[::2, 0] = 0
    return weights / weights.sum(1, keepdims=True)


def on_blocks(
    one: Callable[[Block], Certificate], effort: Effort, *, is_binary: bool
) -> Iterator[Found]:
    """Yield the certificates of a function of one move of a block, over many moves.

    Args:
      one: The function.
      effort: Number and seed of the trials.
      is_binary: Take problems of two classes, not of more.
    """
    for shape in BLOCKS[: effort.trials(2, 4)]:
        if (shape[0] == 1) == is_binary:
            found = cheaply(jax.vmap(one))(_blocks(effort, shape))
            yield Found(found, "m, n, r, size = " + ", ".join(map(str, shape)))


def on_points(one: Callable[[Trial], Certificate], effort: Effort) -> Iterator[Found]:
    """Yield the certificates of a function of one point, over many points."""
    for shape in POINTS[: effort.trials(1, 3)]:
        found = cheaply(jax.vmap(one))(_points(effort, shape))
        yield Found(found, "n, s, t, r = " + ", ".join(map(str, shape)))


@functools.lru_cache(maxsize=16)
def _blocks(effort: Effort, shape: tuple[int, int, int, int]) -> Block:
    """Draw moves of one block and the offsets."""
    num_classes, num, rank, size = shape
    rng = effort.generator(31, *shape)
    number = effort.trials(600, 20000)
    features = rng.normal(size=(number, *shape[:2], rank, size))
    features[1::4] = features[1::4, :, :1]  # all rows are tied
    features *= _sizes(rng, -8, 8, number)[:, None, None, None, None]
    features[2::16] = 0
    weights = _weights(rng, number, num)
    factors = rng.normal(size=(2, number, num_classes, size, rank))
    bias = rng.normal(size=(2, number, num_classes))
    for part, shift, low in zip(factors, bias, (-3, -8), strict=True):
        scores = np.einsum("kmnrs,kmsr->knm", features, part)
        part *= _scaled(rng, scores, low)[:, None, None, None]
        shift *= _scaled(rng, shift, low)[:, None]

    # Every fourth trial attains the constant: two halves share all the mass, and the
    # move is the leading eigenvector.
    best = slice(0, None, 4)
    if num_classes > 1:
        features[best, 1] = features[best, 0]
        features[best, 2:] = 0
    rows = features[best, 0].reshape(-1, num, rank * size)
    rows = np.concatenate([rows, np.ones_like(rows[..., :1])], axis=2)
    rows = rows * np.sqrt(weights[best])[..., None]
    top = np.linalg.svd(rows)[2][:, 0] * 1e-6  # at scale 1e8 the scores move by some
    top = top / np.maximum(np.abs(rows).max((1, 2)), 1)[:, None]
    factors[:, best], bias[:, best] = 0, 0
    if num_classes > 1:
        bias[0, best] = -40
        bias[0, best, :2] = 40
    for c, sign in enumerate((1, -1)[: min(num_classes, 2)]):
        step = top[:, :-1].reshape(-1, rank, size).transpose(0, 2, 1)
        factors[1, best, c], bias[1, best, c] = sign * step, sign * top[:, -1]
    point, move = (Point(*pair) for pair in zip(factors, bias, strict=True))
    return Block(features, weights, point, move)


@functools.lru_cache(maxsize=16)
def _points(effort: Effort, shape: tuple[int, int, int, int]) -> Trial:
    """Draw random points, and make those which attain a bound."""
    num, height, width, rank = shape
    rng = effort.generator(32, *shape)
    number = effort.trials(480, 8000)
    x: Any = rng.normal(size=(number, num, height, width))
    x *= _sizes(rng, -6, 6, number)[:, None, None, None]
    y: Any = (
        rng.permuted(np.arange(number * num).reshape(number, num), axis=1) % 2
    ) * 1.0
    weights: Any = np.full((number, num), 1 / num)
    left: Any = rng.normal(size=(number, 1, height, rank))
    right: Any = rng.normal(size=(number, 1, width, rank))
    bias: Any = rng.normal(size=(number, 1))
    scores = np.einsum("knst,kmsr,kmtr->kn", x, left, right)
    roots = np.sqrt(_scaled(rng, scores, -8))[:, None, None, None]
    left, right = left * roots, right * roots
    strengths = _sizes(rng, -8, 2, 4 * number).reshape(4, number)
    strengths *= rng.integers(0, 2, strengths.shape)
    mu1, mu2, nu1, nu2 = strengths
    other: Any = [
        part + 1e-3 * rng.normal(size=part.shape) * part.std(axis=(1, 2))[:, None, None]
        for part in (left, right)
    ]
    shift = 1e-3 * rng.normal(size=bias.shape)

    u, _, v = np.linalg.svd(x[:, 0], full_matrices=False)
    eighth = [slice(k, None, 8) for k in range(8)]
    # One matrix and one label, factors along it: Eq3 and the loss from below.
    at = eighth[0]
    x[at], y[at] = x[at, :1], 1
    left[at], right[at] = 0, 0
    sizes = np.sqrt(rng.uniform(1, 9, len(x[at])) / np.linalg.norm(x[at, 0], 2, (1, 2)))
    left[at, 0, :, 0] = sizes[:, None] * u[at, :, 0]
    right[at, 0, :, 0] = sizes[:, None] * v[at, 0]
    bias[at] = np.abs(bias[at])
    # One factor alone and large, nothing to learn: level sets and balance.
    for at, gone, has in ((eighth[1], right, left), (eighth[2], left, right)):
        x[at], gone[at], bias[at] = 0, 0, 0
        has[at] = 1e4 * rng.normal(size=has[at].shape)
        mu1[at], nu1[at], mu2[at], nu2[at] = 0, 0, 1, 2
        y[at] = np.arange(num) % 2
    # The offset alone, large, or about 0.
    for at, size in ((eighth[3], 1e4), (eighth[4], 1e-3)):
        x[at], left[at], right[at], bias[at] = 0, 0, 0, size
        mu2[at], nu2[at] = 1, 1
        y[at] = np.arange(num) % 2
    shift[eighth[4]] = -2e-3
    # Balanced factors with orthogonal columns.
    at = eighth[5]
    mu2[at] += 1e-3
    nu2[at] += 1e-3
    scale = np.sqrt(np.sqrt(nu2[at] / mu2[at]))[:, None, None]
    left[at, 0] = scale * u[at, :, :rank]
    right[at, 0] = v[at, :rank].transpose(0, 2, 1) / scale

    labelled = Labelled(x, y[..., None], weights)
    end = Params(other[0], other[1], bias + shift)
    at = eighth[4]
    end.left[at], end.right[at] = 0, 0
    params = Params(left, right, bias)
    return Trial(labelled, Strengths(*strengths), params, end)
