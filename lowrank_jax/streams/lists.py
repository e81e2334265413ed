"""Candidate lists on the device.

The entries of a candidate fill whole rows of `WIDTH` entries. Candidates of a list
share most of their features, so each list has its distinct features beside, and an
entry says at which place among them its feature is: a round weighs each feature once.
It works on the rows of its list where they lie: nothing is padded to the longest list,
and nothing is copied.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.data.lists import LISTS_AT_ONCE, Lists, check_lists, run_starts

__all__ = ["FEATURES", "ROWS", "WIDTH", "Candidates", "Stream", "stream"]
__dir__ = __all__.copy

WIDTH = 32  # entries in a row of the device form
FEATURES = 256  # features of a list that are weighed at a time
ROWS = 64  # rows that scoring works on at a time: more of them, more reads in flight


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Candidates:
    """One list: the arrays that hold it, and where in them it lies.

    The entries of a candidate fill whole rows; the rows of a list follow each other,
    and so do its distinct features. Rows and features of other lists may lie before and
    after.

    Attributes:
      features: (num_distinct + padding,) int32, in 0..V. The features of the list begin
        with V, "not a feature", which scores 0. At least `FEATURES` and `max_distinct`
        more must follow behind them.
      feature_bounds: (2,) int32, where the features of the list begin and end.
      places: (num_rows + ROWS, width) uint16 or int32, the place of each entry's
        feature among the features of its list; 0, the place of V, where there is no
        entry. ROWS rows must follow the rows of the list.
      values: (num_rows + ROWS, width); 0 where there is no entry.
      owner: (num_rows + ROWS,) int32, the candidate that a row belongs to, from 0.
      row_offsets: (max_candidates + 1,) int32; candidate c has the rows
        ``row_offsets[c]:row_offsets[c + 1]``.
      quality: (max_candidates,); NaN where it is not known.
      num_candidates: () int32, at least 1.
      max_distinct: Features of the list that has most, V among them. Static.
      max_rows: Rows of the list that has most. Static.
      num_features: Number of features V. Static.
    """

    features: jax.Array
    feature_bounds: jax.Array
    places: jax.Array
    values: jax.Array
    owner: jax.Array
    row_offsets: jax.Array
    quality: jax.Array
    num_candidates: jax.Array
    max_distinct: int = dataclasses.field(metadata={"static": True})
    max_rows: int = dataclasses.field(metadata={"static": True})
    num_features: int = dataclasses.field(metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Stream:
    """A corpus of lists on the device.

    Attributes:
      features: (num_distinct + padding,) int32, the distinct features of each list,
        ascending behind a V.
      feature_offsets: (num_lists + 1,) int32; list i has the features
        ``feature_offsets[i]:feature_offsets[i + 1]``.
      places: (num_rows + ROWS, width) uint16, or int32 where that is too small, of
        entries among the features of the list.
      values: (num_rows + ROWS, width).
      owner: (num_rows + ROWS,) int32, candidate of a row within its list.
      row_offsets: (num_candidates + max_candidates + 1,) int32, rows of a candidate.
      quality: (num_candidates + max_candidates,).
      starts: (num_lists,) int32, first candidate of each list.
      counts: (num_lists,) int32, its candidates.
      max_candidates: Candidates of the list that has most. Static.
      max_distinct: Features of the list that has most, V among them. Static.
      max_rows: Rows of the list that has most. Static.
      num_features: Number of features V. Static.
    """

    features: jax.Array
    feature_offsets: jax.Array
    places: jax.Array
    values: jax.Array
    owner: jax.Array
    row_offsets: jax.Array
    quality: jax.Array
    starts: jax.Array
    counts: jax.Array
    max_candidates: int = dataclasses.field(metadata={"static": True})
    max_distinct: int = dataclasses.field(metadata={"static": True})
    max_rows: int = dataclasses.field(metadata={"static": True})
    num_features: int = dataclasses.field(metadata={"static": True})

    @property
    def num_examples(self) -> int:
        """Number of lists."""
        return self.starts.shape[0]

    def example(self, index: jax.Array | int) -> Candidates:
        """Return one list. The index may be traced."""
        first, size = self.starts[index], self.max_candidates
        bounds = self.feature_offsets[index], self.feature_offsets[index + 1]
        return Candidates(
            features=self.features,
            feature_bounds=jnp.stack(bounds),
            places=self.places,
            values=self.values,
            owner=self.owner,
            row_offsets=lax.dynamic_slice_in_dim(self.row_offsets, first, size + 1),
            quality=lax.dynamic_slice_in_dim(self.quality, first, size),
            num_candidates=self.counts[index],
            max_distinct=self.max_distinct,
            max_rows=self.max_rows,
            num_features=self.num_features,
        )

    def check(self) -> None:
        """Raise `InputError` unless there are lists and all qualities are known."""
        if self.num_examples == 0:
            raise InputError("There is no list to train on.")
        num_unknown = int(jnp.isnan(self.quality).sum())
        if num_unknown:
            raise InputError(
                f"{num_unknown} candidates have no known quality: training needs them "
                "all."
            )


def stream(lists: Lists, *, width: int = WIDTH) -> Stream:
    """Put a corpus of lists on the device.

    Args:
      lists: Lists with at least one candidate each.
      width: Entries in a row. Wider rows suit candidates with more features.
    """
    checks.whole(width=width)
    check_lists(lists)
    of_lists = np.asarray(lists.list_offsets, np.int64)
    counts = np.diff(of_lists)
    if (counts == 0).any():
        raise InputError(
            f"List {int(counts.argmin())} (counted from 0) has no candidate; leave it "
            "out."
        )
    ids, values = np.asarray(lists.feature_ids), np.asarray(lists.values)
    of_candidates = np.asarray(lists.candidate_offsets, np.int64)
    lengths = np.diff(of_candidates)
    num_rows = -(-lengths // width)
    row_offsets = np.concatenate([[0], np.cumsum(num_rows)])
    owner_list = np.repeat(np.arange(lists.num_lists), counts)
    within = np.arange(lists.num_candidates) - of_lists[:-1][owner_list]
    max_candidates = int(counts.max(initial=1))

    # A slice of ROWS may begin at any row and must stay inside.
    height = int(row_offsets[-1]) + ROWS
    cells = np.arange(lists.num_entries) + np.repeat(
        row_offsets[:-1] * width - of_candidates[:-1], lengths
    )
    features, feature_offsets, places = _distinct(lists)
    max_distinct = int(np.diff(feature_offsets).max(initial=1))
    padding = max(FEATURES, max_distinct)
    # Half the bytes to read in a round, for nearly all lists.
    dtype = np.uint16 if max_distinct <= 2**16 else np.int32
    laid_places = np.zeros(height * width, dtype)
    laid_values = np.zeros(height * width, values.dtype)
    laid_places[cells] = places
    laid_values[cells] = np.where(ids < lists.num_features, values, 0)
    return Stream(
        features=jnp.asarray(
            np.pad(features, (0, padding), constant_values=lists.num_features)
        ),
        feature_offsets=jnp.asarray(feature_offsets, jnp.int32),
        places=jnp.asarray(laid_places.reshape(height, width)),
        values=jnp.asarray(laid_values.reshape(height, width)),
        owner=jnp.asarray(
            np.pad(np.repeat(within, num_rows), (0, ROWS)).astype(np.int32)
        ),
        row_offsets=jnp.asarray(
            np.pad(row_offsets, (0, max_candidates), mode="edge").astype(np.int32)
        ),
        quality=jnp.asarray(
            np.pad(np.asarray(lists.quality), (0, max_candidates)).astype(values.dtype)
        ),
        starts=jnp.asarray(of_lists[:-1], jnp.int32),
        counts=jnp.asarray(counts, jnp.int32),
        max_candidates=max_candidates,
        max_distinct=max_distinct,
        max_rows=int(np.diff(row_offsets[of_lists]).max(initial=1)),
        num_features=lists.num_features,
    )


def _distinct(lists: Lists) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Do `_distinct_of` for all lists.

    Returns:
      features: Features of all lists end to end, int32.
      offsets: (num_lists + 1,) int64, where each list begins among them.
      places: (num_entries,) int32, of entries among the features of their list.
    """
    of_lists = np.asarray(lists.list_offsets, np.int64)
    of_entries = np.asarray(lists.candidate_offsets, np.int64)[of_lists]
    places = np.zeros(lists.num_entries, np.int32)
    features, sizes = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)]
    for first in range(0, lists.num_lists, LISTS_AT_ONCE):
        bounds = of_entries[first : first + LISTS_AT_ONCE + 1]
        here = slice(bounds[0], bounds[-1])
        ids = np.asarray(lists.feature_ids[here], np.int64)
        found, size, places[here] = _distinct_of(bounds, ids, lists.num_features)
        features.append(found)
        sizes.append(size)
    return np.concatenate(features), np.cumsum(np.concatenate(sizes)), places


def _distinct_of(
    bounds: np.ndarray, ids: np.ndarray, num_features: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the distinct features of each list, and where among them its entries are.

    Args:
      bounds: (n + 1,) entries where the lists begin and end.
      ids: (num_entries,) int64 feature of each, from the first list on, in 0..V.
      num_features: V, "not a feature"; every list gets it first, had it or not.

    Returns:
      features: Features of the lists end to end, int32. The features of a list ascend
        behind a V.
      sizes: (n,) of the lists in there.
      places: (num_entries,) int32, of entries among the features of their list.
    """
    nothing = np.arange(bounds.size - 1) * (num_features + 1)  # key of V in each list
    keys = np.where(ids < num_features, ids + 1, 0)
    keys += np.repeat(nothing, np.diff(bounds))
    keys = np.append(keys, nothing)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    runs = run_starts(keys)
    found = keys[runs]
    first = np.searchsorted(found, nothing)
    sizes = np.diff(first, append=found.size)
    within = (np.arange(found.size) - np.repeat(first, sizes)).astype(np.int32)
    places = np.empty(keys.size, np.int32)
    places[order] = np.repeat(within, np.diff(runs, append=keys.size))
    features = found - np.repeat(nothing, sizes) - 1
    features = np.where(features < 0, num_features, features).astype(np.int32)
    return features, sizes, places[: ids.size]
