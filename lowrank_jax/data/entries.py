"""Sort the entries of a few candidate lists: what is shared, and what is distinct.

Lists are flat arrays here, as in `data.lists`, which goes over a corpus some lists at a
time: that bounds the memory.
"""

import numpy as np

__all__ = ["distinct", "subtract_commonest"]


def subtract_commonest(
    bounds: np.ndarray, owner: np.ndarray, ids: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Do `lists.drop_shared` for a few lists.

    Args:
      bounds: (n + 1,) candidates where the lists begin and end.
      owner: (num_entries,) candidate of each entry.
      ids: (num_entries,) feature.
      values: (num_entries,).

    Returns:
      ``(owner, ids, values)`` of what is left, by candidate and feature.
    """
    if ids.size == 0:
        return owner, ids, values
    many = int(ids.max()) + 1  # one integer to sort by is faster than two
    order = np.argsort(owner * many + ids, kind="stable")
    owner, ids, values = owner[order], ids[order], values[order]
    at = _starts(owner, ids)  # sum up what a candidate has twice
    owner, ids, values = owner[at], ids[at], np.add.reduceat(values, at)

    which = np.searchsorted(bounds, owner, side="right") - 1  # list of each entry
    order = np.lexsort((values, which * many + ids))
    owner, ids, values, which = owner[order], ids[order], values[order], which[order]
    group = _starts(which, ids)  # entries of one feature in one list
    size = np.diff(np.append(group, ids.size))
    run = _starts(which, ids, values)
    run_size = np.diff(np.append(run, ids.size))
    group_of_run = np.searchsorted(group, run, side="right") - 1
    largest = np.maximum.reduceat(run_size, np.searchsorted(run, group))
    num_candidates = np.diff(bounds)[which[group]]
    is_largest = run_size == largest[group_of_run]
    commonest = np.zeros(group.size, values.dtype)
    # The last run of the largest size wins; a fixed choice is all that matters.
    commonest[group_of_run[is_largest]] = values[run[is_largest]]
    commonest[largest <= num_candidates - size] = 0  # most do not have the feature

    # Candidates without a feature that most have get minus its commonest value.
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


def distinct(
    bounds: np.ndarray, ids: np.ndarray, num_features: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the distinct features of each list, and where among them its entries are.

    Args:
      bounds: (n + 1,) entries where the lists begin and end.
      ids: (num_entries,) int64 feature of each, from the first list on, in 0..V.
      num_features: V, "not a feature"; every list gets it first, had it or not.

    Returns:
      features: of the lists end to end, int32; those of a list ascend behind a V.
      sizes: (n,) of the lists in there.
      places: (num_entries,) int32, of entries among the features of their list.
    """
    nothing = np.arange(bounds.size - 1) * (num_features + 1)  # key of V in each list
    keys = np.where(ids < num_features, ids + 1, 0)
    keys += np.repeat(nothing, np.diff(bounds))
    keys = np.append(keys, nothing)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    runs = _starts(keys)
    found = keys[runs]
    first = np.searchsorted(found, nothing)
    sizes = np.diff(first, append=found.size)
    within = (np.arange(found.size) - np.repeat(first, sizes)).astype(np.int32)
    places = np.empty(keys.size, np.int32)
    places[order] = np.repeat(within, np.diff(runs, append=keys.size))
    features = found - np.repeat(nothing, sizes) - 1
    features = np.where(features < 0, num_features, features).astype(np.int32)
    return features, sizes, places[: ids.size]


def _starts(*columns: np.ndarray) -> np.ndarray:
    """Where a run of equal rows begins, for rows sorted by these columns."""
    changes = np.zeros(columns[0].size, bool)
    changes[:1] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)
