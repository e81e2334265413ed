"""From the trace of a run to a certificate."""

from lowrank_jax.theory import bilinear
from lowrank_jax.theory.bounds import (
    BestStep,
    Certificate,
    best_step_size,
    regret_certificate,
)
from lowrank_jax.theory.descent import fista_certificate

__all__ = [
    "BestStep",
    "Certificate",
    "best_step_size",
    "bilinear",
    "fista_certificate",
    "regret_certificate",
]
