"""Learners that move by a whole data set at a time.

`sblr` holds the solvers of sparse bilinear logistic regression, `smm` the solvers of
the spectral max-margin model, `crf` the conditional random field.
"""

from typing import TYPE_CHECKING

from lowrank_jax import lazy

if TYPE_CHECKING:
    from lowrank_jax.batch import crf as crf
    from lowrank_jax.batch.sblr import bcpd as bcpd
    from lowrank_jax.batch.sblr import fista as fista
    from lowrank_jax.batch.sblr import streamed as streamed
    from lowrank_jax.batch.smm import fobos as fobos
    from lowrank_jax.batch.smm import smoothed as smoothed

__all__, __getattr__, __dir__ = lazy.attach(__name__)
