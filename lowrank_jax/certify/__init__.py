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
    from lowrank_jax.certify import comparator, mirror
    from lowrank_jax.certify.runs import (
        Certified,
        RunCertificate,
        along,
        best_multiple,
        regret,
        run,
    )
    from lowrank_jax.certify.spectrum import Conjugate, Spectrum, conjugate
    from lowrank_jax.certify.unseen import HeldOut, held_out, losses
    from lowrank_jax.certify.wide import WideCertificate, wide_regret

_MODULES = {
    "runs": "Certified RunCertificate along best_multiple regret run",
    "spectrum": "Conjugate Spectrum conjugate",
    "unseen": "HeldOut held_out losses",
    "wide": "WideCertificate wide_regret",
}

__all__, __getattr__, __dir__ = lazy.attach(
    __name__, {"comparator": "comparator", "mirror": "mirror"} | lazy.table(_MODULES)
)
