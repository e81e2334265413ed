r"""Proximal maps of penalties.

.. math:: \operatorname{prox}_h(z) = \arg\min_x h(x) + \tfrac12\|x - z\|^2

Each works on an array of any shape and keeps its dtype. Strengths are zero or more and
may be traced.
"""

import jax
import jax.numpy as jnp

__all__ = ["elastic_net", "l2_norm", "soft_threshold", "squared_l2"]
__dir__ = __all__.copy


def soft_threshold(values: jax.Array, strength: float | jax.Array) -> jax.Array:
    r"""Return the prox of :math:`\tau\|x\|_1`: each value nearer to 0 by the strength.

    .. math:: \mathcal S_\tau(z) = \operatorname{sign}(z)\,[|z| - \tau]_+

    Args:
      values: Values z.
      strength: Strength tau.
    """
    strength = jnp.asarray(strength, values.dtype)
    return jnp.sign(values) * jax.nn.relu(jnp.abs(values) - strength)


def squared_l2(values: jax.Array, strength: float | jax.Array) -> jax.Array:
    r"""Return the prox of :math:`\frac\tau2\|x\|^2`: :math:`z / (1 + \tau)`.

    Args:
      values: Values z.
      strength: Strength tau.
    """
    return values / (1 + jnp.asarray(strength, values.dtype))


def l2_norm(values: jax.Array, strength: float | jax.Array) -> jax.Array:
    r"""Return the prox of :math:`\tau\|x\|_2`, the norm of the array, not squared.

    .. math:: z\,[1 - \tau / \|z\|]_+

    Args:
      values: Values z.
      strength: Strength tau.
    """
    strength = jnp.asarray(strength, values.dtype)
    norm = jnp.sqrt((values * values).sum())
    is_kept = norm > strength
    return jnp.where(is_kept, 1 - strength / jnp.where(is_kept, norm, 1), 0) * values


def elastic_net(
    values: jax.Array, l1_strength: float | jax.Array, l2_strength: float | jax.Array
) -> jax.Array:
    r"""Return the prox of :math:`\mu_1\|x\|_1 + \frac{\mu_2}2\|x\|^2` (SBLR-Eq10).

    .. math:: \mathcal S_{\mu_1}(z) / (1 + \mu_2)

    Args:
      values: Values z.
      l1_strength: Strength mu_1.
      l2_strength: Strength mu_2.
    """
    return squared_l2(soft_threshold(values, l1_strength), l2_strength)
