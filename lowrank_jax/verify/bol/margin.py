"""Margins of BOL (BOL-D1, P5, C6, DR-B7)."""

import jax.numpy as jnp

from lowrank_jax.theory.bol import margin
from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.verify.bol.studies import Pool, on_pools
from lowrank_jax.verify.statement import Certify, fails, proved, tried

__all__: list[str] = []
__dir__ = __all__.copy


@proved(
    "BOL-D1",
    "margin = 1/|W|_s(1) where W is scaled to min <W, dPhi> = 1",
    margin.margin_of_scaled,
)
@tried(on_pools)
def _scaled(certify: Certify, pool: Pool) -> Certificate:
    return certify(pool.weights, pool.deltas)


@proved(
    "BOL-P5: ratio",
    "s2/s1 <= (M2 - gamma)/gamma on every segment",
    margin.ratio_bound,
)
@tried(on_pools)
def _ratio(certify: Certify, pool: Pool) -> Certificate:
    before, pushes = pool.run.before, pool.step * pool.run.deltas
    at = jnp.array([0.0, 0.3, 1.0]).astype(pushes.dtype)[:, None, None, None]
    points = before[None] + at * pushes[None]
    return certify(points.reshape(-1, *pool.weights.shape), pool.separated)


@proved(
    "BOL-P5: range of gamma",
    "gamma <= inf |dPhi|_2, which is at most M1",
    margin.margin_within_least_norm,
)
@tried(on_pools)
def _least(certify: Certify, pool: Pool) -> Certificate:
    return certify(pool.separated)


@proved(
    "BOL-P5: tied features",
    "a dPhi with s1 = s2, as blocks have: gamma <= M2/2, the assumption fails",
    margin.tied_features,
)
@tried(on_pools)
def _tied(certify: Certify, pool: Pool) -> Certificate:
    return certify(pool.weights, pool.deltas)


@proved(
    "BOL-C6: printed",
    "mean regret <= |U|_F^2/2CN + 2 C l^2 M1^2 gamma/(2 gamma - M2)",
    margin.corollary,
    is_tight=False,
)
@tried(on_pools)
def _corollary(certify: Certify, pool: Pool) -> Certificate:
    info = pool.run.info
    others = jnp.where(info.is_mistake[None], pool.us.losses, 0).sum(1)
    return certify(
        info.loss.sum() - others,
        pool.separated,
        step_size=pool.step,
        num_rounds=jnp.maximum(pool.num_mistakes, 1),
        num_values=min(pool.weights.shape),
        comparator_energy=pool.us.energy,
    )


@fails(
    "BOL-C6: remark, printed",
    "remark: gamma > M2/2 if and only if |W|_s(1) < M2/2",
    margin.threshold,
    only=("one mistake",),
)
@tried(on_pools)
def _printed_threshold(certify: Certify, pool: Pool) -> Certificate:
    return certify(pool.weights, pool.deltas, is_printed=True)


@proved(
    "BOL-C6: remark, corrected",
    "remark: gamma > M2/2 if and only if |W|_s(1) < 2/M2",
    margin.threshold,
)
@tried(on_pools)
def _threshold(certify: Certify, pool: Pool) -> Certificate:
    return certify(pool.weights, pool.deltas)


@proved(
    "BOL-C6: remark, gap",
    "remark: s1 - s2 >= delta for all dPhi gives M1 - M2/2 >= delta/2",
    margin.gap_is_enough,
)
@tried(on_pools)
def _gap(certify: Certify, pool: Pool) -> Certificate:
    return certify(pool.deltas)


@proved(
    "DR-B7: mistakes",
    "M <= max |dPhi|_F^2/(gamma (2 gamma - M2))",
    margin.mistake_bound,
)
@tried(on_pools)
def _mistakes(certify: Certify, pool: Pool) -> Certificate:
    return certify(pool.num_mistakes, pool.separated)


@proved(
    "DR-B7: sandwich, below",
    "M^2 gamma^2/2 <= F*(Theta_M)",
    margin.conjugate_below,
)
@proved(
    "DR-B7: sandwich, above",
    "F*(Theta_M) <= (M/2) max |dPhi|_F^2 gamma/(2 gamma - M2)",
    margin.conjugate_above,
)
@tried(on_pools)
def _sandwich(certify: Certify, pool: Pool) -> Certificate:
    return certify(pool.num_mistakes, pool.unit_conjugate, pool.separated)
