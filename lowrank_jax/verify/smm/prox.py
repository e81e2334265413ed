"""SMM's statements on proximal maps, and their trials."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.batch.smm.penalties import proximal_step
from lowrank_jax.linalg.svt import svt
from lowrank_jax.linalg.ties import average_ties, tied_objective, tied_prox
from lowrank_jax.models.hankel import tie_groups
from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.theory.smm import splitting
from lowrank_jax.verify.statement import Certify, Effort, Found, fails, proved, tried

__all__: list[str] = []
__dir__ = __all__.copy


def _matrices(effort: Effort) -> dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]:
    """Draw matrices and thresholds: all scales, zeros, equal singular values."""
    rng = effort.generator(24)
    number = effort.trials(400, 2000)
    shapes = ((4, 2),) if effort.is_quick else ((1, 1), (1, 5), (3, 3), (7, 3))
    drawn = {}
    for shape in shapes:
        matrices = rng.normal(size=(number, *shape))
        left, values, right = np.linalg.svd(matrices, full_matrices=False)
        matrices[::5] = 2 * (left @ right)[::5]  # all singular values 2
        values[::5] = 2
        shares = rng.choice([0, 0.01, 0.3, 0.9, 1, 2], number)
        thresholds = shares * values[:, 0]
        scales = 10.0 ** rng.integers(-8, 9, number)
        matrices *= scales[:, None, None]
        matrices[1] = 0
        drawn[shape] = matrices, thresholds * scales
    return drawn


class _Drawn(NamedTuple):
    """Matrices of one shape, a threshold and others to compare with."""

    matrix: Any  # (number, m, n)
    threshold: Any  # (number,)
    noise: Any  # (number, m, n)
    share: Any  # (number,)


@functools.lru_cache
def _drawn(effort: Effort) -> dict[tuple[int, int], _Drawn]:
    rng, found = effort.generator(25), {}
    for shape, (matrices, thresholds) in _matrices(effort).items():
        size = np.abs(matrices).max((1, 2), keepdims=True)
        noise = size * 10.0 ** rng.integers(-3, 2, size.shape)
        noise = noise * rng.normal(size=matrices.shape)
        shares = rng.choice([0, 0.5, 0.99, 1.01, 3], len(matrices))
        found[shape] = _Drawn(matrices, thresholds, noise, shares)
    return found


def _on_matrices(
    one: Callable[[_Drawn], dict[str, Certificate]], effort: Effort
) -> Iterator[Found]:
    """Yield the certificates of a function of one matrix, by case."""
    program = jax.jit(jax.vmap(one))
    for shape, drawn in _drawn(effort).items():
        for case, found in program(drawn).items():
            yield Found(found, f"{shape}, {case}")


def _svt(matrix: jax.Array, threshold: jax.Array) -> jax.Array:
    return svt(matrix, threshold, method="svd").matrix


def _half(certify: Certify, drawn: _Drawn, share: float) -> Certificate:
    """Hold SVT against the problem without 1/2."""
    found = _svt(drawn.matrix, share * drawn.threshold)
    return certify(drawn.matrix, found, drawn.threshold, quadratic=1.0)


def _step(
    certify: Certify, drawn: _Drawn, penalty: str, method: str = "gram"
) -> Certificate:
    """Hold the learner's proximal step against the minimum of its problem."""
    matrix, threshold = drawn.matrix, drawn.threshold
    moved = proximal_step(
        penalty,
        (matrix,),
        (threshold,),
        jnp.ones_like(threshold),
        (jnp.zeros((matrix.shape[1], 0), matrix.dtype),),
        num_steps=1,
        method=method,
    )
    return certify(matrix, moved.params[0], threshold, penalty=penalty)


@fails(
    "SMM-N6: printed",
    "SVT with threshold eta tau solves min ||H - Z||^2 + eta tau ||H||_*",
    splitting.prox_certificate,
)
@tried(_on_matrices)
def _printed(certify: Certify, drawn: _Drawn) -> dict[str, Certificate]:
    return {"the problem without 1/2": _half(certify, drawn, 1.0)}


@proved(
    "SMM-N6: corrected",
    "SVT with threshold t solves min ||H - Z||^2 / 2 + t ||H||_*",
    splitting.prox_certificate,
)
@tried(_on_matrices)
def _corrected(certify: Certify, drawn: _Drawn) -> dict[str, Certificate]:
    half = _half(certify, drawn, 0.5)
    return {
        "through the Gram matrix": _step(certify, drawn, "nuclear"),
        "through the SVD": _step(certify, drawn, "nuclear", "svd"),
        "the problem without 1/2, half the threshold": half,
    }


@proved(
    "SMM-N6: growth",
    "any other matrix costs more than SVT(Z) by half its squared distance",
    splitting.prox_growth_certificate,
)
@tried(_on_matrices)
def _growth(certify: Certify, drawn: _Drawn) -> dict[str, Certificate]:
    matrix, threshold, noise, share = drawn
    found = _svt(matrix, threshold)
    return {
        "random perturbations": certify(matrix, found, found + noise, threshold),
        "multiples of the solution": certify(matrix, found, share * found, threshold),
    }


@proved(
    "SMM-N6: non-expansive",
    "SVT is (firmly) non-expansive",
    splitting.non_expansive_certificate,
)
@tried(_on_matrices)
def _non_expansive(certify: Certify, drawn: _Drawn) -> dict[str, Certificate]:
    matrix, threshold, noise, _ = drawn
    moved = (_svt(z, threshold) for z in (matrix, noise))
    return {"two matrices": certify(matrix, noise, *moved)}


@proved(
    "SMM-B2: norm",
    "H [1 - t / ||H||_F]_+ is the proximal map of t ||H||_F",
    splitting.prox_certificate,
)
@tried(_on_matrices)
def _norm(certify: Certify, drawn: _Drawn) -> dict[str, Certificate]:
    return {"the norm": _step(certify, drawn, "frobenius")}


@proved(
    "SMM-B2: squared",
    "H / (1 + t) is the proximal map of t ||H||_F^2 / 2",
    splitting.prox_certificate,
)
@tried(_on_matrices)
def _squared(certify: Certify, drawn: _Drawn) -> dict[str, Certificate]:
    return {"half the square": _step(certify, drawn, "squared_frobenius")}


class _Ties(NamedTuple):
    projected: jax.Array  # (N,) objective
    solved: jax.Array  # (N,)
    bound: jax.Array  # (N,)
    others: jax.Array  # (N,) of a tied matrix near the solution


@functools.lru_cache
def _ties(effort: Effort) -> _Ties:
    rng = effort.generator(26)
    number = effort.trials(40, 400)
    groups = jnp.asarray(tie_groups(2))

    def one(inputs: tuple) -> _Ties:
        matrix, threshold, noise = inputs
        rough, exact = (
            tied_prox(matrix, groups, threshold, method=method)
            for method in ("projection", "admm")
        )
        other = exact.matrix + average_ties(noise, groups)
        near = tied_objective(other, matrix, threshold)
        return _Ties(rough.objective, exact.objective, exact.lower_bound, near)

    matrices = rng.normal(size=(number, 7, 3))
    thresholds = rng.uniform(0.1, 2, number)
    noise = rng.normal(size=matrices.shape) * 10.0 ** rng.integers(
        -3, 1, (number, 1, 1)
    )
    run = jax.jit(lambda inputs: jax.lax.map(one, inputs))
    return jax.device_get(run((matrices, thresholds, noise)))


@fails(
    "SMM-X2: printed",
    "SVT and then the mean of tied entries solves the tied problem",
    splitting.tied_certificate,
)
def _projection(certify: Certify, effort: Effort) -> Iterator[Found]:
    ties = _ties(effort)
    found = jax.jit(certify)(ties.projected, ties.solved)
    yield Found(found, "projection against ADMM")


@proved(
    "SMM-X2: corrected",
    "ADMM solves the tied problem, to its tolerance, and bounds its minimum",
    splitting.tied_certificate,
)
def _tied(certify: Certify, effort: Effort) -> Iterator[Found]:
    ties = _ties(effort)
    check = jax.jit(certify, static_argnames="tolerance")
    # The method stops at a relative residual of 1e-6.
    found = check(ties.solved, ties.bound, tolerance=1e-4)
    yield Found(found, "ADMM against its lower bound")
    yield Found(check(ties.bound, ties.others), "the bound against tied matrices")
    found = check(ties.solved, ties.projected, tolerance=1e-4)
    yield Found(found, "ADMM against the projection")
