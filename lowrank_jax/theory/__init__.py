"""From the trace of a run, or from arrays, to a certificate.

One function for each statement of the four papers, by its id; `docs/theory.md` lists
them all. One folder for each paper: `bol`, `sblr`, `smm`, `tm`. A function compares the
numbers that it is given. `certify` certifies a run: it takes all numbers from the run.
"""

from typing import TYPE_CHECKING

from lowrank_jax import lazy

if TYPE_CHECKING:
    from lowrank_jax.theory import bol as bol
    from lowrank_jax.theory import sblr as sblr
    from lowrank_jax.theory import smm as smm
    from lowrank_jax.theory import tm as tm
    from lowrank_jax.theory.bol.duality import BestStep as BestStep
    from lowrank_jax.theory.bol.duality import best_step_size as best_step_size
    from lowrank_jax.theory.bol.regret import regret_certificate as regret_certificate
    from lowrank_jax.theory.bol.wide import wide_certificate as wide_certificate
    from lowrank_jax.theory.certificate import Certificate as Certificate
    from lowrank_jax.theory.certificate import at_most as at_most
    from lowrank_jax.theory.certificate import equal as equal
    from lowrank_jax.theory.certificate import ratio as ratio
    from lowrank_jax.theory.sblr.descent import fista_certificate as fista_certificate

__all__, __getattr__, __dir__ = lazy.attach(__name__)
