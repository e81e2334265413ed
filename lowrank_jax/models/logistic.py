r"""Logistic loss over classes, one of them the reference (SBLR-Eq28..30).

A model gives each matrix :math:`X_i` scores :math:`z_{ic}`, :math:`c = 1..m`; the last
of the m + 1 classes has score 0. With weights :math:`\omega_i` that sum to 1 (1/n in
the papers; 0 leaves a matrix out, so that a fold is a vector of weights),

.. math:: \mathcal L = \sum_i \omega_i \Big(\log\big(1 + \sum_c e^{z_{ic}}\big)
   - \sum_c y_{ic} z_{ic}\Big)  \qquad (30)

For m = 1 this is the binary loss :math:`\log(1 + e^{-y_i z_i})` (SBLR-Eq1, Eq3), the
reference being the class of :math:`y_i = -1`.
"""

import jax
import jax.numpy as jnp

__all__ = [
    "divergence",
    "loss",
    "probabilities",
    "residuals",
]
__dir__ = __all__.copy


def _log_partition(scores: jax.Array) -> jax.Array:
    """Return log(1 + sum of exp) over the last axis."""
    if scores.shape[-1] == 1:
        return jax.nn.softplus(scores[..., 0])
    return jnp.logaddexp(jax.nn.logsumexp(scores, axis=-1), 0)


def loss(scores: jax.Array, targets: jax.Array, weights: jax.Array) -> jax.Array:
    """Return the weighted loss of scores (n, m)."""
    each = _log_partition(scores) - (targets * scores).sum(-1)  # Eq. (30)
    return (weights * each).sum()


def _shares(scores: jax.Array) -> jax.Array:
    """Return the probabilities of the classes other than the reference: (n, m)."""
    if scores.shape[-1] == 1:
        return jax.nn.sigmoid(scores)
    return jnp.exp(scores - _log_partition(scores)[..., None])


def residuals(scores: jax.Array, targets: jax.Array, weights: jax.Array) -> jax.Array:
    r"""Return :math:`\omega_i (p_{ic} - y_{ic})`, the gradient in the scores."""
    return weights[..., None] * (_shares(scores) - targets)  # g_i of Eq. (12), over n


def divergence(scores: jax.Array, moves: jax.Array, weights: jax.Array) -> jax.Array:
    r"""Return the loss at ``scores + moves`` less its tangent at the scores.

    .. math:: \sum_i \omega_i \Big(\log\big(1 + \sum_c p_{ic} (e^{\delta_{ic}} - 1)\big)
       - \sum_c p_{ic} \delta_{ic}\Big)

    This form loses no digits if the moves are small. The difference of two losses would
    have none left in single precision, and the test (14) of the step size needs them.
    """
    shares, before = _shares(scores), _log_partition(scores)
    growth = (shares * jnp.expm1(jnp.clip(moves, -1, 1))).sum(-1)
    change = jnp.where(
        (jnp.abs(moves) <= 1).all(-1),
        jnp.log1p(growth),  # at least log(1 - (1 - 1/e)): far from a pole
        _log_partition(scores + moves) - before,
    )
    return (weights * (change - (shares * moves).sum(-1))).sum()


def probabilities(scores: jax.Array) -> jax.Array:
    """Return the probability of each class: (n, m + 1), in the order of the classes."""
    shares = _shares(scores)
    rest = jnp.exp(-_log_partition(scores))[..., None]  # share of the reference
    parts = (rest, shares) if scores.shape[-1] == 1 else (shares, rest)
    return jnp.concatenate(parts, axis=-1)
