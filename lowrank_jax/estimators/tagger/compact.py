"""Bilinear tables with one row per touched feature: trimmed, in a file, by feature.

A feature that no mistake has touched keeps the weights of the start. A trained table
has row 0 for all such features, then the rows of the others in the order of the
features (`online.touched` has them in the order of their first mistake, with room for
more). The index is then known from one bit per feature. A file has that bit, one bit
per entry of the table and the entries that are not zero. NumPy alone.
"""

from collections.abc import Mapping

import numpy as np

__all__ = ["dtype_of", "pack", "read", "trimmed", "unpack"]

Weights = Mapping[str, np.ndarray]


def read(weights: Weights, features: np.ndarray | int | None = None) -> np.ndarray:
    """Return the rows of features of a bilinear model, with an index or without.

    Args:
      weights: Arrays of the model by name.
      features: Feature ids of any shape; None takes all K + 1 rows.
    """
    table, rows = weights["table"], weights.get("rows")
    if rows is None:
        return table if features is None else table[features]
    return table[rows if features is None else rows[features]]


def dtype_of(weights: Weights) -> np.dtype:
    """Return the type of the weights; the index is none of them."""
    return next(part.dtype for name, part in weights.items() if name != "rows")


def trimmed(
    table: np.ndarray, index: np.ndarray, *, by_feature: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return a table without rows that no feature has, and its index.

    Args:
      table: (R, width), the row of feature k is ``index[k]``.
      index: (K + 1,) int32; 0 marks features that were not touched.
      by_feature: True if the table is (K + 1, width), the row of feature k is row k.
        All features that were not touched must then have equal rows.
    """
    features = np.flatnonzero(index)
    untouched = np.flatnonzero(index == 0)[:1]
    first = untouched if untouched.size else np.array([len(index) - 1])
    at = np.concatenate([first, features])
    rows = np.zeros(len(index), np.int32)
    rows[features] = np.arange(1, len(features) + 1)
    return table[at if by_feature else index[at]], rows


def pack(weights: Weights) -> dict[str, np.ndarray]:
    """Return the arrays of a model as a file has them."""
    if "rows" not in weights:
        return dict(weights)
    table, rows = trimmed(weights["table"], weights["rows"])
    is_filled = table.view(f"u{table.dtype.itemsize}") != 0  # so -0.0 survives
    packed = {name: part for name, part in weights.items() if name != "rows"}
    return packed | {
        "table": table[is_filled],
        "filled": np.packbits(is_filled, axis=0),
        "touched": np.packbits(rows != 0),
    }


def unpack(packed: Weights, num_features: int) -> dict[str, np.ndarray]:
    """Undo `pack`.

    Args:
      packed: Arrays of a file.
      num_features: K.

    Raises:
      ValueError: If the sizes do not fit each other.
    """
    weights = {name: part for name, part in packed.items() if name != "rows"}
    if "touched" not in packed:
        return weights
    values, filled, touched = (
        weights.pop(name) for name in ("table", "filled", "touched")
    )
    num_bits = num_features + 1
    if touched.dtype != np.uint8 or touched.shape != (-(-num_bits // 8),):
        raise ValueError(f"an index of {touched.size} bytes for {num_bits} rows")
    is_touched = np.unpackbits(touched, count=num_bits).astype(bool)
    num_rows = 1 + int(is_touched.sum())
    if filled.dtype != np.uint8 or filled.ndim != 2 or len(filled) != -(-num_rows // 8):
        raise ValueError(f"a table of shape {filled.shape} for {num_rows} rows")
    is_filled = np.unpackbits(filled, axis=0, count=num_rows).astype(bool)
    if values.shape != (int(is_filled.sum()),):
        raise ValueError(f"{values.shape} entries of the table")
    weights["table"] = np.zeros(is_filled.shape, values.dtype)
    weights["table"][is_filled] = values
    ranks = np.cumsum(is_touched, dtype=np.int32)
    return weights | {"rows": np.where(is_touched, ranks, np.int32(0))}
