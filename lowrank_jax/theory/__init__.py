"""From the trace of a run to a certificate."""

from lowrank_jax.theory.bounds import (
    BestStep,
    Certificate,
    best_step_size,
    regret_certificate,
)

__all__ = ["BestStep", "Certificate", "best_step_size", "regret_certificate"]
