"""From the trace of a run to a certificate."""

from lowrank_jax.theory import bilinear
from lowrank_jax.theory.bounds import BestStep, best_step_size, regret_certificate
from lowrank_jax.theory.certificate import Certificate, at_most, equal, ratio
from lowrank_jax.theory.descent import fista_certificate

__all__ = [
    "BestStep",
    "Certificate",
    "at_most",
    "best_step_size",
    "bilinear",
    "equal",
    "fista_certificate",
    "ratio",
    "regret_certificate",
]
