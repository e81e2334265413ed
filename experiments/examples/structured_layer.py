"""A chain as the last layer of a network: marginals of a batch, trained end to end.

    python experiments/examples/structured_layer.py

The labels follow a grammar that the inputs do not show: no label comes twice in a row.
The layer learns the pairs, and so corrects what each position alone gets wrong.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lowrank_jax import decode
from lowrank_jax.decode import Scores

NUM, LONGEST, LABELS = 256, 12, 3


def network(weights: dict, inputs: jax.Array) -> Scores:
    """Return scores of one sequence (L, d)."""
    unary = jnp.tanh(inputs @ weights["in"]) @ weights["out"]
    return Scores(unary, weights["pairs"])


def main() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, LABELS, (NUM, LONGEST))
    for i in range(1, LONGEST):
        same = labels[:, i] == labels[:, i - 1]
        labels[:, i] = (labels[:, i] + same) % LABELS
    lengths = jnp.asarray(rng.integers(6, LONGEST + 1, NUM), jnp.int32)
    x = jnp.asarray(np.eye(LABELS)[labels] + rng.normal(size=(NUM, LONGEST, LABELS)))
    y = jnp.asarray(labels, jnp.int32)
    is_inside = jnp.arange(LONGEST)[None] < lengths[:, None]
    shapes = {"in": (LABELS, 16), "out": (16, LABELS), "pairs": (LABELS, LABELS + 1)}
    keys = jax.random.split(jax.random.key(0), 3)
    weights = {
        name: 0.5 * jax.random.normal(key, shape)
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }

    def loss(weights: dict) -> jax.Array:
        def one(inputs: jax.Array, labels: jax.Array, length: jax.Array) -> jax.Array:
            scores = network(weights, inputs)
            gold = decode.path_score(scores, labels, length)
            return decode.log_partition(scores, length) - gold

        return jax.vmap(one)(x, y, lengths).mean()

    def wrong(weights: dict) -> float:
        def one(inputs: jax.Array, length: jax.Array) -> jax.Array:
            return decode.best_path(network(weights, inputs), length).labels

        found = jax.jit(jax.vmap(one))(x, lengths)
        return 100 * float(((found != y) & is_inside).sum() / is_inside.sum())

    alone = 100 * float(((x.argmax(2) != y) & is_inside).sum() / is_inside.sum())
    adam = optax.adam(0.02)
    state, step = adam.init(weights), jax.jit(jax.value_and_grad(loss))
    for _ in range(200):
        _, gradient = step(weights)
        updates, state = adam.update(gradient, state)
        weights = optax.apply_updates(weights, updates)
    print(f"wrong labels: {alone:.1f} % position by position", end="")
    print(f", {wrong(weights):.1f} % with the layer")


if __name__ == "__main__":
    main()
