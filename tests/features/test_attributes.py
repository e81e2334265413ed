import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.data.corpus import corpus_of
from lowrank_jax.features import AttributeEncoder

TOKENS = [
    {"word": "the", "is_title": True, "bias": 1.0},
    {"word": "cat", "is_title": False, "bias": 1, "set": {"b", "a"}},
    {"word:the": 1, "more": {"x": True, "y": 0, "z": {"deep": "v"}}},
    {},
]


def plain_attributes(token):
    """The slow twin: the attributes of a token, one entry at a time."""
    if not isinstance(token, dict):
        return list(token)
    found = []
    for name, value in token.items():
        if isinstance(value, str):
            found.append(f"{name}:{value}")
        elif isinstance(value, dict):
            found += plain_attributes({f"{name}:{k}": v for k, v in value.items()})
        elif isinstance(value, list | set):
            found += [f"{name}:{inner}" for inner in sorted(value)]
        elif value:
            found.append(name)
    return found


def texts_of(encoder, sequences):
    nothing = encoder.num_features
    return [
        encoder.feature_names(i for i in row.tolist() if i != nothing)
        for row in sequences.feature_ids
    ]


def test_attributes_are_those_of_a_plain_loop():
    corpus = corpus_of([TOKENS[:3], TOKENS[3:]], [["a", "b", "a"], ["b"]])
    encoder, sequences = AttributeEncoder.fit_transform(corpus)
    assert texts_of(encoder, sequences) == [plain_attributes(t) for t in TOKENS]
    assert encoder.feature_names([0]) == ["word:the"]  # twice, and the first to come
    again = encoder.transform(corpus)
    np.testing.assert_array_equal(again.feature_ids, sequences.feature_ids)
    np.testing.assert_array_equal(sequences.labels, [0, 1, 0, 1])
    lists = corpus_of([[plain_attributes(t) for t in TOKENS]], [["a", "b", "a", "b"]])
    _, listed = AttributeEncoder.fit_transform(lists)
    np.testing.assert_array_equal(listed.feature_ids, sequences.feature_ids)
    assert sequences.values is None and listed.values is None  # all are 1


@pytest.mark.parametrize("seed", range(5))
def test_many_random_tokens_agree_with_a_plain_loop(seed):
    draw = np.random.default_rng(seed)

    def token():
        names = draw.choice(6, draw.integers(0, 6), replace=False)
        if seed % 2:
            return [f"n{name}:v{draw.integers(4)}" for name in names]
        choices = [True, False, 0, 1.0, f"v{draw.integers(4)}", np.float64(1)]
        return {f"n{name}": choices[draw.integers(6)] for name in names}

    sentences = [[token() for _ in range(draw.integers(0, 5))] for _ in range(30)]
    labels = [[str(draw.integers(3)) for _ in s] for s in sentences]
    corpus = corpus_of(sentences, labels)
    encoder, sequences = AttributeEncoder.fit_transform(corpus, min_count=2)
    flat = [plain_attributes(t) for s in sentences for t in s]
    counts = {
        text: sum(texts.count(text) for texts in flat)
        for texts in flat
        for text in texts
    }
    kept = [[text for text in texts if counts[text] >= 2] for texts in flat]
    assert texts_of(encoder, sequences) == kept
    falling = [counts[text] for text in encoder.vocabulary.values]
    assert falling == sorted(falling, reverse=True)


@pytest.mark.parametrize("rest", [{}, {"list": ["a", "b"]}, {"sign": np.float32(2)}])
def test_numbers_keep_their_places_beside_texts(rest):
    tokens = [
        {"n": 0.5, "w": "a", "none": 0, **rest, "one": 1, "yes": True},
        {"m": -3, "w": "b", "n": 2, "no": False},
        {},
    ]
    encoder, found = AttributeEncoder.fit_transform(corpus_of([tokens], [["x"] * 3]))
    more = {"list:a": 1, "list:b": 1} if "list" in rest else dict.fromkeys(rest, 2)
    first = {"n": 0.5, "w:a": 1, **more, "one": 1, "yes": 1}
    every = first, {"m": -3, "w:b": 1, "n": 2}, {}
    rows = zip(found.feature_ids, found.values, every, strict=True)
    for row, amounts, expected in rows:
        kept = row < encoder.num_features
        names = encoder.feature_names(row[kept].tolist())
        assert list(zip(names, amounts[kept].tolist(), strict=True)) == list(
            expected.items()
        )
    assert encoder.num_features == 6 + len(more)


def test_unknown_attributes_are_no_feature_and_long_bags_fit():
    corpus = corpus_of([[["a"], ["b"]]], [["x", "y"]])
    encoder, _ = AttributeEncoder.fit_transform(corpus)
    more = encoder.transform(corpus_of([[["new", "a", "b", "a"]]]))
    assert texts_of(encoder, more) == [["a", "b", "a"]]
    assert more.space.orders == ("0",) * more.feature_ids.shape[1]
    with pytest.raises(InputError, match="'z' does not occur in the training"):
        encoder.transform(corpus_of([[["a"]]], [["z"]]))


def test_a_saved_encoder_gives_the_same_ids():
    corpus = corpus_of([TOKENS], [["a", "b", "a", "b"]])
    encoder, sequences = AttributeEncoder.fit_transform(corpus, orders="both")
    other = AttributeEncoder.from_arrays(encoder.arrays(), encoder.metadata())
    assert other.space == encoder.space and other.labels == encoder.labels
    found = other.transform(corpus)
    np.testing.assert_array_equal(found.feature_ids, sequences.feature_ids)


@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        ({"size": None}, r"\('size', None\)"),
        ({3: "x"}, r"\(3, 'x'\)"),
        ({3: 0.5}, r"\(3, 0.5\)"),
        ({"a": 1, "b": float("nan")}, "'b' with the value nan; give a finite number"),
        ({"a": 10**400}, "'a' with the value inf"),
        ({"size": 1j}, r"\('size', 1j\)"),
        (["a", 3], "the feature 3;"),
        (["a", ["b"]], "not all strings"),
    ],
)
def test_entries_without_a_meaning_are_named(token, sentence):
    with pytest.raises(InputError, match=sentence):
        AttributeEncoder.fit_transform(corpus_of([[token]], [["x"]]))
