r"""Matrices scored by weights of their own shape (SBLR-Eq1, Eq28).

.. math:: z_{ic} = \langle W_c, X_i\rangle + b_c

Plain logistic regression on the entries; what a low rank is compared with.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["Params", "gradients", "scores"]
__dir__ = __all__.copy


class Params(NamedTuple):
    """Weights and offsets of the m classes other than the reference; m = 1 if two."""

    weights: jax.Array  # (m, s, t)  W
    bias: jax.Array  # (m,)  b


def scores(params: Params, x: jax.Array) -> jax.Array:
    """Return the scores (n, m) of matrices (n, s, t), which are read once."""
    rows = x.reshape(x.shape[0], -1)
    columns = params.weights.reshape(params.weights.shape[0], -1)
    found = jnp.einsum("nk,mk->nm", rows, columns, precision=lax.Precision.HIGHEST)
    return found + params.bias[None]


def gradients(residuals: jax.Array, x: jax.Array) -> Params:
    """Return the gradient in the parameters from that in the scores; reads x once.

    Args:
      residuals: (n, m) of `logistic.residuals`.
      x: (n, s, t).
    """
    rows = x.reshape(x.shape[0], -1)
    found = jnp.einsum("nm,nk->mk", residuals, rows, precision=lax.Precision.HIGHEST)
    return Params(found.reshape(-1, *x.shape[1:]), residuals.sum(0))
