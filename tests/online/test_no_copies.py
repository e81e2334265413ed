"""No compiled pass copies a large table: a copy a round would cost a thousandfold."""

import jax
import pytest

from lowrank_jax import testing
from lowrank_jax.data.sequences import Space
from lowrank_jax.linalg import mirror
from lowrank_jax.online import bcd, bol, mira, mirror_descent, perceptron

NUM_FEATURES = 40_000  # a number that no other axis has


def check(learner, orders, num_labels=6, has_transitions=True):
    space = Space(NUM_FEATURES, num_labels, orders, has_transitions)
    testing.assert_no_copies(
        learner, testing.sentences(space), num_rows=NUM_FEATURES + 1
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "orders"),
    [
        (perceptron.learner(), ("0", "0")),
        (perceptron.learner(), ("01", "01")),
        (perceptron.learner(dual="dense"), ("01", "01")),
        (perceptron.learner(capacity=bol.Capacity(9_000, 700)), ("01", "01")),
        (mira.learner(), ("01", "01")),
        (bol.learner(), ("01", "01")),
        (bol.learner(start=0.5, capacity=bol.Capacity(9_000, 700)), ("01", "01")),
        (bol.learner(averaging="weights"), ("01", "01")),
        (bol.learner(dual="dense"), ("01", "01")),
        (bol.learner(averaging="factors"), ("01", "01")),
        (bol.learner(averaging="weights", start=1.0), ("01", "01")),
        (bol.learner(averaging="weights", num_power_steps=0), ("01", "01")),
        (bol.learner(variant="paper", num_power_steps=0), ("01", "01")),
        (bol.learner(rank=2), ("01", "01")),
        (bol.learner(variant="paper"), ("01", "01")),
        (bol.learner(variant="exact"), ("01", "01")),
        (bcd.learner(), ("01", "01")),
        (mirror_descent.learner(map=mirror.frobenius()), ("01", "01")),
    ],
)
def test_a_pass_copies_no_large_table(learner, orders):
    check(learner, orders)


def test_a_pass_with_many_labels_copies_no_large_table():
    learner = bol.learner(start=0.5, capacity=bol.Capacity(9_000, 40))
    check(learner, ("01", "01"), num_labels=70, has_transitions=False)


def test_the_check_sees_a_copy():
    """A conditional update of the carry is the known way to copy it."""
    base = perceptron.learner()

    def update(state, example):
        new, info = base.update(state, example)
        return jax.lax.cond(info.is_mistake, lambda: new, lambda: state), info

    with pytest.raises(AssertionError, match=r"each round copies a table.* copy\("):
        check(base._replace(update=update), ("0", "0"))


def test_a_size_that_no_table_has_is_an_error():
    space = Space(NUM_FEATURES, 6, ("0",), has_transitions=True)
    with pytest.raises(AssertionError, match="no array of the pass has 7 rows"):
        testing.assert_no_copies(
            perceptron.learner(), testing.sentences(space), num_rows=7
        )
