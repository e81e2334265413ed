r"""Mappings of features to the cells of a tensor (TM-Alg1), and how well they fit.

A tensor of low rank fits a weight vector well only if features of similar weight lie
close together. The surrogate mapping sorts the features by the weights of a cheap
model, a perceptron after one pass. A mapping is `place`, (V,) int32: feature j goes to
cell ``place[j]`` of a tensor whose first index is the fastest,
:math:`a = \sum_d i_d \prod_{d'<d} n_{d'}`.
"""

import math

import numpy as np

from lowrank_jax import checks
from lowrank_jax.checks import InputError

__all__ = [
    "leading_singular_values",
    "mapped",
    "rank_one_energy",
    "sequential_mapping",
    "sigma_ratio",
    "surrogate_mapping",
]
__dir__ = __all__.copy


def surrogate_mapping(surrogate: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    r"""Sort the features into the tensor by a surrogate's weights (TM-Alg1).

    Weights are padded with zeros first; zeros count as non-negative. Non-negative
    weights in descending order and negative weights in ascending order fill whole
    slices of :math:`u = \prod_{d<D} n_d` cells each. The rest of both fills the cells
    left.

    Args:
      surrogate: (V,) weights.
      sizes: Mode sizes (n_1, ..., n_D), with product V or more.

    Returns:
      (V,) int32, cell of each feature.
    """
    weights = np.asarray(surrogate)
    if not np.isfinite(weights).all():
        bad = int(np.flatnonzero(~np.isfinite(weights))[0])
        raise InputError(
            f"`surrogate` must be finite, got {weights[bad]} at feature {bad}."
        )
    num_cells = _num_cells(weights.size, sizes)
    padded = np.zeros(num_cells, weights.dtype)
    padded[: weights.size] = weights
    positive, negative = np.flatnonzero(padded >= 0), np.flatnonzero(padded < 0)
    positive = positive[np.argsort(-padded[positive], kind="stable")]
    negative = negative[np.argsort(padded[negative], kind="stable")]
    unit = num_cells // sizes[-1]  # u
    e = positive.size - positive.size % unit
    f = negative.size - negative.size % unit
    order = np.concatenate([positive[:e], negative[:f], positive[e:], negative[f:]])
    place = np.empty(num_cells, np.int32)
    place[order] = np.arange(num_cells, dtype=np.int32)
    return place[: weights.size]


def sequential_mapping(num_features: int, sizes: tuple[int, ...]) -> np.ndarray:
    """Lay the features out in their order, the last index fastest (TM-Alg1s).

    Args:
      num_features: V.
      sizes: Mode sizes (n_1, ..., n_D), with product V or more.

    Returns:
      (V,) int32, cell of each feature.
    """
    checks.whole(num_features=num_features)
    _num_cells(num_features, sizes)
    index = np.unravel_index(np.arange(num_features), sizes)
    return np.ravel_multi_index(index, sizes, order="F").astype(np.int32)


def mapped(
    weights: np.ndarray, place: np.ndarray, sizes: tuple[int, ...]
) -> np.ndarray:
    """Return the weights as a dense tensor of these sizes, with 0 in free cells.

    It serves to inspect a mapping; no learner needs it.
    """
    cells = np.zeros(math.prod(sizes), np.asarray(weights).dtype)
    cells[place] = weights
    return cells.reshape(sizes, order="F")


def leading_singular_values(
    tensor: np.ndarray, num_values: int = 20, mode: int = 0
) -> np.ndarray:
    """Return the largest singular values of an unfolding, descending (TM-Fig4).

    Args:
      tensor: Tensor from `mapped`.
      num_values: Largest number of values to return.
      mode: Mode whose index numbers the rows, from 0. A tensor of order 2 is its own
        unfolding.
    """
    checks.whole(num_values=num_values)
    rows = np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)
    return np.linalg.svd(rows, compute_uv=False)[:num_values]


def sigma_ratio(tensor: np.ndarray, mode: int = 0) -> float:
    """Return sigma_2 / sigma_1 of an unfolding, or 0 if its rank is 1 or 0."""
    values = leading_singular_values(tensor, 2, mode)
    return float(values[1] / values[0]) if values.size > 1 and values[0] > 0 else 0.0


def rank_one_energy(tensor: np.ndarray, num_steps: int = 50) -> float:
    r"""Return the largest share of :math:`\|T\|^2` that one outer product can hold.

    For order 2 this is :math:`\sigma_1^2/\sum\sigma^2`. For higher orders the search
    alternates over the modes, from the leading singular vectors of the unfoldings. It
    gives a lower bound that is close in practice.

    Args:
      tensor: Tensor from `mapped`, of any order.
      num_steps: Number of sweeps over the modes.
    """
    checks.whole(num_steps=num_steps)
    total = float((tensor.astype(np.float64) ** 2).sum())
    if total == 0:
        return 1.0
    if tensor.ndim == 1:
        return 1.0
    if tensor.ndim == 2:
        return float(leading_singular_values(tensor, 1)[0] ** 2) / total
    vectors = [_leading_left(tensor, mode) for mode in range(tensor.ndim)]
    value = 0.0
    for _ in range(num_steps):
        for mode in range(tensor.ndim):
            vector = tensor.astype(np.float64, copy=False)
            for other in reversed(range(tensor.ndim)):
                if other != mode:
                    vector = np.tensordot(vector, vectors[other], axes=(other, 0))
            value = float(np.linalg.norm(vector))
            if value > 0:
                vectors[mode] = vector / value
    return value**2 / total


def _leading_left(tensor: np.ndarray, mode: int) -> np.ndarray:
    rows = np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)
    rows = rows.astype(np.float64)
    return np.linalg.eigh(rows @ rows.T)[1][:, -1]


def _num_cells(num_features: int, sizes: tuple[int, ...]) -> int:
    num_cells = math.prod(sizes)
    if num_cells < num_features:
        raise InputError(
            f"`sizes` {sizes} hold {num_cells} cells, fewer than the {num_features} "
            "features; take `models.tensor.mode_sizes`."
        )
    return num_cells
