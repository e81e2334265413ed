"""Trials of SBLR's statements on points: no run is needed for them.

Each function makes a few thousand points, random ones of all scales and those which
attain the bounds, and returns the certificates of all statements on them at once.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.batch.sblr.start import start_params
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.theory.sblr import landscape, lipschitz, rates
from lowrank_jax.theory.sblr.landscape import Strengths
from lowrank_jax.theory.sblr.lipschitz import Point
from lowrank_jax.verify.sblr.runs import CHEAP
from lowrank_jax.verify.statement import Effort

__all__ = ["blocks", "points", "recursions"]

#: (m, n, r, size) of blocks. The first two attain the constants.
BLOCKS = ((1, 12, 2, 4), (3, 12, 1, 4), (1, 1, 1, 1), (2, 3, 1, 20))
#: (n, s, t, r) of problems.
POINTS = ((8, 4, 3, 2), (5, 1, 6, 1), (1, 1, 1, 1))

Found = dict[str, Certificate]


def _sizes(rng: np.random.Generator, low: int, high: int, number: int) -> np.ndarray:
    return 10.0 ** rng.uniform(low, high, number)


def _scaled(rng: np.random.Generator, values: np.ndarray, low: int) -> np.ndarray:
    """Return a factor a trial that brings the largest value to a random size."""
    largest = np.abs(values).reshape(len(values), -1).max(1)
    return _sizes(rng, low, 1, len(values)) / np.where(largest == 0, 1, largest)


def _weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Return weights that sum to 1; some are 0."""
    weights = rng.uniform(0.1, 1, shape)
    if shape[1] > 2:
        weights[::2, 0] = 0
    return weights / weights.sum(1, keepdims=True)


@functools.partial(jax.jit, compiler_options=CHEAP)
@jax.vmap
def _block(features: jax.Array, weights: jax.Array, point: Point, move: Point) -> Found:
    scores, moves = (
        jnp.einsum("mnrs,msr->nm", features, part.factors) + part.bias[None]
        for part in (point, move)
    )
    num_classes = features.shape[0]
    root = jnp.sqrt(jnp.asarray(num_classes, features.dtype))
    least = 0.25 if num_classes == 1 else lipschitz.SOFTMAX_CONSTANT
    given = features, weights, point, move
    return {
        "lemma": lipschitz.gradient_certificate(*given, rule="lemma"),
        "tight": lipschitz.gradient_certificate(*given, rule="tight"),
        "trace": lipschitz.gradient_certificate(*given, rule="trace"),
        "excess": lipschitz.lemma_excess_certificate(features, weights),
        "share, printed": lipschitz.share_certificate(scores, moves, root),
        "share": lipschitz.share_certificate(scores, moves, least),
        "boehning": lipschitz.boehning_certificate(scores, moves),
    }


@functools.lru_cache(maxsize=16)
def blocks(effort: Effort, shape: tuple[int, int, int, int]) -> Found:
    """Return the certificates of moves of one block and the offsets."""
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
    return _block(features, weights, point, move)


@functools.partial(jax.jit, compiler_options=CHEAP)
@jax.vmap
def _point(
    labelled: Labelled, strengths: Strengths, params: Params, other: Params
) -> Found:
    rank = params.left.shape[2]
    starts = {
        kind: start_params(labelled, rank=rank, start=kind)
        for kind in ("paper", "label")
    }
    ridge = Strengths(strengths.mu1 * 0, strengths.mu2, strengths.nu1 * 0, strengths[3])
    return {
        "start, printed": landscape.start_certificate(starts["paper"], labelled),
        "start": landscape.start_certificate(starts["label"], labelled),
        "zero": landscape.zero_certificate(params, labelled),
        "level": landscape.level_set_certificate(params, labelled, strengths),
        "norm": landscape.loss_norm_certificate(params, labelled),
        "balance": landscape.balance_bound_certificate(params, labelled, strengths),
        "factored": landscape.factored_certificate(params, labelled, ridge),
        "joint": lipschitz.joint_certificate(labelled, params, other),
    }


@functools.lru_cache(maxsize=16)
def points(effort: Effort, shape: tuple[int, int, int, int]) -> Found:
    """Return the certificates of random points and of those which attain a bound."""
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
    return _point(labelled, Strengths(*strengths), params, end)


@functools.partial(jax.jit, compiler_options=CHEAP)
@jax.vmap
def _recursion(
    lengths: jax.Array, constant: jax.Array, exponent: jax.Array
) -> tuple[Certificate, Certificate]:
    return (
        rates.linear_recursion_certificate(lengths, constant, exponent),
        rates.power_recursion_certificate(lengths, constant, exponent),
    )


@functools.lru_cache(maxsize=2)
def recursions(effort: Effort) -> tuple[Certificate, Certificate]:
    """Return the certificates of sequences which attain SBLR-Eq27."""
    rng = effort.generator(33)
    number = effort.trials(200, 4000)
    exponents = rng.uniform(0.05, 0.95, number)
    exponents[:20] = 0.5
    constants = _sizes(rng, -2, 2, number)
    last = rng.uniform(0.1, 1, number)
    lengths = [last]
    powers = (1 - exponents) / exponents
    for _ in range(60):  # S + S = S' + C (S' - S)^power, by bisection over S' - S
        low, high = np.zeros(number), lengths[-1]
        for _ in range(60):
            fall = (low + high) / 2
            is_short = lengths[-1] - fall > fall + constants * fall**powers
            low, high = np.where(is_short, fall, low), np.where(is_short, high, fall)
        lengths.append(lengths[-1] - high)
    return _recursion(np.stack(lengths, axis=1), constants, exponents)
