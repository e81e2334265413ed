r"""The largest of many numbers, kept exactly while a few of them change.

A tree of maxima with `BRANCHING` children per node: changing one leaf costs
:math:`O(\log K)`, reading the maximum costs nothing. It serves
:math:`\sigma_1(\Theta) = \max_k \sigma_1(\Theta_k)` of a block-diagonal
:math:`\Theta` (errata of BOL-Eq9-12), whose cost must not grow with :math:`K`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

__all__ = ["MaxTree", "argmax", "build", "largest", "largest_without", "replace"]
__dir__ = __all__.copy

BRANCHING = 16  # one cache line of float32: a node's children are read together


class MaxTree(NamedTuple):
    """Levels from the leaves to the root, each padded to whole nodes."""

    levels: tuple[jax.Array, ...]  # (K padded,), ..., (BRANCHING,)


def build(values: jax.Array) -> MaxTree:
    """Build the tree over `values` (K,), which must be zero or more."""
    levels = [_pad(values)]
    while levels[-1].shape[0] > BRANCHING:
        levels.append(_pad(levels[-1].reshape(-1, BRANCHING).max(axis=1)))
    return MaxTree(tuple(levels))


def replace(tree: MaxTree, indices: jax.Array, values: jax.Array) -> MaxTree:
    """Set the leaves `indices` (n,) to `values` (n,); equal indices, equal values."""
    levels = []
    for depth, level in enumerate(tree.levels):
        level = level.at[indices].set(values)
        levels.append(level)
        if depth + 1 < len(tree.levels):
            indices = indices // BRANCHING
            offsets = jnp.arange(BRANCHING, dtype=indices.dtype)
            children = indices[:, None] * BRANCHING + offsets[None, :]
            values = level[children].max(axis=1)
    return MaxTree(tuple(levels))


def largest(tree: MaxTree) -> jax.Array:
    """Return the maximum over all leaves."""
    return tree.levels[-1].max()


def argmax(tree: MaxTree) -> jax.Array:
    """Return the smallest index of a leaf that has the maximum."""
    index = jnp.zeros((), jnp.int32)
    for level in tree.levels[::-1]:
        children = index * BRANCHING + jnp.arange(BRANCHING, dtype=jnp.int32)
        index = children[jnp.argmax(level[children])]
    return index


def largest_without(tree: MaxTree, index: jax.Array) -> jax.Array:
    """Return the maximum over all leaves but `index` (0 if there is no other)."""
    best = jnp.zeros((), tree.levels[0].dtype)
    for level in tree.levels:
        parent = index // BRANCHING
        siblings = parent * BRANCHING + jnp.arange(BRANCHING, dtype=index.dtype)
        others = jnp.where(siblings == index, 0, level[siblings])
        best = jnp.maximum(best, others.max())
        index = parent
    return best


def _pad(values: jax.Array) -> jax.Array:
    return jnp.pad(values, (0, -values.shape[0] % BRANCHING))
