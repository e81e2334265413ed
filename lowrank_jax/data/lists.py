"""Candidate lists to rerank: flat arrays on the host and on the device.

A list holds the candidates of one input (the 50 best parses of a sentence), each with
sparse features and a quality in 0..1. A corpus of lists is flat, as a sparse matrix in
CSR form: candidates own runs of entries, lists own runs of candidates. On the device
the entries of a candidate fill whole rows of `WIDTH` entries. Candidates of a list
share most of their features, so each list has its distinct features beside, and an
entry says at which place among them its feature is: a round weighs each feature once.
It works on the rows of its list where they lie: nothing is padded to the longest list,
and nothing is copied.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.data import entries

__all__ = [
    "Candidates",
    "ListStream",
    "Lists",
    "candidates",
    "drop_shared",
    "oracle",
    "remap",
    "stream_lists",
    "take",
]

WIDTH = 32  # entries in a row of the device form
FEATURES = 256  # features of a list that are weighed at a time
ROWS = 64  # rows that scoring works on at a time: more of them, more reads in flight
_MOST_CELLS = 2**31 - 1  # cells are int32
_LISTS_AT_ONCE = 64  # lists that are sorted at a time: bounds the memory


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Lists:
    """A corpus of candidate lists: flat arrays over all entries.

    Attributes:
      feature_ids: (num_entries,) int32, in 0..V; V is "not a feature": it scores 0.
      values: (num_entries,) float32.
      candidate_offsets: (num_candidates + 1,) int32; the entries of candidate c are
        ``candidate_offsets[c]:candidate_offsets[c + 1]``.
      list_offsets: (num_lists + 1,) int32; the candidates of list i are
        ``list_offsets[i]:list_offsets[i + 1]``, best of the base system first.
      quality: (num_candidates,) float32 in 0..1; NaN where it is not known.
      num_features: V, static.
    """

    feature_ids: Any
    values: Any
    candidate_offsets: Any
    list_offsets: Any
    quality: Any
    num_features: int = dataclasses.field(metadata={"static": True})

    @property
    def num_lists(self) -> int:
        """How many lists there are."""
        return int(self.list_offsets.shape[0]) - 1

    @property
    def num_candidates(self) -> int:
        """How many candidates there are in all lists."""
        return int(self.candidate_offsets.shape[0]) - 1

    @property
    def num_entries(self) -> int:
        """How many (feature, value) pairs there are in all candidates."""
        return int(self.feature_ids.shape[0])


def oracle(lists: Lists) -> np.ndarray:
    """Return the best candidate of each list, counted from its first; first of ties.

    Returns:
      (num_lists,) int32; -1 for a list without candidates or without known quality.
    """
    offsets = np.asarray(lists.list_offsets, np.int64)
    quality = np.asarray(lists.quality)
    quality = np.where(np.isnan(quality), -np.inf, quality)
    owner = np.repeat(np.arange(lists.num_lists), np.diff(offsets))
    order = np.lexsort((np.arange(quality.size), -quality, owner))
    found = np.full(lists.num_lists, -1, np.int32)
    has_some = np.diff(offsets) > 0
    first = order[offsets[:-1][has_some]]
    within = (first - offsets[:-1][has_some]).astype(np.int32)
    found[has_some] = np.where(np.isinf(quality[first]), -1, within)
    return found


def take(lists: Lists, indices: Sequence[int] | np.ndarray) -> Lists:
    """Return some of the lists, in the order given (to split or subsample a corpus)."""
    chosen = np.asarray(indices, np.int64)
    of_lists = np.asarray(lists.list_offsets, np.int64)
    candidate, list_offsets = _runs(of_lists, chosen)
    entry, offsets = _runs(np.asarray(lists.candidate_offsets, np.int64), candidate)
    return Lists(
        feature_ids=np.asarray(lists.feature_ids)[entry],
        values=np.asarray(lists.values)[entry],
        candidate_offsets=offsets.astype(np.int32),
        list_offsets=list_offsets.astype(np.int32),
        quality=np.asarray(lists.quality)[candidate],
        num_features=lists.num_features,
    )


def remap(lists: Lists, place: np.ndarray, num_cells: int) -> Lists:
    """Give each feature its cell in a tensor (see `features.mapping`).

    A learner of tensors takes lists whose "features" are the cells; so a mapping costs
    one gather a corpus on the host, and none a round.

    Args:
      lists: with features 0..V-1; id V becomes `num_cells`.
      place: (V,) int32, distinct cells in 0..num_cells-1.
      num_cells: product of the mode sizes, the new `num_features`.
    """
    place = np.asarray(place)
    checks.whole(num_cells=num_cells)
    if num_cells > _MOST_CELLS:
        raise InputError(
            f"`num_cells` must be at most {_MOST_CELLS}, got {num_cells}; take fewer "
            "or smaller modes."
        )
    if not np.issubdtype(place.dtype, np.integer):
        raise InputError(
            f"`place` must hold integers, got {place.dtype}; give the cells of "
            "`features.mapping`."
        )
    if place.shape != (lists.num_features,):
        raise InputError(
            f"`place` must have one cell for each of the {lists.num_features} "
            f"features, got shape {place.shape}."
        )
    if place.size and not 0 <= place.min() <= place.max() < num_cells:
        raise InputError(
            f"`place` must lie in 0..{num_cells - 1}, got {place.min()}..{place.max()}."
        )
    cells = np.append(place, num_cells).astype(np.int32)
    return dataclasses.replace(
        lists, feature_ids=cells[np.asarray(lists.feature_ids)], num_features=num_cells
    )


def drop_shared(lists: Lists) -> Lists:
    r"""Take off from each list what most of its candidates share.

    The commonest value of each feature in a list, zero included, is subtracted from
    all its candidates, and entries that become zero go. Every score of the list moves
    by the same amount, and each difference :math:`\phi(y) - \phi(z)` stays as it is:
    rankings and updates do not change, of linear models or of tensor models (exactly
    for counts, to rounding for other values). Lists become several times shorter.
    Entries of id V go; a feature that a candidate has twice is summed up.
    """
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    of_lists = np.asarray(lists.list_offsets, np.int64)
    of_candidates = np.asarray(lists.candidate_offsets, np.int64)
    for first in range(0, lists.num_lists, _LISTS_AT_ONCE):
        bounds = of_lists[first : first + _LISTS_AT_ONCE + 1]
        begin, end = of_candidates[bounds[0]], of_candidates[bounds[-1]]
        owner = np.repeat(
            np.arange(bounds[0], bounds[-1]),
            np.diff(of_candidates[bounds[0] : bounds[-1] + 1]),
        )
        ids = np.asarray(lists.feature_ids[begin:end], np.int64)
        values = np.asarray(lists.values[begin:end])
        keep = ids < lists.num_features
        parts.append(
            entries.subtract_commonest(bounds, owner[keep], ids[keep], values[keep])
        )
    owner, ids, values = (
        np.concatenate([part[i] for part in parts] or [np.zeros(0)]) for i in range(3)
    )
    counts = np.bincount(owner.astype(np.int64), minlength=lists.num_candidates)
    return dataclasses.replace(
        lists,
        feature_ids=ids.astype(np.int32),
        values=values.astype(np.asarray(lists.values).dtype),
        candidate_offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
    )


def _runs(offsets: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the chosen runs end to end, and the offsets of the new runs."""
    lengths = np.diff(offsets)[chosen]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    shift = np.repeat(offsets[:-1][chosen] - ends[:-1], lengths)
    return np.arange(ends[-1]) + shift, ends


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Candidates:
    """One list: the arrays that hold it, and where in them it lies.

    The entries of a candidate fill whole rows; the rows of a list follow each other,
    and so do its distinct features. Rows and features of other lists may lie before and
    after.

    Attributes:
      features: (num_distinct + padding,) int32, in 0..V. Those of the list begin with
        V, "not a feature", which scores 0; behind them at least `FEATURES` and
        `max_distinct` more must follow.
      feature_bounds: (2,) int32, where those of the list begin and end.
      places: (num_rows + ROWS, width) uint16 or int32, of the feature of each entry
        among those of its list; 0, that of V, where there is no entry. ROWS rows must
        follow those of the list.
      values: (num_rows + ROWS, width); 0 where there is no entry.
      owner: (num_rows + ROWS,) int32, the candidate that a row belongs to, from 0.
      row_offsets: (max_candidates + 1,) int32; candidate c has the rows
        ``row_offsets[c]:row_offsets[c + 1]``.
      quality: (max_candidates,); NaN where it is not known.
      num_candidates: () int32, at least 1.
      max_distinct: static; features of the list that has most, V among them.
      num_features: V, static.
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
    num_features: int = dataclasses.field(metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ListStream:
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
      max_candidates: static; of the list that has most.
      max_distinct: static; features of the list that has most, V among them.
      num_features: V, static.
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
    num_features: int = dataclasses.field(metadata={"static": True})


def stream_lists(lists: Lists, *, width: int = WIDTH) -> ListStream:
    """Put a corpus of lists on the device.

    Args:
      lists: with at least one candidate in each list.
      width: entries in a row. Wider ones suit candidates with more features.
    """
    checks.whole(width=width)
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
    return ListStream(
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
        num_features=lists.num_features,
    )


def candidates(corpus: ListStream, index: jax.Array | int) -> Candidates:
    """Return one list of the stream; the index may be traced."""
    first, size = corpus.starts[index], corpus.max_candidates
    bounds = corpus.feature_offsets[index], corpus.feature_offsets[index + 1]
    return Candidates(
        features=corpus.features,
        feature_bounds=jnp.stack(bounds),
        places=corpus.places,
        values=corpus.values,
        owner=corpus.owner,
        row_offsets=lax.dynamic_slice_in_dim(corpus.row_offsets, first, size + 1),
        quality=lax.dynamic_slice_in_dim(corpus.quality, first, size),
        num_candidates=corpus.counts[index],
        max_distinct=corpus.max_distinct,
        num_features=corpus.num_features,
    )


def _distinct(lists: Lists) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Do `entries.distinct` for all lists.

    Returns:
      features: of all lists end to end, int32.
      offsets: (num_lists + 1,) int64, where each list begins among them.
      places: (num_entries,) int32, of entries among the features of their list.
    """
    of_lists = np.asarray(lists.list_offsets, np.int64)
    of_entries = np.asarray(lists.candidate_offsets, np.int64)[of_lists]
    places = np.zeros(lists.num_entries, np.int32)
    features, sizes = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)]
    for first in range(0, lists.num_lists, _LISTS_AT_ONCE):
        bounds = of_entries[first : first + _LISTS_AT_ONCE + 1]
        here = slice(bounds[0], bounds[-1])
        ids = np.asarray(lists.feature_ids[here], np.int64)
        found, size, places[here] = entries.distinct(bounds, ids, lists.num_features)
        features.append(found)
        sizes.append(size)
    return np.concatenate(features), np.cumsum(np.concatenate(sizes)), places
