import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.data.made.words import spelling_task


def test_outputs_follow_letter_and_state():
    train, test, truth = spelling_task(50, 20, seed=1, num_states=2, noise=0.5)
    assert (train.num_sentences, test.num_sentences) == (50, 20)
    assert set(np.diff(train.offsets)) <= set(range(3, 9))
    for corpus in (train, test):
        for letter, sound in zip(corpus.columns[0], corpus.labels, strict=True):
            place = ord(letter) - ord("a")
            assert sound[0] == letter and int(sound[1:]) in truth.outputs[:, place]
    np.testing.assert_allclose(truth.moves.sum(1), 1)
    np.testing.assert_allclose(truth.letters.sum(1), 1)


def test_the_seed_decides_all():
    one, same, other = (spelling_task(9, 1, seed=s)[0] for s in (0, 0, 1))
    np.testing.assert_array_equal(one.labels, same.labels)
    assert one.labels.tolist() != other.labels.tolist()


@pytest.mark.parametrize(
    "wrong", [{"num_letters": 27}, {"lengths": (3, 2)}, {"noise": 2.0}]
)
def test_wrong_arguments_are_named(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        spelling_task(1, 1, seed=0, **wrong)
