"""A second reranking task: the best tag sequences of Brown at 1 % of the data.

A tag is a chunk of one token, so that `chunk_lists` makes the lists: base tagger by
jack-knife, features over runs of tags and words, chunk F1 equal to the share of right
tags. In place of the part of speech, the second column is the ending of the word and
its shape. Whole files are apart: every tenth is test, every tenth development, and the
training sentences are the first of five files spread over the others.
"""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from experiments.nbest.lists import ChunkLists, kept_lists
from experiments.protocol import Say
from lowrank_jax.data import Corpus, find, read_conll

__all__ = ["parts_of", "places", "reduced", "tag_lists"]

_SUFFIXES = ("-TL", "-HL", "-NC")
_NUM_FILES = 5  # to train on


def reduced(tag: str) -> str:
    """Return the tag without the marks of foreign words, titles and headlines."""
    tag = tag.removeprefix("FW-")
    while tag.endswith(_SUFFIXES) and len(tag) > 3:
        tag = tag[:-3]
    return tag


def _ending(word: str) -> str:
    """Return the last three letters, with signs for a capital, a digit, a hyphen."""
    signs = (word[:1].isupper(), any(c.isdigit() for c in word), "-" in word)
    return "".join("01"[sign] for sign in signs) + word[-3:].lower()


def parts_of(
    data_dir: Path | str | None, num_train: int, num_development: int, num_test: int
) -> tuple[Corpus, Corpus, Corpus]:
    """Return training, development and test sentences of Brown, whole files apart.

    Args:
      data_dir: Folder of the data sets. None looks in the usual places.
      num_train: Number of training sentences.
      num_development: Number of sentences, the first of each file in turn.
      num_test: Number of sentences, the first of each file in turn.
    """
    place = find("brown/brown.txt", data_dir)
    corpus = read_conll(place)
    assert corpus.labels is not None
    words = corpus.columns[0]
    ending = {word: _ending(word) for word in set(words.tolist())}
    tags = {tag: f"B-{reduced(tag)}" for tag in set(corpus.labels.tolist())}
    corpus = dataclasses.replace(
        corpus,
        columns=(words, np.array([ending[word] for word in words], object)),
        labels=np.array([tags[tag] for tag in corpus.labels], object),
    )
    lines = (place.parent / "sections.tsv").read_text().splitlines()[1:]
    sizes = [int(line.split("\t")[3]) for line in lines]
    counts = num_train, num_development, num_test
    train, development, test = map(corpus.take, places(sizes, counts))
    return train, development, test


def places(sizes: list[int], counts: tuple[int, int, int]) -> list[np.ndarray]:
    """Return the sentences of training, development and test part, files apart.

    Args:
      sizes: Number of sentences of each file.
      counts: Number of sentences of each part.
    """
    ends = np.cumsum(sizes)
    files = [np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    others = [file for i, file in enumerate(files) if i % 10 not in (4, 9)]
    step = len(others) // _NUM_FILES
    some = others[step // 2 :: step][:_NUM_FILES], files[4::10], files[9::10]
    found = []
    for part, count in zip(some, counts, strict=True):
        each = -(-count // len(part))
        found.append(np.concatenate([file[:each] for file in part])[:count])
    return found


def tag_lists(
    data_dir: Path | str | None = None,
    *,
    num_best: int = 20,
    num_folds: int = 10,
    num_passes: int = 5,
    num_train: int = 400,
    num_development: int = 400,
    num_test: int = 1000,
    cache: Path | None = None,
    say: Say = lambda line: None,
) -> ChunkLists:
    """Make the task from Brown, or read it back if it was made before.

    The arguments are explained by `chunk_lists` and `parts_of`.
    """
    settings: dict[str, Any] = {
        "num_best": num_best,
        "num_folds": num_folds,
        "num_passes": num_passes,
        "min_count": 2,
        "score_scale": 10.0,
        "seed": 0,
    }
    parts = parts_of(data_dir, num_train, num_development, num_test)
    return kept_lists("tag", parts, settings, cache=cache, say=say)
