"""Tables with one row per touched feature: trimmed, in a file, by feature.

A feature that no mistake has touched keeps the weights of the start. A trained table
has row 0 for all such features, then the rows of the others in the order of the
features (`online.touched` has them in the order of their first mistake, with room for
more). The index is then known from one bit per feature. A file has that bit, one bit
per entry of the table and the entries that are not zero. Of first-order weights by
their entries (`models.blocks`: keys, slots, pages) a file has places and values. NumPy
alone.
"""

from collections.abc import Mapping

import numpy as np

from lowrank_jax.data import records
from lowrank_jax.data.sequences import MOST_RANK

__all__ = [
    "blocks",
    "by_entries",
    "dtype_of",
    "pack",
    "read",
    "trim",
    "trimmed",
    "unpack",
]
__dir__ = __all__.copy

Weights = Mapping[str, np.ndarray]


_SLOTS = 7  # entries in a record of a model


def read(
    weights: Weights, features: np.ndarray | int | None = None, name: str = "table"
) -> np.ndarray:
    """Return the rows of features of a table, with an index or without.

    Args:
      weights: Arrays of the model by name.
      features: Feature ids of any shape; None takes all K + 1 rows.
      name: Name of the table.
    """
    table, rows = weights[name], weights.get("rows")
    if rows is None:
        return table if features is None else table[features]
    return table[rows if features is None else rows[features]]


def blocks(
    weights: Weights,
    features: np.ndarray,
    num_labels: int,
    times: np.ndarray | None = None,
) -> np.ndarray:
    """Return first-order weights of a linear model, summed over columns of features.

    Args:
      weights: Arrays of the model by name.
      features: (n, num_columns) feature ids.
      num_labels: S.
      times: (n, num_columns) values of the features, or None for 1 each.

    Returns:
      (n, S, S + 1). Sums are taken in the order of `models.blocks.scores`.
    """
    if "first" in weights:
        found = np.zeros((len(features), num_labels, num_labels + 1), dtype_of(weights))
        for t, column in enumerate(features.T):
            found += _scaled(weights["first"][column], times, t)
        return found
    rows = weights["rows"][features]
    record, values = weights["keys"][rows], weights["slots"][rows]
    pages = weights["pages"]
    block = np.array(_scaled(pages[record[:, 0, 0]], times, 0))
    for t in range(1, features.shape[1]):
        block += _scaled(pages[record[:, t, 0]], times, t)
    if times is not None:
        values = values * times.astype(values.dtype)[:, :, None]
    more = np.zeros_like(block)
    lane = np.arange(len(features))[:, None, None]
    np.add.at(more, (lane, np.maximum(record[:, :, 1:] - 1, 0)), values[:, :, 1:])
    block, stride = block + more, _stride(num_labels)
    block = block[:, : num_labels * stride].reshape(-1, num_labels, stride)
    return block[:, :, : num_labels + 1]


def _scaled(rows: np.ndarray, times: np.ndarray | None, t: int) -> np.ndarray:
    if times is None:
        return rows
    return rows * times[:, t].astype(rows.dtype).reshape(-1, *(1,) * (rows.ndim - 1))


def _stride(num_labels: int) -> int:
    return -(-(num_labels + 1) // 8) * 8


def dtype_of(weights: Weights) -> np.dtype:
    """Return the type of the weights; index and keys are none of them."""
    names = (name for name in weights if name not in ("rows", "keys"))
    return weights[next(names)].dtype


def by_entries(weights: Weights) -> dict[str, np.ndarray]:
    """Return a linear model whose first-order weights are kept by their entries."""
    if "first" not in weights:
        return dict(weights)
    first = weights["first"]
    num_features, num_labels = len(first) - 1, first.shape[1]
    row, current, previous = np.nonzero(first[:-1])
    place = current * _stride(num_labels) + previous
    found = records.Listed(row + 1, place, first[row, current, previous])
    size = -(-num_labels * _stride(num_labels) // 16) * 16
    made = records.build(found, num_features + 2, size, _SLOTS)._asdict()
    made["rows"] = np.arange(1, num_features + 2, dtype=np.int32)
    if "zero" in weights:
        made["zero"] = np.pad(weights["zero"], ((1, 0), (0, 0)))
    return {k: v for k, v in weights.items() if k not in ("first", "zero")} | made


def trim(weights: Weights) -> dict[str, np.ndarray]:
    """Return a model without rows that no feature has, rows in order of features."""
    if "rows" not in weights:
        return dict(weights)
    result, index = dict(weights), weights["rows"]
    name = "table" if "table" in weights else "zero"
    if name in weights:
        result[name], result["rows"] = trimmed(weights[name], index)
    if "keys" in weights:
        names = "keys", "slots", "pages"
        found = records.listed(*(weights[n] for n in names))
        features = np.flatnonzero(index)
        rows = np.zeros(len(index), np.int32)
        rows[features] = np.arange(1, len(features) + 1)
        place = np.zeros(len(weights["keys"]), np.int64)
        place[index] = rows
        found = found._replace(rows=place[found.rows])
        size = weights["pages"].shape[1]
        made = records.build(found, len(features) + 1, size, _SLOTS)
        result |= dict(zip(names, made, strict=True)) | {"rows": rows}
    return result


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
    weights = trim(weights)
    left_out = ("rows", "keys", "slots", "pages")
    packed = {name: part for name, part in weights.items() if name not in left_out}
    packed["touched"] = np.packbits(weights["rows"] != 0)
    name = "table" if "table" in weights else "zero"
    if name in weights:
        table = weights[name]
        is_filled = table.view(f"u{table.dtype.itemsize}") != 0  # so -0.0 survives
        packed |= {name: table[is_filled], "filled": np.packbits(is_filled, axis=0)}
    if "keys" in weights:
        found = records.listed(weights["keys"], weights["slots"], weights["pages"])
        places = found.rows.astype(np.int64) * weights["pages"].shape[1] + found.places
        order = np.argsort(places)
        packed["places"] = np.diff(places[order], prepend=0)
        packed["entries"] = found.values[order]
    return packed


def unpack(
    packed: Weights, num_features: int, num_labels: int
) -> dict[str, np.ndarray]:
    """Undo `pack`.

    Args:
      packed: Arrays of a file.
      num_features: K.
      num_labels: S.

    Raises:
      ValueError: If the sizes do not fit each other.
    """
    most = num_labels + MOST_RANK * (num_labels + _stride(num_labels)) + 16
    for name in {"table", "filled"} & packed.keys():
        if packed[name].ndim > 1 and packed[name].shape[1] > most:
            raise ValueError(f"{packed[name].shape[1]} columns of {name!r}")
    left_out = ("rows", "keys", "slots", "pages")
    weights = {name: part for name, part in packed.items() if name not in left_out}
    if "touched" not in packed:
        return weights
    touched, num_bits = weights.pop("touched"), num_features + 1
    if touched.dtype != np.uint8 or touched.shape != (-(-num_bits // 8),):
        raise ValueError(f"an index of {touched.size} bytes for {num_bits} rows")
    is_touched = np.unpackbits(touched, count=num_bits).astype(bool)
    num_rows = 1 + int(is_touched.sum())
    name = "table" if "table" in weights else "zero"
    if name in weights:
        filled = weights.pop("filled")
        weights[name] = _unpacked(weights[name], filled, num_rows)
    if "entries" in weights:
        values, steps = weights.pop("entries"), weights.pop("places")
        weights |= _entries(values, steps, num_rows, num_labels)
    ranks = np.cumsum(is_touched, dtype=np.int32)
    return weights | {"rows": np.where(is_touched, ranks, np.int32(0))}


def _unpacked(values: np.ndarray, filled: np.ndarray, num_rows: int) -> np.ndarray:
    """Return a table from its bits and its entries."""
    if filled.dtype != np.uint8 or filled.ndim != 2 or len(filled) != -(-num_rows // 8):
        raise ValueError(f"a table of shape {filled.shape} for {num_rows} rows")
    is_filled = np.unpackbits(filled, axis=0, count=num_rows).astype(bool)
    if values.shape != (int(is_filled.sum()),):
        raise ValueError(f"{values.shape} entries of the table")
    table = np.zeros(is_filled.shape, values.dtype)
    table[is_filled] = values
    return table


def _entries(
    values: np.ndarray, steps: np.ndarray, num_rows: int, num_labels: int
) -> dict[str, np.ndarray]:
    """Return records and pages from the values and the distances of their places."""
    if steps.dtype != np.int64 or steps.ndim != 1 or values.shape != steps.shape:
        raise ValueError(f"{values.shape} entries at {steps.shape} places")
    stride = _stride(num_labels)
    size = -(-num_labels * stride // 16) * 16
    row, place = np.divmod(np.cumsum(steps), size)
    current, previous = np.divmod(place, stride)
    is_sound = (row >= 0) & (row < num_rows - 1) & (current < num_labels)
    if not (is_sound & (previous <= num_labels)).all() or (steps[1:] <= 0).any():
        raise ValueError("entries at places that no pair of labels has")
    made = records.build(records.Listed(row, place, values), num_rows, size, _SLOTS)
    return made._asdict()
