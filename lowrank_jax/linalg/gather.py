"""Read entries of a table at places that are known to be inside it."""

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["read"]
__dir__ = __all__.copy


def read(table: jax.Array, places: jax.Array) -> jax.Array:
    """Return ``table[places]`` for places in 0..n - 1; nothing checks that they are.

    Two things make this several times faster on a CPU than plain indexing: places
    without a sign need no look at negative ones, and reads apart from what is done
    with them (several reads in one fused loop wait for each other).

    Args:
      table: (n, ...).
      places: Integers of any shape.

    Returns:
      The entries, in the shape of `places` followed by (...).
    """
    unsigned = places.astype(jnp.uint32)
    found = table.at[unsigned].get(mode="promise_in_bounds")
    return lax.optimization_barrier(found)
