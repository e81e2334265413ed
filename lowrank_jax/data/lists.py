"""Candidate lists to rerank, as flat arrays on the host.

A list holds the candidates of one input, such as the 50 best parses of a sentence. Each
candidate has sparse features and a quality, any number. A corpus of lists is flat, like
a sparse matrix in CSR form. A candidate is a run of entries. A list is a run of
candidates.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lowrank_jax import checks
from lowrank_jax.checks import InputError

__all__ = [
    "LISTS_AT_ONCE",
    "Lists",
    "Ranking",
    "check_lists",
    "drop_shared",
    "oracle",
    "ranking_of",
    "remap",
    "run_starts",
    "spread",
    "take",
]
__dir__ = __all__.copy

_MOST_CELLS = 2**31 - 1  # cells are int32
#: Number of lists that are sorted at a time. It bounds the memory.
LISTS_AT_ONCE = 64


@dataclasses.dataclass(frozen=True)
class Lists:
    """A corpus of candidate lists: flat arrays over all entries.

    Attributes:
      feature_ids: Feature of each entry, (num_entries,) int32, in 0..V. The id V means
        "not a feature" and scores 0.
      values: Value of each entry, (num_entries,) float32.
      candidate_offsets: (num_candidates + 1,) int32; the entries of candidate c are
        ``candidate_offsets[c]:candidate_offsets[c + 1]``.
      list_offsets: (num_lists + 1,) int32; the candidates of list i are
        ``list_offsets[i]:list_offsets[i + 1]``, the base system's best first.
      quality: Quality of each candidate, (num_candidates,) float32. NaN means
        unknown. A learner takes 0..1; `Reranker` scales other numbers.
      num_features: Number of features V. Static.
    """

    feature_ids: np.ndarray
    values: np.ndarray
    candidate_offsets: np.ndarray
    list_offsets: np.ndarray
    quality: np.ndarray
    num_features: int

    @classmethod
    def from_dense(
        cls,
        x: Any,
        quality: Any,
        *,
        sizes: tuple[int, ...] | None = None,
        fastest: str = "first",
    ) -> "Lists":
        """Make lists of dense features, and check them. Zeros are left out.

        Args:
          x: Features of the candidates, (num_lists, num_candidates, V), or one
            (num_candidates, V) array per list. In place of V the array may have the
            axes of a tensor, (n_1, ..., n_D); the cells are then numbered as
            `models.tensor` does, first index fastest.
          quality: Qualities in 0..1, (num_lists, num_candidates) or one array per list.
            NaN means unknown.
          sizes: Mode sizes (n_1, ..., n_D) of flat features, V in all, if they are the
            cells of a tensor. Needed with ``fastest="last"``.
          fastest: Index that runs fastest along V: ``"first"``, as in `models.tensor`,
            or ``"last"``, as NumPy flattens an array. The lists have the order of
            `models.tensor` in both cases.

        Raises:
          InputError: If an array does not fit, with the list and the value.
        """
        checks.choice(("first", "last"), fastest=fastest)
        arrays = [np.asarray(part, np.float32) for part in x]
        qualities = [np.asarray(part, np.float32) for part in quality]
        shapes = {part.shape[1:] for part in arrays}
        if len(shapes) != 1 or () in shapes:
            raise InputError(
                "`x` must hold one array (num_candidates, V) per list, all with the "
                f"same V, got {sorted(shapes)}."
            )
        (shape,) = shapes
        if fastest == "last" and (sizes is None or len(shape) != 1):
            raise InputError(
                "`fastest='last'` needs flat features and the `sizes` of the tensor, "
                f"got features of shape {shape} and sizes={sizes}."
            )
        num_features = int(np.prod(shape))
        if sizes is not None and int(np.prod(sizes)) != num_features:
            raise InputError(
                f"`sizes` must have the product {num_features}, the number of "
                f"features, got {sizes}."
            )
        cells = np.arange(num_features)
        if fastest == "last":
            assert sizes is not None
            cells = cells.reshape(sizes, order="F").ravel()
        elif len(shape) > 1:  # `ravel` below has the last index fastest
            cells = cells.reshape(shape, order="F").ravel()
        if [len(part) for part in arrays] != [len(part) for part in qualities]:
            raise InputError(
                "`quality` must have one number per candidate of `x`, got "
                f"{[len(part) for part in qualities][:9]} for "
                f"{[len(part) for part in arrays][:9]} candidates."
            )
        flat = np.concatenate([part.reshape(len(part), -1) for part in arrays])
        owner, column = np.nonzero(flat)
        counts = np.bincount(owner, minlength=len(flat))
        made = cls(
            feature_ids=cells[column].astype(np.int32),
            values=flat[owner, column],
            candidate_offsets=_ends(counts),
            list_offsets=_ends([len(part) for part in arrays]),
            quality=np.concatenate([part.ravel() for part in qualities]),
            num_features=num_features,
        )
        check_lists(made)
        return made

    @property
    def num_lists(self) -> int:
        """Number of lists."""
        return int(self.list_offsets.shape[0]) - 1

    @property
    def num_candidates(self) -> int:
        """Number of candidates in all lists."""
        return int(self.candidate_offsets.shape[0]) - 1

    @property
    def num_entries(self) -> int:
        """Number of (feature, value) pairs in all candidates."""
        return int(self.feature_ids.shape[0])


def _ends(counts: Any) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def check_lists(lists: Any) -> None:
    """Raise `InputError` unless these are lists whose arrays fit each other."""
    if not isinstance(lists, Lists):
        raise InputError(
            f"`lists` must be Lists, got a {type(lists).__name__}: see "
            "data.lists.Lists.from_dense."
        )
    ids, quality = np.asarray(lists.feature_ids), np.asarray(lists.quality)
    most, values = lists.num_features, np.asarray(lists.values)
    for name, array, is_bad, demand in (
        ("feature_ids", ids, (ids < 0) | (ids > most), f"lie in 0..{most}"),
        ("quality", quality, (quality < 0) | (quality > 1), "lie in 0..1"),  # or NaN
        ("values", values, ~np.isfinite(values), "be finite"),
    ):
        if is_bad.any():
            row = place = int(is_bad.argmax())
            if name != "quality":
                ends = lists.candidate_offsets
                row = int(np.searchsorted(ends, place, side="right") - 1)
            of = int(np.searchsorted(lists.list_offsets, row, side="right") - 1)
            raise InputError(
                f"`{name}` must {demand}, got {array[place]} at candidate "
                f"{row - lists.list_offsets[of]} of list {of}, from 0."
            )


def oracle(lists: Lists) -> np.ndarray:
    """Return the index of the best candidate in each list; the first if several tie.

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
    """Return the lists with these indices, in this order."""
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

    A tensor learner takes lists whose "features" are cells. A mapping therefore costs
    one gather per corpus, on the host, and nothing per round.

    Args:
      lists: Lists with features 0..V-1; id V becomes `num_cells`.
      place: Cell of each feature, (V,) int32, distinct, in 0..num_cells-1.
      num_cells: Product of the mode sizes, the new `num_features`.
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
    r"""Subtract from each list what most of its candidates share.

    The commonest value of each feature in a list, zero included, is subtracted from all
    candidates of the list. Entries that become zero are dropped. Every score of the
    list moves by the same amount, and each difference :math:`\phi(y) - \phi(z)` stays
    the same. Rankings and updates of linear and tensor models do not change, exactly
    for counts and up to rounding for other values. Lists become several times shorter.
    Entries of id V are dropped. If a candidate has a feature twice, its values are
    summed.
    """
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    of_lists = np.asarray(lists.list_offsets, np.int64)
    of_candidates = np.asarray(lists.candidate_offsets, np.int64)
    for first in range(0, lists.num_lists, LISTS_AT_ONCE):
        bounds = of_lists[first : first + LISTS_AT_ONCE + 1]
        begin, end = of_candidates[bounds[0]], of_candidates[bounds[-1]]
        owner = np.repeat(
            np.arange(bounds[0], bounds[-1]),
            np.diff(of_candidates[bounds[0] : bounds[-1] + 1]),
        )
        ids = np.asarray(lists.feature_ids[begin:end], np.int64)
        values = np.asarray(lists.values[begin:end])
        keep = ids < lists.num_features
        parts.append(_subtract_commonest(bounds, owner[keep], ids[keep], values[keep]))
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


def spread(lists: Lists) -> float:
    """Return the mean squared distance of candidates from the mean of their list.

    Distances are between feature vectors, so what all candidates of a list share does
    not count. Each candidate must have a feature once, as `drop_shared` returns it.
    """
    sizes = np.diff(lists.list_offsets)
    owner = np.repeat(np.arange(lists.num_lists), sizes)
    owner = np.repeat(owner, np.diff(lists.candidate_offsets))
    values = np.asarray(lists.values, np.float64)
    keys = owner * (lists.num_features + 1) + lists.feature_ids
    cells, place = np.unique(keys, return_inverse=True)
    sums = np.bincount(place, values, len(cells))
    of_means = sums**2 / sizes[cells // (lists.num_features + 1)]
    total = (values**2).sum() - of_means.sum()
    return float(total) / max(lists.num_candidates, 1)


def _runs(offsets: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the chosen runs end to end, and the new offsets."""
    lengths = np.diff(offsets)[chosen]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    shift = np.repeat(offsets[:-1][chosen] - ends[:-1], lengths)
    return np.arange(ends[-1]) + shift, ends


def _subtract_commonest(
    bounds: np.ndarray, owner: np.ndarray, ids: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Do `drop_shared` for a few lists.

    Args:
      bounds: (n + 1,) candidates where the lists begin and end.
      owner: (num_entries,) candidate of each entry.
      ids: (num_entries,) feature of each entry.
      values: (num_entries,) value of each entry.

    Returns:
      ``(owner, ids, values)`` of the entries left, sorted by candidate and feature.
    """
    if ids.size == 0:
        return owner, ids, values
    many = int(ids.max()) + 1  # sorting by one integer is faster than by two
    order = np.argsort(owner * many + ids, kind="stable")
    owner, ids, values = owner[order], ids[order], values[order]
    at = run_starts(owner, ids)  # sum the values that a candidate has for one feature
    owner, ids, values = owner[at], ids[at], np.add.reduceat(values, at)

    which = np.searchsorted(bounds, owner, side="right") - 1  # list of each entry
    order = np.lexsort((values, which * many + ids))
    owner, ids, values, which = owner[order], ids[order], values[order], which[order]
    group = run_starts(which, ids)  # entries of one feature in one list
    size = np.diff(np.append(group, ids.size))
    run = run_starts(which, ids, values)
    run_size = np.diff(np.append(run, ids.size))
    group_of_run = np.searchsorted(group, run, side="right") - 1
    largest = np.maximum.reduceat(run_size, np.searchsorted(run, group))
    num_candidates = np.diff(bounds)[which[group]]
    is_largest = run_size == largest[group_of_run]
    commonest = np.zeros(group.size, values.dtype)
    # The last run of the largest size wins. Any fixed choice would do.
    commonest[group_of_run[is_largest]] = values[run[is_largest]]
    commonest[largest <= num_candidates - size] = 0  # most do not have the feature

    # If most candidates have a feature, the others get minus its commonest value.
    missing = np.where(commonest != 0, num_candidates, 0)
    begin = np.cumsum(missing) - missing
    lacks = np.ones(int(missing.sum()), bool)
    group_of = np.repeat(np.arange(group.size), size)
    has = commonest[group_of] != 0
    lacks[(begin[group_of] + owner - bounds[which])[has]] = False
    new_group = np.repeat(np.arange(group.size), missing)[lacks]
    new_owner = (
        np.flatnonzero(lacks) - begin[new_group] + bounds[which[group]][new_group]
    )
    owner = np.concatenate([owner, new_owner])
    ids = np.concatenate([ids, ids[group][new_group]])
    values = np.concatenate([values - commonest[group_of], -commonest[new_group]])
    left = np.flatnonzero(values)
    order = left[np.argsort(owner[left] * many + ids[left], kind="stable")]
    return owner[order], ids[order], values[order]


def run_starts(*columns: np.ndarray) -> np.ndarray:
    """Return the start of each run of equal rows, for rows sorted by these columns."""
    changes = np.zeros(columns[0].size, bool)
    changes[:1] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


class Ranking(NamedTuple):
    """Mean measures of the order of the candidates, 1 for the best order.

    Attributes:
      mrr: Reciprocal rank of the first candidate of the best quality.
      ndcg: Discounted gain divided by the gain of the best order. The gain of a
        candidate is its quality above the lowest quality of its list.
    """

    mrr: float
    ndcg: float


def ranking_of(lists: Lists, scores: np.ndarray) -> Ranking:
    """Return measures of the order by score; equal scores keep the order of the list.

    Args:
      lists: Lists with at least one candidate each, all of known quality.
      scores: (num_candidates,) from `decision_function`.
    """
    inner = np.asarray(lists.list_offsets, np.int64)[1:-1]
    reciprocal, gained = [], []
    quality = np.asarray(lists.quality, np.float64)
    pairs = zip(np.split(quality, inner), np.split(scores, inner), strict=True)
    for true, found in pairs:
        here = true[np.argsort(-found, kind="stable")]
        reciprocal.append(1 / (1 + here.argmax()))
        discount = 1 / np.log2(2 + np.arange(here.size))
        most = discount @ np.sort(true - true.min())[::-1]
        gained.append(discount @ (here - true.min()) / most if most > 0 else 1.0)
    return Ranking(float(np.mean(reciprocal)), float(np.mean(gained)))
