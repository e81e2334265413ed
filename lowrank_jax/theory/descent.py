r"""Guarantees of descent methods as functions of a run's trace.

FISTA from :math:`w^0` with constants that never go down (Beck and Teboulle, 2009,
Theorem 4.4; the recipe of SBLR-B2):

.. math:: F(w^k) - F^* \le \frac{2L_k\|w^0 - w^*\|^2}{(k + 1)^2}, \qquad k = 1, 2, \dots
"""

import jax
import jax.numpy as jnp

from lowrank_jax.theory import certificate
from lowrank_jax.theory.certificate import Certificate

__all__ = ["fista_certificate"]


def fista_certificate(
    objectives: jax.Array,
    lipschitz: jax.Array,
    distance_squared: float | jax.Array,
    optimum: float | jax.Array,
) -> Certificate:
    r"""Compare each iterate of FISTA with its guarantee.

    Any w will do in the place of the minimiser, with the distance and the objective
    taken there: the proof holds for every point.

    Args:
      objectives: (num_iterations,) :math:`F(w^k)`, from k = 1, without restart.
      lipschitz: the constant, or the one of each iteration (num_iterations,).
      distance_squared: :math:`\|w^0 - w^*\|^2`, offsets included.
      optimum: :math:`F(w^*)`.

    Returns:
      Arrays over the iterations.
    """
    objectives = jnp.asarray(objectives)
    dtype = objectives.dtype
    k = jnp.arange(1, objectives.shape[0] + 1).astype(dtype)
    observed = objectives - jnp.asarray(optimum, dtype)
    bound = 2 * jnp.asarray(lipschitz, dtype) * jnp.asarray(distance_squared, dtype)
    bound = jnp.broadcast_to(bound, k.shape) / ((k + 1) * (k + 1))
    return certificate.at_most(observed, bound)
