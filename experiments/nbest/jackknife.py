"""The k best labellings of each sentence, by taggers that never saw it (jack-knife).

A reranker that learns from lists of a tagger's own training sentences learns from lists
that are too good. So the sentences are cut into folds. The lists of a fold come from a
tagger trained on the other folds, the lists of new sentences from a tagger trained on
all folds.

The base tagger is an averaged structured perceptron, or MIRA, on 0-order features and
label transitions. Labels are chunks in IOB2: an inside label must follow a label of its
own type. Decoding forbids all else, so that each chunking has one spelling and the k
best labellings are the k best chunkings.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.orders import shuffled
from lowrank_jax import checks, loops, streams
from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Sequences, Space
from lowrank_jax.decode import Scores, k_best_paths
from lowrank_jax.models import linear
from lowrank_jax.online import mira, perceptron
from lowrank_jax.streams.padding import pad_sequences

__all__ = [
    "Labellings",
    "contiguous_folds",
    "jackknife",
    "k_best",
    "join",
    "train_base",
    "valid_transitions",
]

_BASES = {"perceptron": perceptron, "mira": mira}

_GROUP = 64  # sentences decoded side by side
_SHORTEST = 16  # shorter ones are padded to this length


class Labellings(NamedTuple):
    """The best labellings of each sentence, best first; flat arrays.

    Attributes:
      labels: (num_candidate_tokens,) int32 label codes, candidate after candidate.
      scores: (num_candidates,) float32 scores of the tagger.
      list_offsets: (num_sentences + 1,) int64; the candidates of sentence i are
        ``list_offsets[i]:list_offsets[i + 1]``.
    """

    labels: np.ndarray
    scores: np.ndarray
    list_offsets: np.ndarray


def contiguous_folds(num_sentences: int, num_folds: int) -> list[np.ndarray]:
    """Cut 0..num_sentences-1 into runs of nearly equal size.

    Neighbouring sentences are of one article; a run keeps them together, as a test set
    does.

    Args:
      num_sentences: Number of sentences, at least `num_folds`.
      num_folds: Number of folds, at least 2.
    """
    checks.whole(least=2, num_folds=num_folds)
    if num_folds > num_sentences:
        raise InputError(
            f"`num_folds` must be at most {num_sentences}, the number of sentences, "
            f"got {num_folds}."
        )
    return np.array_split(np.arange(num_sentences), num_folds)


def valid_transitions(labels: tuple[str, ...]) -> np.ndarray:
    """Return which label may follow which, (S, S + 1) booleans.

    Row is the current label, column the previous one, the last column the start. An
    inside label (``I-NP``) may follow the labels of its type only.

    Args:
      labels: Label of each code.
    """
    parts = [label.partition("-") for label in labels]
    kinds = [kind for _, _, kind in parts] + [None]
    rows = [
        [tag != "I" or kind == previous for previous in kinds] for tag, _, kind in parts
    ]
    return np.array(rows, bool)


@functools.lru_cache(maxsize=1)
def _programs(base: str) -> tuple[Any, Any, Any]:
    learner = _BASES[base].learner()
    return (
        jax.jit(learner.init),
        jax.jit(lambda *given: loops.run(learner, *given)[0], donate_argnums=0),
        jax.jit(_BASES[base].final_params),
    )


def train_base(
    stream: streams.sentences.Stream,
    sentences: np.ndarray,
    *,
    key: jax.Array,
    num_passes: int,
    base: str = "perceptron",
) -> linear.Params:
    """Train the base tagger on some sentences of a corpus.

    Args:
      stream: The corpus. One compiled program serves equal numbers of sentences.
      sentences: (n,) sentences to learn from.
      key: Key for the shuffles.
      num_passes: Number of passes over these sentences.
      base: Learner of the tagger, ``"perceptron"`` or ``"mira"``.

    Returns:
      The weights, averaged over rounds.
    """
    checks.whole(num_passes=num_passes)
    checks.choice(tuple(_BASES), base=base)
    init, run, final = _programs(base)
    state = init(key, stream.example(0))
    for index in range(num_passes):
        shuffle = np.asarray(shuffled(key, index, len(sentences)))
        state = run(state, stream, jnp.asarray(sentences[shuffle], jnp.int32))
    return final(state)


@functools.partial(jax.jit, static_argnums=(4, 5))
def _k_best_padded(
    params: linear.Params,
    is_valid: jax.Array,
    ids: jax.Array,
    lengths: jax.Array,
    space: Space,
    k: int,
) -> Any:
    num_sentences, num_positions = ids.shape[:2]
    unary, pairs = linear.positions(params, ids.reshape(-1, ids.shape[2]), space)
    assert pairs is None, "the base tagger has 0-order features and transitions only"
    unary = unary.reshape(num_sentences, num_positions, -1)
    scores = linear.with_transitions(params, unary, None)
    pairwise = jnp.where(is_valid, scores.pairwise, -jnp.inf)
    return jax.vmap(
        lambda part, length: k_best_paths(Scores(part, pairwise), k, length)
    )(unary, lengths)


def k_best(
    params: linear.Params,
    sequences: Sequences,
    sentences: np.ndarray,
    *,
    labels: tuple[str, ...],
    num_best: int,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Decode the best labellings of some sentences; each is a distinct chunking.

    Args:
      params: Parameters of the tagger.
      sequences: The corpus.
      sentences: (n,) sentences to decode.
      labels: Label of each code.
      num_best: Number of labellings per sentence. A short sentence may have fewer.

    Returns:
      For each sentence its labels (m, length) int32 and scores (m,), best first.
    """
    checks.whole(num_best=num_best)
    lengths = np.diff(np.asarray(sequences.offsets))
    is_valid = valid_transitions(labels)
    found: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    # Padded to powers of 2: few programs, and all folds and corpora share them.
    padded = np.array([_padded_length(size) for size in lengths[sentences].tolist()])
    for length in np.unique(padded).tolist():
        here = sentences[padded == length]
        for begin in range(0, len(here), _GROUP):
            group = here[begin : begin + _GROUP]
            ids, _, _ = pad_sequences(sequences, group, length)
            missing = _GROUP - len(group)  # one shape a length
            ids = np.pad(ids, ((0, missing), (0, 0), (0, 0)))
            sizes = np.pad(lengths[group], (0, missing)).astype(np.int32)
            paths = jax.device_get(
                _k_best_padded(params, is_valid, ids, sizes, sequences.space, num_best)
            )
            for row, sentence in enumerate(group.tolist()):
                kept = paths.is_valid[row]
                found[sentence] = (
                    paths.labels[row][kept, : lengths[sentence]],
                    paths.scores[row][kept],
                )
    return [found[sentence] for sentence in sentences.tolist()]


def _padded_length(length: int) -> int:
    return max(_SHORTEST, 1 << (length - 1).bit_length())


def join(parts: list[tuple[np.ndarray, np.ndarray]]) -> Labellings:
    """Lay the labellings of sentences end to end.

    Args:
      parts: Labellings and scores, as `k_best` returns them.
    """
    sizes = [len(scores) for _, scores in parts]
    return Labellings(
        labels=np.concatenate([labels.ravel() for labels, _ in parts]),
        scores=np.concatenate([scores for _, scores in parts]),
        list_offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
    )


def jackknife(
    sequences: Sequences,
    *,
    labels: tuple[str, ...],
    num_best: int,
    num_folds: int,
    num_passes: int,
    base: str = "perceptron",
    key: jax.Array,
    say: Callable[[str], None] = lambda line: None,
) -> Labellings:
    """Decode every sentence with a tagger trained on the other folds.

    Features are numbered once over all folds. A feature that only the left-out fold has
    is never updated: its weight stays 0, like the weight of an unseen feature.

    Args:
      sequences: The training corpus.
      labels: Label of each code.
      num_best: Number of labellings per sentence.
      num_folds: Number of folds, and so of taggers.
      num_passes: Number of passes of each tagger over its sentences.
      base: Learner of the taggers, as in `train_base`.
      key: Key for the shuffles.
      say: Takes one line of progress.
    """
    num_sentences = sequences.num_sentences
    folds = contiguous_folds(num_sentences, num_folds)
    stream = streams.sentences.stream(sequences)
    # Folds differ by one sentence at most; equal numbers share one compiled program.
    num_others = num_sentences - len(folds[0])
    parts = []
    for number, fold in enumerate(folds):
        others = np.setdiff1d(np.arange(num_sentences), fold)[:num_others]
        fold_key = jax.random.fold_in(key, number)
        params = train_base(
            stream, others, key=fold_key, num_passes=num_passes, base=base
        )
        parts += k_best(params, sequences, fold, labels=labels, num_best=num_best)
        say(f"fold {number + 1} of {num_folds}: {len(fold)} lists")
    return join(parts)
