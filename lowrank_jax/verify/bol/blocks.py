"""BOL with block-diagonal features: DR-B6."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lowrank_jax.theory.bol import blocks as block_spectral
from lowrank_jax.verify.bol.curvature import Check, row, steps
from lowrank_jax.verify.bol.matrices import (
    Rng,
    Shape,
    batched,
    matrices,
    problems,
    scales,
)
from lowrank_jax.verify.statement import Effort, Found

__all__ = ["BLOCKS"]


def _lengths(blocks: np.ndarray) -> np.ndarray:
    """Return the Frobenius norm of each stack: (num, 1, 1)."""
    return np.linalg.norm(blocks.reshape(len(blocks), -1), axis=1)[:, None, None]


def _blocks(rng: Rng, num: int, shape: Shape, parts: int = 3) -> np.ndarray:
    """Return stacks of blocks of one scale a stack: (num, parts, m, n)."""
    every = matrices(rng, num * parts, shape)
    sizes = np.linalg.norm(every, axis=(1, 2), keepdims=True)
    every = every / np.where(sizes == 0, 1, sizes)
    every = every * rng.uniform(0, 1, (num * parts, 1, 1))
    return every.reshape(num, parts, *shape) * scales(rng, num)[..., None]


def _rescalings(effort: Effort) -> Iterator[Found]:
    certify = batched(block_spectral.rescaling_certificate)
    for rng, num, shape in problems(effort):
        left, right = (rng.normal(size=(num, 3, side)) for side in shape)
        left = left * scales(rng, num)
        norms = [np.linalg.norm(part, axis=2) for part in (left, right)]
        best = np.sqrt(norms[1] / norms[0])
        yield Found(certify(left, right, best), f"best {shape}")
        others = best * 10 ** rng.uniform(-1, 1, best.shape)
        yield Found(certify(left, right, others), f"any {shape}")
        left[::2, 0], right[::2, 0] = 0, 0
        yield Found(certify(left, right, others), f"an empty block {shape}")


def _with_power(powers: np.ndarray, function: Callable[..., Any]) -> Callable[..., Any]:
    return functools.partial(batched(function), power=powers)


def _block_family(powers: tuple[float, ...]) -> Check:
    """DR-B6: conjugate, subgradient and biconjugate for each q."""

    def check(effort: Effort) -> Iterator[Found]:
        for power in powers:
            for rng, num, shape in problems(effort):
                case = f"q = {power:g} {shape}"
                certify = functools.partial(_with_power, np.full(num, power))
                thetas, others = (_blocks(rng, num, shape) for _ in range(2))
                best = certify(block_spectral.block_attained_certificate)(thetas)
                yield Found(best, f"best {case}")
                sizes = _lengths(thetas)
                left, right = (rng.normal(size=(num, 3, side)) for side in shape)
                left = left * sizes * 10 ** rng.uniform(-3, 0, (num, 3, 1))
                conjugate = certify(block_spectral.block_conjugate_certificate)
                yield Found(conjugate(left, right, thetas), f"any factors {case}")
                lengths = _lengths(others)
                others = others * (sizes / np.where(lengths, lengths, 1))[..., None]
                slope = certify(block_spectral.block_subgradient_certificate)
                yield Found(slope(thetas, others), f"subgradient {case}")
                least = certify(block_spectral.block_maximiser)(others)
                dual = certify(block_spectral.block_biconjugate_certificate)
                yield Found(dual(others, least), f"maximiser {case}")
                yield Found(dual(others, thetas), f"any {case}")

    return check


def _block_gradient(effort: Effort) -> Iterator[Found]:
    for rng, num, shape in problems(effort):
        thetas = _blocks(rng, num, shape)
        found = batched(block_spectral.block_gradient_certificate)(thetas)
        yield Found(found, f"{shape}")


def _block_segments(effort: Effort) -> Iterator[Found]:
    points = 17 if effort.is_quick else 65
    function = block_spectral.block_second_order_certificate
    for rng, num, shape in problems(effort):
        thetas, moves = [], []
        num = num // 3
        for theta, move, _ in steps(rng, 3 * num, shape):
            size = np.linalg.norm(theta, axis=(1, 2), keepdims=True)
            size = np.where(size == 0, 1, size)  # blocks of one scale
            thetas.append((theta / size).reshape(num, 3, *shape))
            moves.append((move / size).reshape(num, 3, *shape))
        touched = np.stack(moves)
        touched[:, ::2, 0] = 0  # a block that the round leaves alone
        for theta, move in zip(thetas, touched, strict=True):
            found = batched(function, num_points=points)(theta, move)
            yield Found(found, f"{shape}")


BLOCKS = (
    row(
        "DR-B6",
        "(i) least |a|^2 |b|^2 / 2 over rescalings is (sum |W_k|_F)^2 / 2",
        "block_spectral.rescaling_certificate",
        _rescalings,
        "rescaling",
    ),
    row(
        "DR-B6",
        "(i) its conjugate is max s1(T_k)^2 / 2, at one block",
        "block_spectral.block_conjugate_certificate",
        _block_family((1.0,)),
        "group lasso",
    ),
    row(
        "DR-B6",
        "(ii) sum |W_k|_F^2 / 2 <-> sum s1(T_k)^2 / 2, gradient, biconjugate",
        "block_spectral.block_conjugate_certificate",
        _block_family((2.0,)),
        "separable",
    ),
    row(
        "DR-B6",
        "(ii) gradient is blockdiag(s1 u1 v1')",
        "block_spectral.block_gradient_certificate",
        _block_gradient,
        "gradient",
    ),
    row(
        "DR-B6",
        "(ii) remainder <= sum |E_k|_F^2 / (2 (1 - s2/s1)) over the blocks",
        "block_spectral.block_second_order_certificate",
        _block_segments,
        "segment",
    ),
    row(
        "DR-B6",
        "(iii) (sum |W_k|_F^q)^(2/q) / 2 <-> (sum s1(T_k)^p)^(2/p) / 2",
        "block_spectral.block_conjugate_certificate",
        _block_family((1.25, 1.5)),
        "q and p",
    ),
)
