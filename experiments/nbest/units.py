"""Candidate chunkings as runs of units, and where they part from the first candidate.

A unit is a chunk, or a token outside of all chunks; the units of a candidate cover its
sentence from left to right. The same unit (place and type) in several candidates of a
sentence has one number, so that its attributes are computed once.

Feature counts of a candidate are taken relative to the first candidate of its list.
Only n-grams of units that one of the two has and the other has not matter. Since units
lie side by side, an n-gram is in a candidate exactly if all of its units are.
"""

from typing import NamedTuple

import numpy as np

from experiments.nbest.jackknife import Labellings
from lowrank_jax.data.corpus import Corpus
from lowrank_jax.features.codes import fit_keys

__all__ = ["Chunkings", "Counts", "Grams", "chunkings", "count_chunks", "grams"]

OUTSIDE = ""  # the type of a token outside of all chunks


class Chunkings(NamedTuple):
    """All candidates of a corpus as units; U distinct units, C candidates.

    Attributes:
      unit_starts: (U,) first token, counted over the corpus.
      unit_lengths: (U,) tokens.
      unit_kinds: (U,) type, an index of `kinds`.
      unit_sentences: (U,) the sentence it is in.
      units: (n,) distinct unit of each place, candidate after candidate.
      unit_offsets: (C + 1,) where the units of a candidate are.
      list_offsets: (num_sentences + 1,) where the candidates of a sentence are.
      kinds: Types of units. The first is the type of a token outside chunks.
    """

    unit_starts: np.ndarray
    unit_lengths: np.ndarray
    unit_kinds: np.ndarray
    unit_sentences: np.ndarray
    units: np.ndarray
    unit_offsets: np.ndarray
    list_offsets: np.ndarray
    kinds: tuple[str, ...]

    @property
    def num_units(self) -> int:
        """How many distinct units there are."""
        return len(self.unit_starts)

    @property
    def num_candidates(self) -> int:
        """How many candidates there are."""
        return len(self.unit_offsets) - 1

    @property
    def sentences(self) -> np.ndarray:
        """(C,) the sentence of each candidate."""
        sizes = np.diff(self.list_offsets)
        return np.repeat(np.arange(len(sizes)), sizes)

    @property
    def owners(self) -> np.ndarray:
        """(n,) the candidate of each place of `units`."""
        return np.repeat(np.arange(self.num_candidates), np.diff(self.unit_offsets))

    @property
    def first_candidates(self) -> np.ndarray:
        """(C,) the first candidate of each candidate's list."""
        return self.list_offsets[:-1][self.sentences]


class Counts(NamedTuple):
    """Chunks as conlleval counts them.

    Attributes:
      num_correct: (C,) chunks of a candidate that are in the gold standard.
      num_predicted: (C,) chunks of a candidate.
      num_gold: (num_sentences,) chunks of the gold standard.
    """

    num_correct: np.ndarray
    num_predicted: np.ndarray
    num_gold: np.ndarray


class Grams(NamedTuple):
    """n-grams of units that tell candidates from the first one of their list.

    Unit U is the start of a sentence, U + 1 its end.

    Attributes:
      units: (order, num_grams) int32 the units of each distinct n-gram.
      sentences: (num_grams,) the sentence of each.
      owners: (m,) candidate of each pair.
      grams: (m,) n-gram of each pair.
      signs: (m,) int8, 1 if the candidate has it and the first candidate has not, -1 if
        it is the other way round.
    """

    units: np.ndarray
    sentences: np.ndarray
    owners: np.ndarray
    grams: np.ndarray
    signs: np.ndarray


def chunkings(
    corpus: Corpus, found: Labellings, labels: tuple[str, ...], kinds: tuple[str, ...]
) -> Chunkings:
    """Cut the candidates of a corpus into units.

    Args:
      corpus: The sentences.
      found: Labellings of the sentences.
      labels: Label of each code.
      kinds: All types; the first is the type of a token outside chunks.
    """
    sizes = np.diff(found.list_offsets)
    lengths = np.repeat(corpus.lengths, sizes)  # of each candidate
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    starts, unit_lengths, unit_kinds = _cut(found.labels, offsets, labels, kinds)
    unit_offsets = np.searchsorted(starts, offsets)
    shifts = np.repeat(corpus.offsets[:-1], sizes) - offsets[:-1]
    starts = starts + np.repeat(shifts, np.diff(unit_offsets))
    keys, units = np.unique(
        _key(starts, unit_lengths, unit_kinds, corpus, kinds), return_inverse=True
    )
    keys, distinct_kinds = np.divmod(keys, len(kinds))
    distinct_starts, distinct_lengths = np.divmod(keys, corpus.num_tokens + 1)
    owners = np.searchsorted(corpus.offsets, distinct_starts, side="right") - 1
    return Chunkings(
        unit_starts=distinct_starts,
        unit_lengths=distinct_lengths,
        unit_kinds=distinct_kinds,
        unit_sentences=owners,
        units=units.astype(np.int32),
        unit_offsets=unit_offsets,
        list_offsets=found.list_offsets,
        kinds=kinds,
    )


def count_chunks(corpus: Corpus, of: Chunkings) -> Counts:
    """Count the chunks of each candidate and those that are right.

    Args:
      corpus: Sentences with gold labels.
      of: Candidates of these sentences. Their types must include all gold types.
    """
    assert corpus.labels is not None
    values, codes = np.unique(corpus.labels.astype(str), return_inverse=True)
    gold = _cut(codes, corpus.offsets, tuple(values.tolist()), of.kinds)
    is_chunk = gold[2] > 0
    gold_keys = _key(*gold, corpus, of.kinds)[is_chunk]
    sentences = np.searchsorted(corpus.offsets, gold[0][is_chunk], side="right") - 1
    keys = _key(of.unit_starts, of.unit_lengths, of.unit_kinds, corpus, of.kinds)
    num_candidates = of.num_candidates
    is_right, owners = np.isin(keys, gold_keys), of.owners
    is_predicted = of.unit_kinds > 0

    def count(is_counted: np.ndarray) -> np.ndarray:
        return np.bincount(owners[is_counted[of.units]], minlength=num_candidates)

    return Counts(
        num_correct=count(is_right),
        num_predicted=count(is_predicted),
        num_gold=np.bincount(sentences, minlength=corpus.num_sentences),
    )


def grams(of: Chunkings, order: int) -> Grams:
    """Collect the n-grams in which candidates differ from the first of their list.

    Args:
      of: The candidates.
      order: Order n, at least 1. From 2 on, the ends of the sentence count as units.
    """
    owners = of.owners
    first = of.first_candidates
    is_first = first[owners] == owners
    place = np.full(of.num_units, -1)  # in the first candidate
    within = np.arange(len(owners)) - of.unit_offsets[owners]
    place[of.units[is_first]] = within[is_first]
    is_new = place[of.units] < 0

    # The first candidate's units, once for each candidate of the list.
    sizes = np.diff(of.unit_offsets)[first]
    copy_offsets = np.concatenate([[0], np.cumsum(sizes)])
    is_missing = np.ones(copy_offsets[-1], bool)
    shared = ~is_new
    is_missing[copy_offsets[owners[shared]] + place[of.units[shared]]] = False
    shifts = of.unit_offsets[first] - copy_offsets[:-1]
    copies = of.units[np.arange(copy_offsets[-1]) + np.repeat(shifts, sizes)]

    more = _windows(of.units, of.unit_offsets, is_new, order, of.num_units)
    less = _windows(copies, copy_offsets, is_missing, order, of.num_units)
    windows = np.concatenate([more[1], less[1]], axis=1)
    table, places = fit_keys(windows.astype(np.int64), of.num_units + 2)
    distinct = table.digits(np.arange(len(table.keys)))
    owners = np.concatenate([more[0], less[0]])
    signs = np.ones(len(owners), np.int8)
    signs[len(more[0]) :] = -1
    sentences = np.empty(len(table.keys), np.int64)
    sentences[places] = of.sentences[owners]
    return Grams(
        units=distinct.astype(np.int32),
        sentences=sentences.astype(np.int32),
        owners=owners.astype(np.int32),
        grams=places.astype(np.int32),
        signs=signs,
    )


def _cut(
    labels: np.ndarray,
    offsets: np.ndarray,
    names: tuple[str, ...],
    kinds: tuple[str, ...],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return starts, lengths and types of all units of label sequences end to end.

    An inside label goes on with a chunk of its type and begins one after anything else,
    as conlleval reads it.
    """
    parts = [name.partition("-") for name in names]
    is_inside = np.array([tag == "I" for tag, _, _ in parts])[labels]
    kind_of = np.array([kinds.index(kind) for _, _, kind in parts])
    kind = kind_of[labels]
    is_start = np.ones(len(labels), bool)
    is_start[1:] = ~is_inside[1:] | (kind[1:] != kind[:-1])
    is_start[offsets[:-1]] = True
    starts = np.flatnonzero(is_start)
    return starts, np.diff(starts, append=len(labels)), kind[starts]


def _key(
    starts: np.ndarray,
    lengths: np.ndarray,
    unit_kinds: np.ndarray,
    corpus: Corpus,
    kinds: tuple[str, ...],
) -> np.ndarray:
    """One number for a unit's place and type."""
    return (starts * (corpus.num_tokens + 1) + lengths) * len(kinds) + unit_kinds


def _windows(
    units: np.ndarray,
    offsets: np.ndarray,
    is_marked: np.ndarray,
    order: int,
    num_units: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return candidate and units (order, m) of all n-grams with a marked unit."""
    sizes = np.diff(offsets)
    owners = np.repeat(np.arange(len(sizes)), sizes)
    if order == 1:
        return owners[is_marked], units[None, is_marked]
    # The ends of the sentence go before and behind; places shift by 1 and by 2 each.
    padded = np.full(len(units) + 2 * len(sizes), num_units, np.int32)
    padded[offsets[1:] + 2 * np.arange(len(sizes)) + 1] = num_units + 1
    places = np.arange(len(units)) + 2 * owners + 1
    padded[places] = units
    bounds = offsets + 2 * np.arange(len(offsets))
    is_begin = np.zeros(len(padded) + order, bool)
    for back in range(order):
        is_begin[np.maximum(places[is_marked] - back, 0)] = True
    found = np.flatnonzero(is_begin)
    owner = np.searchsorted(bounds, found, side="right") - 1
    is_whole = found + order <= bounds[1:][owner]  # none reaches into the next one
    found, owner = found[is_whole], owner[is_whole]
    return owner, padded[found[None, :] + np.arange(order)[:, None]]
