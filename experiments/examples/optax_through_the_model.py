"""Train a bilinear chain CRF with optax: gradients go through scores and partition.

python experiments/examples/optax_through_the_model.py
"""

import jax
import jax.numpy as jnp
import optax

from lowrank_jax import data, decode, features, streams
from lowrank_jax.models import bilinear

NUM_STEPS, SIZE = 200, 16


def main() -> None:
    train, test, _ = data.segmentation_task(200, 50, seed=0)
    template = features.with_orders(features.read_template("segmentation"), "both")
    encoder, sequences = features.Encoder.fit_transform(train, template)
    corpus = streams.sentences.stream(sequences)
    unseen = streams.sentences.stream(encoder.transform(test))
    params = bilinear.random(jax.random.key(0), sequences.space, rank=2)
    adam = optax.adam(0.03)

    def loss(params: bilinear.Params, index: jax.Array) -> jax.Array:
        sentence = corpus.example(index)
        scores = bilinear.scores(params, sentence)
        gold = decode.path_score(scores, sentence.labels, sentence.length)
        return decode.log_partition(scores, sentence.length) - gold

    def one(carry: tuple, key: jax.Array) -> tuple[tuple, jax.Array]:
        params, state = carry
        some = jax.random.choice(key, corpus.num_examples, (SIZE,))

        def mean(params: bilinear.Params) -> jax.Array:
            return jax.vmap(loss, in_axes=(None, 0))(params, some).mean()

        value, gradient = jax.value_and_grad(mean)(params)
        updates, state = adam.update(gradient, state)
        return (optax.apply_updates(params, updates), state), value

    keys = jax.random.split(jax.random.key(1), NUM_STEPS)
    start = (params, adam.init(params))
    (params, _), values = jax.jit(lambda start: jax.lax.scan(one, start, keys))(start)

    def wrong(index: jax.Array) -> jax.Array:
        sentence = unseen.example(index)
        path = decode.best_path(bilinear.scores(params, sentence), sentence.length)
        is_inside = jnp.arange(unseen.window) < sentence.length
        return ((path.labels != sentence.labels) & is_inside).sum()

    share = jax.lax.map(wrong, jnp.arange(unseen.num_examples)).sum()
    share = 100 * float(share) / int(unseen.lengths.sum())
    print(f"loss {values[0]:.2f} at first, {values[-20:].mean():.2f} at last")
    print(f"{share:.1f} % of the labels of unseen sentences are wrong")


if __name__ == "__main__":
    main()
