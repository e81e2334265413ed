"""Every statement of the four papers, checked on problems made for it."""

from lowrank_jax.verify.catalogue import check
from lowrank_jax.verify.statement import Effort, Found, Result, Statement, run

__all__ = ["Effort", "Found", "Result", "Statement", "check", "run"]
