"""Labelled matrices on the device, as the batch learners take them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.checks import InputError

__all__ = ["SMALL", "Labelled", "label_matrices"]
__dir__ = __all__.copy

#: Matrices of so many bytes in all are kept a second time, transposed: both products of
#: a sweep then run along the rows, which is what many fits side by side need.
SMALL = 2**26


class Labelled(NamedTuple):
    """Matrices with their classes, as the batch learners take them."""

    x: jax.Array  # (n, s, t)
    targets: jax.Array  # (n, m)  y_ic: 1 where i is of class c; the reference has none
    weights: jax.Array  # (n,)  of the loss, summing to 1
    turned: jax.Array | None = None  # (n, t, s)  x again, or None where x is large


def label_matrices(
    x: np.ndarray | jax.Array,
    y: np.ndarray,
    *,
    classes: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> tuple[Labelled, np.ndarray]:
    """Put matrices and their labels into the form of the learners; on the host.

    Of two classes the first in order is the reference (the second is "positive", as in
    scikit-learn); of more, the last is (SBLR-Eq28).

    Args:
      x: (n, s, t) real numbers.
      y: (n,) labels of any kind that sorts.
      classes: All labels there are, in order; None takes the labels of `y`.
      weights: (n,) zero or more; None weighs all alike. They are made to sum to 1.

    Returns:
      The matrices, and the classes in order.

    Raises:
      InputError: If the shapes do not fit, x is not finite, is zero throughout, or
        fewer than two classes are there.
    """
    y = np.asarray(y)
    if not isinstance(x, jax.Array):  # checked by NumPy: nothing is compiled
        x = np.asarray(x)
        x = x.astype(jax.dtypes.canonicalize_dtype(x.dtype), copy=False)
    if x.ndim != 3:
        raise InputError(
            f"`x` must have three dimensions (matrices, rows, columns), got shape "
            f"{x.shape}."
        )
    if y.shape != x.shape[:1]:
        raise InputError(
            f"`y` must have shape ({x.shape[0]},), one label per matrix, got {y.shape}."
        )
    if not jnp.issubdtype(x.dtype, jnp.floating):
        x = x.astype(np.float32)
    of = jnp if isinstance(x, jax.Array) else np
    if not bool(of.isfinite(x).all()):
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(np.asarray(x)))[0])
        raise InputError(
            f"`x` must be finite, got {float(x[place])} at {place}; fill or remove it."
        )
    if not bool((x != 0).any()):
        raise InputError("`x` is zero throughout: there is nothing to learn from.")
    found = np.unique(y)
    if classes is None:
        classes = found
    unknown = np.setdiff1d(found, classes)
    if unknown.size:
        raise InputError(
            f"`y` has the label {unknown[0]!s}, which is not among the classes "
            f"{', '.join(map(str, classes))}."
        )
    if len(classes) < 2:
        raise InputError(
            f"`y` must have at least two classes, got only {classes[0]!s}."
        )
    if weights is None:
        weights = np.ones(len(y))
    weights = np.asarray(weights, np.float64)
    is_weight = weights.shape == y.shape and bool((weights >= 0).all())
    if not is_weight or not 0 < weights.sum() < np.inf:
        raise InputError(
            f"`weights` must be {len(y)} numbers of zero or more with a positive sum."
        )
    columns = classes[1:] if len(classes) == 2 else classes[:-1]
    targets = y[:, None] == columns[None, :]
    labelled = Labelled(
        x=jnp.asarray(x),
        targets=jnp.asarray(targets, x.dtype),
        weights=jnp.asarray(weights / weights.sum(), x.dtype),
        turned=jnp.array(x.transpose(0, 2, 1)) if x.nbytes <= SMALL else None,
    )
    return labelled, np.asarray(classes)
