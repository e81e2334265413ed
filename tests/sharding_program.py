"""What `test_sharding.py` runs on four devices of the host, and in two processes.

Without arguments: prints one JSON object, from claims to numbers or truths. With a
process index and a port: one of two processes that fit together.
"""

import dataclasses
import json
import pathlib
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import data, loops, sharding, streams
from lowrank_jax.batch import crf
from lowrank_jax.batch.sblr import fista
from lowrank_jax.batch.smm import fobos, smoothed
from lowrank_jax.estimators import labelling
from lowrank_jax.models import linear
from lowrank_jax.online import bol, perceptron
from lowrank_jax.streams.matrices import Labelled
from tests.online.tasks import random_task

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "accelerators.md"
ROW = 3  # of the strengths in the page's example, also fitted by other means


def example():
    """Run the page's example; return its names."""
    (block,) = re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {}
    exec(block, names)
    return names


def distance(one, other):
    """Return the largest difference relative to the largest number of each leaf."""
    worst = 0.0
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        assert a.shape == b.shape and np.isfinite(b).all()
        worst = max(worst, float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-300)))
    return worst


def gathers(compiled):
    found = re.findall(r" (all-gather|all-to-all)(-start)?\(", compiled.as_text())
    return len(found)


def shares(array):
    return [shard.data.shape[0] for shard in array.addressable_shards]


def matrices():
    """Check the fits of the page: by matrix and by strength."""
    names = example()
    labelled, mesh, strengths = names["labelled"], names["mesh"], names["strengths"]
    across = sharding.shard(labelled, mesh)
    yield "matrices are dealt out evenly", shares(across.x) == [8, 8, 8, 8]
    yield "filling has weight 0", not np.asarray(across.weights)[31:].any()
    host = Labelled(*(None if a is None else np.asarray(a) for a in labelled))
    from_host = sharding.shard(host, mesh)
    yield "host arrays give the same", distance(from_host, across) == 0

    alone = names["by_matrix"](labelled)
    found = names["params"], names["num_sweeps"]
    yield "bcpd, sharded less one device", distance(found, alone)
    yield "bcpd made some sweeps", int(found[1]) > 5
    compiled = names["by_matrix"].lower(across).compile()
    yield "matrices gathered by bcpd", gathers(compiled)
    whole = jax.NamedSharding(mesh, jax.P())
    copied = jax.jit(lambda x: x, out_shardings=whole).lower(across.x).compile()
    yield "a gather would be seen", gathers(copied) > 0

    plain = jax.jit(
        jax.vmap(lambda strength: names["fit"](fista.learner(l1=strength), labelled))
    )(strengths)
    every = names["all_params"], names["all_iterations"]
    yield "spread runs less vmap", distance(every, plain)
    yield "runs stop each by itself", len(set(np.asarray(plain[1]).tolist())) > 1

    fit = jax.jit(lambda l1, given: names["fit"](fista.learner(l1=l1), given))
    compiled = fit.lower(strengths[ROW], across).compile()
    row = jax.tree.map(lambda part: part[ROW], plain)
    yield (
        "fista, sharded less one device",
        distance(compiled(strengths[ROW], across), row),
    )
    yield "matrices gathered by fista", gathers(compiled)
    yield "fista's weights", np.asarray(row[0].weights).ravel().tolist()

    numbers = np.arange(10, dtype=np.uint32).reshape(5, 2)
    keys = jax.random.wrap_key_data(numbers)
    found = sharding.spread(jax.random.key_data, mesh)(keys)
    yield (
        "runs come back in order, keys too",
        bool((np.asarray(found) == numbers).all()),
    )


def tables():
    """Check training and prediction with tables across devices."""
    sequences = random_task(("1",), num_sentences=8, max_length=4)
    space, mesh = sequences.space, sharding.mesh()
    corpus = streams.sentences.stream(sequences)
    first = corpus.example(0)
    key = jax.random.key(0)

    def across(tree):
        return sharding.shard_rows(tree, mesh, num_features=space.num_features)

    learner = perceptron.learner(dual="dense", dtype=jnp.float64)
    both = []
    for state in (jax.jit(lambda: across(learner.init(key, first)))(), None):
        done = list(loops.passes(learner, corpus, key=key, num_passes=2, state=state))
        both.append((done[-1].trace, done[-1].state))
    yield "rows are dealt out evenly", shares(both[0][1].params.first) == [4, 4, 4, 4]
    yield "perceptron, sharded less one device", distance(both[0][0], both[1][0])
    params = perceptron.final_params(both[1][1])
    predict = jax.jit(lambda params: labelling.predict(linear.scores, params, corpus))
    compiled = predict.lower(across(params)).compile()
    labels = [np.asarray(compiled(across(params))), np.asarray(predict(params))]
    yield "labels are the same", bool((labels[0] == labels[1]).all())
    yield "labels differ from each other", len(set(labels[0].tolist())) > 1
    yield "tables gathered by predict", gathers(compiled)

    learner = bol.learner(averaging="none", dual="dense", dtype=jnp.float64)

    def run(place, order):
        state = place(learner.init(key, first))
        state, trace = loops.run(learner, state, corpus, order)
        return state.params.table, state.blocks, trace._replace(ratio=None)

    order = jnp.arange(8, dtype=jnp.int32)
    compiled = jax.jit(lambda order: run(across, order)).lower(order).compile()
    table, blocks, trace = compiled(order)
    alone = jax.jit(lambda order: run(lambda tree: tree, order))(order)
    rows = slice(space.num_features + 1)
    found = np.asarray(table)[rows], np.asarray(blocks)[rows], trace
    yield "bol, sharded less one device", distance(found, alone)
    yield "bol learnt something", bool(np.asarray(alone[1]).any())
    yield "bol's tables stay across", shares(table) == shares(blocks) == [4, 4, 4, 4]
    yield "tables gathered by bol", gathers(compiled)


def sentences():
    """Check loss and gradient of the CRF with sentences across 2 and 4 devices."""
    sequences = random_task(("01", "0"), has_transitions=True, num_sentences=9)
    rng = np.random.default_rng(0)
    sequences = dataclasses.replace(sequences, weights=rng.uniform(0.5, 2, 9))
    lanes = streams.lanes.lanes(sequences, num_lanes=3, num_devices=4)
    zeros = linear.zeros(lanes.space, jnp.float64)
    params = jax.tree.map(lambda part: jnp.asarray(rng.normal(size=part.shape)), zeros)
    run = jax.jit(crf.negative_log_likelihood)
    alone = run(params, lanes)
    for number in (2, 4):
        across = sharding.shard_lanes(lanes, sharding.mesh(number))
        found = run(params, across)
        yield f"crf on {number}, sharded less one device", distance(found, alone)
    held = [
        [shard.data.shape[1] for shard in part.addressable_shards]
        for part in (across.labels, across.weights)
    ]
    yield "lanes are dealt out evenly", held == [[1, 1, 1, 1]] * 2
    yield "what is static stays so", across.is_partial is False


def words():
    """Check iterations of both learners of words across 2 and 4 devices."""
    train, _, _ = data.spelling_task(41, 5, seed=0)
    alphabet = data.alphabet_of(train)
    given = alphabet, data.encode_words(alphabet, train)
    whole = streams.words.lattice(*given)
    for name, learner in {
        "fobos": fobos.learner(reduction="mean", strength=0.1, dtype=jnp.float64),
        "smoothed": smoothed.learner(strength=0.1, dtype=jnp.float64),
    }.items():

        @jax.jit
        def run(lattice, learner=learner):
            state = learner.init(jax.random.key(0), lattice)
            for _ in range(2):
                state, info = learner.update(state, lattice)
            return state.params, info

        alone = run(whole)
        for number in (2, 4):
            laid = streams.words.batches(*given, num_batches=number, has_all=True)
            across = sharding.shard_words(laid, sharding.mesh(number))
            found = run(across)
            yield f"{name} on {number}, sharded less one device", distance(found, alone)
            yield f"{name} on {number}: gathered", gathers(run.lower(across).compile())
    yield "words are dealt out", shares(across.table_base) == [1, 1, 1, 1]


def process(index, port):
    """Fit with another process; print the weights and what this one holds."""
    jax.distributed.initialize(
        f"127.0.0.1:{port}",
        num_processes=2,
        process_id=index,
        initialization_timeout=60,
        shutdown_timeout_seconds=60,
    )
    train, _, _ = data.dense_task(31, 5, seed=0, shape=(5, 4), noise=0.2)
    classes = np.unique(train.y)
    labelled = Labelled(
        x=train.x.astype(np.float64),
        targets=(train.y[:, None] == classes[None, 1:]).astype(np.float64),
        weights=np.full(31, 1 / 31),
    )
    mesh = sharding.mesh()
    across = sharding.shard(labelled, mesh)
    learner = fista.learner(l1=float(np.logspace(-3, -1, 6)[ROW]))

    @jax.jit
    def fit(labelled):
        state = learner.init(jax.random.key(0), labelled)
        return loops.converge(learner, state, labelled, max_iterations=50)[0].params

    weights = np.asarray(fit(across).weights)
    held = {"devices": mesh.size, "shares": shares(across.x)}
    print(json.dumps(held | {"weights": weights.ravel().tolist()}))
    jax.distributed.shutdown()


def main():
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_numpy_rank_promotion", "raise")
    if len(sys.argv) > 1:
        process(int(sys.argv[1]), int(sys.argv[2]))
    else:
        found = dict(matrices()) | dict(tables()) | dict(sentences()) | dict(words())
        print(json.dumps(found))


if __name__ == "__main__":
    main()
