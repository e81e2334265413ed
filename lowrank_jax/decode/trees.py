"""Maxima over few labels as trees of comparisons.

A reduction along a row is one long chain on a CPU, each step waiting for the one before
it. A tree has short chains, and its terms fuse into one loop.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["MOST", "first_argmax", "joined", "largest"]
__dir__ = __all__.copy

MOST = 128  # terms: more would take long to compile


def joined(terms: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    """Join neighbours until one term is left."""
    terms = list(terms)
    while len(terms) > 1:
        paired = list(map(join, terms[::2], terms[1::2]))
        terms = paired + terms[2 * len(paired) :]
    return terms[0]


def largest(terms: Sequence[jax.Array]) -> jax.Array:
    """Return the maximum of some arrays, entry by entry."""
    return joined(terms, jnp.maximum)


def first_argmax(values: jax.Array, axis: int) -> jax.Array:
    """Return the smallest index of the maximum along an axis, as int32."""
    num_terms = values.shape[axis]
    if num_terms > MOST:
        return lax.argmax(values, axis, jnp.int32)

    def first(one: tuple, other: tuple) -> tuple:
        is_one = (one[0] >= other[0]) | jnp.isnan(one[0])
        return tuple(map(lambda a, b: jnp.where(is_one, a, b), one, other))

    def term(r: int) -> tuple:
        value = lax.index_in_dim(values, r, axis, keepdims=False)
        return value, jnp.full_like(value, r, jnp.int32)

    return joined([term(r) for r in range(num_terms)], first)[1]
