"""Matrices nearly of rank one with planted weights, made from an integer seed."""

from typing import Any, NamedTuple

import numpy as np

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.data.made import draws
from lowrank_jax.data.matrices import Matrices

__all__ = ["DenseTruth", "dense_task"]
__dir__ = __all__.copy


class DenseTruth(NamedTuple):
    """The planted weights of a binary task.

    Attributes:
      left: (m,) float64, of norm 1.
      right: (n,) float64, of norm 1; W is the outer product of `left` and `right`.
      margin: Smallest ``|<W, x>|`` over all matrices made.
      clean_labels: (num_train,) training labels before noise.
    """

    left: np.ndarray
    right: np.ndarray
    margin: float
    clean_labels: np.ndarray


def dense_task(
    num_train: int,
    num_test: int,
    *,
    seed: int,
    shape: tuple[int, int] = (12, 10),
    spread: float = 1.0,
    perturbation: float = 0.02,
    noise: float = 0.0,
    margin: float = 0.0,
    dtype: Any = np.float32,
) -> tuple[Matrices, Matrices, DenseTruth]:
    r"""Make binary classification of matrices nearly of rank one (BOL-P5).

    With planted unit vectors u and v, :math:`W = uv^\top`, a matrix is
    :math:`x_i = \pm a_i b_i^\top + \epsilon G_i`, G Gaussian. Here a is the direction
    of u plus a Gaussian vector of length about `spread`, and b is made from v in the
    same way. The label is the sign of :math:`\langle W, x_i\rangle`, and
    :math:`\Delta\Phi = y_i x_i`. With ``spread=0`` every x is close to W or its
    negative, so the assumption of BOL-P5 holds. A large spread makes the directions
    arbitrary.

    Args:
      num_train: Number of matrices to train on.
      num_test: Number of matrices to test on.
      seed: Seed of NumPy's default generator.
      shape: Rows and columns of each matrix.
      spread: Distance of the two directions of x from the planted ones.
      perturbation: Standard deviation of each entry of the full-rank part.
      noise: Share of training labels that are flipped; 0 is separable.
      margin: Least ``|<W, x>|``; matrices with a smaller one are not used.
      dtype: Type of x and y, float32 or float64.

    Returns:
      ``(train, test, truth)``: two sets of matrices with labels -1 and +1, in the dtype
      of x, and the planted vectors.

    Raises:
      InputError: If an argument is out of range or hardly any matrix has the margin.
    """
    checks.whole(num_train=num_train, num_test=num_test)
    checks.whole(**{f"shape[{i}]": size for i, size in enumerate(shape)})
    checks.non_negative(spread=spread, perturbation=perturbation, margin=margin)
    draws.check_share("noise", noise)
    rng = np.random.default_rng(seed)
    left, right = (draws.unit(rng.standard_normal(size)) for size in shape)

    def stray(direction: np.ndarray, count: int) -> np.ndarray:
        step = rng.standard_normal((count, direction.size)) / np.sqrt(direction.size)
        return draws.unit(direction + spread * step)

    def draw(count: int) -> tuple[Matrices, float]:
        kept: list[np.ndarray] = []
        num_drawn, num_found = 0, 0
        while num_found < count:
            if num_drawn > draws.MOST_TRIES * count:
                raise InputError(
                    f"`margin` must be smaller: only {num_found} of {num_drawn} "
                    f"matrices reach {margin}."
                )
            size = max(count - num_found, 64)
            sign = rng.choice([-1.0, 1.0], size)
            x = np.einsum("i,ia,ib->iab", sign, stray(left, size), stray(right, size))
            x += perturbation * rng.standard_normal(x.shape)
            score = np.einsum("a,iab,b->i", left, x, right)
            good = np.flatnonzero(np.abs(score) >= margin)[: count - num_found]
            kept.append(x[good])
            num_drawn, num_found = num_drawn + size, num_found + good.size
        x = np.concatenate(kept)
        score = np.einsum("a,iab,b->i", left, x, right)
        y = np.where(score < 0, -1, 1)
        return Matrices(x.astype(dtype), y.astype(dtype)), float(np.abs(score).min())

    train, train_margin = draw(num_train)
    test, test_margin = draw(num_test)
    assert train.y is not None
    truth = DenseTruth(left, right, min(train_margin, test_margin), train.y)
    is_flipped = draws.flip(rng, np.zeros(num_train, np.int32), noise, 2) == 1
    return Matrices(train.x, np.where(is_flipped, -train.y, train.y)), test, truth
