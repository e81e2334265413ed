"""A real reranking task (TM-E1): the best chunkings of CoNLL-2000 with global features.

The paper reranks 50 parses per sentence of a parser whose data are not free. Here the
candidates are the best chunkings of a base tagger, made by jack-knife for the training
part. Their features are over whole chunks and runs of chunks, some hundred thousand of
them. The quality of a candidate is the chunk F1 of its sentence; the oracle is the best
of the list. The first sentences of the training file (WSJ 15-18) are trained on, in
growing numbers. Its last sentences are held out; the test file (WSJ 20) is the test.
"""

import hashlib
import json
import os
import pathlib
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments.nbest.entries import make_rows
from experiments.nbest.features import TEMPLATES, FeatureTable, instances
from experiments.nbest.jackknife import Labellings, jackknife, join, k_best, train_base
from experiments.nbest.units import OUTSIDE, Chunkings, chunkings, count_chunks
from experiments.protocol import Say
from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.data import Corpus, data_folders, find, read_conll
from lowrank_jax.data.lists import Lists
from lowrank_jax.features import Encoder, read_template
from lowrank_jax.store import arrays as files
from lowrank_jax.streams.sentences import stream

__all__ = [
    "TRAINING_SIZES",
    "ChunkLists",
    "Split",
    "chunk_lists",
    "kept_lists",
    "make_chunk_lists",
]

#: Growing training sets, 1:2:4:8 as the paper's sections 2, 2-3, 2-5 and 2-9.
TRAINING_SIZES = (1000, 2000, 4000, 8000)

_FORMAT = 1  # of the cache; goes up when lists of the same settings would change

_SPLITS = ("train", "development", "test")

Path = str | os.PathLike[str]


class Split(NamedTuple):
    """Lists, and the chunk counts that the F1 of a corpus is made of.

    Attributes:
      lists: features and the quality of each candidate, its sentence's chunk F1.
      num_correct: (num_candidates,) int32 chunks that are right.
      num_predicted: (num_candidates,) int32 chunks.
      num_gold: (num_lists,) int32 chunks of the gold standard.
    """

    lists: Lists
    num_correct: np.ndarray
    num_predicted: np.ndarray
    num_gold: np.ndarray


class ChunkLists(NamedTuple):
    """The task.

    Attributes:
      train: Training lists, made by jack-knife.
      development: Held-out lists.
      test: Lists of the test file.
      num_raw_features: Number of features in the training lists before selection.
    """

    train: Split
    development: Split
    test: Split
    num_raw_features: int


def chunk_lists(
    data_dir: Path | None = None,
    *,
    num_best: int = 50,
    num_folds: int = 10,
    num_passes: int = 5,
    min_count: int = 3,
    score_scale: float = 10.0,
    num_train: int = 8000,
    num_development: int = 936,
    num_test: int | None = None,
    base: str = "perceptron",
    seed: int = 0,
    cache: Path | None = None,
    say: Say = lambda line: None,
) -> ChunkLists:
    """Make the task from CoNLL-2000, or read it back if it was made before.

    Args:
      data_dir: Folder of the data sets. None looks in the usual places.
      num_best: Number of candidates per sentence.
      num_folds: Number of folds of the jack-knife.
      num_passes: Number of passes of each base tagger.
      min_count: Number of training lists in which a feature must tell candidates apart.
      score_scale: size of feature 0, the base tagger's score: so much is a candidate
        of a training list below the first, on average. A row has some 200 counts, most
        of them 1 or -1, and so a norm near 14; the score should be heard beside them.
      num_train: Number of sentences from the start of the training file.
      num_development: Number of sentences from the end of the training file.
      num_test: Number of sentences from the start of the test file. None takes all.
      base: Learner of the base tagger, ``"perceptron"`` or ``"mira"``.
      seed: Seed for the shuffles of the base taggers.
      cache: Folder to keep the lists in. None is ``nbest`` in the user's cache folder.
      say: Takes one line of progress.

    Raises:
      InputError: The data are not there, or have too few sentences.
    """
    checks.whole(num_train=num_train, num_development=num_development)
    train = read_conll(find("conll2000/train.txt", data_dir))
    test = read_conll(find("conll2000/test.txt", data_dir))
    num_test = test.num_sentences if num_test is None else num_test
    checks.whole(num_test=num_test)
    if num_train + num_development > train.num_sentences:
        raise InputError(
            f"`num_train` and `num_development` must be at most {train.num_sentences} "
            f"together, the sentences of {train.source}, got {num_train} and "
            f"{num_development}."
        )
    if num_test > test.num_sentences:
        raise InputError(
            f"`num_test` must be at most {test.num_sentences}, the sentences of "
            f"{test.source}, got {num_test}."
        )
    last = np.arange(train.num_sentences - num_development, train.num_sentences)
    parts = (
        train.take(np.arange(num_train)),
        train.take(last),
        test.take(np.arange(num_test)),
    )
    settings: dict[str, Any] = {
        "num_best": num_best,
        "num_folds": num_folds,
        "num_passes": num_passes,
        "min_count": min_count,
        "score_scale": score_scale,
        "seed": seed,
    }
    if base != "perceptron":  # the name of lists made before does not change
        settings["base"] = base
    return kept_lists("chunk", parts, settings, cache=cache, say=say)


def kept_lists(
    name: str,
    parts: tuple[Corpus, Corpus, Corpus],
    settings: dict[str, Any],
    *,
    cache: Path | None = None,
    say: Say = lambda line: None,
) -> ChunkLists:
    """Read the lists of these corpora and settings, or make and keep them.

    Args:
      name: First word of the file's name.
      parts: Training, development and test sentences.
      settings: Settings of `make_chunk_lists`.
      cache: Folder to keep the lists in. None is ``nbest`` in the user's cache folder.
      say: Takes one line of progress.
    """
    folder = data_folders()[-1] / "nbest" if cache is None else pathlib.Path(cache)
    path = folder / f"{name}-lists-{_digest(parts, settings)}.npz"
    if path.exists():
        say(f"reading {path}")
        return _from_arrays(files.read_arrays(path))
    made = make_chunk_lists(*parts, **settings, say=say)
    folder.mkdir(parents=True, exist_ok=True)
    files.write_arrays(path, _to_arrays(made))
    say(f"wrote {path}")
    return made


def make_chunk_lists(
    train: Corpus,
    development: Corpus,
    test: Corpus,
    *,
    num_best: int,
    num_folds: int,
    num_passes: int,
    min_count: int,
    score_scale: float = 10.0,
    base: str = "perceptron",
    seed: int,
    say: Say = lambda line: None,
) -> ChunkLists:
    """Make the lists of three corpora; columns are word, part of speech, IOB2 label.

    Args:
      train: Training sentences. Features are selected on their lists, without labels.
      development: Held-out sentences, decoded by the tagger trained on all of `train`.
      test: Test sentences, decoded by the same tagger.
      num_best: Number of candidates per sentence.
      num_folds: Number of folds of the jack-knife.
      num_passes: Number of passes of each base tagger.
      min_count: Number of training lists in which a feature must tell candidates apart.
      score_scale: Scale of feature 0, the base tagger's score, as in `chunk_lists`.
      base: Learner of the base tagger, ``"perceptron"`` or ``"mira"``.
      seed: Seed for the shuffles of the base taggers.
      say: Takes one line of progress.
    """
    checks.whole(num_best=num_best, min_count=min_count)
    checks.positive(score_scale=score_scale)
    encoder, sequences = Encoder.fit_transform(train, read_template("chunking"))
    key_folds, key_all = jax.random.split(jax.random.key(seed))
    found = [
        jackknife(
            sequences,
            labels=encoder.labels,
            num_best=num_best,
            num_folds=num_folds,
            num_passes=num_passes,
            base=base,
            key=key_folds,
            say=say,
        )
    ]
    everything = np.arange(train.num_sentences)
    params = train_base(
        stream(sequences), everything, key=key_all, num_passes=num_passes, base=base
    )
    for corpus in (development, test):
        part = encoder.transform(corpus, unseen_label="ignore")
        chosen = np.arange(corpus.num_sentences)
        best = k_best(params, part, chosen, labels=encoder.labels, num_best=num_best)
        found.append(join(best))
        say(f"tagger of all folds: {len(best)} lists")
    corpora = (train, development, test)
    kinds = _kinds(corpora, encoder.labels)
    mean_gap = float(np.abs(_below_first(found[0])).mean()) or 1.0
    scale = np.float32(score_scale / mean_gap)  # one for all folds and splits
    table, splits, num_raw = FeatureTable(), [], 0
    for corpus, labellings in zip(corpora, found, strict=True):
        cut = chunkings(corpus, labellings, encoder.labels, kinds)
        scores = _below_first(labellings) * scale
        split, num_found = _split(corpus, cut, scores, table, min_count)
        num_raw = num_raw or num_found
        splits.append(split)
        say(
            f"{split.lists.num_lists} lists: {split.lists.num_candidates} candidates, "
            f"{split.lists.num_entries} entries, {table.num_features} features"
        )
    return ChunkLists(splits[0], splits[1], splits[2], num_raw)


def _split(
    corpus: Corpus,
    cut: Chunkings,
    scores: np.ndarray,
    table: FeatureTable,
    min_count: int,
) -> tuple[Split, int]:
    """Return the lists of one corpus, and the features before selection."""
    parts = instances(corpus, cut, table)
    rows, num_raw = make_rows(
        parts, cut.list_offsets, scores, table, min_count=min_count
    )
    counts = count_chunks(corpus, cut)
    gold = counts.num_gold[cut.sentences]
    total = gold + counts.num_predicted
    # Nothing to find and nothing found is as good as can be.
    quality = np.where(total > 0, 2 * counts.num_correct / np.maximum(total, 1), 1.0)
    lists = Lists(
        feature_ids=rows.feature_ids,
        values=rows.values,
        candidate_offsets=rows.offsets.astype(np.int32),
        list_offsets=cut.list_offsets.astype(np.int32),
        quality=quality.astype(np.float32),
        num_features=table.num_features,
    )
    return Split(lists, *(part.astype(np.int32) for part in counts)), num_raw


def _below_first(found: Labellings) -> np.ndarray:
    """Return each candidate's score less the score of the first of its list."""
    sizes = np.diff(found.list_offsets)
    return found.scores - np.repeat(found.scores[found.list_offsets[:-1]], sizes)


def _kinds(corpora: tuple[Corpus, ...], labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return all types of chunks; the first is the type of a token outside."""
    seen = set(labels)
    for corpus in corpora:
        if corpus.labels is not None:
            seen |= set(corpus.labels.tolist())
    kinds = {label.partition("-")[2] for label in seen}
    return (OUTSIDE, *sorted(kinds - {OUTSIDE}))


def _digest(parts: tuple[Corpus, ...], settings: dict[str, Any]) -> str:
    """Return a name for the lists of these corpora and settings."""
    text = json.dumps([_FORMAT, settings, sorted(TEMPLATES.items())])
    digest = hashlib.sha256(text.encode())
    for corpus in parts:
        assert corpus.labels is not None
        for column in (*corpus.columns, corpus.labels):
            digest.update("\n".join(column.tolist()).encode())
        digest.update(corpus.offsets.tobytes())
    return digest.hexdigest()[:16]


def _to_arrays(made: ChunkLists) -> dict[str, np.ndarray]:
    """Return what the cache holds: counts as small integers, scores apart."""
    arrays = {"num_raw_features": np.array(made.num_raw_features)}
    for name in _SPLITS:
        split: Split = getattr(made, name)
        parts = vars(split.lists) | split._asdict()
        del parts["lists"]
        values, is_score = parts.pop("values"), parts["feature_ids"] == 0
        counts = np.where(is_score, 0, values)
        is_small = np.abs(counts).max(initial=0) < 128
        parts["counts"] = counts.astype(np.int8 if is_small else np.int16)
        parts["scores"] = values[is_score]
        arrays |= {f"{name}.{key}": np.asarray(part) for key, part in parts.items()}
    return arrays


def _from_arrays(arrays: dict[str, np.ndarray]) -> ChunkLists:
    """Undo `_to_arrays`."""
    splits = []
    for name in _SPLITS:
        parts = {
            key.partition(".")[2]: array
            for key, array in arrays.items()
            if key.startswith(f"{name}.")
        }
        counts = [parts.pop(key) for key in Split._fields[1:]]
        values = parts.pop("counts").astype(np.float32)
        values[parts["feature_ids"] == 0] = parts.pop("scores")
        num_features = int(parts.pop("num_features"))
        lists = Lists(**parts, values=values, num_features=num_features)
        splits.append(Split(lists, *counts))
    num_raw = int(arrays["num_raw_features"])
    return ChunkLists(splits[0], splits[1], splits[2], num_raw)
