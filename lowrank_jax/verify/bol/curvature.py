"""BOL: second derivatives of the conjugate and the bounds they give."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.theory.bol import curvature, smoothness
from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.verify.bol.matrices import (
    Rng,
    Shape,
    batched,
    matrices,
    orthonormal,
    scales,
    separated,
    shapes,
    worst_direction,
)
from lowrank_jax.verify.statement import Effort, Found, Statement, Status

__all__ = ["CURVATURE", "Check", "row", "steps"]

Check = Callable[[Effort], Iterator[Found]]


def _hessian_shapes(effort: Effort, rank: int = 1) -> tuple[Shape, ...]:
    if effort.is_quick:
        return ((4, 3),)
    every: tuple[Shape, ...] = ((4, 3), (3, 4), (3, 3), (2, 5), (1, 4), (1, 1))
    return tuple(shape for shape in every if min(shape) >= rank)


def _spectral(rng: Rng, num: int, shape: Shape, least: float = 1e-3) -> np.ndarray:
    """Return matrices with distinct singular values, of all scales."""
    left, values, right = separated(rng, num, shape, least=least)
    return (left * values[:, None]) @ right.transpose(0, 2, 1) * scales(rng, num)


def _hessians(function: Callable[..., Any], field: str, **static: int) -> Check:
    """Make the check of one of a function's statements, on distinct singular values."""

    def check(effort: Effort) -> Iterator[Found]:
        rng = effort.generator(1)
        for shape in _hessian_shapes(effort, static.get("rank", 1)):
            if static.get("place", 0) < min(shape):
                thetas = _spectral(rng, effort.trials(60, 1500), shape)
                found = getattr(batched(function, **static)(thetas), field)
                yield Found(found, f"distinct {shape[0]}x{shape[1]}")

    return check


def hessian_forms(rank: int) -> Check:
    """Make the check of the quadratic form, with ties among the other values."""

    def check(effort: Effort) -> Iterator[Found]:
        rng = effort.generator(2)
        certify = batched(curvature.hessian_form_certificate, rank=rank)
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

    return check


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


def segments(rank: int = 1, *, is_printed: bool = False) -> Check:
    """Make the check of the bound along the segment."""

    def check(effort: Effort) -> Iterator[Found]:
        rng = effort.generator(3)
        certify = batched(
            smoothness.second_order_certificate,
            rank=rank,
            num_points=17 if effort.is_quick else 129,
        )
        for shape in shapes(effort):
            if min(shape) > rank or (rank == 1 and not is_printed):
                num = effort.trials(400, 1500)
                for thetas, moves, case in steps(rng, num, shape, rank=rank):
                    flags = np.full(num, is_printed)
                    found = certify(thetas, moves, is_printed=flags)
                    yield Found(found, f"{case} {shape}")

    return check


def _neighbourhood(effort: Effort) -> Iterator[Found]:
    rng = effort.generator(4)
    certify = batched(smoothness.neighbourhood_certificate)
    for shape in shapes(effort):
        for thetas, moves, case in steps(rng, effort.trials(500, 5000), shape):
            yield Found(certify(thetas, moves), f"{case} {shape}")


def _origin(effort: Effort) -> Iterator[Found]:
    rng = effort.generator(5)
    for shape in shapes(effort):
        moves = matrices(rng, effort.trials(500, 5000), shape)
        yield Found(batched(smoothness.origin_certificate)(moves), f"any {shape}")


def _schatten_of(
    theta: jax.Array, step: jax.Array, powers: jax.Array, *, is_printed: jax.Array
) -> Certificate:
    return smoothness.schatten_certificate(
        theta, step, power=powers[0], step_power=powers[1], is_printed=is_printed
    )


def _schatten(
    powers: tuple[float, ...], *, is_dual: bool, is_printed: bool = False
) -> Check:
    """Make the check for some p; the norm of E is that of p or that of its dual."""

    def check(effort: Effort) -> Iterator[Found]:
        rng = effort.generator(6)
        num = effort.trials(400, 4000)
        flags = np.full(num, is_printed)
        certify = functools.partial(batched(_schatten_of), is_printed=flags)
        power = np.resize(powers, num)
        both = np.stack([power, power / (power - 1) if is_dual else power], axis=1)
        for shape in shapes(effort):
            thetas = matrices(rng, num, shape)
            sizes = np.linalg.norm(thetas, axis=(1, 2), keepdims=True)
            moves = sizes * 10 ** rng.uniform(-3, 1, (num, 1, 1))
            moves = moves * rng.normal(size=thetas.shape)
            yield Found(certify(thetas, moves, both), f"random {shape}")
            # Where the constant is attained: a tied matrix, signs that cancel.
            size = min(shape) // 2 * 2
            if size:
                left, right = (orthonormal(rng, num, side, size) for side in shape)
                lengths = 10 ** rng.uniform(-3, -0.5, (num, 1, 1))
                signs = np.where(np.arange(size) % 2, -1, 1) * lengths
                right = right.transpose(0, 2, 1)
                found = certify(left @ right, (left * signs) @ right, both)
                yield Found(found, f"signs {shape}")

    return check


def _pencil(parameters: jax.Array, point: jax.Array) -> jax.Array:
    """A symmetric matrix, quadratic in the point."""
    size = point.shape[0]
    constant, linear = parameters[0], parameters[1 : 1 + size]
    quadratic = parameters[1 + size :].reshape(size, size, *constant.shape)
    raw = constant + jnp.einsum("x,xij->ij", point, linear)
    raw = raw + jnp.einsum("x,u,xuij->ij", point, point, quadratic)
    return (raw + raw.T) / 2


def _eigenvalue_hessian(
    parameters: jax.Array, point: jax.Array, *, place: int
) -> Certificate:
    return curvature.eigenvalue_hessian_certificate(
        lambda at: _pencil(parameters, at), point, place=place
    )


def _eigenvalues(effort: Effort) -> Iterator[Found]:
    rng = effort.generator(7)
    num, num_points = effort.trials(100, 2000), 3
    for size, place in ((4, 1),) if effort.is_quick else ((4, 1), (3, 0), (5, 4)):
        shape = (num, 1 + num_points + num_points**2, size, size)
        parameters = rng.normal(size=shape) * scales(rng, num)[..., None]
        points = rng.normal(size=(num, num_points))
        found = batched(_eigenvalue_hessian, place=place)(parameters, points)
        yield Found(found, f"pencil {size}x{size}, eigenvalue {place + 1}")


def _values(field: str) -> Check:
    """Make the check of a statement on the Hessian of each singular value."""

    def check(effort: Effort) -> Iterator[Found]:
        function = curvature.singular_value_certificates
        for place in range(effort.trials(1, 3)):
            yield from _hessians(function, field, place=place)(effort)

    return check


def row(
    id: str,
    words: str,
    function: str,
    check: Check,
    form: str = "",
    *,
    fails: bool = False,
    is_tight: bool = True,
) -> Statement:
    """Write one row of the table.

    Args:
      id: of the statement.
      words: what it says.
      function: its name below `lowrank_jax.theory`.
      check: makes the trials.
      form: of several of one id.
      fails: whether it is a printed form that must fail.
      is_tight: whether some trial attains it.
    """
    status: Status = "printed-form-fails" if fails else "proved"
    name = f"lowrank_jax.theory.{function}"
    return Statement(id, words, status, name, check, is_tight, form)


_POWERS = (2.0, 3.0, 4.0, 8.0)
_HALF = "F(T+E) - F(T) - <grad, E> <= |E|_F^2"

CURVATURE = (
    row(
        "BOL-P3",
        f"{_HALF} 2l / (1 - s2/s1) at a point of the segment",
        "smoothness.second_order_certificate",
        segments(is_printed=True),
        "printed",
        is_tight=False,
    ),
    row(
        "DR-B2",
        f"{_HALF} / (2 (1 - s2/s1)), s1 > s2 on the segment",
        "smoothness.second_order_certificate",
        segments(),
        "segment",
    ),
    row(
        "DR-B2",
        f"{_HALF} (s1 + |E|_2) / (2 (s1 - s2 - 2 |E|_2)), |E|_2 < (s1 - s2)/2",
        "smoothness.neighbourhood_certificate",
        _neighbourhood,
        "neighbourhood",
    ),
    row(
        "DR-B2",
        "F(E) <= |E|_F^2 / 2 from T = 0",
        "smoothness.origin_certificate",
        _origin,
        "origin",
    ),
    row(
        "BOL-N6",
        "|T+E|_p^2/2 <= |T|_p^2/2 + <grad |T|_p, E> + (p-1) |E|_q^2 / 2",
        "smoothness.schatten_certificate",
        _schatten(_POWERS, is_dual=True, is_printed=True),
        "printed",
        fails=True,
    ),
    row(
        "BOL-N6",
        "|T+E|_p^2/2 <= |T|_p^2/2 + <grad |T|_p^2/2, E> + (p-1) |E|_q^2 / 2",
        "smoothness.schatten_certificate",
        _schatten(_POWERS[1:], is_dual=True),
        "printed norm",
        is_tight=False,
    ),
    row(
        "BOL-N6",
        "|T+E|_p^2/2 <= |T|_p^2/2 + <grad |T|_p^2/2, E> + (p-1) |E|_p^2 / 2",
        "smoothness.schatten_certificate",
        _schatten(_POWERS, is_dual=False),
        "corrected",
    ),
    row(
        "BOL-P7",
        "Hessian of an eigenvalue = the sum over the other eigenvectors",
        "curvature.eigenvalue_hessian_certificate",
        _eigenvalues,
    ),
    row(
        "BOL-C8",
        "Hessian of s_d = C + D/s_d, second factor of D as printed",
        "curvature.singular_value_certificates",
        _values("printed_hessian"),
        "printed",
        fails=True,
    ),
    row(
        "BOL-C8",
        "Hessian of s_d = C + D/s_d, D symmetric",
        "curvature.singular_value_certificates",
        _values("hessian"),
        "corrected",
    ),
    row(
        "BOL-C8",
        "Tr D = l + sum (s_d^2 + s_s^2) / (s_d^2 - s_s^2)",
        "curvature.singular_value_certificates",
        _values("printed_trace"),
        "printed trace",
        fails=True,
    ),
    row(
        "BOL-C8",
        "Tr D = max(m, n) + sum (s_d^2 + s_s^2) / (s_d^2 - s_s^2)",
        "curvature.singular_value_certificates",
        _values("trace"),
        "corrected trace",
    ),
    row(
        "DR-B1",
        "quadratic form of the Hessian of F in the basis of the SVD",
        "curvature.hessian_form_certificate",
        hessian_forms(1),
        "form",
    ),
    row(
        "DR-B1",
        "its eigenvalues: 1, s1/(s1-s_s), s1/(s1+s_s), 1 |m-n| times, 0",
        "curvature.hessian_certificates",
        _hessians(curvature.hessian_certificates, "spectrum", rank=1),
        "eigenvalues",
    ),
    row(
        "DR-B1",
        "its largest eigenvalue: 1 / (1 - s2/s1)",
        "curvature.hessian_certificates",
        _hessians(curvature.hessian_certificates, "largest", rank=1),
        "largest",
    ),
    row(
        "DR-B1",
        "its trace: 1 + |m-n| + sum 2 s1^2 / (s1^2 - s_s^2)",
        "curvature.hessian_certificates",
        _hessians(curvature.hessian_certificates, "trace", rank=1),
        "trace",
    ),
    row(
        "DR-B5",
        "quadratic form of the Hessian of F_k",
        "curvature.hessian_form_certificate",
        hessian_forms(2),
        "form",
    ),
    row(
        "DR-B5",
        "eigenvalues of the Hessian of F_k",
        "curvature.hessian_certificates",
        _hessians(curvature.hessian_certificates, "spectrum", rank=2),
        "eigenvalues",
    ),
    row(
        "DR-B5",
        "largest eigenvalue of the Hessian of F_k: 1 / (1 - s_{k+1}/s_k)",
        "curvature.hessian_certificates",
        _hessians(curvature.hessian_certificates, "largest", rank=2),
        "largest",
    ),
    row(
        "DR-B5",
        "F_k: remainder <= |E|_F^2 / (2 (1 - s_{k+1}/s_k)) on the segment",
        "smoothness.second_order_certificate",
        segments(2),
        "segment",
    ),
)
