r"""Regret certificates that are functions of a run's trace (DR-B4, DR-B8).

For any conjugate :math:`F^*` and any :math:`W_{t-1}`, with
:math:`B_t = F^*(\Theta_t) - F^*(\Theta_{t-1}) - C\langle W_{t-1}, \Delta\Phi^t\rangle`,

.. math:: C \sum_t \langle U - W_{t-1}, \Delta\Phi^t\rangle
   \le F^{**}(U) + \sum_t B_t \qquad\text{(DR-B4)}

by Fenchel and Young and a telescoping sum; so the regret of the hinge losses against
:math:`U` is at most the right side over :math:`C`, over the rounds with a mistake. The
sum needs :math:`F^*(\Theta_N)` alone: a run whose per-round numbers come from a few
power steps ends with the exact value and stays certified.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax.theory import certificate
from lowrank_jax.theory.certificate import Certificate

__all__ = ["BestStep", "best_step_size", "regret_certificate"]


def regret_certificate(
    margin: jax.Array,
    is_mistake: jax.Array,
    *,
    step_size: float | jax.Array,
    conjugate: jax.Array,
    comparator_losses: jax.Array,
    comparator_penalty: jax.Array,
) -> Certificate:
    r"""Compare the total regret with its certificate (DR-B4).

    Args:
      margin: (num_rounds,) :math:`\langle W_{t-1}, \Delta\Phi^t\rangle`.
      is_mistake: (num_rounds,).
      step_size: :math:`C`.
      conjugate: :math:`F^*(\Theta_N)`, exact or too large.
      comparator_losses: (num_rounds,) :math:`[1 - \langle U, \Delta\Phi^t\rangle]_+`.
      comparator_penalty: :math:`F^{**}(U)`.

    Returns:
      Sums over rounds, not means: divide by the number of rounds or of mistakes.
    """
    losses = jnp.where(is_mistake, jax.nn.relu(1 - margin), 0)
    regret = losses.sum() - jnp.where(is_mistake, comparator_losses, 0).sum()
    bregman = conjugate - step_size * jnp.where(is_mistake, margin, 0).sum()
    bound = (comparator_penalty + bregman) / step_size
    return certificate.at_most(regret, bound)


class BestStep(NamedTuple):
    """The step size that would have made the dual objective largest, and its value."""

    step_size: jax.Array  # C* = M / (2 f)
    dual_objective: jax.Array  # M^2 / (4 f)


def best_step_size(num_mistakes: jax.Array, conjugate: jax.Array) -> BestStep:
    r"""Return :math:`C^* = M/2f` and :math:`\mathcal D(C^*) = M^2/4f` (DR-B8).

    Args:
      num_mistakes: M.
      conjugate: :math:`f = F^*(\Theta_M)` of a run with C = 1.
    """
    conjugate = jnp.asarray(conjugate)
    num_mistakes = jnp.asarray(num_mistakes).astype(conjugate.dtype)
    has_moved = conjugate > 0
    f = jnp.where(has_moved, conjugate, 1)
    return BestStep(
        step_size=jnp.where(has_moved, num_mistakes / (2 * f), 0),
        dual_objective=jnp.where(has_moved, num_mistakes**2 / (4 * f), 0),
    )
