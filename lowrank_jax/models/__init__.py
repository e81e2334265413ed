"""Parameters to scores."""

from lowrank_jax.models import (
    bilinear,
    bilinear_logit,
    candidates,
    hankel,
    linear,
    lipschitz,
    logistic,
    matrix_logit,
    operators,
    subpatterns,
    tensor,
    windows,
)

__all__ = [
    "bilinear",
    "bilinear_logit",
    "candidates",
    "hankel",
    "linear",
    "lipschitz",
    "logistic",
    "matrix_logit",
    "operators",
    "subpatterns",
    "tensor",
    "windows",
]
