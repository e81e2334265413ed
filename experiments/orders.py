"""Orders of passes for experiments that keep one key per pass and problem."""

import jax
import jax.numpy as jnp

__all__ = ["shuffled"]


def shuffled(key: jax.Array, index: int, size: int) -> jax.Array:
    """Return a shuffle of 0..size-1 that depends on the key and the pass alone."""
    key = jax.random.fold_in(key, index)
    return jax.random.permutation(key, jnp.arange(size, dtype=jnp.int32))
