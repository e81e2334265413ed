"""BOL: the geometry of its mirror map, statement by statement."""

from collections.abc import Callable, Iterator

import numpy as np

from lowrank_jax.theory.bol import singular_pairs, spectral
from lowrank_jax.verify.bol.matrices import (
    Rng,
    Shape,
    batched,
    matrices,
    orthonormal,
    problems,
    scales,
    separated,
    shapes,
    steps,
)
from lowrank_jax.verify.statement import Certify, Effort, Found, fails, proved

__all__ = ["biconjugates", "conjugates", "gradients"]
__dir__ = __all__.copy


@proved(
    "BOL-P1",
    "conjugate of F_1 is s1^2 / 2: an upper bound, attained at s1 u1 v1'",
    spectral.conjugate_certificate,
)
def conjugates(certify: Certify, effort: Effort, *, rank: int = 1) -> Iterator[Found]:
    """Yield trials on any factors, on factors near the best, and on the best."""
    certify = batched(certify)
    for rng, num, shape in problems(effort, rank):
        thetas = matrices(rng, num, shape)
        sizes = np.sqrt(np.linalg.norm(thetas, axis=(1, 2), keepdims=True))
        left, right = (sizes * rng.normal(size=(num, side, rank)) for side in shape)
        yield Found(certify(left, right, thetas), f"any factors {shape}")
        u, s, v = np.linalg.svd(thetas, full_matrices=False)
        noise = 10 ** rng.uniform(-6, 0, (num, 1, 1)) * sizes**2
        left = u[:, :, :rank] * s[:, None, :rank]
        left = left + noise * rng.normal(size=left.shape)
        right = v[:, :rank].transpose(0, 2, 1)
        yield Found(certify(left, right, thetas), f"near the best {shape}")
        best = batched(spectral.attained_certificate, rank=rank)(thetas)
        yield Found(best, f"best {shape}")


@proved(
    "BOL-P2",
    "gradient of F_1* is s1 u1 v1', at 0 too; at ties s1 conv{u v'}",
    spectral.gradient_certificate,
)
def gradients(certify: Certify, effort: Effort, *, rank: int = 1) -> Iterator[Found]:
    """Compare with automatic differentiation, and with subgradients at ties."""
    slope = batched(spectral.subgradient_certificate, rank=rank)
    for rng, num, shape in problems(effort, rank):
        thetas = matrices(rng, num, shape)
        found = batched(certify, rank=rank)(thetas)
        yield Found(found, f"automatic differentiation {shape}")
        zeros = np.zeros_like(thetas)
        yield Found(slope(zeros, thetas, zeros), f"at 0 {shape}")
        for tied in range(rank, min(shape) + 1):
            yield _at_ties(slope, rng, num, shape, rank, tied)


def _at_ties(
    certify: Callable, rng: Rng, num: int, shape: Shape, rank: int, tied: int
) -> Found:
    """Try a subgradient where the places k to `tied` have the same value."""
    size = min(shape)
    left, right = (orthonormal(rng, num, side, size) for side in shape)
    values = np.sort(rng.uniform(0, 1, (num, size)), axis=1)[:, ::-1].copy()
    values[:, rank - 1 : tied] = values[:, rank - 1 : rank]
    scale = scales(rng, num)
    thetas = (left * values[:, None]) @ right.transpose(0, 2, 1) * scale
    # The tied space enters by a mean of projectors: S with trace 1 and no sign.
    roots = rng.normal(size=(num, tied - rank + 1, 2))
    inner = roots @ roots.transpose(0, 2, 1)
    inner /= np.trace(inner, axis1=1, axis2=2)[:, None, None]
    core = np.zeros((num, size, size))
    for place in range(rank - 1):
        core[:, place, place] = values[:, place]
    core[:, rank - 1 : tied, rank - 1 : tied] = values[:, rank - 1, None, None] * inner
    slopes = left @ core @ right.transpose(0, 2, 1) * scale
    lengths = scale * 10 ** rng.uniform(-4, 1, (num, 1, 1))
    others = thetas + lengths * rng.normal(size=thetas.shape)
    return Found(certify(thetas, others, slopes), f"{tied - rank + 1} tied {shape}")


@fails(
    "BOL-N2: printed",
    "T'T a -> u1, TT' b -> v1",
    singular_pairs.power_iteration_certificate,
    is_printed=True,
)
@proved(
    "BOL-N2: corrected",
    "TT' a -> u1, T'T b -> v1: tan of the angle <= (s2/s1)^2k tan at the start",
    singular_pairs.power_iteration_certificate,
)
def _power(
    certify: Certify, effort: Effort, *, is_printed: bool = False
) -> Iterator[Found]:
    num = effort.trials(450, 4500)
    certify = batched(certify, num_steps=3, is_printed=is_printed)
    if is_printed:
        swapped = np.array([[[0.0, 2.0], [1.0, 0.0]]])
        yield Found(certify(swapped, np.ones((1, 2))), "[[0, 2], [1, 0]]")
        return
    rng = effort.generator(11)
    for shape in shapes(effort):
        left, values, right = separated(rng, num, shape, least=1e-4)
        values = np.maximum(values, 0.05)  # or else one step leaves but rounding
        thetas = (left * values[:, None]) @ right.transpose(0, 2, 1)
        thetas = thetas * scales(rng, num)
        yield Found(certify(thetas, rng.normal(size=(num, shape[0]))), f"{shape}")
        plane = left[:, :, :2].sum(2)  # in the span of u_1 and u_2: attained
        yield Found(certify(thetas, plane), f"leading plane {shape}")


@fails(
    "BOL-N4: printed",
    "F_1** = |W|_2^2 / 2",
    spectral.biconjugate_certificate,
    is_printed=True,
)
@proved(
    "BOL-N4: corrected",
    "F_1** = |W|_s(1)^2 / 2: Fenchel-Young, attained; below F_1 on its hull",
    spectral.biconjugate_certificate,
)
def biconjugates(
    certify: Certify, effort: Effort, *, rank: int = 1, is_printed: bool = False
) -> Iterator[Found]:
    """Yield trials on the maximiser, on any pair, and on convex combinations."""
    certify = batched(certify, rank=rank)
    for rng, num, shape in problems(effort, rank):
        flags = np.full(num, is_printed)
        weights = matrices(rng, num, shape)
        best = batched(spectral.support_maximiser, rank=rank)(weights)
        yield Found(certify(weights, best, is_printed=flags), f"maximiser {shape}")
        if is_printed:
            continue
        noise = 10 ** rng.uniform(-4, 1, (num, 1, 1)) * np.linalg.norm(
            weights, axis=(1, 2), keepdims=True
        )
        thetas = np.asarray(best) + noise * rng.normal(size=weights.shape)
        yield Found(certify(weights, thetas, is_printed=flags), f"any {shape}")
        yield from _hulls(rng, num, shape, rank, weights)


def _hulls(
    rng: Rng, num: int, shape: Shape, rank: int, weights: np.ndarray
) -> Iterator[Found]:
    certify = batched(spectral.hull_certificate)
    parts = min(shape)
    left, right = (rng.normal(size=(num, parts, side, rank)) for side in shape)
    shares = rng.dirichlet(np.ones(parts), num)
    left = left * scales(rng, num)[..., None]
    yield Found(certify(left, right, shares), f"combinations {shape}")
    if rank == 1:  # the combination that attains the trace norm
        u, s, v = np.linalg.svd(weights, full_matrices=False)
        trace = s.sum(1)
        shares = s / np.where(trace == 0, 1, trace)[:, None]
        left = (u * trace[:, None, None]).transpose(0, 2, 1)[..., None]
        yield Found(certify(left, v[..., None], shares), f"best combination {shape}")


@fails(
    "BOL-Eq8: printed",
    "the map is u1 v1' of unit length",
    spectral.map_scale_certificate,
    is_printed=True,
)
@proved(
    "BOL-Eq8: corrected",
    "the map is s1 u1 v1'",
    spectral.map_scale_certificate,
)
def _map_scale(
    certify: Certify, effort: Effort, *, is_printed: bool = False
) -> Iterator[Found]:
    for rng, num, shape in problems(effort):
        thetas = matrices(rng, num, shape)
        flags = np.full(num, is_printed)
        yield Found(batched(certify)(thetas, is_printed=flags), f"{shape}")


@proved(
    "BOL-Eq8: unit loss",
    "on mistakes, if s1 >= 1, hinge of u1 v1' <= hinge of s1 u1 v1'",
    spectral.unit_loss_certificate,
)
def _unit_loss(certify: Certify, effort: Effort) -> Iterator[Found]:
    for rng, num, shape in problems(effort):
        thetas = matrices(rng, num, shape)
        sizes = np.linalg.norm(thetas, 2, axis=(1, 2), keepdims=True)
        thetas[::2] /= np.where(sizes == 0, 1, sizes)[::2] * (1 - 1e-12)
        differences = rng.normal(size=thetas.shape) * scales(rng, num)
        yield Found(batched(certify)(thetas, differences), f"{shape}")


@fails(
    "BOL-Eq9-12: printed",
    "the sparse updates are the power iteration, for any pair",
    singular_pairs.warm_start_certificate,
    is_printed=True,
)
@proved(
    "BOL-Eq9-12: corrected",
    "the sparse updates are the power iteration, for the exact pair",
    singular_pairs.warm_start_certificate,
)
def _warm(
    certify: Certify, effort: Effort, *, is_printed: bool = False
) -> Iterator[Found]:
    certify = batched(certify, num_sweeps=4)
    for rng, num, shape in problems(effort):
        thetas, moves, left, right = _pairs(rng, num, shape)
        if is_printed:  # the pair of the errata: 5 % off
            left = left + 0.05 * rng.normal(size=left.shape)
            left /= np.linalg.norm(left, axis=1, keepdims=True)
        flags = np.full(num, is_printed)
        found = certify(thetas, moves, left, right, is_printed=flags)
        yield Found(found, f"{'5 % off' if is_printed else 'exact pair'} {shape}")


@proved(
    "BOL-Eq9-12: error",
    "they differ by the pair's own error a - T b / s1, whatever the step",
    singular_pairs.warm_start_error_certificate,
)
def _warm_error(certify: Certify, effort: Effort) -> Iterator[Found]:
    for rng, num, shape in problems(effort):
        thetas, moves, left, right = _pairs(rng, num, shape)
        left, right = (part + rng.normal(size=part.shape) for part in (left, right))
        found = batched(certify)(thetas, moves, left, right)
        yield Found(found, f"any pair {shape}")


def _pairs(
    rng: Rng, num: int, shape: Shape
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return matrices, steps of up to half their size, and the leading pairs."""
    left, values, right = separated(rng, num, shape)
    size = scales(rng, num)
    thetas = (left * values[:, None]) @ right.transpose(0, 2, 1) * size
    moves = rng.normal(size=thetas.shape)
    lengths = np.linalg.norm(moves, 2, axis=(1, 2), keepdims=True)
    moves = moves / lengths * rng.uniform(0, 0.5, (num, 1, 1))  # nothing cancels
    return thetas, size * moves, left[:, :, 0], right[:, :, 0]


@fails(
    "BOL-Wedin: printed",
    "sine of the turn of u1, v1 <= |E|_2",
    singular_pairs.wedin_certificate,
    is_printed=True,
)
@proved(
    "BOL-Wedin: corrected",
    "sine of the turn of u1, v1 <= |E|_2 / (s1(T+E) - s2(T))",
    singular_pairs.wedin_certificate,
)
def _wedin(
    certify: Certify, effort: Effort, *, is_printed: bool = False
) -> Iterator[Found]:
    for rng, num, shape in problems(effort):
        flags = np.full(num, is_printed)
        for thetas, moves, case in steps(rng, num, shape):
            found = batched(certify)(thetas, moves, is_printed=flags)
            yield Found(found, f"{case} {shape}")


@fails(
    "BOL-Eq7s: printed",
    "least |ca|^2/2 + |b/c|^2/2 is |W|_F^2 / 2",
    spectral.slides_certificate,
    is_printed=True,
)
@proved(
    "BOL-Eq7s: corrected",
    "least |ca|^2/2 + |b/c|^2/2 is |W|_F",
    spectral.slides_certificate,
)
def _slides(
    certify: Certify, effort: Effort, *, is_printed: bool = False
) -> Iterator[Found]:
    certify = batched(certify)
    for rng, num, shape in problems(effort):
        left, right = (
            rng.normal(size=(num, side)) * scales(rng, num)[..., 0] for side in shape
        )
        best = np.sqrt(np.linalg.norm(right, axis=1) / np.linalg.norm(left, axis=1))
        flags = np.full(num, is_printed)
        yield Found(certify(left, right, best, is_printed=flags), f"balanced {shape}")
        others = best * 10 ** rng.uniform(-2, 2, num)
        yield Found(certify(left, right, others, is_printed=flags), f"any {shape}")
