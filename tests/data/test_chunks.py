"""Schemes of chunks: told apart, converted, and their legal pairs."""

import itertools

import numpy as np
import pytest

from lowrank_jax import data, metrics
from lowrank_jax.checks import InputError
from lowrank_jax.data.chunks import SCHEMES


def write(chunks, scheme):
    """Write sentences of (length, type or None) as labels, token by token."""
    labels, offsets = [], [0]
    for sentence in chunks:
        before = None
        for length, kind in sentence:
            for i in range(length):
                is_first, is_last = i == 0, i == length - 1
                if kind is None:
                    labels.append("O")
                    continue
                if scheme == "iobes":
                    tag = "S" if length == 1 else "IBE"[is_first + 2 * is_last]
                elif scheme == "iob2":
                    tag = "IB"[is_first]
                else:
                    tag = "IB"[is_first and before == kind]
                labels.append(f"{tag}-{kind}" if kind else tag)
            before = kind
        offsets.append(len(labels))
    return labels, np.array(offsets)


def draw(seed):
    generator = np.random.default_rng(seed)
    kinds = [None, "NP", "V-P"] if seed % 4 else [None, ""]
    return [
        [
            (int(generator.integers(1, 4)), kinds[generator.integers(len(kinds))])
            for _ in range(generator.integers(0, 6))
        ]
        for _ in range(5)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_each_scheme_is_told_and_converts_to_each(seed):
    chunks = draw(seed)
    written = {scheme: write(chunks, scheme) for scheme in SCHEMES}
    has_chunk = any(kind is not None for part in chunks for _, kind in part)
    for (old, (labels, offsets)), new in itertools.product(written.items(), SCHEMES):
        assert data.scheme_of(labels, offsets) == (old if has_chunk else "iob2")
        found = data.convert_labels(labels, offsets, new)
        assert found.tolist() == written[new][0]
        back = data.convert_labels(found, offsets, old)
        assert back.tolist() == labels  # the round trip


@pytest.mark.parametrize("scheme", SCHEMES)
def test_legal_pairs_are_those_of_written_chunks(scheme):
    """All paths of three labels: legal by the table if and only if written so."""
    names = [f"{tag}-{kind}" for tag in SCHEMES[scheme] for kind in "XY"] + ["O"]
    legal = data.legal_pairs(names, scheme)
    edge = len(names)
    pieces = [(n, kind) for n in (1, 2, 3) for kind in ("X", "Y")] + [(1, None)]
    possible = set()
    for number in (1, 2, 3):
        for parts in itertools.product(pieces, repeat=number):
            possible.add(tuple(write([parts], scheme)[0]))
    for path in itertools.product(range(edge), repeat=3):
        steps = zip((*path, edge), (edge, *path), strict=True)
        is_legal = all(legal[now, before] for now, before in steps)
        assert is_legal == (tuple(names[i] for i in path) in possible), path


def test_illegal_labels_convert_as_conlleval_reads_them():
    names = ["O", "B-X", "I-X", "E-X", "S-X", "I-Y", "E-Y"]
    generator = np.random.default_rng(0)
    labels = [names[i] for i in generator.integers(len(names), size=300)]
    offsets = np.array([0, 7, 7, 50, 300])
    for scheme in SCHEMES:
        found = data.convert_labels(labels, offsets, scheme)
        assert data.scheme_of(found, offsets) == scheme
        scores = metrics.chunk_scores(labels, found, offsets)
        assert scores.num_gold == scores.num_predicted == scores.num_correct


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (["O", "B-X", "I-Y", "O"], "token 3 of sentence 1 has the label 'I-Y' after"),
        (["O", "B-X", "O", "S-X"], "'O' after 'B-X' and before 'S-X'"),
        (["O", "S-X", "O", "B-X"], "'B-X' after 'O' and before the end"),
        (["NN", "O", "O", "O"], "'NN' at the start"),
    ],
)
def test_labels_of_no_scheme_are_named(labels, told):
    with pytest.raises(InputError, match=told):
        data.scheme_of(labels, np.array([0, 4]))
    place = "file:{}".format
    with pytest.raises(InputError, match=r"file:\d has the label"):
        data.scheme_of(labels, np.array([0, 4]), place)


def test_other_labels_are_not_converted():
    with pytest.raises(InputError, match="got 'NN'"):
        data.convert_labels(["O", "NN"], np.array([0, 2]), "iobes")
