r"""Statements on the construction of tensor models (TM, sections 4.1 and 4.2)."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.models import tensor
from lowrank_jax.models.tensor import Params
from lowrank_jax.theory.certificate import Certificate, at_most, equal

__all__ = [
    "arrangement_certificate",
    "change_certificate",
    "energy_certificate",
    "mapping_certificate",
    "merge_certificate",
    "merge_modes",
    "norm_certificate",
    "order_certificate",
    "padding_certificate",
    "real_parameters",
]
__dir__ = __all__.copy


def merge_modes(params: Params, mode: int) -> Params:
    r"""Make two neighbouring modes one, :math:`q' = \mathrm{vec}(q^d\otimes q^{d+1})`.

    Args:
      params: Vectors of each mode, (H, n_d), of order 2 or more.
      mode: d, from 0; it becomes the faster index of the new mode. Static.
    """
    left, right = params[mode], params[mode + 1]
    merged = right[:, :, None] * left[:, None, :]
    return (
        *params[:mode],
        merged.reshape(left.shape[0], -1),
        *params[mode + 2 :],
    )


def merge_certificate(params: Params, mode: int) -> Certificate:
    r"""Compare the weights of a tensor with those after a merging (TM-T1).

    The index of the merged mode is :math:`i_d + n_d i_{d+1}`, so that each weight keeps
    its cell; true of each component, and so of any rank.

    Args:
      params: Vectors of each mode, (H, n_d).
      mode: First of the two modes to merge. Static.
    """
    return equal(
        _all_weights(merge_modes(params, mode)), _all_weights(params), num_axes=1
    )


def arrangement_certificate(
    numbers: jax.Array, arrangements: jax.Array, sizes: tuple[int, int]
) -> Certificate:
    r"""Decide whether numbers can be laid out as a table of rank 1 (TM-T1).

    A table of positive numbers has rank 1 if and only if its logarithms are a sum of
    row and column terms. Cells without a number are free. The residual of the best fit
    of such terms is 0 if the arrangement fits.

    Args:
      numbers: (V,) Positive numbers.
      arrangements: (K, V) int, each a permutation; number ``arrangements[k, c]`` goes
        to cell c, row by row, and cells from V on are free.
      sizes: Sizes of the table. Static.

    Returns:
      The least residual over the arrangements against 0.
    """
    rows, columns = np.divmod(np.arange(numbers.shape[0]), sizes[1])
    design = np.concatenate([np.eye(sizes[0])[rows], np.eye(sizes[1])[columns]], axis=1)
    rest = np.eye(len(rows)) - design @ np.linalg.pinv(design)
    logs = jnp.log(numbers)
    residuals = logs[arrangements] @ jnp.asarray(rest, logs.dtype)
    least = jnp.sqrt((residuals * residuals).sum(1).min())
    size = jnp.linalg.norm(logs)
    unit = 100 * jnp.finfo(logs.dtype).eps
    # Else it is rounding: of the logarithms, or of the numbers where they are near 1.
    least = jnp.where(least > unit * (size + 1), least, 0)
    return at_most(least, jnp.zeros_like(least), scale=size)


def real_parameters(num_features: jax.Array, most: int) -> jax.Array:
    r"""Return :math:`D V^{1/D}` for D = 1..most, (..., most) (TM-N1)."""
    orders = jnp.arange(1, most + 1).astype(num_features.dtype)
    orders = orders.reshape((1,) * num_features.ndim + (most,))
    return orders * jnp.exp(jnp.log(num_features)[..., None] / orders)


def order_certificate(num_features: jax.Array, parameters: jax.Array) -> Certificate:
    r"""Compare the orders next to :math:`\ln V` with all others (TM-N1).

    :math:`D V^{1/D}` is convex in D, with its least value at :math:`\ln V`: so it is
    least at the floor or the ceiling of it. Integer modes need not be: 11 modes of size
    3 hold :math:`3^{11} = 177147` weights with 33 parameters, and :math:`\ln 3^{11} =
    12.08`, where 12 and 13 modes need 34.

    Args:
      num_features: (...) V.
      parameters: (..., most) The parameters of D = 1..most.

    Returns:
      The fewest of the two orders next to ln V against the fewest of all.
    """
    logarithm = jnp.log(num_features)
    near = jnp.stack([jnp.floor(logarithm), jnp.ceil(logarithm)], axis=-1)
    near = jnp.clip(near, 1, parameters.shape[-1]).astype(jnp.int32) - 1
    few = jnp.take_along_axis(parameters, near, axis=-1).min(-1)
    return at_most(few, parameters.min(-1))


def padding_certificate(num_features: jax.Array, order: int) -> Certificate:
    r"""Compare the sizes of least padding with the sizes of the least sum (TM-N2).

    With j of D modes at :math:`n + 1` and the others at n, product and sum both grow
    with j: the least j whose product holds V has the least padding and the least sum.

    Args:
      num_features: (N,) V; products up to 2^53 are exact.
      order: D. Static.

    Returns:
      (N,) the sum of the sizes of least padding against the least sum.
    """
    low = jnp.floor(num_features ** (1 / order))
    low = jnp.where((low + 1) ** order <= num_features, low + 1, low)
    low = jnp.where(low**order > num_features, low - 1, low)
    cases = range(order + 1)
    # Whole powers are products, and so exact.
    products = jnp.stack([low ** (order - j) * (low + 1) ** j for j in cases], axis=1)
    sums = jnp.stack([order * low + j for j in cases], axis=1)
    fits = products >= num_features[:, None]
    padded = jnp.where(fits, products, jnp.inf)
    chosen = jnp.take_along_axis(sums, padded.argmin(1)[:, None], axis=1)[:, 0]
    return equal(chosen, jnp.where(fits, sums, jnp.inf).min(1))


def norm_certificate(params: Params) -> Certificate:
    r"""Compare the squared norm of a tensor with the product of its vectors' (TM-N4).

    :math:`\|\otimes_d w^d\|^2 = \prod_d\|w^d\|^2`, with the squares; of several
    components :math:`\sum_{h,h'}\prod_d\langle w_h^d, w_{h'}^d\rangle`.

    Args:
      params: Vectors of each mode, (H, n_d).
    """
    whole = _all_weights(params)
    norms = jnp.diagonal(tensor.gram(params, params))
    square = jnp.vdot(whole, whole)
    # Components may cancel out.
    return equal(tensor.gram(params, params).sum(), square, scale=norms.sum())


def change_certificate(params: Params, mode: int, vector: jax.Array) -> Certificate:
    r"""Compare the move of a tensor with the move of one vector (TM-N4).

    :math:`\|\hat T - T\|^2 = B\,\|\hat w - w\|^2`, B the product of the squared norms
    of the other vectors: the weight of the sub-problem.

    Args:
      params: Vectors of each mode, (H, n_d); the vector of the first component moves.
      mode: d, from 0. Static.
      vector: (n_d,) New value of the vector.
    """
    moved = tuple(
        part.at[0].set(vector) if d == mode else part for d, part in enumerate(params)
    )
    change = _all_weights(moved) - _all_weights(params)
    others = [part[0] for d, part in enumerate(params) if d != mode]
    weight = functools.reduce(jnp.multiply, [other @ other for other in others])
    delta = vector - params[mode][0]
    scale = weight * (vector @ vector + params[mode][0] @ params[mode][0])
    return equal(jnp.vdot(change, change), weight * (delta @ delta), scale=scale)


def mapping_certificate(place: jax.Array, num_cells: int) -> Certificate:
    """Count the features that have a cell of their own (TM-Alg1).

    Args:
      place: (V,) int, the cell of each feature.
      num_cells: Number of cells, at least V. Static.

    Returns:
      The number of cells in range that a feature has, against V: they are as many if
      and only if no two features share one and none lies outside.
    """
    is_taken = (
        jnp.zeros((num_cells,), bool)
        .at[_outside(place, num_cells)]
        .set(True, mode="drop")
    )
    return equal(is_taken.sum(), place.shape[0])


def energy_certificate(sequential: jax.Array, surrogate: jax.Array) -> Certificate:
    """Compare the energy one outer product holds under two mappings (TM-Alg1).

    Found to be larger for the surrogate mapping where the weights come in random order;
    weights that lie in their cells already need no mapping.

    Args:
      sequential: Share of the squared norm in rank 1, features as they come.
      surrogate: Share for features sorted by their weights.
    """
    return at_most(sequential, surrogate)


def _all_weights(params: Params) -> jax.Array:
    """Return all weights, cell by cell."""
    sizes = tuple(part.shape[1] for part in params)
    cells = jnp.arange(np.prod(sizes), dtype=jnp.int32)
    return tensor.weights(params, cells, sizes)


def _outside(place: jax.Array, num_cells: int) -> jax.Array:
    """Send cells below 0 beyond the end too: there a negative index counts back."""
    return jnp.where(place < 0, num_cells, place)
