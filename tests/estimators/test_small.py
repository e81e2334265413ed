"""The NumPy twin of the compiled decoder."""

import numpy as np
import pytest

from lowrank_jax import data
from lowrank_jax.data.sequences import Sequences, Space
from lowrank_jax.estimators import labelling
from lowrank_jax.estimators.tagger import small
from lowrank_jax.models import bilinear, linear

ORDERS = {
    "zero": (("0", "0", "0"), True),
    "none": (("0", "0"), False),
    "first": (("1", "0"), True),
    "both": (("01", "01", "01"), False),
}


def draw_sequences(seed, orders, has_transitions, lengths=(5, 0, 1, 40, 7, 3, 300)):
    draw = np.random.default_rng(seed)
    space = Space(30, 5, orders, has_transitions)
    offsets = np.cumsum([0, *lengths]).astype(np.int32)
    ids = draw.integers(0, 31, (offsets[-1], len(orders))).astype(np.int32)
    return Sequences(ids, np.zeros(offsets[-1], np.int32), offsets, space), draw


def params_of(kind, space, draw, whole):
    """Random weights; whole numbers make ties."""

    def numbers(shape):
        values = draw.normal(size=shape) * 2
        return (np.round(values) if whole else values).astype(np.float32)

    if kind == "linear":
        zeros = linear.zeros(space, np.float32)
    else:
        zeros = bilinear.zeros(space, 2, np.float32)._replace(scale=None)
    found = {k: numbers(v.shape) for k, v in zeros._asdict().items() if v is not None}
    for name in {"zero", "first", "table"} & found.keys():
        found[name][-1] = 0
    if kind == "bilinear":
        found["scale"] = np.float32(0.5)
        fields = bilinear.Params(**{"transitions": None} | found)
    else:
        none = dict.fromkeys(linear.Params._fields)
        fields = linear.Params(**none | found)
    return fields, found


@pytest.mark.parametrize("whole", [True, False], ids=["ties", "real"])
@pytest.mark.parametrize("kind", ["linear", "bilinear"])
@pytest.mark.parametrize("orders", ORDERS)
def test_labels_are_those_of_the_compiled_program(kind, orders, whole, monkeypatch):
    sequences, draw = draw_sequences(3, *ORDERS[orders])
    params, weights = params_of(kind, sequences.space, draw, whole)
    model = linear if kind == "linear" else bilinear
    compiled = labelling.predict_all(model, params, sequences)
    np.testing.assert_array_equal(small.predict(weights, sequences), compiled)
    monkeypatch.setattr(small, "_CHUNK", 100)  # many groups of sentences
    np.testing.assert_array_equal(small.predict(weights, sequences), compiled)


@pytest.mark.parametrize("whole", [True, False], ids=["ties", "real"])
@pytest.mark.parametrize("kind", ["linear", "bilinear"])
@pytest.mark.parametrize("orders", ["zero", "both"])
def test_k_best_is_that_of_the_compiled_program(kind, orders, whole):
    sequences, draw = draw_sequences(3, *ORDERS[orders], lengths=(5, 0, 1, 40, 2))
    params, weights = params_of(kind, sequences.space, draw, whole)
    model = linear if kind == "linear" else bilinear
    compiled = labelling.k_best_all(model, 7, params, sequences)
    found = small.k_best(weights, sequences, 7)
    assert list(map(len, found)) == list(map(len, compiled)) == [7, 1, 5, 7, 7]
    for ours, theirs in zip(sum(found, []), sum(compiled, []), strict=True):
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5)


def test_small_is_a_matter_of_work():
    sequences, draw = draw_sequences(0, *ORDERS["zero"])
    _, weights = params_of("linear", sequences.space, draw, True)
    assert small.is_small(weights, sequences)
    long, _ = draw_sequences(0, *ORDERS["zero"], lengths=(5_000_000,))
    assert not small.is_small(weights, long)


def test_a_short_text_is_labelled_without_a_program(monkeypatch):
    train, test, _ = data.segmentation_task(30, 5, seed=0, num_words=20)
    from lowrank_jax import Tagger

    tagger = Tagger(num_passes=1, template="segmentation", format="segmentation")
    tagger.fit(train)
    monkeypatch.setattr(labelling, "predict_all", None)  # not called
    assert tagger.predict(test).shape == (test.num_tokens,)
