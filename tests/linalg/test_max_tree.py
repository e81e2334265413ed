"""The tree of maxima against a plain maximum."""

import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.linalg import max_tree


@pytest.mark.parametrize("size", [1, 15, 16, 17, 255, 257, 5000])
def test_every_answer_equals_that_of_the_plain_array(size):
    rng = np.random.default_rng(size)
    values = rng.random(size)
    tree = max_tree.build(jnp.asarray(values))
    for _ in range(20):
        # Halved often, so that the maximum falls as well as rises.
        ids = rng.integers(0, size, 4)
        new = rng.random(size) * rng.choice([0.1, 1.0])
        values[ids] = new[ids]
        tree = max_tree.replace(
            tree, jnp.asarray(ids, jnp.int32), jnp.asarray(new[ids])
        )
        assert max_tree.largest(tree) == values.max()
        assert int(max_tree.argmax(tree)) == values.argmax()
        chosen = int(rng.integers(0, size))
        others = np.delete(values, chosen)
        found = max_tree.largest_without(tree, jnp.asarray(chosen, jnp.int32))
        assert found == others.max(initial=0.0)
    top = jnp.asarray(values.argmax(), jnp.int32)
    second = np.delete(values, values.argmax()).max(initial=0.0)
    assert max_tree.largest_without(tree, top) == second
