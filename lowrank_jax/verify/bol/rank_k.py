"""BOL with penalties of rank k (DR-B5): the trials of rank 1, with k = 2."""

from collections.abc import Iterator

from lowrank_jax.theory.bol import curvature, smoothness, spectral
from lowrank_jax.verify.bol.curvature import hessian_forms, hessians, segments
from lowrank_jax.verify.bol.geometry import biconjugates, conjugates, gradients
from lowrank_jax.verify.statement import Certify, Check, Effort, Found, proved

__all__: list[str] = []
__dir__ = __all__.copy


@proved(
    "DR-B5: form",
    "quadratic form of the Hessian of F_k",
    curvature.hessian_form_certificate,
    check=hessian_forms,
)
@proved(
    "DR-B5: eigenvalues",
    "eigenvalues of the Hessian of F_k",
    curvature.hessian_certificates,
    check=hessians,
    field="spectrum",
)
@proved(
    "DR-B5: largest",
    "largest eigenvalue of the Hessian of F_k: 1 / (1 - s_{k+1}/s_k)",
    curvature.hessian_certificates,
    check=hessians,
    field="largest",
)
@proved(
    "DR-B5: segment",
    "F_k: remainder <= |E|_F^2 / (2 (1 - s_{k+1}/s_k)) on the segment",
    smoothness.second_order_certificate,
    check=segments,
)
@proved(
    "DR-B5: conjugate",
    "conjugate of F_k is the sum of the first k s_i^2 / 2",
    spectral.conjugate_certificate,
    check=conjugates,
)
@proved(
    "DR-B5: gradient",
    "gradient of F_k* is the truncated SVD",
    spectral.gradient_certificate,
    check=gradients,
)
@proved(
    "DR-B5: biconjugate",
    "F_k** is half the squared spectral k-support norm",
    spectral.biconjugate_certificate,
    check=biconjugates,
)
def _with_rank_2(
    certify: Certify, effort: Effort, *, check: Check, **given: str
) -> Iterator[Found]:
    """Yield the trials of a check with k = 2."""
    yield from check(certify, effort, rank=2, **given)
