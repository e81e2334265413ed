import numpy as np
import pytest

from lowrank_jax import data
from lowrank_jax.checks import InputError
from lowrank_jax.data.corpus import corpus_of
from lowrank_jax.features import (
    AttributeEncoder,
    Encoder,
    grow,
    parse_template,
    read_template,
)

AMBIGUOUS = parse_template(
    "U:%x[0,0]/%x[1,0]\nU:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nB2:%x[-1,0]/%x[1,0]\nB\n"
)


def texts_of(encoder, sequences):
    """The set of names at each token and column; unknown features are empty."""
    names = [*encoder.feature_names(range(encoder.num_features)), ""]
    return [[names[i] for i in row] for row in sequences.feature_ids.tolist()]


@pytest.mark.parametrize("min_count", [1, 2])
@pytest.mark.parametrize("kind", ["segmentation", "ambiguous"])
def test_grown_features_are_those_of_both_parts(kind, min_count):
    if kind == "segmentation":
        one, two, _ = data.segmentation_task(20, 25, seed=0, num_words=30)
        template = read_template("segmentation")
    else:
        draw = np.random.default_rng(0)
        words = [
            ["a", "b", "1/2", "2", "1", "2/b"][i] for i in draw.integers(6, size=60)
        ]
        one = corpus_of([words[:20]], [["x", "y"] * 10])
        two = corpus_of([words[20:]], [["x", "y"] * 20])
        template = AMBIGUOUS
    first, before = Encoder.fit_transform(one, template, min_count=min_count)
    fresh, expected = Encoder.fit_transform(two, template, min_count=min_count)
    grown, after = grow(first, two)
    # Old features keep their ids and names.
    old = range(first.num_features)
    assert grown.feature_names(old) == first.feature_names(old)
    np.testing.assert_array_equal(
        grown.transform(one).feature_ids[before.feature_ids < first.num_features],
        before.feature_ids[before.feature_ids < first.num_features],
    )
    # At each token: the names that either encoder alone would find.
    for mine, new, known in zip(
        texts_of(grown, after),
        texts_of(fresh, expected),
        texts_of(first, first.transform(two, unseen_label="ignore")),
        strict=True,
    ):
        assert mine == [a or b for a, b in zip(new, known, strict=True)]
    names = grown.feature_names(range(grown.num_features))
    assert len(set(names)) == len(names)
    orders = dict.fromkeys(names, 0)
    for part in (first, Encoder.fit_transform(two, template)[0]):
        own = part.feature_names(range(part.num_features))
        for name, order in zip(own, part.feature_orders, strict=True):
            orders[name] = orders.get(name, 0) | order
    assert grown.feature_orders.tolist() == [orders[name] for name in names]
    again = Encoder.from_arrays(grown.arrays(), grown.metadata())
    np.testing.assert_array_equal(again.transform(two).feature_ids, after.feature_ids)


def test_attributes_grow_too_and_labels_do_not():
    one = corpus_of([[["a", "b"]]], [["x"]])
    encoder, _ = AttributeEncoder.fit_transform(one)
    grown, rows = grow(encoder, corpus_of([[["c", "a", "d"]]], [["x"]]))
    assert grown.feature_names(range(4)) == ["a", "b", "c", "d"]
    assert sorted(rows.feature_ids[0, :3].tolist()) == [0, 2, 3]
    with pytest.raises(InputError, match="has the label 'z', and the model has x"):
        grow(encoder, corpus_of([[["a"]]], [["z"]]))
