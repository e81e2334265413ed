"""From the trace of a run, or from arrays, to a certificate.

One function for each statement of the four papers, by its id; `docs/theory.md` lists
them all. BOL: `spectral`, `singular_pairs`, `block_spectral`, `curvature`,
`smoothness`, `regret`, `duality`, `margin`. SBLR: `lipschitz`, `descent`, `rates`,
`landscape`, `bilinear`. SMM: `hankel`, `fobos`. TM: `tensor`, `passive_aggressive`.
"""

from lowrank_jax.theory import (
    bilinear,
    block_spectral,
    curvature,
    descent,
    duality,
    fobos,
    hankel,
    landscape,
    lipschitz,
    margin,
    passive_aggressive,
    rates,
    regret,
    singular_pairs,
    smoothness,
    spectral,
    tensor,
)
from lowrank_jax.theory.certificate import Certificate, at_most, equal, ratio
from lowrank_jax.theory.descent import fista_certificate
from lowrank_jax.theory.duality import BestStep, best_step_size
from lowrank_jax.theory.regret import regret_certificate

__all__ = [
    "BestStep",
    "Certificate",
    "at_most",
    "best_step_size",
    "bilinear",
    "block_spectral",
    "curvature",
    "descent",
    "duality",
    "equal",
    "fista_certificate",
    "fobos",
    "hankel",
    "landscape",
    "lipschitz",
    "margin",
    "passive_aggressive",
    "rates",
    "ratio",
    "regret",
    "regret_certificate",
    "singular_pairs",
    "smoothness",
    "spectral",
    "tensor",
]
