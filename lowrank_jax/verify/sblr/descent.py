"""How far a sweep of SBLR's Algorithm 2 descends (SBLR-Eq17 to Eq23, DR-S3)."""

from collections.abc import Iterator

import jax

from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.theory.sblr import descent
from lowrank_jax.verify.sblr.ends import Run, on_sweeps
from lowrank_jax.verify.statement import Certify, Effort, Found, fails, proved, tried

__all__: list[str] = []
__dir__ = __all__.copy


@proved(
    "SBLR-Eq17",
    "F falls by L_min / 2 times the squared steps",
    descent.decrease_certificate,
)
@tried(on_sweeps)
def _decrease(certify: Certify, run: Run) -> Certificate:
    return certify(run.sweeps, run.problem.least)


@proved(
    "DR-S3: steps",
    "F falls by (L_u + mu_2) / 2 |dU|^2 + ... + L_v / 2 q^2",
    descent.tight_decrease_certificate,
)
@tried(on_sweeps)
def _tight_decrease(certify: Certify, run: Run) -> Certificate:
    strengths = run.problem.strengths
    return certify(run.sweeps, strengths.mu2, strengths.nu2)


@proved(
    "DR-S3: move",
    "F falls by L_min / (3 + sqrt 5) (|dW|^2 + q^2)",
    descent.move_decrease_certificate,
    is_tight=False,
)
@tried(on_sweeps)
def _move(certify: Certify, run: Run) -> Certificate:
    return certify(run.sweeps, run.problem.least)


@fails(
    "SBLR-T4.1: printed",
    "the sum of the squared steps is at most F_0 - F_N",
    descent.square_sum_certificate,
)
@tried(on_sweeps)
def _printed_sum(certify: Certify, run: Run) -> Certificate:
    return certify(run.sweeps, 1.0)


@proved(
    "SBLR-T4.1: corrected",
    "L_min / 2 times the sum of the squared steps is at most F_0 - F_N",
    descent.square_sum_certificate,
)
@tried(on_sweeps)
def _sum(certify: Certify, run: Run) -> Certificate:
    return certify(run.sweeps, run.problem.least / 2)


@fails(
    "SBLR-T4.2: printed",
    "(p + q)^2 + q^2 <= 2 (p^2 + q^2): Eq17 gives L_min / 4",
    descent.split_certificate,
    constant=2.0,
)
@proved(
    "SBLR-T4.2: corrected",
    "(p + q)^2 + q^2 <= (3 + sqrt 5) / 2 (p^2 + q^2)",
    descent.split_certificate,
    constant=descent.SPLIT_CONSTANT,
)
def _split(certify: Certify, effort: Effort, *, constant: float) -> Iterator[Found]:
    """Yield trials of how the offset's two steps add up."""
    rng, number = effort.generator(51), effort.trials(2000, 100000)
    drawn = rng.normal(size=(2, number)) * 10.0 ** rng.uniform(-8, 8, (2, number))
    drawn[:, 0] = 1, 1
    drawn[:, 1] = 1, (1 + 5**0.5) / 2
    found = jax.jit(certify)(*drawn, constant)
    yield Found(found, "random, p = q, and q / p the golden ratio")


@proved(
    "SBLR-Eq22: corrected",
    "dist(0, dF) is at most the subgradient a sweep leaves, with L_v for b",
    descent.optimality_certificate,
)
@proved(
    "SBLR-Eq23",
    "dist(0, dF) <= (3 L_G + 2 L_max) (|dW| + |q|)",
    descent.subgradient_certificate,
    is_tight=False,
)
@tried(on_sweeps)
def _subgradient(certify: Certify, run: Run) -> Certificate:
    few = run.few
    return certify(few, run.problem.labelled, run.stationarity[: len(few.half_bias)])
