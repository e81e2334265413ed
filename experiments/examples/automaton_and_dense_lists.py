"""An automaton back from its scores, and tensor weights learnt from dense lists.

    python experiments/examples/automaton_and_dense_lists.py

A weighted automaton gives each string a score. The scores of three-symbol strings are a
tensor, from which `operators.from_trigrams` builds an automaton with few states. Then
candidates with features in a 6 x 8 array are ranked: `Lists.from_dense` takes the
arrays, and Tensor-MIRA learns weights of rank 1 from them.
"""

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import loops, streams
from lowrank_jax.data.lists import Lists
from lowrank_jax.models import operators, tensor
from lowrank_jax.models.candidates import best
from lowrank_jax.online import tensor_mira

SIZES = (6, 8)


def automaton(rng: np.random.Generator) -> None:
    first, middle, last = (
        jnp.asarray(rng.normal(size=shape), jnp.float32)
        for shape in ((5, 2), (5, 2, 3), (5, 3))
    )
    planted = operators.from_factors(first, middle, last)
    strings = jnp.asarray(np.indices((5, 5, 5)).reshape(3, -1).T)
    scores = jax.vmap(lambda one: operators.score(planted, one))(strings)
    found = operators.from_trigrams(scores.reshape(5, 5, 5), ranks=(2, 3))
    again = jax.vmap(lambda one: operators.score(found, one))(strings)
    error = float(abs(again - scores).max() / abs(scores).max())
    print(f"automaton of {found.alpha.size} states, largest error {error:.0e}")


def main() -> None:
    rng = np.random.default_rng(0)
    automaton(rng)
    weights = np.outer(rng.normal(size=SIZES[0]), rng.normal(size=SIZES[1]))
    x = rng.normal(size=(600, 10, *SIZES))
    score = np.einsum("lcab,ab->lc", x, weights)
    quality = 1 / (1 + np.exp(-score / score.std()))
    train = Lists.from_dense(x[:400], quality[:400])
    test = Lists.from_dense(x[400:], quality[400:])
    learner = tensor_mira.learner(
        shape=tensor.Shape(SIZES), step="bcd", start="random", averaging="average"
    )
    stream, unseen = streams.lists.stream(train), streams.lists.stream(test)
    key = jax.random.key(0)
    state, _ = loops.train(learner, stream, key=key, num_passes=3)
    params = tensor_mira.final_params(state)

    def chosen(index: jax.Array) -> jax.Array:
        example = unseen.example(index)
        return example.quality[best(tensor.scores(params, example))]

    ours = jax.lax.map(chosen, jnp.arange(unseen.num_examples)).mean()
    of_best = quality[400:].max(axis=1).mean()
    print(f"quality of the chosen candidate {float(ours):.3f}", end="")
    print(f", of the best {of_best:.3f}")


if __name__ == "__main__":
    main()
