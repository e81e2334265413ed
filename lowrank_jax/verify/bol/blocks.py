"""BOL with block-diagonal features: DR-B6."""

from collections.abc import Iterator

import numpy as np

from lowrank_jax.theory.bol import blocks
from lowrank_jax.verify.bol.matrices import (
    Rng,
    Shape,
    batched,
    matrices,
    problems,
    scales,
    steps,
)
from lowrank_jax.verify.statement import Certify, Effort, Found, proved

__all__: list[str] = []
__dir__ = __all__.copy


def _lengths(stacks: np.ndarray) -> np.ndarray:
    """Return the Frobenius norm of each stack: (num, 1, 1)."""
    return np.linalg.norm(stacks.reshape(len(stacks), -1), axis=1)[:, None, None]


def _blocks(rng: Rng, num: int, shape: Shape, parts: int = 3) -> np.ndarray:
    """Return stacks of blocks of one scale per stack: (num, parts, m, n)."""
    every = matrices(rng, num * parts, shape)
    sizes = np.linalg.norm(every, axis=(1, 2), keepdims=True)
    every = every / np.where(sizes == 0, 1, sizes)
    every = every * rng.uniform(0, 1, (num * parts, 1, 1))
    return every.reshape(num, parts, *shape) * scales(rng, num)[..., None]


@proved(
    "DR-B6: rescaling",
    "(i) least |a|^2 |b|^2 / 2 over rescalings is (sum |W_k|_F)^2 / 2",
    blocks.rescaling_certificate,
)
def _rescalings(certify: Certify, effort: Effort) -> Iterator[Found]:
    certify = batched(certify)
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


@proved(
    "DR-B6: group lasso",
    "(i) its conjugate is max s1(T_k)^2 / 2, at one block",
    blocks.block_conjugate_certificate,
    powers=(1.0,),
)
@proved(
    "DR-B6: separable",
    "(ii) sum |W_k|_F^2 / 2 <-> sum s1(T_k)^2 / 2, gradient, biconjugate",
    blocks.block_conjugate_certificate,
    powers=(2.0,),
)
def _family(
    certify: Certify, effort: Effort, *, powers: tuple[float, ...]
) -> Iterator[Found]:
    """Yield trials of conjugate, subgradient and biconjugate for each q."""
    for power in powers:
        for rng, num, shape in problems(effort):
            case, q = f"q = {power:g} {shape}", np.full(num, power)
            thetas, others = (_blocks(rng, num, shape) for _ in range(2))
            best = batched(blocks.block_attained_certificate)(thetas, power=q)
            yield Found(best, f"best {case}")
            sizes = _lengths(thetas)
            left, right = (rng.normal(size=(num, 3, side)) for side in shape)
            left = left * sizes * 10 ** rng.uniform(-3, 0, (num, 3, 1))
            found = batched(certify)(left, right, thetas, power=q)
            yield Found(found, f"any factors {case}")
            lengths = _lengths(others)
            others = others * (sizes / np.where(lengths, lengths, 1))[..., None]
            slope = batched(blocks.block_subgradient_certificate)
            yield Found(slope(thetas, others, power=q), f"subgradient {case}")
            least = batched(blocks.block_maximiser)(others, power=q)
            dual = batched(blocks.block_biconjugate_certificate)
            yield Found(dual(others, least, power=q), f"maximiser {case}")
            yield Found(dual(others, thetas, power=q), f"any {case}")


@proved(
    "DR-B6: gradient",
    "(ii) gradient is blockdiag(s1 u1 v1')",
    blocks.block_gradient_certificate,
)
def _gradients(certify: Certify, effort: Effort) -> Iterator[Found]:
    for rng, num, shape in problems(effort):
        yield Found(batched(certify)(_blocks(rng, num, shape)), f"{shape}")


@proved(
    "DR-B6: segment",
    "(ii) remainder <= sum |E_k|_F^2 / (2 (1 - s2/s1)) over the blocks",
    blocks.block_second_order_certificate,
)
def _segments(certify: Certify, effort: Effort) -> Iterator[Found]:
    certify = batched(certify, num_points=17 if effort.is_quick else 65)
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
            yield Found(certify(theta, move), f"{shape}")


@proved(
    "DR-B6: q and p",
    "(iii) (sum |W_k|_F^q)^(2/q) / 2 <-> (sum s1(T_k)^p)^(2/p) / 2",
    blocks.block_conjugate_certificate,
)
def _between(certify: Certify, effort: Effort) -> Iterator[Found]:
    return _family(certify, effort, powers=(1.25, 1.5))
