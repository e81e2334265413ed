"""Data sets of matrices: npz files with `x` (n, s, t) and `y` (n,)."""

import os
from typing import NamedTuple

import numpy as np

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.store.arrays import read_npz

__all__ = ["Matrices", "read_matrices"]
__dir__ = __all__.copy

_SPLITS = ("train", "test")
_WORDS = (
    "is not a readable npz file",
    "save it with numpy.savez(file, x=x, y=y), labels that are Python objects as "
    "y.astype(str)",
)


class Matrices(NamedTuple):
    """Matrices and their labels.

    Attributes:
      x: (n, s, t) float32.
      y: (n,) labels as in the file, or None.
      names: Names of the s rows (channels), or () if they are not given.
    """

    x: np.ndarray
    y: np.ndarray | None
    names: tuple[str, ...] = ()


def read_matrices(
    path: str | os.PathLike[str],
    x: str | None = None,
    y: str | None = None,
    *,
    split: str | None = None,
) -> Matrices:
    """Read matrices from an npz file.

    If `x` is not given, the keys are looked for in this order: ``x`` and ``y``;
    ``x_train`` and ``y_train`` (or ``_test``, by `split`); ``images`` and ``labels``.
    Labels may be missing. An array ``scale`` multiplies x. An array ``channels`` or
    ``names`` names the rows of x.

    Args:
      path: npz file.
      x: Key of the matrices.
      y: Key of the labels; needs `x`.
      split: ``"train"`` or ``"test"``, for a file that holds both. None means the
        training part.

    Returns:
      The matrices and their labels.

    Raises:
      InputError: If the file is not an npz file, or a key or the `split` is missing.
        Also if x does not have three dimensions, is not numeric or not finite, or if x
        and y differ in length.
    """
    name = os.fspath(path)
    if split is not None:
        checks.choice(_SPLITS, split=split)
    if y is not None and x is None:
        raise InputError(f"`x` must be given if `y` is given, got only y={y!r}.")
    arrays = read_npz(path, words=_WORDS)
    x, y = _choose_keys(arrays, name, x, y, split)
    values = _matrices(arrays[x], f"`{x}` of {name}", arrays.get("scale"))
    labels = None if y is None else arrays[y]
    if labels is not None:
        _check_labels(labels, f"`{y}` of {name}", values.shape[0], x)
    names = arrays.get("channels", arrays.get("names"))
    if names is not None and names.shape != (values.shape[1],):
        raise InputError(
            f"the row names of {name} must be {values.shape[1]} strings, one per row "
            f"of `{x}`, got shape {names.shape}."
        )
    row_names = () if names is None else tuple(map(str, names.tolist()))
    return Matrices(values, labels, row_names)


def _choose_keys(
    arrays: dict[str, np.ndarray],
    name: str,
    x: str | None,
    y: str | None,
    split: str | None,
) -> tuple[str, str | None]:
    """Return the keys of matrices and labels."""
    present = ", ".join(sorted(arrays)) or "none"
    if x is not None:
        for key in (x, y):
            if key is not None and key not in arrays:
                raise InputError(f"{name} has no array {key!r}; it has {present}.")
        return x, y
    part = split or "train"
    for x_key, y_key, is_split in (
        ("x", "y", False),
        (f"x_{part}", f"y_{part}", True),
        ("images", "labels", False),
    ):
        if x_key in arrays:
            if split is not None and not is_split:
                raise InputError(
                    f"{name} has no {split} part, only {present}; leave `split` out "
                    f"and divide it yourself."
                )
            return x_key, y_key if y_key in arrays else None
    raise InputError(
        f"{name} has no array 'x', 'x_{part}' or 'images'; it has {present}: name the "
        f"array to use."
    )


def _matrices(array: np.ndarray, what: str, scale: np.ndarray | None) -> np.ndarray:
    """Check the matrices and return them as float32."""
    if array.ndim != 3 or 0 in array.shape:
        raise InputError(
            f"{what} must have three dimensions (matrices, rows, columns) and no empty "
            f"one, got shape {array.shape}."
        )
    if array.dtype.kind not in "fiub":
        raise InputError(f"{what} must hold real numbers, got dtype {array.dtype}.")
    if scale is not None:
        fits = scale.dtype.kind in "fiub" and scale.ndim <= 3
        fits = fits and all(
            size in (1, whole)
            for size, whole in zip(scale.shape[::-1], array.shape[::-1], strict=False)
        )
        if not fits:
            raise InputError(
                f"`scale` of the file must hold numbers that multiply {what} of shape "
                f"{array.shape}, got {scale.dtype} of shape {scale.shape}."
            )
    with np.errstate(over="ignore", invalid="ignore"):
        values = array.astype(np.float32)
        if scale is not None:
            values *= scale.astype(np.float32)
    is_bad = ~np.isfinite(values)
    if is_bad.any():
        place = tuple(int(i) for i in np.argwhere(is_bad)[0])
        raise InputError(
            f"{what} must be finite in float32, got {array[place]} at {place} and "
            f"{np.count_nonzero(is_bad)} such values in all; fill or remove them."
        )
    return values


def _check_labels(labels: np.ndarray, what: str, num_matrices: int, x: str) -> None:
    """Check the kind and the shape of the labels and that none is missing."""
    if labels.dtype.kind not in "fiubU":
        raise InputError(
            f"{what} must hold numbers or text, got dtype {labels.dtype}; decode bytes "
            "with y.astype(str)."
        )
    if labels.shape != (num_matrices,):
        raise InputError(
            f"{what} must have shape ({num_matrices},), one label per matrix of `{x}`, "
            f"got {labels.shape}."
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        place = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise InputError(
            f"{what} must be finite, got {labels[place]} at {place}; remove that "
            f"matrix or label it."
        )
