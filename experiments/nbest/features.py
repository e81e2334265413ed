"""Global features of chunkings: what each unit, n-gram of units and candidate has.

A template is a list of attributes of the units of an n-gram, ``"0.type 1.last_word"``;
a feature is a template with values. Features are numbered in the training lists; other
lists drop features that the training lists do not have. Numbering is by exact 64-bit
keys (`features.codes`), once for each distinct n-gram and not for each candidate.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from experiments.nbest.units import Chunkings, Grams, grams
from lowrank_jax.data.corpus import Corpus
from lowrank_jax.features.codes import KeyTable, fit_keys

__all__ = ["ATTRIBUTES", "TEMPLATES", "FeatureTable", "Instances", "instances"]

#: Attributes of a unit. Words and parts of speech (``pos``) of its tokens, and of the
#: two tokens on each side; ``words`` for up to three tokens; ``place`` says whether it
#: begins or ends the sentence.
ATTRIBUTES = (
    "type",
    "length",
    "place",
    "words",
    "pos_sequence",
    "first_word",
    "last_word",
    "last_suffix",
    "first_pos",
    "last_pos",
    "previous_word",
    "previous_pos",
    "previous2_pos",
    "next_word",
    "next_pos",
    "next2_pos",
)

_ONE = """
type
type length
type length place
type words
type pos_sequence
type first_word
type last_word
type last_suffix
type first_pos
type last_pos
type first_pos last_pos length
type first_word last_word
type pos_sequence first_word
type pos_sequence last_word
type previous_word
type previous_pos
type next_word
type next_pos
type previous_pos next_pos
type previous_word next_word
type previous_word first_word
type last_word next_word
type previous_pos first_pos
type last_pos next_pos
type previous_pos first_word
type last_word next_pos
type previous_word first_pos
type last_pos next_word
type previous2_pos previous_pos first_pos
type last_pos next_pos next2_pos
type pos_sequence previous_pos next_pos
type pos_sequence previous_word
type pos_sequence next_word
"""

_TWO = """
0.type 1.type
0.type 1.type 0.length 1.length
0.type 1.type 0.last_word
0.type 1.type 0.first_word
0.type 1.type 1.first_word
0.type 1.type 1.last_word
0.type 1.type 0.last_word 1.first_word
0.type 1.type 0.last_word 1.last_word
0.type 1.type 0.first_word 1.first_word
0.type 1.type 0.first_word 1.last_word
0.type 1.type 0.last_pos 1.first_pos
0.type 1.type 0.last_pos 1.last_pos
0.type 1.type 0.last_pos 1.last_word
0.type 1.type 0.last_word 1.last_pos
0.type 1.type 0.pos_sequence 1.pos_sequence
0.type 1.type 0.pos_sequence 1.first_word
0.type 1.type 0.last_word 1.pos_sequence
"""

_THREE = """
0.type 1.type 2.type
0.type 1.type 2.type 0.length 1.length 2.length
0.type 1.type 2.type 1.first_word
0.type 1.type 2.type 1.pos_sequence
0.type 1.type 2.type 0.last_pos 1.first_word 2.last_pos
0.type 1.type 2.type 0.last_pos 1.last_pos 2.first_pos
0.type 1.type 2.type 0.pos_sequence 1.first_word 2.pos_sequence
0.type 1.type 2.type 0.last_word 1.first_word
0.type 1.type 2.type 1.first_word 2.last_word
0.type 1.type 2.type 0.last_word 1.first_word 2.last_word
0.type 1.type 2.type 0.last_word 2.last_word
"""

_FOUR = """
0.type 1.type 2.type 3.type
0.type 1.type 2.type 3.type 0.last_pos 1.last_pos 2.last_pos 3.last_pos
0.type 1.type 2.type 3.type 1.first_word 2.first_word
0.type 1.type 2.type 3.type 1.last_word 2.last_word
"""

_FIVE = """
0.type 1.type 2.type 3.type 4.type
"""

#: Attributes of a whole candidate: how many units, chunks, and chunks of some types.
_WHOLE = ("units", "chunks", "NP", "VP", "PP", "tokens")
_CANDIDATE = """
units
chunks
NP
VP
PP
chunks tokens
NP VP PP
units chunks
"""


def _parse(text: str) -> tuple[tuple[tuple[int, str], ...], ...]:
    templates = []
    for line in text.strip().splitlines():
        parts = [word.rpartition(".") for word in line.split()]
        templates.append(tuple((int(place or 0), name) for place, _, name in parts))
    return tuple(templates)


#: Templates by the order of their n-gram; order 0 is the whole candidate.
TEMPLATES = {
    order: _parse(text)
    for order, text in enumerate((_CANDIDATE, _ONE, _TWO, _THREE, _FOUR, _FIVE))
}


class Instances(NamedTuple):
    """What tells candidates from the first of their list, and its attributes.

    Attributes:
      grams: The n-grams, and which candidate has which.
      columns: Code of the value for each unit, by attribute. A negative code means
        that there is no such value, and so no feature.
    """

    grams: Grams
    columns: dict[str, np.ndarray]

    def codes(self, template: tuple[tuple[int, str], ...]) -> np.ndarray:
        """Return the values of a template, (num_digits, num_grams) int64 codes."""
        units, columns = self.grams.units, self.columns
        return np.stack(
            [columns[name][units[place]].astype(np.int64) for place, name in template]
        )


@dataclasses.dataclass(eq=False)
class FeatureTable:
    """Numbers for features; grows while `is_open`, then only looks up.

    Attributes:
      values: Code of each string.
      tables: Keys by (order, index of the template).
      ids: Feature of each key, or -1, by (order, index of the template).
      num_features: V; feature 0 is the score of the base tagger.
      is_open: True while new values and keys are taken in.
    """

    values: dict[str, int] = dataclasses.field(default_factory=dict)
    tables: dict[tuple[int, int], KeyTable] = dataclasses.field(default_factory=dict)
    ids: dict[tuple[int, int], np.ndarray] = dataclasses.field(default_factory=dict)
    num_features: int = 1
    is_open: bool = True

    def code(self, strings: list[str]) -> np.ndarray:
        """Return a code for each string; of an unknown one, -1."""
        if self.is_open:
            for string in strings:
                self.values.setdefault(string, len(self.values))
        get = self.values.get
        codes = (get(string, -1) for string in strings)
        return np.fromiter(codes, np.int32, len(strings))

    def features(self, order: int, of: Instances) -> np.ndarray:
        """Return the features of n-grams, (num_grams, num_templates) int32, -1: none.

        Args:
          order: Order of the n-grams.
          of: The n-grams.
        """
        templates = TEMPLATES[order]
        result = np.full((len(of.grams.sentences), len(templates)), -1, np.int32)
        for number, template in enumerate(templates):
            name, codes = (order, number), of.codes(template)
            rows = np.flatnonzero((codes >= 0).all(axis=0))
            if self.is_open:
                table, places = fit_keys(codes[:, rows], len(self.values))
                ids = self.num_features + np.arange(len(table.keys), dtype=np.int32)
                self.tables[name], self.ids[name] = table, ids
                self.num_features += len(ids)
                result[rows, number] = ids[places]
            else:
                places = self.tables[name].find(codes[:, rows])
                ids = np.append(self.ids[name], np.int32(-1))  # -1 is the last place
                result[rows, number] = ids[places]
        return result

    def select(self, new_ids: np.ndarray, num_features: int) -> None:
        """Close the table and keep some features.

        Args:
          new_ids: (V,) int32 new number of each feature, or -1.
          num_features: Number of features that are kept.
        """
        for name, ids in self.ids.items():
            fresh = new_ids[ids]
            kept = fresh >= 0
            table = self.tables[name]
            self.tables[name] = dataclasses.replace(table, keys=table.keys[kept])
            self.ids[name] = fresh[kept]
        self.num_features, self.is_open = num_features, False

    def names(self) -> list[str]:
        """Return the name of each feature: its attributes and their values."""
        names = ["score"] * self.num_features
        texts = list(self.values)
        for (order, number), table in self.tables.items():
            template = TEMPLATES[order][number]
            words = [f"{order}.{place}.{name}=" for place, name in template]
            digits = table.digits(np.arange(len(table.keys))).T.tolist()
            for feature, row in zip(
                self.ids[order, number].tolist(), digits, strict=True
            ):
                parts = zip(words, row, strict=True)
                names[feature] = " ".join(word + texts[code] for word, code in parts)
        return names


def instances(
    corpus: Corpus, of: Chunkings, table: FeatureTable
) -> dict[int, Instances]:
    """Work out the values of all templates, by order.

    Args:
      corpus: Sentences with the word in column 0 and the part of speech in column 1.
      of: Candidates of these sentences.
      table: Table that gives the codes of values.
    """
    # All codes are known before the first key is made: they are its digits.
    attributes = _unit_attributes(corpus, of, table)
    wholes = _whole_attributes(corpus, of, table)
    return {
        order: Instances(grams(of, order), attributes)
        if order
        else Instances(_whole_grams(of), wholes)
        for order in TEMPLATES
    }


def _unit_attributes(
    corpus: Corpus, of: Chunkings, table: FeatureTable
) -> dict[str, np.ndarray]:
    """Return the codes of each attribute of each unit, then of the two ends."""
    words, tags = corpus.columns[0].tolist(), corpus.columns[1].tolist()
    ends = of.unit_starts + of.unit_lengths
    begins, stops = corpus.offsets[:-1], corpus.offsets[1:]
    begin, stop = begins[of.unit_sentences], stops[of.unit_sentences]
    word, tag = table.code(words), table.code(tags)
    suffix = table.code([text[-3:] for text in words])
    left, right = table.code(["<s>", "</s>"])

    def near(column: np.ndarray, places: np.ndarray) -> np.ndarray:
        inside = column[np.clip(places, 0, len(column) - 1)]
        return np.where(places < begin, left, np.where(places >= stop, right, inside))

    runs = list(zip(of.unit_starts.tolist(), ends.tolist(), strict=True))
    sizes = [str(size) for size in of.unit_lengths.tolist()]
    place = (of.unit_starts == begin) + 2 * (ends == stop)
    spelt = table.code([" ".join(words[a:b]) if b - a <= 3 else "" for a, b in runs])
    found = {
        "type": table.code([kind or "O" for kind in of.kinds])[of.unit_kinds],
        "length": table.code(sizes),
        "place": table.code(["inside", "begin", "end", "whole"])[place],
        "words": np.where(of.unit_lengths <= 3, spelt, -1),
        "pos_sequence": table.code([" ".join(tags[a:b]) for a, b in runs]),
        "first_word": word[of.unit_starts],
        "last_word": word[ends - 1],
        "last_suffix": suffix[ends - 1],
        "first_pos": tag[of.unit_starts],
        "last_pos": tag[ends - 1],
        "previous_word": near(word, of.unit_starts - 1),
        "previous_pos": near(tag, of.unit_starts - 1),
        "previous2_pos": near(tag, of.unit_starts - 2),
        "next_word": near(word, ends),
        "next_pos": near(tag, ends),
        "next2_pos": near(tag, ends + 1),
    }
    return {name: np.append(codes, [left, right]) for name, codes in found.items()}


def _whole_attributes(
    corpus: Corpus, of: Chunkings, table: FeatureTable
) -> dict[str, np.ndarray]:
    """Return the codes of each attribute of each candidate; it is its own unit."""
    owners, kinds = of.owners, of.unit_kinds[of.units]
    num_units = np.diff(of.unit_offsets)
    counted = {"units": num_units, "tokens": corpus.lengths[of.sentences]}
    counted["chunks"] = np.bincount(owners[kinds > 0], minlength=of.num_candidates)
    for name in _WHOLE:
        if name not in counted:
            kind = of.kinds.index(name) if name in of.kinds else len(of.kinds)
            counted[name] = np.bincount(
                owners[kinds == kind], minlength=of.num_candidates
            )
    largest = max(int(numbers.max(initial=0)) for numbers in counted.values())
    code = table.code([str(number) for number in range(largest + 1)])
    return {name: code[numbers] for name, numbers in counted.items()}


def _whole_grams(of: Chunkings) -> Grams:
    """Each candidate against the first of its list; the n-gram is the candidate."""
    first = of.first_candidates
    others = np.flatnonzero(first != np.arange(of.num_candidates))
    signs = np.ones(2 * len(others), np.int8)
    signs[len(others) :] = -1
    return Grams(
        units=np.arange(of.num_candidates)[None],
        sentences=of.sentences,
        owners=np.concatenate([others, others]),
        grams=np.concatenate([others, first[others]]),
        signs=signs,
    )
