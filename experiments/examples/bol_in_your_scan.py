"""BOL inside one's own `lax.scan`: stop learning once mistakes have become rare.

    python experiments/examples/bol_in_your_scan.py

A learner is two pure functions. Whatever a scan can carry can stand beside its state:
here a running share of mistakes, which freezes the model when it falls below 10 %. The
large state is never part of a conditional, which would copy it in every round: a frozen
round is given a sentence of length 0 instead, on which nothing is wrong.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import data, features, online, streams


def main() -> None:
    train, _, _ = data.segmentation_task(400, 1, seed=0)
    template = features.with_orders(features.read_template("segmentation"), "both")
    _, sequences = features.Encoder.fit_transform(train, template)
    corpus = streams.sentences.stream(sequences)
    learner = online.bol.learner()

    def one(carry: Any, index: jax.Array) -> tuple[Any, Any]:
        state, share = carry
        example = corpus.example(index)
        is_frozen = share < 0.1
        length = jnp.where(is_frozen, 0, example.length)
        state, info = learner.update(state, dataclasses.replace(example, length=length))
        share = jnp.where(is_frozen, share, 0.95 * share + 0.05 * info.is_mistake)
        return (state, share), (info.is_mistake, is_frozen)

    state = learner.init(jax.random.key(0), corpus.example(0))
    num_sentences = corpus.starts.shape[0]
    order = jnp.arange(10 * num_sentences, dtype=jnp.int32) % num_sentences
    start = (state, jnp.ones(()))
    (state, share), (is_mistake, is_frozen) = jax.jit(
        lambda start: lax.scan(one, start, order)
    )(start)
    learnt = int((~is_frozen).sum())
    print(f"{int(is_mistake.sum())} mistakes in {learnt} rounds of {order.size}")
    print(f"frozen with {100 * float(share):.1f} % of mistakes")


if __name__ == "__main__":
    main()
