"""Certificates of a run on its own data.

`run` trains and certifies, `regret` certifies a finished run, `along` gives the regret
and its bounds up to each round. `held_out` certifies the loss on sentences that the run
has not seen; `losses` measures it. The first three take step size, variant and rank
from the state of the run, and refuse a state, a trace, a key or data of another run.
`mirror` certifies runs with any mirror map.
"""

from typing import TYPE_CHECKING

from lowrank_jax import lazy

if TYPE_CHECKING:
    from lowrank_jax.certify import comparator as comparator
    from lowrank_jax.certify import mirror as mirror
    from lowrank_jax.certify.runs import Certified as Certified
    from lowrank_jax.certify.runs import RunCertificate as RunCertificate
    from lowrank_jax.certify.runs import along as along
    from lowrank_jax.certify.runs import best_multiple as best_multiple
    from lowrank_jax.certify.runs import regret as regret
    from lowrank_jax.certify.runs import run as run
    from lowrank_jax.certify.spectrum import Conjugate as Conjugate
    from lowrank_jax.certify.spectrum import Spectrum as Spectrum
    from lowrank_jax.certify.spectrum import conjugate as conjugate
    from lowrank_jax.certify.unseen import HeldOut as HeldOut
    from lowrank_jax.certify.unseen import held_out as held_out
    from lowrank_jax.certify.unseen import losses as losses
    from lowrank_jax.certify.wide import WideCertificate as WideCertificate
    from lowrank_jax.certify.wide import wide_regret as wide_regret

__all__, __getattr__, __dir__ = lazy.attach(__name__)
