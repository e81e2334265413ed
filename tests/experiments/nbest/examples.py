"""Small corpora, random candidates, and slow, obvious twins of the features."""

import collections
import itertools

import numpy as np

from experiments.nbest.features import TEMPLATES
from experiments.nbest.jackknife import Labellings, valid_transitions
from lowrank_jax.data import Corpus

LABELS = ("B-NP", "B-PP", "B-VP", "I-NP", "I-VP", "O")
WORDS = "the dog and cat saw up , of Mr. 1990".split()
TAGS = "DT NN CC VBD RP IN".split()


def random_corpus(seed, *, num_sentences, longest=9, num_words=10):
    """Tags follow the word and labels the tags, with some noise; gold is IOB2."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, num_sentences)
    words, tags, labels = [], [], []
    valid = valid_transitions(LABELS)
    for length in lengths.tolist():
        previous = len(LABELS)
        for _ in range(length):
            word = int(rng.integers(num_words))
            tag = word % len(TAGS) if rng.random() < 0.8 else int(rng.integers(6))
            wanted = tag if rng.random() < 0.8 else int(rng.integers(len(LABELS)))
            if not valid[wanted, previous]:
                wanted = LABELS.index("O")
            previous = wanted
            words.append(WORDS[word])
            tags.append(TAGS[tag])
            labels.append(LABELS[wanted])
    return Corpus(
        columns=(np.array(words, object), np.array(tags, object)),
        labels=np.array(labels, object),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        source="random",
    )


def random_labellings(corpus, seed, *, most=6):
    """Distinct valid labellings, the later ones near the first."""
    rng = np.random.default_rng(seed)
    valid = valid_transitions(LABELS)
    flat, sizes = [], []
    for length in corpus.lengths.tolist():
        found = []
        start = rng.integers(len(LABELS), size=length)
        for _ in range(most):
            labels = start.copy()
            labels[rng.integers(length)] = rng.integers(len(LABELS))
            for i in range(length):
                if not valid[labels[i], labels[i - 1] if i else len(LABELS)]:
                    labels[i] = LABELS.index("O")
            if not any(np.array_equal(labels, other) for other in found):
                found.append(labels)
        flat += found
        sizes.append(len(found))
    scores = np.linspace(5, 1, len(flat)).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Labellings(np.concatenate(flat), scores, offsets)


def candidates_of(corpus, found):
    """Yield the labels of each candidate of each sentence, as lists of strings."""
    place = 0
    for i, length in enumerate(corpus.lengths.tolist()):
        group = []
        for _ in range(found.list_offsets[i], found.list_offsets[i + 1]):
            codes = found.labels[place : place + length].tolist()
            group.append([LABELS[code] for code in codes])
            place += length
        yield group


def units_of(labels):
    """Return (begin, end, type) of chunks and of tokens outside."""
    units = []
    for i, label in enumerate(labels):
        tag, _, kind = label.partition("-")
        if tag == "I" and units and units[-1][2] == kind:
            units[-1] = (units[-1][0], i + 1, kind)
        else:
            units.append((i, i + 1, kind))
    return units


def attributes_of(unit, words, tags):
    """Return the attributes of one unit by name; those it has not are left out."""
    if isinstance(unit, str):
        return collections.defaultdict(lambda: unit)
    begin, end, kind = unit
    padded_words = ["<s>", "<s>", *words, "</s>", "</s>"]
    padded_tags = ["<s>", "<s>", *tags, "</s>", "</s>"]
    place = {(0, 0): "inside", (1, 0): "begin", (0, 1): "end", (1, 1): "whole"}
    found = {
        "type": kind or "O",
        "length": str(end - begin),
        "place": place[begin == 0, end == len(words)],
        "pos_sequence": " ".join(tags[begin:end]),
        "first_word": words[begin],
        "last_word": words[end - 1],
        "last_suffix": words[end - 1][-3:],
        "first_pos": tags[begin],
        "last_pos": tags[end - 1],
        "previous_word": padded_words[begin + 1],
        "previous_pos": padded_tags[begin + 1],
        "previous2_pos": padded_tags[begin],
        "next_word": padded_words[end + 2],
        "next_pos": padded_tags[end + 2],
        "next2_pos": padded_tags[end + 3],
    }
    if end - begin <= 3:
        found["words"] = " ".join(words[begin:end])
    return found


def features_of(labels, words, tags):
    """Count the features of one candidate by name."""
    units = units_of(labels)
    kinds = [kind for _, _, kind in units]
    whole = {name: str(kinds.count(name)) for name in ("NP", "VP", "PP")}
    whole["units"] = str(len(units))
    whole["chunks"] = str(len(units) - kinds.count(""))
    whole["tokens"] = str(len(words))
    counts = collections.Counter()
    for order, templates in TEMPLATES.items():
        if order == 0:
            windows = [[whole]]
        else:
            row = units if order == 1 else ["<s>", *units, "</s>"]
            described = [attributes_of(unit, words, tags) for unit in row]
            begins = range(len(row) - order + 1)
            windows = [described[i : i + order] for i in begins]
        for window, template in itertools.product(windows, templates):
            if all(
                isinstance(window[p], collections.defaultdict) or n in window[p]
                for p, n in template
            ):
                parts = (f"{order}.{p}.{n}={window[p][n]}" for p, n in template)
                counts[" ".join(parts)] += 1
    return counts


def relative_rows(corpus, found):
    """Return, list by list, each candidate's counts less those of the first."""
    words, tags = (column.tolist() for column in corpus.columns)
    lists = []
    for i, group in enumerate(candidates_of(corpus, found)):
        here = slice(corpus.offsets[i], corpus.offsets[i + 1])
        rows = [features_of(labels, words[here], tags[here]) for labels in group]
        for row in rows[1:]:
            row.subtract(rows[0])
        rows[0] = collections.Counter()
        lists.append([{k: v for k, v in row.items() if v} for row in rows])
    return lists


def corpus_f1(split, chosen):
    """Chunk F1 of a corpus in percent, as conlleval counts it, by a plain loop."""
    correct = total = 0
    for index, candidate in enumerate(chosen):
        place = split.lists.list_offsets[index] + candidate
        correct += split.num_correct[place]
        total += split.num_predicted[place] + split.num_gold[index]
    return 200.0 * correct / total
