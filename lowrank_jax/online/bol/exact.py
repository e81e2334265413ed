r"""The true mirror map of BOL-Eq8 for block-diagonal features: a diagnostic.

For a block-diagonal Theta, :math:`\nabla F_1^*(\Theta) = \sigma_1 u_1 v_1^\top`
(BOL-P2) lies in the one block with the largest :math:`\sigma_1`. Every other feature
has weight 0 (errata of BOL-Alg2 (a), proved). This variant shows it. An SVD of each
touched block gives the singular values. Signs agree with the pair before (errata of
BOL-X2).
"""

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax.linalg import max_tree, spectra
from lowrank_jax.models import bilinear
from lowrank_jax.online import entries, mistakes
from lowrank_jax.online.bol.block import theta_of
from lowrank_jax.types import Sentence

__all__ = ["map_top", "second_value", "track_sigma"]
__dir__ = __all__.copy


def track_sigma(
    sigma: max_tree.MaxTree,
    blocks: jax.Array | entries.Blocks,
    example: Sentence,
    differences: mistakes.Differences,
) -> max_tree.MaxTree:
    """Update the leading singular value of each touched block by an SVD."""
    space = example.space

    def one(n: jax.Array, sigma: max_tree.MaxTree) -> max_tree.MaxTree:
        here = mistakes.position(example, differences, n)
        ids = here.ids[jnp.array(space.first_order, jnp.int32)]
        theta = theta_of(blocks, ids, None, space.num_labels)
        values = spectra.singular_values(theta)[:, 0]
        return max_tree.replace(sigma, ids, values)

    count = differences.num_positions
    return lax.fori_loop(jnp.zeros_like(count), count, one, sigma)


def map_top(
    table: jax.Array,
    blocks: jax.Array | entries.Blocks,
    sigma: max_tree.MaxTree,
    old_index: jax.Array,
    num_labels: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Move the only block in use to where sigma_1 is largest.

    Returns:
      The table, the index of the new block, and the change of the factors' columns.
      The change serves averaging; it has a row for the old block and one for the new.
    """
    index = max_tree.argmax(sigma)
    theta = theta_of(blocks, index[None], None, num_labels)[0]
    u, values, vt = spectra.svd(theta)
    old = bilinear.split(table[old_index], num_labels)
    left, right = u[:, 0] * values[0], vt[0]
    agreement = (left * old.left[0]).sum() + (right * old.right[0]).sum()
    sign = jnp.where((index == old_index) & (agreement < 0), -1, 1).astype(left.dtype)
    columns = bilinear.join(sign * left[None, None], sign * right[None, None])[0]
    columns = jnp.where(values[0] > 0, columns, 0)
    where = jnp.stack([old_index, index])
    before = table[where, num_labels:]
    after = jnp.stack([jnp.where(index == old_index, columns, 0), columns])
    change = (after - before).at[0].multiply((index != old_index).astype(table.dtype))
    table = table.at[where, num_labels:].set(after)
    return table, index, change


def second_value(
    blocks: jax.Array | entries.Blocks, sigma: max_tree.MaxTree, num_labels: int
) -> jax.Array:
    r"""Return :math:`\sigma_2(\Theta)` over all blocks, exactly."""
    index = max_tree.argmax(sigma)
    theta = theta_of(blocks, index[None], None, num_labels)[0]
    values = spectra.singular_values(theta)
    others = max_tree.largest_without(sigma, index)
    return jnp.maximum(others, values[1]) if values.shape[0] > 1 else others
