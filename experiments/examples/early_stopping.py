"""BOL in a scan of one's own, stopped where held-out sentences say so.

    python experiments/examples/early_stopping.py

`loops.start` and `loops.pass_order` give the start and the orders of `loops.train`, so
the scan below makes the same model, bit for bit, as training for that many passes.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax import data, decode, features, loops, models, online


def main() -> None:
    train, test, _ = data.segmentation_task(150, 80, seed=0)
    template = features.with_orders(features.read_template("segmentation"), "both")
    encoder, sequences = features.Encoder.fit_transform(train, template)
    learner, key = online.bol.learner(), jax.random.key(0)
    stream, held_out = map(loops.as_stream, (sequences, encoder.transform(test)))

    @jax.jit
    def one_pass(state: Any, stream: Any, order: jax.Array) -> tuple[Any, Any]:
        return lax.scan(lambda s, i: learner.update(s, stream.example(i)), state, order)

    @jax.jit
    def num_wrong(state: Any, stream: Any) -> jax.Array:
        params: Any = online.bol.final_params(state)

        def one(index: jax.Array) -> jax.Array:
            sentence = stream.example(index)
            scores = models.bilinear.scores(params, sentence)
            labels = decode.best_path(scores, sentence.length).labels
            is_inside = jnp.arange(labels.shape[0]) < sentence.length
            return ((labels != sentence.labels) & is_inside).sum()

        return lax.map(one, jnp.arange(stream.num_examples)).sum()

    state, best = loops.start(learner, stream, key=key), np.inf
    for index in range(20):
        order = loops.pass_order(key, index, stream.num_examples)
        state, trace = one_pass(state, stream, order)
        wrong = int(num_wrong(state, held_out))
        print(f"pass {index + 1}: {trace.is_mistake.sum()} mistakes, {wrong} held out")
        if wrong >= best:
            break
        best = wrong
    same, _ = loops.train(learner, sequences, key=key, num_passes=index + 1)
    is_same = np.array_equal(state.params.table, same.params.table)
    print(f"stopped after pass {index + 1}; the bits of loops.train: {is_same}")


if __name__ == "__main__":
    main()
