"""No compiled pass copies a large table: a copy a round would cost a thousandfold."""

import re

import jax
import jax.numpy as jnp
import pytest

from lowrank_jax import loops, streams
from lowrank_jax.data.sequences import Space
from lowrank_jax.online import bcd, bol, mira, perceptron

NUM_FEATURES = 40_000  # a number that no other axis has


def large_copies(learner, orders) -> list[str]:
    """Compile a pass and return the lines that copy an array with K + 1 rows."""
    space = Space(NUM_FEATURES, 6, orders, has_transitions=True)
    window, num_tokens, num_sentences = 16, 200, 20

    def ints(*shape):
        return jax.ShapeDtypeStruct(shape, jnp.int32)

    corpus = streams.sentences.Stream(
        feature_ids=ints(num_tokens, len(orders)),
        labels=ints(num_tokens),
        starts=ints(num_sentences),
        lengths=ints(num_sentences),
        window=window,
        space=space,
    )
    example = jax.eval_shape(lambda c: c.example(0), corpus)
    state = jax.eval_shape(learner.init, jax.random.key(0), example)
    step = jax.jit(lambda *given: loops.run(learner, *given), donate_argnums=0)
    text = step.lower(state, corpus, ints(num_sentences)).compile().as_text()
    assert f"[{NUM_FEATURES + 1}," in text  # the tables are there to be copied
    pattern = re.compile(rf"= \w+\[{NUM_FEATURES + 1},[^ ]* copy\(")
    return [line for line in text.splitlines() if pattern.search(line)]


@pytest.mark.parametrize(
    ("learner", "orders"),
    [
        (perceptron.learner(), ("0", "0")),
        (perceptron.learner(), ("01", "01")),
        (mira.learner(), ("01", "01")),
        (bol.learner(), ("01", "01")),
        (bol.learner(averaging="factors"), ("01", "01")),
        (bol.learner(rank=2), ("01", "01")),
        (bol.learner(variant="paper"), ("01", "01")),
        (bol.learner(variant="exact"), ("01", "01")),
        (bcd.learner(), ("01", "01")),
    ],
)
def test_a_pass_copies_no_large_table(learner, orders):
    assert large_copies(learner, orders) == []


def test_the_check_sees_a_copy():
    """A conditional update of the carry is the known way to copy it."""
    base = perceptron.learner()

    def update(state, example):
        new, info = base.update(state, example)
        return jax.lax.cond(info.is_mistake, lambda: new, lambda: state), info

    assert large_copies(base._replace(update=update), ("0", "0"))
