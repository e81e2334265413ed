"""BOL: second derivatives of the conjugate and the bounds they give."""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.theory.bol import curvature, smoothness
from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.verify.bol.matrices import (
    Shape,
    batched,
    matrices,
    orthonormal,
    scales,
    separated,
    shapes,
    steps,
    worst_direction,
)
from lowrank_jax.verify.statement import Certify, Effort, Found, fails, proved

__all__ = ["hessian_forms", "hessians", "segments"]
__dir__ = __all__.copy

_POWERS = (2.0, 3.0, 4.0, 8.0)
_HALF = "F(T+E) - F(T) - <grad, E> <= |E|_F^2"


@proved(
    "BOL-P3: printed",
    f"{_HALF} 2l / (1 - s2/s1) at a point of the segment",
    smoothness.second_order_certificate,
    is_tight=False,
    is_printed=True,
)
@proved(
    "DR-B2: segment",
    f"{_HALF} / (2 (1 - s2/s1)), s1 > s2 on the segment",
    smoothness.second_order_certificate,
)
def segments(
    certify: Certify, effort: Effort, *, rank: int = 1, is_printed: bool = False
) -> Iterator[Found]:
    """Yield trials of the bound along a segment."""
    rng, num = effort.generator(3), effort.trials(400, 1500)
    num_points = 17 if effort.is_quick else 129
    certify = batched(certify, rank=rank, num_points=num_points)
    for shape in shapes(effort):
        if min(shape) > rank or (rank == 1 and not is_printed):
            for thetas, moves, case in steps(rng, num, shape, rank=rank):
                found = certify(thetas, moves, is_printed=np.full(num, is_printed))
                yield Found(found, f"{case} {shape}")


@proved(
    "DR-B2: neighbourhood",
    f"{_HALF} (s1 + |E|_2) / (2 (s1 - s2 - 2 |E|_2)), |E|_2 < (s1 - s2)/2",
    smoothness.neighbourhood_certificate,
)
def _neighbourhood(certify: Certify, effort: Effort) -> Iterator[Found]:
    rng = effort.generator(4)
    for shape in shapes(effort):
        for thetas, moves, case in steps(rng, effort.trials(500, 5000), shape):
            yield Found(batched(certify)(thetas, moves), f"{case} {shape}")


@proved(
    "DR-B2: origin",
    "F(E) <= |E|_F^2 / 2 from T = 0",
    smoothness.origin_certificate,
)
def _origin(certify: Certify, effort: Effort) -> Iterator[Found]:
    rng = effort.generator(5)
    for shape in shapes(effort):
        moves = matrices(rng, effort.trials(500, 5000), shape)
        yield Found(batched(certify)(moves), f"any {shape}")


@fails(
    "BOL-N6: printed",
    "|T+E|_p^2/2 <= |T|_p^2/2 + <grad |T|_p, E> + (p-1) |E|_q^2 / 2",
    smoothness.schatten_certificate,
    powers=_POWERS,
    is_dual=True,
    is_printed=True,
)
@proved(
    "BOL-N6: printed norm",
    "|T+E|_p^2/2 <= |T|_p^2/2 + <grad |T|_p^2/2, E> + (p-1) |E|_q^2 / 2",
    smoothness.schatten_certificate,
    is_tight=False,
    powers=_POWERS[1:],
    is_dual=True,
)
@proved(
    "BOL-N6: corrected",
    "|T+E|_p^2/2 <= |T|_p^2/2 + <grad |T|_p^2/2, E> + (p-1) |E|_p^2 / 2",
    smoothness.schatten_certificate,
    powers=_POWERS,
    is_dual=False,
)
def _schatten(
    certify: Certify,
    effort: Effort,
    *,
    powers: tuple[float, ...],
    is_dual: bool,
    is_printed: bool = False,
) -> Iterator[Found]:
    """Yield trials for some p; E is measured in the norm of p or in its dual norm."""
    rng = effort.generator(6)
    num = effort.trials(400, 4000)
    power = np.resize(powers, num)
    certify = functools.partial(
        batched(certify),
        power=power,
        step_power=power / (power - 1) if is_dual else power,
        is_printed=np.full(num, is_printed),
    )
    for shape in shapes(effort):
        thetas = matrices(rng, num, shape)
        sizes = np.linalg.norm(thetas, axis=(1, 2), keepdims=True)
        moves = sizes * 10 ** rng.uniform(-3, 1, (num, 1, 1))
        moves = moves * rng.normal(size=thetas.shape)
        yield Found(certify(thetas, moves), f"random {shape}")
        # Where the constant is attained: a tied matrix, signs that cancel.
        size = min(shape) // 2 * 2
        if size:
            left, right = (orthonormal(rng, num, side, size) for side in shape)
            lengths = 10 ** rng.uniform(-3, -0.5, (num, 1, 1))
            signs = np.where(np.arange(size) % 2, -1, 1) * lengths
            right = right.transpose(0, 2, 1)
            found = certify(left @ right, (left * signs) @ right)
            yield Found(found, f"signs {shape}")


def _pencil(parameters: jax.Array, point: jax.Array) -> jax.Array:
    """Return a symmetric matrix, quadratic in the point."""
    size = point.shape[0]
    constant, linear = parameters[0], parameters[1 : 1 + size]
    quadratic = parameters[1 + size :].reshape(size, size, *constant.shape)
    raw = constant + jnp.einsum("x,xij->ij", point, linear)
    raw = raw + jnp.einsum("x,u,xuij->ij", point, point, quadratic)
    return (raw + raw.T) / 2


@proved(
    "BOL-P7",
    "Hessian of an eigenvalue = the sum over the other eigenvectors",
    curvature.eigenvalue_hessian_certificate,
)
def _eigenvalues(certify: Certify, effort: Effort) -> Iterator[Found]:
    def one(parameters: jax.Array, point: jax.Array, *, place: int) -> Certificate:
        return certify(lambda at: _pencil(parameters, at), point, place=place)

    rng = effort.generator(7)
    num, num_points = effort.trials(100, 2000), 3
    for size, place in ((4, 1),) if effort.is_quick else ((4, 1), (3, 0), (5, 4)):
        shape = (num, 1 + num_points + num_points**2, size, size)
        parameters = rng.normal(size=shape) * scales(rng, num)[..., None]
        points = rng.normal(size=(num, num_points))
        found = batched(one, place=place)(parameters, points)
        yield Found(found, f"pencil {size}x{size}, eigenvalue {place + 1}")


def _hessian_shapes(effort: Effort, rank: int = 1) -> tuple[Shape, ...]:
    if effort.is_quick:
        return ((4, 3),)
    every: tuple[Shape, ...] = ((4, 3), (3, 4), (3, 3), (2, 5), (1, 4), (1, 1))
    return tuple(shape for shape in every if min(shape) >= rank)


def hessians(
    certify: Certify, effort: Effort, *, field: str, **static: int
) -> Iterator[Found]:
    """Yield one of a function's certificates, on distinct singular values."""
    rng, num = effort.generator(1), effort.trials(60, 1500)
    for shape in _hessian_shapes(effort, static.get("rank", 1)):
        if static.get("place", 0) < min(shape):
            left, values, right = separated(rng, num, shape)
            thetas = (left * values[:, None]) @ right.transpose(0, 2, 1)
            found = batched(certify, **static)(thetas * scales(rng, num))
            yield Found(getattr(found, field), f"distinct {shape[0]}x{shape[1]}")


@fails(
    "BOL-C8: printed",
    "Hessian of s_d = C + D/s_d, second factor of D as printed",
    curvature.singular_value_certificates,
    field="printed_hessian",
)
@proved(
    "BOL-C8: corrected",
    "Hessian of s_d = C + D/s_d, D symmetric",
    curvature.singular_value_certificates,
    field="hessian",
)
@fails(
    "BOL-C8: printed trace",
    "Tr D = l + sum (s_d^2 + s_s^2) / (s_d^2 - s_s^2)",
    curvature.singular_value_certificates,
    field="printed_trace",
)
@proved(
    "BOL-C8: corrected trace",
    "Tr D = max(m, n) + sum (s_d^2 + s_s^2) / (s_d^2 - s_s^2)",
    curvature.singular_value_certificates,
    field="trace",
)
def _values(certify: Certify, effort: Effort, *, field: str) -> Iterator[Found]:
    for place in range(effort.trials(1, 3)):
        yield from hessians(certify, effort, field=field, place=place)


@proved(
    "DR-B1: form",
    "quadratic form of the Hessian of F in the basis of the SVD",
    curvature.hessian_form_certificate,
)
def hessian_forms(
    certify: Certify, effort: Effort, *, rank: int = 1
) -> Iterator[Found]:
    """Yield trials of the quadratic form, with ties among the other values."""
    rng = effort.generator(2)
    certify = batched(certify, rank=rank)
    num = effort.trials(100, 3000)
    for shape in _hessian_shapes(effort, rank):
        left, values, right = separated(rng, num, shape, least=1e-2)
        values[::2, rank:] = values[::2, rank : rank + 1]  # the others tied
        values[::4, rank:] = 0
        size = scales(rng, num)
        thetas = (left * values[:, None]) @ right.transpose(0, 2, 1) * size
        moves = rng.normal(size=thetas.shape)
        yield Found(certify(thetas, moves), f"tied {shape[0]}x{shape[1]}")
        if min(shape) > rank:
            moves = worst_direction(left, right, rank)
            yield Found(certify(thetas, moves), "worst direction")


@proved(
    "DR-B1: eigenvalues",
    "its eigenvalues: 1, s1/(s1-s_s), s1/(s1+s_s), 1 |m-n| times, 0",
    curvature.hessian_certificates,
    field="spectrum",
)
@proved(
    "DR-B1: largest",
    "its largest eigenvalue: 1 / (1 - s2/s1)",
    curvature.hessian_certificates,
    field="largest",
)
@proved(
    "DR-B1: trace",
    "its trace: 1 + |m-n| + sum 2 s1^2 / (s1^2 - s_s^2)",
    curvature.hessian_certificates,
    field="trace",
)
def _largest(certify: Certify, effort: Effort, *, field: str) -> Iterator[Found]:
    return hessians(certify, effort, field=field, rank=1)
