"""Every statement of the four papers, checked on problems made for it."""

from lowrank_jax.verify.statement import Effort, Found, Result, Statement, run
from lowrank_jax.verify.workers import check

__all__ = ["Effort", "Found", "Result", "Statement", "check", "run"]
__dir__ = __all__.copy
