"""Sentences with known structure, made from an integer seed.

All randomness comes from ``numpy.random.default_rng(seed)``, not from a JAX key. Tasks
are made on the host before anything is traced. The same seed gives the same task on
every device, precision and JAX version. Each function returns ``(train, test, truth)``.
Noise changes only the labels of `train`. A score on `test` therefore measures how well
the planted structure was found.
"""

from typing import NamedTuple

import numpy as np

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.data.corpus import Corpus
from lowrank_jax.data.made import draws
from lowrank_jax.data.segmentation import labels_from_words
from lowrank_jax.data.sequences import Sequences, Space

__all__ = [
    "BilinearTruth",
    "Lexicon",
    "bilinear_task",
    "segmentation_task",
]
__dir__ = __all__.copy

_FIRST_CHARACTER = 0x4E00  # the first of the CJK ideographs
_WORD_LENGTHS = (0.2, 0.5, 0.2, 0.1)  # shares of words with 1, 2, 3, 4 characters


class Lexicon(NamedTuple):
    """The planted words.

    Attributes:
      words: Distinct words, the most frequent first.
      probabilities: (num_words,) float64, proportional to 1 / rank (Zipf).
    """

    words: list[str]
    probabilities: np.ndarray


def segmentation_task(
    num_train: int,
    num_test: int,
    *,
    seed: int,
    num_characters: int = 40,
    num_words: int = 150,
    words_per_sentence: tuple[int, int] = (4, 8),
) -> tuple[Corpus, Corpus, Lexicon]:
    """Make word segmentation from a Zipf lexicon (the task of the BOL errata).

    Words have 1 to 4 characters (shares .2, .5, .2, .1), drawn uniformly. The number of
    words per sentence is uniform between the two given. Words are drawn independently.

    Args:
      num_train: Number of sentences to train on.
      num_test: Number of sentences to test on.
      seed: Seed of NumPy's default generator.
      num_characters: Size of the alphabet, CJK ideographs from U+4E00 on.
      num_words: Size of the lexicon.
      words_per_sentence: Least and largest number of words.

    Returns:
      ``(train, test, truth)``: two corpora with one column, the characters, and labels
      B, I, E, S; and the lexicon.
    """
    checks.whole(num_train=num_train, num_test=num_test, num_words=num_words)
    checks.whole(num_characters=num_characters)
    fewest, most = draws.span("words_per_sentence", words_per_sentence)
    num_possible = sum(num_characters**n for n in range(1, len(_WORD_LENGTHS) + 1))
    if 2 * num_words > num_possible:
        raise InputError(
            f"`num_words` must be at most {num_possible // 2} for {num_characters} "
            f"characters, got {num_words}."
        )
    rng = np.random.default_rng(seed)
    found: dict[str, None] = {}
    while len(found) < num_words:
        length = rng.choice(len(_WORD_LENGTHS), p=_WORD_LENGTHS) + 1
        codes = _FIRST_CHARACTER + rng.integers(0, num_characters, length)
        found.setdefault("".join(map(chr, codes.tolist())))
    weights = 1.0 / np.arange(1, num_words + 1)
    truth = Lexicon(list(found), weights / weights.sum())

    def draw(num_sentences: int, name: str) -> Corpus:
        counts = rng.integers(fewest, most + 1, num_sentences)
        chosen = rng.choice(num_words, int(counts.sum()), p=truth.probabilities)
        words = [truth.words[i] for i in chosen.tolist()]
        ends = np.cumsum(counts).tolist()
        starts = [0, *ends[:-1]]
        sentences = [words[a:b] for a, b in zip(starts, ends, strict=True)]
        characters, labels, offsets = labels_from_words(sentences)
        return Corpus((characters,), labels, offsets, name)

    train = draw(num_train, "synthetic segmentation, training part")
    return train, draw(num_test, "synthetic segmentation, test part"), truth


class BilinearTruth(NamedTuple):
    """The planted weights of a labelling task.

    Attributes:
      first_order: (K, S, S+1) float64, the blocks W_k. Rows are labels, columns are
        previous labels, the last column is the start. Each has Frobenius norm 1.
      zero_order: (K, S) float64, each row of norm 1, or None.
      margin: Smallest difference between the scores of the best and the second best
        path, over all sentences made. Divided by the sum of the trace norms of the
        blocks, it is the margin of BOL-D1.
      clean_labels: (num_tokens,) int32, training labels before noise.
    """

    first_order: np.ndarray
    zero_order: np.ndarray | None
    margin: float
    clean_labels: np.ndarray


def bilinear_task(
    num_train: int,
    num_test: int,
    *,
    seed: int,
    num_features: int = 60,
    num_labels: int = 4,
    num_templates: int = 3,
    lengths: tuple[int, int] = (4, 10),
    rank: int = 1,
    zero_order: bool = False,
    noise: float = 0.0,
    margin: float = 0.0,
) -> tuple[Sequences, Sequences, BilinearTruth]:
    r"""Make first-order labelling with planted low-rank blocks (BOL-M2).

    The score of a labelling is :math:`\sum_i\sum_{k\in f_i} W_k[y_i, y_{i-1}]`, plus
    :math:`w_k[y_i]` with `zero_order`. :math:`W_k` is a sum of `rank` Gaussian outer
    products. The labels are the exact best path. Template j draws its feature uniformly
    from its own ``num_features / num_templates`` ids.

    Args:
      num_train: Number of sentences to train on.
      num_test: Number of sentences to test on.
      seed: Seed of NumPy's default generator.
      num_features: K, a multiple of `num_templates`.
      num_labels: S, at least 2.
      num_templates: Number of features active at each position.
      lengths: Least and largest length of a sentence; lengths are uniform between.
      rank: Rank of each block, 1 to S.
      zero_order: True to plant weights on the label too.
      noise: Share of training labels replaced by another label; 0 is separable.
      margin: Least lead of the best path; other sentences are not used.

    Returns:
      ``(train, test, truth)``: two corpora of ids and the planted weights.

    Raises:
      InputError: If an argument is out of range or hardly any sentence has the margin.
    """
    checks.whole(num_train=num_train, num_test=num_test, num_templates=num_templates)
    checks.whole(num_features=num_features)
    checks.whole(num_labels=num_labels, least=2)
    checks.non_negative(margin=margin)
    draws.check_share("noise", noise)
    shortest, longest = draws.span("lengths", lengths)
    if num_features % num_templates:
        raise InputError(
            f"`num_features` must be a multiple of the {num_templates} templates, got "
            f"{num_features}."
        )
    if not 1 <= rank <= num_labels:
        raise InputError(f"`rank` must lie in 1..{num_labels}, got {rank}.")
    rng = np.random.default_rng(seed)
    left = rng.standard_normal((num_features, num_labels, rank))
    right = rng.standard_normal((num_features, num_labels + 1, rank))
    blocks = np.einsum("kur,kvr->kuv", left, right)
    blocks /= np.linalg.norm(blocks, axis=(1, 2), keepdims=True)
    unary = None
    if zero_order:
        unary = rng.standard_normal((num_features, num_labels))
        unary /= np.linalg.norm(unary, axis=1, keepdims=True)
    per_template = num_features // num_templates
    space = Space(
        num_features, num_labels, ("01" if zero_order else "1",) * num_templates
    )

    def draw(num_sentences: int) -> tuple[Sequences, float]:
        """Draw batches until enough sentences have the margin."""
        batches: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        num_drawn, num_found, gap = 0, 0, np.inf
        while num_found < num_sentences:
            if num_drawn > draws.MOST_TRIES * num_sentences:
                raise InputError(
                    f"`margin` must be smaller: only {num_found} of {num_drawn} "
                    f"sentences reach {margin}."
                )
            size = int(np.clip(num_sentences - num_found, 64, 1024))
            sizes = rng.integers(shortest, longest + 1, size)
            ids = rng.integers(0, per_template, (size, longest, num_templates))
            ids += per_template * np.arange(num_templates)
            scores = blocks[ids].sum(axis=2)
            if unary is not None:
                scores += unary[ids].sum(axis=2)[:, :, :, None]
            labels, lead = _best_paths(scores, sizes)
            good = np.flatnonzero(lead >= margin)[: num_sentences - num_found]
            batches.append((ids[good], labels[good], sizes[good]))
            num_drawn, num_found = num_drawn + size, num_found + good.size
            gap = min(gap, lead[good].min(initial=np.inf))
        ids, labels, sizes = (
            np.concatenate(part) for part in zip(*batches, strict=True)
        )
        mask = np.arange(longest) < sizes[:, None]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        flat_ids, flat_labels = ids[mask].astype(np.int32), labels[mask]
        return Sequences(flat_ids, flat_labels, offsets, space), float(gap)

    train, train_gap = draw(num_train)
    test, test_gap = draw(num_test)
    truth = BilinearTruth(blocks, unary, min(train_gap, test_gap), train.labels)
    noisy = draws.flip(rng, train.labels, noise, num_labels)
    return Sequences(train.feature_ids, noisy, train.offsets, space), test, truth


def _best_paths(
    scores: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best path of each sentence, and its lead over the second best.

    Args:
      scores: (n, longest, S, S+1) score of label u after label v (S: start).
      lengths: (n,) true lengths, at least 1.

    Returns:
      ``(labels, lead)``: (n, longest) int32, 0 beyond the length, and (n,) float64.
    """
    num, longest, num_labels, _ = scores.shape
    rows = np.arange(num)
    # top[:, v, :]: scores of the two best paths that end in label v.
    top = np.full((num, num_labels, 2), -np.inf)
    top[:, :, 0] = scores[:, 0, :, num_labels]
    back = np.zeros((num, longest, num_labels), np.int32)
    for i in range(1, longest):
        step = scores[:, i, :, :num_labels, None] + top[:, None]  # (n, u, v, 2)
        back[:, i] = step[..., 0].argmax(axis=2)
        two_best = np.sort(step.reshape(num, num_labels, -1), axis=2)[:, :, :-3:-1]
        top = np.where((i < lengths)[:, None, None], two_best, top)
    ranked = np.sort(top.reshape(num, -1), axis=1)
    labels = np.zeros((num, longest), np.int32)
    label = top[:, :, 0].argmax(axis=1)
    for i in range(longest - 1, -1, -1):
        is_inside = i < lengths
        labels[:, i] = np.where(is_inside, label, 0)
        label = np.where(is_inside, back[rows, i, label], label)
    return labels, ranked[:, -1] - ranked[:, -2]
