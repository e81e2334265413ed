import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Sequences, Space
from lowrank_jax.features import num_parameters, unique_blocks


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=5), st.integers(0, 3), st.integers(0, 99))
def test_blocks_are_the_distinct_ids_of_each_sentence(lengths, num_templates, seed):
    num_features = 6
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *lengths]).astype(np.int32)
    shape = (offsets[-1], num_templates)
    feature_ids = rng.integers(0, num_features + 1, shape, dtype=np.int32)
    space = Space(num_features, 2, ("0",) * num_templates)
    labels = np.zeros(offsets[-1], np.int32)
    blocks = unique_blocks(Sequences(feature_ids, labels, offsets, space))
    assert len(blocks.offsets) == len(offsets)
    assert {array.dtype for array in blocks} == {np.dtype(np.int32)}
    for i in range(len(lengths)):
        window = slice(offsets[i], offsets[i + 1])
        expected = sorted(set(feature_ids[window].ravel().tolist()) - {num_features})
        ids = blocks.ids[blocks.offsets[i] : blocks.offsets[i + 1]]
        assert ids.tolist() == expected
        with_unseen = np.append(ids, np.int32(num_features))
        np.testing.assert_array_equal(
            with_unseen[blocks.slots[window]], feature_ids[window]
        )


def test_weights_are_counted_by_order():
    space = Space(10, 3, ("0", "01", "1"), has_transitions=True)
    assert num_parameters(space) == 10 * 3 + 10 * 12 + 12
    assert num_parameters(space, model="bilinear") == 10 * 3 + 10 * 7 + 12
    assert num_parameters(space, model="bilinear", rank=2) == 30 + 10 * 14 + 12
    counts = {"num_zero_order": 4, "num_first_order": 7}
    assert num_parameters(space, **counts) == 4 * 3 + 7 * 12 + 12
    assert num_parameters(Space(10, 3, ("0",))) == 30
    assert num_parameters(Space(10, 3, ("1",)), model="bilinear") == 70


def test_bad_models_are_named():
    space = Space(10, 3, ("0",))
    with pytest.raises(InputError, match="`model`"):
        num_parameters(space, model="cubic")
    with pytest.raises(InputError, match="`rank`"):
        num_parameters(space, model="bilinear", rank=0)
