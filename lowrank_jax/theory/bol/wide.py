r"""Regret of wide rounds: many examples per update (DR-B10).

Round :math:`t` predicts each example i of its batch with :math:`W_{t-1}`, adds up the
differences of the mistaken ones, :math:`G_t = \sum_{i\in M_t}\Delta\Phi_i`, and moves
by :math:`\eta_tG_t`. For every U

.. math:: \sum_t\eta_t\sum_{i\in M_t}\big(L_i(W_{t-1}) - L_i(U)\big) \le
   F^{**}(U) + F^*(\Theta_N) - \sum_t\eta_t\langle W_{t-1}, G_t\rangle
   \qquad\text{(DR-B10)}

and the same with a step :math:`\tau_i` for each example. Only the margins and the last
conjugate are needed. The bound is attained by :math:`U = W_N` where no
:math:`\langle W_N, \Delta\Phi_i\rangle` is above 1. What one round costs more than its
examples one by one is an identity (`price_of_staleness`).
"""

import jax
import jax.numpy as jnp

from lowrank_jax.theory import certificate
from lowrank_jax.theory.certificate import Certificate

__all__ = ["price_of_staleness", "wide_certificate"]
__dir__ = __all__.copy


def wide_certificate(
    margin: jax.Array,
    is_mistake: jax.Array,
    *,
    step_size: jax.Array,
    conjugate: jax.Array,
    comparator_losses: jax.Array,
    comparator_penalty: jax.Array,
    tolerance: float | None = None,
) -> Certificate:
    r"""Compare the weighted regret of wide rounds with its certificate (DR-B10).

    The function compares given numbers: a run is certified by `certify.wide_regret`,
    which takes them from the trace, U, data and state.

    Args:
      margin: Margins :math:`\langle W_{t-1}, \Delta\Phi_i\rangle`, (num_examples,).
      is_mistake: Mistakes, (num_examples,) booleans.
      step_size: Step of the round of each example, :math:`\eta_t`, (num_examples,).
      conjugate: Conjugate :math:`F^*(\Theta_N)`, or an upper bound of it.
      comparator_losses: Losses :math:`[1 - \langle U, \Delta\Phi_i\rangle]_+`,
        (num_examples,).
      comparator_penalty: Penalty :math:`F^{**}(U)`.
      tolerance: Tolerance of `certificate.at_most`. Static.

    Returns:
      Certificate of the sums with weights :math:`\eta_t`.
    """
    weight = jnp.where(is_mistake, step_size, 0)
    losses = (weight * jax.nn.relu(1 - margin)).sum()
    others = (weight * comparator_losses).sum()
    bound = comparator_penalty + conjugate - (weight * margin).sum()  # DR-B10
    scale = losses + others
    return certificate.at_most(losses - others, bound, scale=scale, tolerance=tolerance)


def price_of_staleness(
    bregman: jax.Array,
    parts: jax.Array,
    stale_margin: jax.Array,
    fresh_margin: jax.Array,
    *,
    step_size: jax.Array,
) -> Certificate:
    r"""Compare B of one round with the sum over its examples (DR-B10).

    .. math:: B_t = \sum_iB_t^i
       + \eta_t\sum_i\langle W^i - W_{t-1}, \Delta\Phi_i\rangle

    where :math:`W^i` and :math:`B_t^i` belong to the same differences one by one.

    Args:
      bregman: () :math:`B_t` of the round.
      parts: (num_examples,) :math:`B_t^i`.
      stale_margin: (num_examples,) :math:`\langle W_{t-1}, \Delta\Phi_i\rangle`.
      fresh_margin: (num_examples,) :math:`\langle W^i, \Delta\Phi_i\rangle`.
      step_size: () :math:`\eta_t`.
    """
    price = step_size * (fresh_margin - stale_margin).sum()
    size = jnp.abs(step_size) * (jnp.abs(fresh_margin) + jnp.abs(stale_margin)).sum()
    scale = jnp.abs(bregman) + jnp.abs(parts).sum() + size
    return certificate.equal(bregman, parts.sum() + price, scale=scale)
