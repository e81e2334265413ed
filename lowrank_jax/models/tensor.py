r"""Weights as a tensor of low CP rank, scored sparsely (TM-M1, TM-Eq1, TM-Eq2).

The V weights of a linear model are laid out as a tensor of order D (TM-D1), and the
tensor is a sum of H outer products:

.. math:: w_{i_1\dots i_D} = \sum_{h=1}^H w^1_{h,i_1}\cdots w^D_{h,i_D}
   \qquad \text{(TM-Eq2)}

so :math:`H\sum_d n_d` numbers stand for :math:`\prod_d n_d \ge V`. A feature is its
cell :math:`a = \sum_d i_d \prod_{d'<d} n_{d'}` (first index fastest, as TM-Alg1), and
the indices come from it by arithmetic; which feature has which cell is the mapping
(`features.mapping`). The dense tensor is never built.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.linalg.gather import read
from lowrank_jax.models import candidates
from lowrank_jax.streams.lists import Candidates

__all__ = [
    "Params",
    "Shape",
    "best_order",
    "check_shape",
    "constant",
    "gram",
    "indices",
    "mode_sizes",
    "num_parameters",
    "random",
    "scores",
    "weights",
]
__dir__ = __all__.copy

_MOST_CELLS = 2**31 - 1  # cells are int32
_MOST_MODES = 64  # 31 of size 2 already have too many cells


class Shape(NamedTuple):
    """Sizes of a tensor model: static and hashable.

    Attributes:
      sizes: (n_1, ..., n_D). Cells are numbered with the first index fastest, the order
        of Fortran, not of NumPy. `Lists.from_dense` takes features in either order.
      num_components: H.
    """

    sizes: tuple[int, ...]
    num_components: int = 1

    @property
    def order(self) -> int:
        """How many modes the tensor has: D."""
        return len(self.sizes)

    @property
    def num_cells(self) -> int:
        """How many weights the tensor stands for."""
        return math.prod(self.sizes)


def check_shape(shape: Shape) -> None:
    """Raise `InputError` unless a model of this shape can be made."""
    if not isinstance(shape, Shape):
        raise InputError(
            f"`shape` must be a Shape(sizes, num_components), got {shape!r}."
        )
    if not isinstance(shape.sizes, tuple) or not shape.sizes:
        raise InputError(
            f"`sizes` must be a tuple of one size or more, got {shape.sizes!r}."
        )
    for size in shape.sizes:
        checks.whole(sizes=size)
    checks.whole(num_components=shape.num_components)
    for name, number in (
        ("cells", shape.num_cells),
        ("parameters", num_parameters(shape)),
    ):
        if number > _MOST_CELLS:
            raise InputError(
                f"`shape` must have at most {_MOST_CELLS} {name}, got {number} of "
                f"sizes {shape.sizes} and num_components {shape.num_components}."
            )


Params = tuple[jax.Array, ...]  # for each mode d the vectors w_h^d, (H, n_d)


def num_parameters(shape: Shape) -> int:
    """Count the numbers of a model: H times the sum of the mode sizes."""
    return shape.num_components * sum(shape.sizes)


def mode_sizes(num_features: int, order: int) -> tuple[int, ...]:
    r"""Return near-equal mode sizes with the least padding (TM-N2).

    Each is :math:`\lfloor V^{1/D}\rfloor` or the next integer; by symmetry only their
    number counts, so D + 1 cases are tried.

    Args:
      num_features: V.
      order: D.

    Returns:
      (n_1, ..., n_D) ascending, with product V or more.
    """
    checks.whole(num_features=num_features, order=order)
    if order > _MOST_MODES:
        raise InputError(f"`order` must be at most {_MOST_MODES}, got {order}.")
    low = round(num_features ** (1 / order))
    while low**order > num_features:
        low -= 1
    while (low + 1) ** order <= num_features:
        low += 1
    # The more small modes the smaller the product: the last that holds V is the best.
    num_low = max(
        n for n in range(order + 1) if low**n * (low + 1) ** (order - n) >= num_features
    )
    sizes = (low,) * num_low + (low + 1,) * (order - num_low)
    if math.prod(sizes) > _MOST_CELLS:
        raise InputError(
            f"`num_features` must be less than 2**31 with the padding, got "
            f"{num_features}."
        )
    return sizes


def best_order(num_features: int, *, integer: bool = True) -> int:
    r"""Return the order with the fewest parameters (TM-N1); the lowest of equals.

    Args:
      num_features: V.
      integer: True counts :math:`\sum_d n_d` of `mode_sizes`; False minimises
        :math:`D V^{1/D}`, as the paper does, which is convex with its least value at
        :math:`\ln V`, so that the floor or the ceiling of it is the answer.
    """
    checks.whole(num_features=num_features)
    logarithm = math.log(num_features)
    if integer:
        # Beyond log2 V every mode has size 2 or more for nothing.
        most = max(1, math.ceil(math.log2(max(num_features, 2))))
        tried = range(1, most + 1)
        return min(tried, key=lambda order: sum(mode_sizes(num_features, order)))
    around = {max(1, math.floor(logarithm)), max(1, math.ceil(logarithm))}
    return min(sorted(around), key=lambda order: order * math.exp(logarithm / order))


def indices(cells: jax.Array, sizes: tuple[int, ...]) -> tuple[jax.Array, ...]:
    """Return (i_1, ..., i_D) of each cell, from 0, each shaped as `cells`.

    A cell beyond the last (id V, "not a feature") gets some valid indices.
    """
    found, rest = [], cells.astype(jnp.uint32)
    for size in sizes[:-1]:
        found.append(rest % size)
        rest = rest // size
    return (*found, jnp.minimum(rest, sizes[-1] - 1))


def weights(params: Params, cells: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    """Return the weight of each cell (TM-Eq2), shaped as `cells`."""
    product = None
    for factor, index in zip(params, indices(cells, sizes), strict=True):
        part = read(factor.T, index)  # (..., H)
        product = part if product is None else product * part
    assert product is not None
    return product.sum(axis=-1)


def scores(params: Params, example: Candidates) -> jax.Array:
    """Return the score of each candidate (TM-Eq1), -inf where there is none.

    Args:
      params: Parameters of the model.
      example: List whose feature ids are cells (`data.lists.remap`).
    """
    sizes = tuple(factor.shape[1] for factor in params)
    return candidates.scores(
        lambda params, cells: weights(params, cells, sizes),
        params,
        example,
        params[0].dtype,
    )


def gram(one: Params, other: Params) -> jax.Array:
    """Return the inner products of the components of two models, (H, H')."""
    products = [a @ b.T for a, b in zip(one, other, strict=True)]
    return math.prod(products[1:], start=products[0])


def constant(shape: Shape, dtype: jnp.dtype) -> Params:
    """Return equal entries with a tensor of Frobenius norm 1 (TM-I1).

    All components are equal then, and stay so while every step is clipped (DR-T3).
    """
    one = tuple(
        jnp.ones((shape.num_components, size), dtype) / math.sqrt(size)
        for size in shape.sizes
    )
    return tuple(part * shape.num_components ** (-1 / shape.order) for part in one)


def random(
    key: jax.Array, shape: Shape, dtype: jnp.dtype, *, lowest: float = -1.0
) -> Params:
    """Return uniform entries, scaled to a tensor of Frobenius norm 1 (TM-I1).

    The vectors of all modes and components get the same length.

    Args:
      key: Random key.
      shape: Shape of the tensor.
      dtype: Type of the entries.
      lowest: Smallest entry. Entries are uniform between it and 1 before scaling.
    """
    checks.random_key(key)
    keys = jax.random.split(key, shape.order)
    drawn = []
    for part, size in zip(keys, shape.sizes, strict=True):
        entries = jax.random.uniform(
            part, (shape.num_components, size), dtype, minval=lowest, maxval=1
        )
        drawn.append(entries / jnp.linalg.norm(entries, axis=1, keepdims=True))
    square = gram(tuple(drawn), tuple(drawn)).sum()
    # Components of modes of size 1 may cancel out: then the norm is not made 1.
    scale = jnp.maximum(square, 1e-4) ** (-0.5 / shape.order)
    return tuple(part * scale for part in drawn)
