r"""Convex penalties as a learner takes them: value, prox and subgradients.

A penalty :math:`h` is a `Penalty` of four functions; any other one that keeps their
meaning can be passed to a learner in its place. Strengths may be traced. Arrays are
(..., size, rank): factors of one or more classes, whose penalties add up.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.linalg import prox, spectra
from lowrank_jax.linalg import total_variation as line

__all__ = [
    "Penalty",
    "elastic_net",
    "group_lasso",
    "none",
    "nuclear_norm",
    "total_variation",
]
__dir__ = __all__.copy

Number = float | jax.Array


class Penalty(NamedTuple):
    r"""A convex function :math:`h` of an array.

    Attributes:
      value: ``x ->`` :math:`h(x)`, a number.
      prox: ``(z, step) ->``
        :math:`\arg\min_x\ \text{step}\cdot h(x) + \frac12\|x-z\|^2`.
      distance: ``(x, gradient) ->`` the distance from 0 of
        :math:`\text{gradient} + \partial h(x)`: how far x is from stationary.
      modulus: Modulus of strong convexity:
        :math:`h - \frac{\text{modulus}}2\|\cdot\|^2` is convex.
    """

    value: Callable[[jax.Array], jax.Array]
    prox: Callable[[jax.Array, Number], jax.Array]
    distance: Callable[[jax.Array, jax.Array], jax.Array]
    modulus: Number = 0.0


def none() -> Penalty:
    """Return the penalty that is zero."""
    return Penalty(
        value=lambda x: jnp.zeros((), x.dtype),
        prox=lambda z, step: z,
        distance=lambda x, gradient: _norm(gradient),
    )


def elastic_net(*, l1: Number = 0.0, l2: Number = 0.0) -> Penalty:
    r"""Return :math:`\mu_1\|x\|_1 + \frac{\mu_2}2\|x\|^2` (SBLR-Eq5).

    Args:
      l1: :math:`\mu_1`, zero or more.
      l2: :math:`\mu_2`, zero or more.
    """
    checks.non_negative(l1=l1, l2=l2)

    def value(x: jax.Array) -> jax.Array:
        mu_1, mu_2 = jnp.asarray(l1, x.dtype), jnp.asarray(l2, x.dtype)
        return mu_1 * jnp.abs(x).sum() + mu_2 / 2 * (x * x).sum()  # Eq. (5)

    def step_back(z: jax.Array, step: Number) -> jax.Array:
        step = jnp.asarray(step, z.dtype)
        mu_1, mu_2 = jnp.asarray(l1, z.dtype), jnp.asarray(l2, z.dtype)
        return prox.elastic_net(z, step * mu_1, step * mu_2)  # Eq. (10)

    def distance(x: jax.Array, gradient: jax.Array) -> jax.Array:
        mu_1, mu_2 = jnp.asarray(l1, x.dtype), jnp.asarray(l2, x.dtype)
        smooth = gradient + mu_2 * x
        at_zero = prox.soft_threshold(smooth, mu_1)  # the nearest of [-mu_1, mu_1]
        return _norm(jnp.where(x == 0, at_zero, smooth + mu_1 * jnp.sign(x)))

    return Penalty(value, step_back, distance, l2)


def group_lasso(*, strength: Number, l2: Number = 0.0) -> Penalty:
    r"""Return :math:`\mu \sum_i \|x_i\|_2 + \frac{\mu_2}2\|x\|^2` over the rows.

    A row, one channel or one time over all components, is zero as a whole or not.

    Args:
      strength: :math:`\mu`, zero or more.
      l2: :math:`\mu_2`, zero or more.
    """
    checks.non_negative(strength=strength, l2=l2)

    def value(x: jax.Array) -> jax.Array:
        mu, mu_2 = jnp.asarray(strength, x.dtype), jnp.asarray(l2, x.dtype)
        return mu * _lengths(x).sum() + mu_2 / 2 * (x * x).sum()

    def step_back(z: jax.Array, step: Number) -> jax.Array:
        step = jnp.asarray(step, z.dtype)
        mu, mu_2 = jnp.asarray(strength, z.dtype), jnp.asarray(l2, z.dtype)
        lengths = _lengths(z)
        is_kept = lengths > step * mu
        shrunk = 1 - step * mu / jnp.where(is_kept, lengths, 1)
        return prox.squared_l2(jnp.where(is_kept, shrunk, 0) * z, step * mu_2)

    def distance(x: jax.Array, gradient: jax.Array) -> jax.Array:
        mu, mu_2 = jnp.asarray(strength, x.dtype), jnp.asarray(l2, x.dtype)
        smooth = gradient + mu_2 * x
        lengths = _lengths(x)
        is_zero = lengths == 0
        direction = x / jnp.where(is_zero, 1, lengths)
        at_zero = jax.nn.relu(_lengths(smooth) - mu)  # the nearest of a ball
        elsewhere = _lengths(smooth + mu * direction)
        return _norm(jnp.where(is_zero, at_zero, elsewhere))

    return Penalty(value, step_back, distance, l2)


def total_variation(*, strength: Number, l2: Number = 0.0) -> Penalty:
    r"""Return :math:`\mu \sum_{ij} |x_{i+1,j} - x_{ij}| + \frac{\mu_2}2\|x\|^2`.

    Down each column (SBLR-X1); the prox is exact (`linalg.total_variation`). So is the
    distance: with the signs at the jumps given, what is left is the dual of a prox on
    the flat pieces, each by itself.

    Args:
      strength: :math:`\mu`, zero or more.
      l2: :math:`\mu_2`, zero or more.
    """
    checks.non_negative(strength=strength, l2=l2)

    def value(x: jax.Array) -> jax.Array:
        mu, mu_2 = jnp.asarray(strength, x.dtype), jnp.asarray(l2, x.dtype)
        return mu * jnp.abs(jnp.diff(x, axis=-2)).sum() + mu_2 / 2 * (x * x).sum()

    def step_back(z: jax.Array, step: Number) -> jax.Array:
        step = jnp.asarray(step, z.dtype)
        mu, mu_2 = jnp.asarray(strength, z.dtype), jnp.asarray(l2, z.dtype)
        shrink = 1 + step * mu_2
        columns = _columns(z / shrink)
        edges = jnp.broadcast_to(step * mu / shrink, columns[:, 1:].shape)
        return _uncolumns(jax.vmap(line.edge_prox)(columns, edges), z)

    def distance(x: jax.Array, gradient: jax.Array) -> jax.Array:
        mu, mu_2 = jnp.asarray(strength, x.dtype), jnp.asarray(l2, x.dtype)
        signs = jnp.sign(jnp.diff(_columns(x), axis=1))
        given = mu * jnp.pad(signs, ((0, 0), (1, 1)))  # 0 beyond the ends
        smooth = _columns(gradient + mu_2 * x) - jnp.diff(given, axis=1)
        free = jnp.where(signs == 0, mu, 0)
        return _norm(jax.vmap(line.edge_prox)(smooth, free))

    return Penalty(value, step_back, distance, l2)


def nuclear_norm(*, strength: Number) -> Penalty:
    r"""Return :math:`\mu\|x\|_*`, the sum of the singular values, of (..., s, t).

    The prox thresholds the singular values. For the distance, with
    :math:`x = U \Sigma V^\top` of rank k, the subgradients are
    :math:`\mu(U V^\top + Z)`, Z orthogonal to U and V with :math:`\sigma_1(Z) \le 1`;
    a singular value counts as 0 up to rounding, :math:`\max(s, t)\,\epsilon\,\sigma_1`.

    Args:
      strength: :math:`\mu`, zero or more.
    """
    checks.non_negative(strength=strength)

    def value(x: jax.Array) -> jax.Array:
        values = spectra.singular_values(x)
        return jnp.asarray(strength, x.dtype) * values.sum()

    def step_back(z: jax.Array, step: Number) -> jax.Array:
        threshold = jnp.asarray(step, z.dtype) * jnp.asarray(strength, z.dtype)
        left, values, right = spectra.svd(z)
        shrunk = jax.nn.relu(values - threshold)
        return _product(left * shrunk[..., None, :], right)

    def distance(x: jax.Array, gradient: jax.Array) -> jax.Array:
        mu = jnp.asarray(strength, x.dtype)
        left, values, right = spectra.svd(x)
        floor = max(x.shape[-2:]) * jnp.finfo(x.dtype).eps * values[..., :1]
        is_kept = (values > floor).astype(x.dtype)
        left, right = left * is_kept[..., None, :], right * is_kept[..., :, None]
        rest = gradient - _product(left, _product(left.mT, gradient))
        rest = rest - _product(_product(rest, right.mT), right)  # orthogonal to U and V
        tangent = gradient - rest + mu * _product(left, right)
        beyond = jax.nn.relu(spectra.singular_values(rest) - mu)
        return jnp.sqrt((tangent * tangent).sum() + (beyond * beyond).sum())

    return Penalty(value, step_back, distance)


def _norm(x: jax.Array) -> jax.Array:
    return jnp.sqrt((x * x).sum())


def _lengths(x: jax.Array) -> jax.Array:
    """Return the length of each row, with the last axis kept; its slope at 0 is 0."""
    squares = (x * x).sum(-1, keepdims=True)
    is_zero = squares == 0
    return jnp.where(is_zero, 0, jnp.sqrt(jnp.where(is_zero, 1, squares)))


def _columns(x: jax.Array) -> jax.Array:
    """Return the columns of (..., size, rank) one below the other: (number, size)."""
    return x.mT.reshape(-1, x.shape[-2])


def _uncolumns(columns: jax.Array, x: jax.Array) -> jax.Array:
    """Put columns back into the shape of x."""
    return columns.reshape(x.mT.shape).mT


def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)
