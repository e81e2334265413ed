"""From features of n-grams to the sparse rows of candidates, and feature selection.

The row of a candidate holds its feature counts less the counts of the first candidate
of its list. A feature that all candidates have equally often vanishes. The same counts
are taken off the whole list, so that no difference of scores changes, of a linear or of
a tensor model, no argmax and no update.
"""

from typing import NamedTuple

import numpy as np

from experiments.nbest.features import FeatureTable, Instances

__all__ = ["Rows", "make_rows"]

_BLOCK = 500  # lists at a time; bounds the memory of the sort


class Rows(NamedTuple):
    """Sparse rows in CSR form.

    Attributes:
      feature_ids: (num_entries,) int32, ascending in a row.
      values: (num_entries,) float32, none of them 0.
      offsets: (num_candidates + 1,) int64.
    """

    feature_ids: np.ndarray
    values: np.ndarray
    offsets: np.ndarray


def make_rows(
    parts: dict[int, Instances],
    list_offsets: np.ndarray,
    scores: np.ndarray,
    table: FeatureTable,
    *,
    min_count: int,
) -> tuple[Rows, int]:
    """Make the rows of all candidates.

    With an open table these are the training lists: a feature is kept if it tells
    candidates apart in at least `min_count` lists, the others lose their number, and
    the table is closed. With a closed one only its features count.

    Args:
      parts: Instances by order, from `instances`.
      list_offsets: (num_lists + 1,) places of the lists.
      scores: (num_candidates,) value of feature 0.
      table: Table that numbers the features.
      min_count: Number of lists in which a feature must tell candidates apart.

    Returns:
      The rows, and how many features there were before the selection.
    """
    is_training = table.is_open
    numbered = {order: table.features(order, part) for order, part in parts.items()}
    num_lists, num_raw = len(list_offsets) - 1, table.num_features
    if is_training:
        # A bound first, as it is cheap: lists with such an n-gram that not all have.
        for (order, number), ids in table.ids.items():
            column = numbered[order][:, number]
            first, size = (ids[0], len(ids)) if len(ids) else (0, 0)
            bound = _lists_of(column - first, parts[order].grams.sentences, size)
            is_one = column >= 0
            column[is_one] = np.where(
                bound[column[is_one] - first] < min_count, -1, column[is_one]
            )
    blocks, seen = [], np.zeros(table.num_features, np.int64)
    spans = {order: _by_owner(part) for order, part in parts.items()}
    for begin in range(0, num_lists, _BLOCK):
        end = min(begin + _BLOCK, num_lists)
        first, last = int(list_offsets[begin]), int(list_offsets[end])
        rows = _block(parts, numbered, spans, first, last, table.num_features)
        if is_training:
            sizes = np.diff(list_offsets[begin : end + 1])
            lists = np.repeat(np.arange(end - begin), sizes)
            owner = np.repeat(lists, np.diff(rows.offsets))
            seen += _lists_of(rows.feature_ids, owner, table.num_features)
        blocks.append(rows)
    if is_training:
        is_kept = seen >= min_count
        is_kept[0] = True  # the score
        num_kept = int(is_kept.sum())
        new_ids = np.where(is_kept, np.cumsum(is_kept) - 1, -1).astype(np.int32)
        blocks = [_renumber(rows, new_ids) for rows in blocks]
        table.select(new_ids, num_kept)
    return _with_scores(blocks, scores), num_raw


def _lists_of(ids: np.ndarray, lists: np.ndarray, num_features: int) -> np.ndarray:
    """In how many lists each feature is, (num_features,)."""
    is_one = ids >= 0
    pairs = np.sort(lists[is_one].astype(np.int64) * num_features + ids[is_one])
    is_new = np.ones(len(pairs), bool)
    is_new[1:] = pairs[1:] != pairs[:-1]
    return np.bincount(pairs[is_new] % num_features, minlength=num_features)


def _by_owner(part: Instances) -> tuple[np.ndarray, np.ndarray]:
    """Return an order of the instances by candidate, and their sorted candidates."""
    order = np.argsort(part.grams.owners, kind="stable")
    return order, part.grams.owners[order]


def _block(
    parts: dict[int, Instances],
    numbered: dict[int, np.ndarray],
    spans: dict[int, tuple[np.ndarray, np.ndarray]],
    first: int,
    last: int,
    num_features: int,
) -> Rows:
    """Sum up the rows of candidates first..last-1."""
    keys = []
    for number, part in parts.items():
        order, owners = spans[number]
        here = order[slice(*np.searchsorted(owners, [first, last]))]
        grams = part.grams
        ids = numbered[number][grams.grams[here]].astype(np.int64)
        owner = (grams.owners[here] - first).astype(np.int64)
        signed = 2 * (owner[:, None] * num_features + ids)
        signed += (grams.signs[here] < 0)[:, None]
        keys.append(signed[ids >= 0])
    key = np.sort(np.concatenate(keys))
    sign = (1 - 2 * (key & 1)).astype(np.int32)
    key >>= 1
    is_new = np.ones(len(key), bool)
    is_new[1:] = key[1:] != key[:-1]
    begins = np.flatnonzero(is_new)
    total = np.add.reduceat(sign, begins) if len(begins) else sign
    key, total = key[begins][total != 0], total[total != 0]
    owner, feature = np.divmod(key, num_features)
    offsets = np.searchsorted(owner, np.arange(last - first + 1))
    return Rows(feature.astype(np.int32), total.astype(np.float32), offsets)


def _renumber(rows: Rows, new_ids: np.ndarray) -> Rows:
    """Give features their new numbers, in the same order; leave out those without."""
    ids = new_ids[rows.feature_ids]
    is_kept = ids >= 0
    before = np.concatenate([[0], np.cumsum(is_kept)])
    return Rows(ids[is_kept], rows.values[is_kept], before[rows.offsets])


def _with_scores(blocks: list[Rows], scores: np.ndarray) -> Rows:
    """Join blocks and put feature 0 in front of each row where it is not 0."""
    sizes = np.concatenate([np.diff(rows.offsets) for rows in blocks])
    has_score = scores != 0
    offsets = np.concatenate([[0], np.cumsum(sizes + has_score)])
    is_score = np.zeros(offsets[-1], bool)
    is_score[offsets[:-1][has_score]] = True
    feature_ids = np.zeros(offsets[-1], np.int32)
    values = np.empty(offsets[-1], np.float32)
    feature_ids[~is_score] = np.concatenate([rows.feature_ids for rows in blocks])
    values[~is_score] = np.concatenate([rows.values for rows in blocks])
    values[is_score] = scores[has_score]
    return Rows(feature_ids, values, offsets)
