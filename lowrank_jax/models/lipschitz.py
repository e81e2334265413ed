r"""Lipschitz constants of the gradient of the logistic loss in one block.

With one block fixed, the scores are linear in the other and in the offsets: class c of
matrix i scores :math:`\langle a_{ic}, (u_c, b_c)\rangle` with
:math:`a_{ic} = (\operatorname{vec}(X_i V_c), 1)`. There are three constants for the
step size of that block, with weights :math:`\omega_i` instead of the papers' 1/n:

.. math:: \sqrt2\,m \sum_{ic} \omega_i (\|X_i V_c\|_F + 1)(\max_j \|X_i V_j\|_F + 1)
   \quad\text{(SBLR-L3.1, L6.1)}
.. math:: \kappa \max_c \lambda_{\max}\Big(\sum_i \omega_i a_{ic} a_{ic}^\top\Big)
   \quad\text{(DR-S1, DR-S2)}
.. math:: \kappa \max_c \sum_i \omega_i \|a_{ic}\|^2

For m = 1, :math:`\kappa = \frac14`, and the second is the least constant there is,
attained at 0. For more classes, :math:`\kappa = \frac12` (Böhning's bound on the
Hessian of the soft maximum). The third lies between the other two.
"""

import jax
import jax.numpy as jnp
from jax import lax

__all__ = [
    "curvature",
    "largest_moment",
    "lemma_constant",
    "tight_constant",
    "trace_constant",
]
__dir__ = __all__.copy


def curvature(num_classes: int) -> float:
    r"""Return :math:`\kappa`: the most the loss bends in the scores of one matrix.

    Args:
      num_classes: Number m of classes other than the reference.
    """
    return 0.25 if num_classes == 1 else 0.5


def lemma_constant(features: jax.Array, weights: jax.Array) -> jax.Array:
    """Return the constant as printed (SBLR-L3.1, L6.1): valid, and far too large.

    Args:
      features: (m, n, r, size) :math:`X_i V_c`, or :math:`X_i^T U_c`.
      weights: (n,) summing to 1.
    """
    num_classes = features.shape[0]
    lengths = jnp.sqrt((features * features).sum((2, 3))) + 1  # (m, n)
    each = lengths.sum(0) * lengths.max(0)
    root = jnp.sqrt(jnp.asarray(2, features.dtype))
    return root * num_classes * (weights * each).sum()  # Eq. (11), (33)


def tight_constant(features: jax.Array, weights: jax.Array) -> jax.Array:
    """Return the constant by the exact largest eigenvalue (DR-S1, DR-S2).

    Args:
      features: (m, n, r, size) :math:`X_i V_c`, or :math:`X_i^T U_c`.
      weights: (n,) summing to 1.
    """
    num_classes, num_matrices, _, _ = features.shape
    rows = features.reshape(num_classes, num_matrices, -1)
    moments = jax.vmap(largest_moment, in_axes=(0, None))(rows, weights)
    return curvature(num_classes) * moments.max()


def trace_constant(features: jax.Array, weights: jax.Array) -> jax.Array:
    """Return the upper bound of the tight constant that needs no eigenvalue (DR-S1).

    Args:
      features: (m, n, r, size) :math:`X_i V_c`, or :math:`X_i^T U_c`.
      weights: (n,) summing to 1.
    """
    squares = (features * features).sum((2, 3)) + 1  # (m, n)
    return curvature(features.shape[0]) * (weights[None] * squares).sum(1).max()


def largest_moment(rows: jax.Array, weights: jax.Array) -> jax.Array:
    r"""Return :math:`\lambda_{\max}(\sum_i \omega_i a_i a_i^\top)`, `a = (row, 1)`.

    Taken from whichever of the two Gram matrices is smaller, (n, n) or (k+1, k+1).

    Args:
      rows: (n, k).
      weights: (n,), zero or more.
    """
    num_rows, width = rows.shape
    if num_rows <= width:
        roots = jnp.sqrt(weights)
        inner = jnp.matmul(rows, rows.T, precision=lax.Precision.HIGHEST)
        gram = roots[:, None] * (inner + 1) * roots[None]
    else:
        weighted = weights[:, None] * rows
        inner = jnp.matmul(rows.T, weighted, precision=lax.Precision.HIGHEST)
        border = weighted.sum(0)
        corner = weights.sum()[None]
        gram = jnp.concatenate(
            [
                jnp.concatenate([inner, border[:, None]], axis=1),
                jnp.concatenate([border, corner])[None],
            ]
        )
    return jnp.linalg.eigvalsh(gram)[-1]
