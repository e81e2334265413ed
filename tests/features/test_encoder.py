import io
import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowrank_jax.checks import InputError
from lowrank_jax.data.conll import read_conll
from lowrank_jax.data.segmentation import read_segmentation
from lowrank_jax.features import Encoder, codes, parse_template, read_template
from lowrank_jax.features import compile as compile_module
from tests.features import references

VALUES = ("a", "b", "", "a/", "/b", "a/b", "/", "_B-1", "_B+1", "%", "0:", "x:a")
LITERALS = ("", "", "0:", "1:", "/", "/", "::", "%", "a", "0")
TOKENS = st.tuples(st.sampled_from(VALUES), st.sampled_from(VALUES))
SENTENCES = st.lists(st.lists(TOKENS, max_size=5), min_size=1, max_size=4)


@st.composite
def templates(draw):
    lines = []
    for _ in range(draw(st.integers(1, 5))):
        text = draw(st.sampled_from("UB")) + draw(st.sampled_from(LITERALS))
        for _ in range(draw(st.integers(0, 4))):
            row, column = draw(st.integers(-3, 3)), draw(st.integers(0, 1))
            text += f"%x[{row},{column}]" + draw(st.sampled_from(LITERALS))
        lines.append(text)
    return parse_template("\n".join(lines))


def labels_for(sentences):
    num_tokens = sum(map(len, sentences))
    return [f"L{i % 3}" for i in range(num_tokens)]


def check_against_twin(train, test, template, min_count):
    corpus = references.make_corpus(train, labels_for(train), "train.txt")
    encoder, sequences = Encoder.fit_transform(corpus, template, min_count=min_count)
    kept, orders = references.count_texts(train, template, min_count)
    rows = references.expand(train, template)
    num_features = len(kept)
    assert encoder.space.num_features == encoder.num_features == num_features

    id_of = {}
    for row, ids in zip(rows, sequences.feature_ids.tolist(), strict=True):
        for text, i in zip(row, ids, strict=True):
            assert id_of.setdefault(text, i) == i
    ids = {text: i for text, i in id_of.items() if i < num_features}
    assert set(ids) == set(kept)
    assert sorted(ids.values()) == list(range(num_features))
    by_id = sorted(ids, key=ids.__getitem__)
    counts = [kept[text] for text in by_id]
    assert counts == sorted(counts, reverse=True)
    letters = ["U" if "0" in orders[text] else "B" for text in by_id]
    assert encoder.feature_names(range(num_features)) == [
        letter + text for letter, text in zip(letters, by_id, strict=True)
    ]
    assert encoder.num_zero_order == sum("0" in o for o in orders.values())
    assert encoder.num_first_order == sum("1" in o for o in orders.values())

    again = encoder.transform(corpus)
    np.testing.assert_array_equal(again.feature_ids, sequences.feature_ids)
    np.testing.assert_array_equal(again.labels, sequences.labels)
    assert again.space == sequences.space == encoder.space
    found = encoder.transform(references.make_corpus(test))
    expected = [
        [ids.get(text, num_features) for text in row]
        for row in references.expand(test, template)
    ]
    assert found.feature_ids.tolist() == expected
    assert (found.labels == -1).all()
    return encoder


@settings(max_examples=400, deadline=None)
@given(SENTENCES.filter(any), SENTENCES.filter(any), templates(), st.integers(1, 3))
def test_ids_partition_tokens_as_texts_do(train, test, template, min_count):
    check_against_twin(train, test, template, min_count)


@settings(max_examples=200, deadline=None)
@given(
    SENTENCES.filter(any),
    SENTENCES.filter(any),
    templates(),
    st.integers(1, 2),
    st.sampled_from([10, 300, 4000]),
)
def test_keys_packed_in_stages_give_the_same(train, test, template, min_count, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codes, "_LARGEST_KEY", limit)
        check_against_twin(train, test, template, min_count)


def test_real_overflow_is_packed_in_stages():
    # 9 digits below 400: 400**9 > 2**63, so one prefix table with the true limit.
    rng = np.random.default_rng(0)
    words = [[(f"w{i}",) for i in rng.integers(0, 390, 40)] for _ in range(20)]
    macros = "/".join(f"%x[{row},0]" for row in range(-4, 5))
    template = parse_template(f"U0:{macros}\nU1:%x[0,0]")
    encoder = check_against_twin(words[:12], words[10:], template, 1)
    assert [len(table.prefixes) for table in encoder.tables] == [1, 0]


@settings(max_examples=60, deadline=None)
@given(SENTENCES.filter(any), SENTENCES.filter(any), templates(), st.integers(1, 2))
def test_saved_encoder_equals_the_original(train, test, template, min_count):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codes, "_LARGEST_KEY", 300)
        corpus = references.make_corpus(train, labels_for(train))
        encoder = Encoder.fit(corpus, template, min_count=min_count)
        file = io.BytesIO()
        np.savez(file, **encoder.arrays())
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            metadata = json.loads(json.dumps(encoder.metadata()))
            loaded = Encoder.from_arrays(dict(arrays), metadata)
        assert loaded.space == encoder.space
        assert loaded.labels == encoder.labels
        assert loaded.min_count == encoder.min_count
        assert loaded.vocabulary == encoder.vocabulary
        unseen = references.make_corpus(test)
        np.testing.assert_array_equal(
            loaded.transform(unseen).feature_ids, encoder.transform(unseen).feature_ids
        )
        everything = range(encoder.num_features)
        assert loaded.feature_names(everything) == encoder.feature_names(everything)


def test_places_outside_a_sentence_have_the_values_of_crfpp():
    corpus = references.make_corpus([[("x",)], [("y",), ("z",)]], ["A", "A", "A"])
    encoder, sequences = Encoder.fit_transform(
        corpus, parse_template("U0:%x[-2,0]\nU1:%x[2,0]\nB2:%x[-1,0]/%x[0,0]")
    )
    names = [encoder.feature_names(row) for row in sequences.feature_ids]
    assert names == [
        ["U0:_B-2", "U1:_B+2", "B2:_B-1/x"],
        ["U0:_B-2", "U1:_B+1", "B2:_B-1/y"],
        ["U0:_B-1", "U1:_B+2", "B2:y/z"],
    ]


def test_templates_of_equal_literals_share_features():
    corpus = references.make_corpus([[("x",), ("y",), ("x",)]], ["A"] * 3)
    encoder, sequences = Encoder.fit_transform(
        corpus, parse_template("U:%x[-1,0]\nB:%x[1,0]")
    )
    left, right = sequences.feature_ids.T
    assert left[1] == right[1] != left[2]
    assert left[2] == right[0]
    # x and y occur on both sides; the two places outside on one side each.
    assert encoder.num_features == 4
    assert (encoder.num_zero_order, encoder.num_first_order) == (3, 3)


@pytest.mark.parametrize(
    ("lines", "known", "unknown"),
    [
        ("U0:%x[0,0]/%x[0,1]", ("a/b", "c"), ("a", "b/c")),
        ("U0:%x[0,0]%x[0,1]", ("ab", "c"), ("a", "bc")),
        ("U0:%x[0,0]", ("1:a", ""), ("1:a", "")),
        ("U0:%x[0,0]\nU0:1:%x[0,1]", ("1:a", "b"), ("c", "a")),
        ("U0:%x[0,0]:b\nU0:%x[0,0]/%x[0,1]", ("a/c", "d"), ("a", "c:b")),
        ("U0\nU0%x[0,1]", ("a", "b"), ("a", "")),
    ],
)
def test_equal_texts_are_one_feature_in_training_and_test(lines, known, unknown):
    template = parse_template(lines)
    check_against_twin([[known], [unknown]], [[known], [unknown]], template, 1)
    check_against_twin([[known]], [[unknown]], template, 1)
    corpus = references.make_corpus([[known]], ["A"])
    encoder = Encoder.fit(corpus, template)
    found = encoder.transform(references.make_corpus([[unknown]])).feature_ids
    assert found.min() < encoder.num_features


def test_literals_that_give_the_same_text_are_known_to_meet():
    """Every pair of literals, every filling: an enumeration may find no more."""
    words = "", "a", "b", "ab"
    every = [(w,) for w in words] + list(itertools.product(words, repeat=2))

    def texts(literals):
        return (
            {value.join(literals) for value in words} if literals[1:] else {*literals}
        )

    meets = {
        (one, two)
        for one, two in itertools.permutations(every, 2)
        if not texts(one).isdisjoint(texts(two))
    }
    assert len(meets) > 50
    for one, two in meets:
        assert compile_module._may_meet(one, two)
    for one, two in (("ab",), ("b", "a")), (("a", "b"), ("b", "b")), (("a",), ("b",)):
        assert not compile_module._may_meet(one, two)
    few = every[::3]
    wanted = [
        any(compile_module._may_meet(one, two) for two in few if two != one)
        for one in few
    ]
    assert compile_module.Doubts(few, words)._is_total == wanted
    assert {True, False} == set(wanted)
    doubts = compile_module.Doubts([(f"{i}:", "") for i in range(50_000)], words)
    assert not any(doubts._is_total)  # not every pair is compared


@pytest.mark.parametrize(
    ("keys", "is_sound"), [([0, 8], True), ([9], False), ([-1], False), ([2, 2], False)]
)
def test_a_table_of_keys_knows_its_range(keys, is_sound):
    table = codes.KeyTable(3, 2, (), np.array(keys, np.int64))  # two digits of three
    assert bool(table.is_sound()) == is_sound


def test_a_table_without_keys_knows_no_tuple():
    table = codes.KeyTable(3, 2, (), np.array([], np.int64))
    assert table.find(np.array([[0, 2], [1, 3]])).tolist() == [-1, -1]


def test_dropped_constant_that_could_share_its_text_is_unseen():
    template = parse_template("U0\nU0%x[0,0]")
    check_against_twin([[("x",)]], [[("x",), ("",)]], template, 2)


def test_result_has_the_dtypes_of_sequences():
    sentences = [[("x",), ("y",)], [], [("z",)]]
    corpus = references.make_corpus(sentences, ["B", "A", "B"], dtype=str)
    encoder, sequences = Encoder.fit_transform(corpus, parse_template("U:%x[0,0]\nB"))
    assert encoder.labels == ("A", "B")
    assert sequences.labels.tolist() == [1, 0, 1]
    assert sequences.offsets.tolist() == [0, 2, 2, 3]
    assert sequences.num_sentences == 3
    for array in (sequences.feature_ids, sequences.labels, sequences.offsets):
        assert array.dtype == np.int32
    assert sequences.feature_ids.flags.c_contiguous
    assert sequences.space.has_transitions
    assert sequences.space.orders == ("0",)


def test_template_without_columns_has_no_features():
    corpus = references.make_corpus([[("x",), ("y",)]], ["A", "B"])
    encoder, sequences = Encoder.fit_transform(corpus, parse_template("B"))
    assert encoder.num_features == 0
    assert sequences.feature_ids.shape == (2, 0)
    assert encoder.transform(corpus).feature_ids.shape == (2, 0)
    assert encoder.feature_names([]) == []


def test_unseen_label_is_an_error_with_its_place_or_ignored():
    template = parse_template("U:%x[0,0]")
    train = references.make_corpus([[("x",), ("y",)]], ["A", "B"])
    encoder = Encoder.fit(train, template)
    sentences = [[("x",)], [("x",), ("y",)]]
    test = references.make_corpus(sentences, ["A", "B", "C"], "test.txt")
    with pytest.raises(InputError, match=r"test.txt, sentence 2: the label 'C'"):
        encoder.transform(test)
    ignored = encoder.transform(test, unseen_label="ignore")
    assert ignored.labels.tolist() == [0, 1, -1]
    with pytest.raises(InputError, match="unseen_label"):
        encoder.transform(test, unseen_label="skip")


def test_empty_corpus_is_transformed_but_not_learned_from():
    template = parse_template("U:%x[-1,0]/%x[0,0]")
    empty = references.make_corpus([], [])
    with pytest.raises(InputError, match="no tokens"):
        Encoder.fit(empty, template)
    encoder = Encoder.fit(references.make_corpus([[("x/",)]], ["A"]), template)
    assert encoder.transform(empty).feature_ids.shape == (0, 1)
    assert encoder.transform(empty).labels.shape == (0,)


def test_bad_arguments_are_named():
    corpus = references.make_corpus([[("x",)]], ["A"])
    template = parse_template("U:%x[0,0]")
    with pytest.raises(InputError, match="toy.txt has no labels"):
        Encoder.fit(references.make_corpus([[("x",)]]), template)
    with pytest.raises(InputError, match="min_count"):
        Encoder.fit(corpus, template, min_count=0)
    encoder, sequences = Encoder.fit_transform(corpus, template)
    for call in (encoder.transform, lambda given: Encoder.fit(given, template)):
        with pytest.raises(InputError, match="a Corpus of strings, got a Sequences"):
            call(sequences)
    wide = parse_template("U:%x[0,1]", "wide.template")
    with pytest.raises(
        InputError, match="wide.template, line 1.*toy.txt has 1 column "
    ):
        Encoder.fit(corpus, wide)
    encoder = Encoder.fit(corpus, template)
    with pytest.raises(InputError, match=r"`ids` must lie in 0..0"):
        encoder.feature_names([1])
    with pytest.raises(InputError, match="format 99"):
        Encoder.from_arrays(encoder.arrays(), encoder.metadata() | {"format": 99})
    with pytest.raises(InputError, match="keys_0"):
        arrays = encoder.arrays()
        del arrays["keys_0"]
        Encoder.from_arrays(arrays, encoder.metadata())


def test_conll2000_has_the_features_of_crfpp(corpus_path):
    corpus = read_conll(corpus_path("conll2000/train.txt.xz"))
    encoder, sequences = Encoder.fit_transform(corpus, read_template("chunking"))
    assert encoder.num_features == 338_551
    assert encoder.space.num_labels == 22
    assert sequences.feature_ids.shape == (211_727, 19)
    assert sequences.feature_ids.max() == 338_550
    assert "U02:Confidence" in encoder.feature_names(sequences.feature_ids[0])
    few = corpus.take(range(60))
    sentences = list_sentences(few)
    test = read_conll(corpus_path("conll2000/test.txt.xz"))
    check_against_twin(
        sentences, list_sentences(test.take(range(60))), read_template("chunking"), 2
    )
    with pytest.raises(InputError, match="sentence 1504: the label 'I-LST'"):
        encoder.transform(test)
    assert (encoder.transform(test, unseen_label="ignore").labels == -1).sum() == 2


def test_pfr_has_the_features_of_a_dictionary_of_texts(corpus_path):
    path = corpus_path("pfr199801/199801_tagged.txt.xz")
    corpus = read_segmentation(path, classes=False)
    encoder = Encoder.fit(corpus, read_template("segmentation"))
    assert encoder.num_features == 1_141_093  # counted once, token by token


@pytest.mark.parametrize("name", ["segmentation", "segmentation-classes"])
def test_segmentation_templates_equal_the_twin(corpus_path, name):
    corpus = read_segmentation(corpus_path("sighan2005/pku_test_gold.utf8.xz"))
    train, test = corpus.take(range(30)), corpus.take(range(20, 50))
    template = read_template(name)
    check_against_twin(list_sentences(train), list_sentences(test), template, 1)


def list_sentences(corpus):
    tokens = list(zip(*(c.tolist() for c in corpus.columns), strict=True))
    ends = corpus.offsets.tolist()
    return [tokens[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)]
