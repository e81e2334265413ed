r"""Matrices scored by products of low rank (SBLR-Eq3, Eq30).

.. math:: z_{ic} = \operatorname{tr}(U_c^\top X_i V_c) + b_c

The score is linear in U once :math:`X_i V_c` is known, and in V once
:math:`X_i^\top U_c` is: `left_features` and `right_features` each read the matrices
once, and all that a block of the descent needs follows from them.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax.streams.matrices import Labelled

__all__ = [
    "Params",
    "block_scores",
    "left_features",
    "right_features",
    "scores",
    "weight_matrices",
]
__dir__ = __all__.copy


class Params(NamedTuple):
    """Factors and offsets of the m classes other than the reference; m = 1 if two."""

    left: jax.Array  # (m, s, r)  U
    right: jax.Array  # (m, t, r)  V
    bias: jax.Array  # (m,)  b


def left_features(labelled: Labelled, right: jax.Array) -> jax.Array:
    """Return :math:`X_i V_c`, (m, n, r, s): what the left factors meet."""
    if labelled.turned is not None:
        return _products(labelled.x, right)
    found = jnp.einsum("nst,tk->nsk", labelled.x, _columns(right))
    return _sorted(found.transpose(2, 0, 1), right)


def right_features(labelled: Labelled, left: jax.Array) -> jax.Array:
    r"""Return :math:`X_i^\top U_c`, (m, n, r, t): what the right factors meet."""
    if labelled.turned is not None:
        return _products(labelled.turned, left)
    # One product per matrix: the same columns for all make XLA transpose all of x.
    x, columns = labelled.x, _columns(left)
    columns = jnp.broadcast_to(columns, (x.shape[0], *columns.shape))
    return _sorted(jnp.einsum("nst,nsk->knt", x, columns), left)


def _columns(factors: jax.Array) -> jax.Array:
    """Return factors (m, size, r) as (size, m r)."""
    return factors.transpose(1, 0, 2).reshape(factors.shape[1], -1)


def _products(x: jax.Array, factors: jax.Array) -> jax.Array:
    """Multiply matrices from the right, as one product that `vmap` only makes wider."""
    flat = x.reshape(-1, x.shape[2])
    found = lax.dot_general(_columns(factors).T, flat, (((1,), (1,)), ((), ())))
    return _sorted(found.reshape(-1, *x.shape[:2]), factors)


def _sorted(found: jax.Array, factors: jax.Array) -> jax.Array:
    """Return features (m r, n, size) as (m, n, r, size)."""
    num_classes, _, rank = factors.shape
    return found.reshape(num_classes, rank, *found.shape[1:]).transpose(0, 2, 1, 3)


def block_scores(features: jax.Array, block: jax.Array, bias: jax.Array) -> jax.Array:
    """Return the scores (n, m) from the features of a block (m, n, r, size)."""
    flat = features.reshape(*features.shape[:2], -1)
    weights = block.transpose(0, 2, 1).reshape(block.shape[0], -1)
    return jnp.einsum("mnk,mk->mn", flat, weights).T + bias[None]


def scores(params: Params, x: jax.Array) -> jax.Array:
    """Return the scores (n, m) of matrices (n, s, t)."""
    products = jnp.einsum("nst,ctr->cnrs", x, params.right)
    return block_scores(products, params.left, params.bias)


def weight_matrices(params: Params) -> jax.Array:
    r"""Return :math:`W_c = U_c V_c^\top`, (m, s, t)."""
    return jnp.einsum("csr,ctr->cst", params.left, params.right)
