r"""The sum of structured hinges over a lattice, its subgradient, and its smoothing.

.. math:: L_S(H) = \sum_i \max_z \{F(x^i, z) + \ell(y^i, z)\} - F(x^i, y^i)
   \qquad\text{(SMM-N1, SMM-N4)}

A subgradient is +1 at each factor of the loss-augmented best paths and -1 at each
factor of the true ones.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax.decode.lattice_paths import best_paths, smooth_maximum
from lowrank_jax.models import hankel
from lowrank_jax.streams.words import Lattice

__all__ = [
    "Hinge",
    "SmoothedHinge",
    "gold_score",
    "hinge",
    "hinge_loss",
    "smoothed_hinge",
]
__dir__ = __all__.copy


class Hinge(NamedTuple):
    """The loss and a subgradient.

    Attributes:
      loss: () sum over words.
      num_wrong: () int32, Hamming cost of the loss-augmented paths.
      gradient: One matrix per block.
    """

    loss: jax.Array
    num_wrong: jax.Array
    gradient: hankel.Params


def hinge(
    blocks: tuple[hankel.Block, ...],
    params: hankel.Params,
    lattice: Lattice,
    *,
    has_boundary: bool = True,
) -> Hinge:
    """Return the sum of hinges and a subgradient."""
    table, pull_back = _table(blocks, params, has_boundary)
    paths = best_paths(table, lattice)
    turned = jnp.zeros((table.size + 1,), table.dtype)  # one more: steps that score 0
    turned = turned.at[paths.cells.reshape(-1)].add(1)
    turned = turned.at[jnp.asarray(lattice.gold_cells)].add(-1)
    counts = jnp.moveaxis(turned[:-1].reshape(table.shape), -1, 0)
    loss = paths.score - gold_score(table, lattice)
    return Hinge(loss, paths.num_wrong, pull_back(counts))


class SmoothedHinge(NamedTuple):
    """The smoothed loss and its gradient.

    Attributes:
      loss: () sum over words.
      cost: () the expected Hamming cost.
      gold: () score of the true paths, which the loss is a difference from.
      gradient: One matrix per block; expected less true counts.
    """

    loss: jax.Array
    cost: jax.Array
    gold: jax.Array
    gradient: hankel.Params


def smoothed_hinge(
    blocks: tuple[hankel.Block, ...],
    params: hankel.Params,
    lattice: Lattice,
    smoothing: float | jax.Array,
    *,
    has_boundary: bool = True,
    mixing: jax.Array | None = None,
) -> SmoothedHinge:
    """Return the sum of smoothed hinges (SMM-X1) and its gradient."""
    table, pull_back = _table(blocks, params, has_boundary, mixing)

    def loss(table: jax.Array, cost: jax.Array) -> tuple[jax.Array, jax.Array]:
        best = smooth_maximum(table, lattice, smoothing=smoothing, cost=cost)
        gold = gold_score(table, lattice)
        return best - gold, gold

    graded = jax.value_and_grad(loss, (0, 1), has_aux=True)
    (value, gold), (gradient, cost) = graded(table, jnp.ones((), table.dtype))
    return SmoothedHinge(value, cost, gold, pull_back(gradient))


def hinge_loss(
    blocks: tuple[hankel.Block, ...],
    params: hankel.Params,
    lattice: Lattice,
    smoothing: float | jax.Array | None = None,
    *,
    has_boundary: bool = True,
    mixing: jax.Array | None = None,
) -> jax.Array:
    """Return the sum of hinges alone, smoothed or (None) not."""
    table = hankel.score_table(blocks, params, has_boundary=has_boundary, mixing=mixing)
    if smoothing is None:
        best = best_paths(table, lattice).score
    else:
        best = smooth_maximum(table, lattice, smoothing=smoothing)
    return best - gold_score(table, lattice)


def _table(
    blocks: tuple[hankel.Block, ...],
    params: hankel.Params,
    has_boundary: bool,
    mixing: jax.Array | None = None,
) -> tuple:
    """Return the table of scores, and the map from its gradients to the blocks'."""

    def table_of(params: hankel.Params) -> jax.Array:
        return hankel.score_table(
            blocks, params, has_boundary=has_boundary, mixing=mixing
        )

    back = jax.linear_transpose(table_of, params)
    return table_of(params), lambda gradient: back(gradient)[0]


def gold_score(table: jax.Array, lattice: Lattice) -> jax.Array:
    """Return the sum over words of the score of the true path."""
    flat = jnp.moveaxis(table, 0, -1).reshape(-1)
    cells = jnp.asarray(lattice.gold_cells)
    return flat.at[cells].get(mode="fill", fill_value=0).sum()
