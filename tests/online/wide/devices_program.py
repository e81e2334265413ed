"""What `test_devices.py` runs on 1, 2 and 4 devices of the host, and in processes.

Without arguments: prints one JSON object, from claims to truths. With the index, the
number of processes and a port: one of several processes that train together; prints a
digest of the result.
"""

import dataclasses
import hashlib
import json
import re
import sys

import jax
import numpy as np

from lowrank_jax import loops, sharding, streams, wide
from lowrank_jax.data.made.lists import reranking_task
from lowrank_jax.models.tensor import Shape
from lowrank_jax.online import bol, mira, perceptron, rerank, tensor_mira, touched
from tests.online.tasks import random_task

SEED, BATCH = 3, 8  # a key would start JAX before its processes know each other


def task(module):
    orders = ("0", "0") if module is mira else ("01", "01", "0")
    made = random_task(
        orders, has_transitions=True, num_sentences=40, num_labels=4, shared=True
    )
    if module is mira:  # sums that rounding would tell apart
        rng = np.random.default_rng(SEED)
        values = rng.normal(size=made.feature_ids.shape).astype(np.float32)
        made = dataclasses.replace(made, values=values)
    return made


def learner_of(module):
    if module is bol:  # tables that grow
        return bol.learner(capacity=bol.Capacity(9, 8, 2), record=("predicted",))
    return module.learner()


def trained(module, mesh):
    """Return the trace, the model and the dual after two passes."""
    given = {"key": jax.random.key(SEED), "num_passes": 2, "batch_size": BATCH}
    given["mesh"] = mesh
    state, trace = loops.train(learner_of(module), task(module), **given)
    params = touched.by_feature(module.final_params(state))
    dual = bol.theta(state) if module is bol else state.params
    return jax.tree.map(np.asarray, (trace, params, dual))


def chosen(module, mesh):
    """Return the trace and the state after a pass over candidate lists."""
    lists = reranking_task(
        30, 1, seed=1, sizes=(3, 4), num_active=(2, 5), num_shared=3
    )[0]
    stream, settings = streams.lists.stream(lists), {}
    if module is tensor_mira:
        settings = {"shape": Shape((3, 4), 2), "step": "bcd", "start": "positive"}
    given = {"key": jax.random.key(SEED), "num_passes": 1, "batch_size": BATCH}
    learner = module.learner(averaging="average", **settings)
    return loops.train(learner, stream, mesh=mesh, **given)


def same_bits(one, other):
    leaves = zip(*map(jax.tree.leaves, (one, other)), strict=True)
    return all(np.array_equal(a, b) for a, b in leaves)


def collectives(module, num_devices):
    """Count the all-gathers in the text of a pass: each is in the loop of rounds."""
    learner, stream = learner_of(module), streams.sentences.stream(task(module))
    runner = wide.Runner(learner, stream, sharding.mesh(num_devices))
    runner.state = runner.placed(loops.start(learner, stream, key=jax.random.key(SEED)))
    shapes, plan = runner.plan(np.arange(stream.num_examples), 8, True)
    runner.prepare(shapes, plan)
    (program,) = runner.compiled.values()
    every = r" (all-gather|all-reduce|all-to-all|collective-permute)(-start)?\("
    return len(re.findall(every, program.as_text()))


def resumed(num_devices):
    """Train one pass on one device and one on several."""
    given = {"key": jax.random.key(SEED), "batch_size": BATCH}
    learner, data = learner_of(bol), task(bol)
    (first,) = loops.passes(learner, data, num_passes=1, **given)
    *_, last = loops.passes(
        learner,
        data,
        num_passes=2,
        first_pass=1,
        state=first.state,
        mesh=sharding.mesh(num_devices),
        **given,
    )
    return np.asarray(bol.theta(last.state))


def main():
    found = {}
    for module in (rerank, tensor_mira):
        name = module.__name__.rpartition(".")[2]
        claim = f"{name} on 4 devices has the bits of one device"
        found[claim] = same_bits(chosen(module, None), chosen(module, sharding.mesh(4)))
    for module, numbers in ((perceptron, (2,)), (mira, (2, 4)), (bol, (2, 4))):
        name = module.__name__.rpartition(".")[2]
        alone = trained(module, None)
        for number in numbers:
            claim = f"{name} on {number} devices has the bits of one device"
            found[claim] = same_bits(alone, trained(module, sharding.mesh(number)))
    for module in (bol, mira):
        name = module.__name__.rpartition(".")[2]
        found[f"{name} has 2 collectives"] = collectives(module, 2) == 2
    found["bol goes on with other devices"] = same_bits(alone[2], resumed(4))
    print(json.dumps(found))


def one_of_many(index, number, port):
    jax.distributed.initialize(f"127.0.0.1:{port}", number, index)
    found = trained(bol, sharding.mesh())
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(found):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    print("digest", digest.hexdigest())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        one_of_many(*map(int, sys.argv[1:]))
    else:
        main()
