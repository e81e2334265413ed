"""Learners of single sentences in the form of a TPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import loops, streams
from lowrank_jax.linalg.forms import forced
from lowrank_jax.online import bcd, bol, mira, perceptron
from tests.online.tasks import random_task

LEARNERS = {
    "perceptron": lambda: perceptron.learner(dtype=jnp.float64),
    "mira": lambda: mira.learner(dtype=jnp.float64),
    "bcd": lambda: bcd.learner(dtype=jnp.float64),
    "bol": lambda: bol.learner(dtype=jnp.float64),
    "bol dense": lambda: bol.learner(dtype=jnp.float64, dual="dense"),
    "bol paper": lambda: bol.learner(dtype=jnp.float64, variant="paper"),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_the_form_of_a_tpu_learns_the_same(name):
    learner = LEARNERS[name]()
    orders, has_transitions = ("01", "1"), False
    if name in ("perceptron", "mira"):
        orders, has_transitions = ("0", "0"), True
    task = random_task(orders, has_transitions=has_transitions, shared=True)
    stream = streams.sentences.stream(task)
    order = jnp.tile(jnp.arange(stream.num_examples, dtype=jnp.int32), 3)

    def trained(form):
        with forced(form):
            state = learner.init(jax.random.key(0), stream.example(0))
            run = jax.jit(lambda *given: loops.run(learner, *given))
            return run(state, stream, order)

    (state, infos), (same, same_infos) = trained("cpu"), trained("tpu")
    assert infos.is_mistake.any()
    np.testing.assert_array_equal(same_infos.num_wrong, infos.num_wrong)
    for one, two in zip(jax.tree.leaves(state), jax.tree.leaves(same), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-9, atol=1e-11)
