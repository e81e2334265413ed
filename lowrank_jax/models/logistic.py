r"""Logistic loss over classes, one of them the reference (SBLR-Eq28..30).

A model gives each matrix :math:`X_i` scores :math:`z_{ic}`, :math:`c = 1..m`; the last
of the m + 1 classes has score 0. With weights :math:`\omega_i` that sum to 1 (1/n in
the papers; 0 leaves a matrix out, so that a fold is a vector of weights),

.. math:: \mathcal L = \sum_i \omega_i \Big(\log\big(1 + \sum_c e^{z_{ic}}\big)
   - \sum_c y_{ic} z_{ic}\Big)  \qquad (30)

For m = 1 this is the binary loss :math:`\log(1 + e^{-y_i z_i})` (SBLR-Eq1, Eq3), the
reference being the class of :math:`y_i = -1`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.checks import InputError

__all__ = [
    "SMALL",
    "Labelled",
    "divergence",
    "label_matrices",
    "loss",
    "probabilities",
    "residuals",
]

#: Matrices of so many bytes in all are kept a second time, transposed: both products of
#: a sweep then run along the rows, which is what many fits side by side need.
SMALL = 2**26


class Labelled(NamedTuple):
    """Matrices with their classes, as the batch learners take them."""

    x: jax.Array  # (n, s, t)
    targets: jax.Array  # (n, m)  y_ic: 1 where i is of class c; the reference has none
    weights: jax.Array  # (n,)  of the loss, summing to 1
    turned: jax.Array | None = None  # (n, t, s)  x again, or None where x is large


def label_matrices(
    x: np.ndarray | jax.Array,
    y: np.ndarray,
    *,
    classes: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> tuple[Labelled, np.ndarray]:
    """Put matrices and their labels into the form of the learners; on the host.

    Of two classes the first in order is the reference (the second is "positive", as in
    scikit-learn); of more, the last is (SBLR-Eq28).

    Args:
      x: (n, s, t) real numbers.
      y: (n,) labels of any kind that sorts.
      classes: all labels there are, in order; None takes those of `y`.
      weights: (n,) zero or more; None weighs all alike. They are made to sum to 1.

    Returns:
      The matrices, and the classes in order.

    Raises:
      InputError: if the shapes do not fit, x is not finite, is zero throughout, or
        fewer than two classes are there.
    """
    x, y = jnp.asarray(x), np.asarray(y)
    if x.ndim != 3:
        raise InputError(
            f"`x` must have three dimensions (matrices, rows, columns), got shape "
            f"{x.shape}."
        )
    if y.shape != x.shape[:1]:
        raise InputError(
            f"`y` must have shape ({x.shape[0]},), one label a matrix, got {y.shape}."
        )
    if not jnp.issubdtype(x.dtype, jnp.floating):
        x = x.astype(jnp.float32)
    if not bool(jnp.isfinite(x).all()):
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(np.asarray(x)))[0])
        raise InputError(
            f"`x` must be finite, got {float(x[place])} at {place}; fill or remove it."
        )
    if not bool((x != 0).any()):
        raise InputError("`x` is zero throughout: there is nothing to learn from.")
    found = np.unique(y)
    if classes is None:
        classes = found
    unknown = np.setdiff1d(found, classes)
    if unknown.size:
        raise InputError(
            f"`y` has the label {unknown[0]!s}, which is not among the classes "
            f"{', '.join(map(str, classes))}."
        )
    if len(classes) < 2:
        raise InputError(
            f"`y` must have at least two classes, got only {classes[0]!s}."
        )
    if weights is None:
        weights = np.ones(len(y))
    weights = np.asarray(weights, np.float64)
    is_weight = weights.shape == y.shape and bool((weights >= 0).all())
    if not is_weight or not 0 < weights.sum() < np.inf:
        raise InputError(
            f"`weights` must be {len(y)} numbers of zero or more with a positive sum."
        )
    columns = classes[1:] if len(classes) == 2 else classes[:-1]
    targets = y[:, None] == columns[None, :]
    labelled = Labelled(
        x=x,
        targets=jnp.asarray(targets, x.dtype),
        weights=jnp.asarray(weights / weights.sum(), x.dtype),
        turned=jnp.array(x.transpose(0, 2, 1)) if x.nbytes <= SMALL else None,
    )
    return labelled, np.asarray(classes)


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

    Written so that small moves lose no digits, where the difference of two losses has
    none left in single precision: the test (14) of the step size hangs on it.
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
    rest = jnp.exp(-_log_partition(scores))[..., None]  # of the reference class
    parts = (rest, shares) if scores.shape[-1] == 1 else (shares, rest)
    return jnp.concatenate(parts, axis=-1)
