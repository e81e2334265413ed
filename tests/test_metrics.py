"""Scores against the rules of conlleval taken literally, and worked by hand."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from lowrank_jax import metrics
from lowrank_jax.checks import InputError
from lowrank_jax.data import labels_from_words, read_conll, words_from_labels

TYPES = ("NP", "VP")
LABELS = ["O", *(f"{tag}-{kind}" for tag in "BIES" for kind in TYPES)]
ODD_LABELS = ["B", "I", "E", "S", "X", ".", "X-NP", "O-NP", "B-", "B-NP-x", ".-VP"]


def split(label):
    tag, _, kind = label.partition("-")
    return tag, kind


def ends_chunk(before, after):
    (tag_1, kind_1), (tag_2, kind_2) = split(before), split(after)
    if tag_1 in ("E", "S"):
        return True
    if (tag_1, tag_2) in [(a, b) for a in "BI" for b in "BSO"]:
        return True
    return tag_1 not in ("O", ".") and kind_1 != kind_2


def starts_chunk(before, after):
    (tag_1, kind_1), (tag_2, kind_2) = split(before), split(after)
    if tag_2 in ("B", "S"):
        return True
    if (tag_1, tag_2) in [(a, b) for a in "ESO" for b in "EI"]:
        return True
    return tag_2 not in ("O", ".") and kind_1 != kind_2


def original_ends_chunk(before, after):
    (tag_1, kind_1), (tag_2, kind_2) = split(before), split(after)
    if tag_1 + tag_2 in ("BB", "BO", "IB", "IO", "EE", "EI", "EO"):
        return True
    return tag_1 not in ("O", ".") and kind_1 != kind_2


def original_starts_chunk(before, after):
    (tag_1, kind_1), (tag_2, kind_2) = split(before), split(after)
    if tag_1 + tag_2 in ("BB", "IB", "OB", "OI", "EE", "EI", "OE"):
        return True
    return tag_2 not in ("O", ".") and kind_1 != kind_2


def slow_counts(gold, predicted, offsets, is_original=False):
    """Go through the file token by token, as conlleval does."""
    end = original_ends_chunk if is_original else ends_chunk
    begin = original_starts_chunk if is_original else starts_chunk
    lines = []
    for first, last in zip(offsets[:-1], offsets[1:], strict=True):
        lines += list(zip(gold[first:last], predicted[first:last], strict=True))
        lines.append(("O", "O"))
    counts = {}

    def add(kind, place):
        counts.setdefault(kind, [0, 0, 0])[place] += 1

    is_in, last = False, ("O", "O")
    for line in lines:
        gold_ends, predicted_ends = map(end, last, line)
        gold_starts, predicted_starts = map(begin, last, line)
        kinds, last_kinds = [split(x)[1] for x in line], [split(x)[1] for x in last]
        if is_in:
            if gold_ends and predicted_ends and last_kinds[0] == last_kinds[1]:
                is_in = False
                add(last_kinds[0], 2)
            elif gold_ends != predicted_ends or kinds[0] != kinds[1]:
                is_in = False
        if gold_starts and predicted_starts and kinds[0] == kinds[1]:
            is_in = True
        if gold_starts:
            add(kinds[0], 0)
        if predicted_starts:
            add(kinds[1], 1)
        last = line
    if is_in:
        add(split(last[0])[1], 2)
    return counts


def counts_of(scores):
    return scores.num_gold, scores.num_predicted, scores.num_correct


def check_against_twin(gold, predicted, offsets, is_original=False):
    scores = metrics.chunk_scores(gold, predicted, offsets)
    expected = slow_counts(gold, predicted, offsets, is_original)
    total = [sum(column) for column in zip([0, 0, 0], *expected.values(), strict=True)]
    assert list(counts_of(scores)) == total
    # conlleval lists the types that were found; an odd label may end another one
    found = {kind: n for kind, n in sorted(expected.items()) if n[0] or n[1]}
    assert {kind: list(counts_of(s)) for kind, s in scores.by_type.items()} == found
    assert list(scores.by_type) == list(found)


@st.composite
def tagged_sentences(draw, labels):
    lengths = draw(st.lists(st.integers(0, 7), min_size=1, max_size=6))
    size = sum(lengths)
    label = st.sampled_from(labels)
    gold = draw(st.lists(label, min_size=size, max_size=size))
    is_copied = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    other = draw(st.lists(label, min_size=size, max_size=size))
    predicted = [
        g if copied else o for g, copied, o in zip(gold, is_copied, other, strict=True)
    ]
    return gold, predicted, np.concatenate([[0], np.cumsum(lengths)]).astype(int)


@hypothesis.given(tagged_sentences(LABELS))
@hypothesis.settings(max_examples=200, deadline=None)
def test_chunk_scores_equal_the_literal_rules(sentences):
    check_against_twin(*sentences)


@pytest.mark.parametrize("tags", ["BI", "IE"])
@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=100, deadline=None)
def test_three_tags_are_scored_by_the_original_rules(tags, data):
    labels = ["O", *(f"{tag}-{kind}" for tag in tags for kind in TYPES)]
    check_against_twin(*data.draw(tagged_sentences(labels)), is_original=True)


@hypothesis.given(tagged_sentences(LABELS + ODD_LABELS))
@hypothesis.settings(max_examples=200, deadline=None)
def test_chunk_scores_equal_the_literal_rules_for_odd_labels(sentences):
    check_against_twin(*sentences)


@pytest.mark.parametrize(
    ("labels", "num_chunks"),
    [
        ("B-NP I-NP O", 1),
        ("I-NP I-NP O", 1),  # I after O begins a chunk
        ("O I-NP B-NP", 2),  # B always begins one
        ("B-NP I-VP I-VP", 2),  # another type begins one
        ("B-NP I-VP I-NP", 3),
        ("B-NP O I-NP", 2),
        ("B-NP B-NP B-VP", 3),
        ("S-NP S-NP I-NP", 3),  # I after S begins one
        ("B-NP E-NP E-NP", 2),  # E after E begins one
        ("B-NP E-NP I-NP E-NP", 2),
        ("B-NP E-NP B-NP", 2),
        ("O O O", 0),
        ("B I I B", 2),  # no type: one type without a name
        ("NP NP VP", 0),  # no tag and no type is no chunk
        ("X-NP X-NP O", 1),  # an unknown tag still has a type
    ],
)
def test_number_of_chunks_worked_by_hand(labels, num_chunks):
    sequence = labels.split()
    scores = metrics.chunk_scores(sequence, sequence, [0, len(sequence)])
    assert counts_of(scores) == (num_chunks,) * 3


@pytest.mark.parametrize(
    ("gold", "predicted", "counts"),
    [
        # same ends, same type
        ("B-NP I-NP O B-VP", "B-NP I-NP O B-VP", (2, 2, 2)),
        # IOB1 and IOB2 name the same chunk
        ("B-NP I-NP O", "I-NP I-NP O", (1, 1, 1)),
        # and so do the five tags
        ("B-NP I-NP B-VP", "B-NP E-NP S-VP", (2, 2, 2)),
        # too long
        ("B-NP I-NP O", "B-NP I-NP I-NP", (1, 1, 0)),
        # too short
        ("B-NP I-NP O", "B-NP O O", (1, 1, 0)),
        # begins too late
        ("B-NP I-NP O", "O B-NP O", (1, 1, 0)),
        # wrong type
        ("B-NP I-NP O", "B-VP I-VP O", (1, 1, 0)),
        # the type changes inside: two predicted chunks, none right
        ("B-NP I-NP O", "B-NP I-VP O", (1, 2, 0)),
        # cut in two; the chunk behind is right
        ("B-NP I-NP B-VP", "B-NP B-NP B-VP", (2, 3, 1)),
        # one gold chunk ends as the next begins in both
        ("B-NP B-NP I-NP", "B-NP B-NP O", (2, 2, 1)),
        # the last chunk ends with the file
        ("O B-NP I-NP", "O B-NP I-NP", (1, 1, 1)),
    ],
)
def test_correct_chunks_worked_by_hand(gold, predicted, counts):
    gold, predicted = gold.split(), predicted.split()
    scores = metrics.chunk_scores(gold, predicted, [0, len(gold)])
    assert counts_of(scores) == counts


def test_a_chunk_does_not_reach_over_the_end_of_a_sentence():
    labels = ["B-NP", "I-NP", "I-NP", "I-NP"]
    assert metrics.chunk_scores(labels, labels, [0, 2, 4]).num_gold == 2
    assert metrics.chunk_scores(labels, labels, [0, 4]).num_gold == 1
    scores = metrics.chunk_scores(labels, ["B-NP", "I-NP", "B-NP", "I-NP"], [0, 2, 4])
    assert counts_of(scores) == (2, 2, 2)


def test_types_that_part_and_meet_again_spoil_a_chunk():
    # only a tag of its own, the dot, lets a type change without an end
    gold = "B-VP .-VP .-NP I-VP O".split()
    predicted = "B-VP .-VP .-VP I-VP O".split()
    check_against_twin(gold, predicted, [0, 5])
    assert metrics.chunk_scores(gold, predicted, [0, 5]).num_correct == 0


def test_percentages_are_those_of_the_counts():
    gold = "B-NP O B-NP O B-VP B-VP".split()
    predicted = "B-NP O O O B-VP B-NP".split()
    scores = metrics.chunk_scores(gold, predicted, [0, 6])
    assert counts_of(scores) == (4, 3, 2)
    assert scores.precision == pytest.approx(200 / 3)
    assert scores.recall == 50.0
    assert scores.f1 == pytest.approx(2 * 2 / (4 + 3) * 100)
    assert scores.by_type["NP"][:3] == (50.0, 50.0, 50.0)


def test_nothing_to_find_gives_zero_and_no_division():
    scores = metrics.chunk_scores(["O"], ["O"], [0, 1])
    assert scores == (0.0, 0.0, 0.0, 0, 0, 0, {})
    assert metrics.chunk_scores([], [], [0]).f1 == 0.0
    assert metrics.token_accuracy([], []) == 0.0
    assert metrics.word_scores_from_labels([], [], [0]).f1 == 0.0


def test_report_has_the_form_of_conlleval():
    gold = "B-NP I-NP O B-VP".split()
    predicted = "B-NP I-NP O B-NP".split()
    report = metrics.conlleval_report(gold, predicted, [0, 4])
    assert report == (
        "processed 4 tokens with 2 phrases; found: 2 phrases; correct: 1.\n"
        "accuracy:  75.00%; precision:  50.00%; recall:  50.00%; FB1:  50.00\n"
        "               NP: precision:  50.00%; recall: 100.00%; FB1:  66.67  2\n"
        "               VP: precision:   0.00%; recall:   0.00%; FB1:   0.00  0\n"
    )


def test_lists_and_arrays_of_both_dtypes_score_alike():
    gold = "B-NP I-NP O B-VP".split()
    predicted = "B-NP I-NP O B-NP".split()
    expected = metrics.chunk_scores(gold, predicted, [0, 4])
    for dtype in (object, str):
        arrays = np.array(gold, dtype), np.array(predicted, dtype)
        assert metrics.chunk_scores(*arrays, np.array([0, 4])) == expected
        assert metrics.token_accuracy(*arrays) == 75.0


def test_accuracies_worked_by_hand():
    gold, predicted = list("ABCDE"), list("ABCEE")
    assert metrics.token_accuracy(gold, predicted) == 80.0
    assert metrics.sentence_accuracy(gold, predicted, [0, 2, 3, 5]) == pytest.approx(
        200 / 3
    )
    assert metrics.sentence_accuracy(gold, gold, [0, 5]) == 100.0


def slow_word_counts(gold, predicted):
    counts = [0, 0, 0]
    for left, right in zip(gold, predicted, strict=True):
        spans = []
        for words in (left, right):
            ends = np.cumsum([len(word) for word in words]).tolist()
            spans.append(
                {(end - len(w), end) for w, end in zip(words, ends, strict=True)}
            )
        counts[0] += len(left)
        counts[1] += len(right)
        counts[2] += len(spans[0] & spans[1])
    return tuple(counts)


def test_word_scores_worked_by_hand():
    gold = [["ab", "c", "d"], ["e", "fg"]]
    predicted = [["ab", "cd"], ["e", "f", "g"]]
    (_, gold, offsets), (_, predicted, _) = map(labels_from_words, (gold, predicted))
    scores = metrics.word_scores_from_labels(gold, predicted, offsets)
    assert counts_of(scores) == (5, 5, 2)
    assert scores[:3] == (40.0, 40.0, pytest.approx(40.0))


@hypothesis.given(tagged_sentences(["B", "I", "E", "S"]))
@hypothesis.settings(max_examples=100, deadline=None)
def test_word_scores_equal_sets_of_spans(sentences):
    gold, predicted, offsets = sentences
    characters = [chr(97 + i % 26) for i in range(len(gold))]
    words = [words_from_labels(characters, part, offsets) for part in sentences[:2]]
    expected = slow_word_counts(*words)
    from_labels = metrics.word_scores_from_labels(gold, predicted, offsets)
    assert counts_of(from_labels) == expected


def test_unequal_inputs_are_named():
    with pytest.raises(InputError, match="2 labels.*got 1"):
        metrics.chunk_scores(["O", "O"], ["O"], [0, 2])
    with pytest.raises(InputError, match="`offsets` must rise from 0"):
        metrics.chunk_scores(["O", "O"], ["O", "O"], [0, 3])
    with pytest.raises(InputError, match="`offsets`"):
        metrics.sentence_accuracy(["O", "O"], ["O", "O"], [0, 3, 2])


def test_chunks_of_conll2000_are_counted_as_by_the_twin(corpus_path):
    corpus = read_conll(corpus_path("conll2000/test.txt.xz"))
    gold, offsets = corpus.labels, corpus.offsets
    rng = np.random.default_rng(0)
    predicted = np.where(rng.random(gold.size) < 0.1, rng.permutation(gold), gold)
    assert metrics.chunk_scores(gold, gold, offsets).num_correct == 23852
    check_against_twin(gold, predicted, offsets)


@hypothesis.given(
    st.lists(
        st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=30
    ).filter(lambda pairs: len({label for label, _ in pairs}) == 2)
)
def test_auc_counts_pairs_and_ties_by_half(pairs):
    positives = [score for label, score in pairs if label]
    negatives = [score for label, score in pairs if not label]
    twice = sum((p > n) * 2 + (p == n) for p in positives for n in negatives)
    labels, scores = zip(*pairs, strict=True)
    expected = twice / (2 * len(positives) * len(negatives))
    assert metrics.auc(labels, np.array(scores)) == expected


def test_auc_is_that_of_scikit_learn():
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 2000)
    scores = np.round(labels + rng.normal(size=2000), 1)  # with ties
    expected = roc_auc_score(labels, scores)
    np.testing.assert_allclose(metrics.auc(labels, scores), expected, rtol=1e-12)
    words = np.array(["no", "yes"])[labels]
    assert metrics.auc(words, scores) == metrics.auc(labels, scores)
    three, chances = rng.integers(0, 3, 500), rng.dirichlet(np.ones(3), 500)
    expected = roc_auc_score(three, chances, multi_class="ovr", average="macro")
    found = metrics.macro_auc(three, chances, np.arange(3))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    more = np.column_stack([chances, np.zeros(500)])  # a class that does not occur
    assert metrics.macro_auc(three, more, np.arange(4)) == found


def test_auc_of_one_class_or_of_nan_is_refused():
    with pytest.raises(InputError, match="two values, got 1"):
        metrics.auc([1, 1], np.zeros(2))
    with pytest.raises(InputError, match="NaN"):
        metrics.auc([0, 1], np.array([0.0, np.nan]))
    with pytest.raises(InputError, match="shape"):
        metrics.auc([0, 1], np.zeros(3))
    with pytest.raises(InputError, match="at least two"):
        metrics.macro_auc([1, 1], np.zeros((2, 2)), np.arange(2))
    with pytest.raises(InputError, match="column per class"):
        metrics.macro_auc([1, 0], np.zeros((2, 3)), np.arange(2))
