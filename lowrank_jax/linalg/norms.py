"""Squares, norms and inner products in the forms that several layers need."""

import functools
import operator

import jax
import jax.numpy as jnp

__all__ = ["dot", "nonzero", "norm", "row_squares", "scaled_norm", "square"]
__dir__ = __all__.copy


def nonzero(values: jax.Array) -> jax.Array:
    """Return the values, each 0 replaced by 1, as divisors."""
    return jnp.where(values == 0, jnp.ones_like(values), values)


def square(*parts: jax.Array) -> jax.Array:
    """Return the sum of the squares of all entries of all parts: ()."""
    return functools.reduce(operator.add, ((part * part).sum() for part in parts))


def norm(*parts: jax.Array) -> jax.Array:
    """Return the Frobenius norm of all parts together: ()."""
    return jnp.sqrt(square(*parts))


def row_squares(values: jax.Array) -> jax.Array:
    """Return the sum of squares over all axes but the first."""
    return (values * values).sum(tuple(range(1, values.ndim)))


def dot(left: jax.Array, right: jax.Array) -> jax.Array:
    """Return the inner products along the last axis."""
    return (left * right).sum(-1)


def scaled_norm(values: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """Return the Frobenius norm over some axes, at scales such as 1e-200 too."""
    largest = jnp.abs(values).max(axes, keepdims=True, initial=0)
    scaled = values / nonzero(largest)
    return jnp.sqrt((scaled * scaled).sum(axes)) * largest.squeeze(axes)
