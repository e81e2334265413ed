"""No wide round copies a large table, and its buffers live from round to round."""

import re

import jax
import numpy as np
import pytest

from lowrank_jax import loops, streams, wide
from lowrank_jax.data.made.lists import reranking_task
from lowrank_jax.data.sequences import Sequences, Space
from lowrank_jax.online import bol, perceptron, rerank

NUM_FEATURES = 40_000  # a number that no other axis has


def stream_of(orders):
    """Return 20 sentences; without orders 20 candidate lists."""
    if not orders:
        lists = reranking_task(20, 1, seed=0, sizes=(200, 200), num_candidates=(3, 6))
        return streams.lists.stream(lists[0])
    space = Space(NUM_FEATURES, 6, orders, has_transitions=True)
    rng = np.random.default_rng(0)
    offsets = np.arange(0, 201, 10, dtype=np.int32)
    ids = rng.integers(0, NUM_FEATURES, (200, len(orders))).astype(np.int32)
    labels = rng.integers(0, 6, 200).astype(np.int32)
    return streams.sentences.stream(Sequences(ids, labels, offsets, space))


def compiled(learner, orders):
    """Return the text of a pass and the runner that compiled it."""
    stream = stream_of(orders)
    runner = wide.Runner(learner, stream)
    runner.state = loops.start(learner, stream, key=jax.random.key(0))
    shapes, plan = runner.plan(np.arange(20), 8, True)
    runner.prepare(shapes, plan)
    return runner.program(shapes, plan).as_text(), runner


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "orders"),
    [
        (perceptron.learner(), ("0", "0")),
        (bol.learner(), ("01", "01")),
        (bol.learner(start=0.5, capacity=bol.Capacity(9_000, 700)), ("01", "1", "0")),
        (bol.learner(averaging="factors", rank=2), ("01", "01")),
        (bol.learner(averaging="weights", num_power_steps=0), ("01", "01")),
        (rerank.learner(num_best=2), ()),
        (rerank.learner(rule="perceptron"), ()),
    ],
)
def test_a_wide_pass_copies_no_large_table(learner, orders):
    text, runner = compiled(learner, orders)
    leaves = jax.tree.leaves((runner.state, list(runner.buffers.values())))
    tables = {
        re.escape(",".join(map(str, x.shape))) for x in leaves if x.size > NUM_FEATURES
    }
    assert tables
    # Buffers have an axis of devices in front, which the program drops.
    shapes = "|".join(tables | {re.sub("^1,", "", one) for one in tables})
    pattern = re.compile(rf"= \w+\[({shapes})\][^ ]* (copy|broadcast)\(")
    lines = [line.strip()[:200] for line in text.splitlines() if pattern.search(line)]
    # Tables of zeros are no part of a pass, and a scan may copy what it begins with.
    assert [line for line in lines if "while/body" in line] == []
    assert [line for line in lines if "copy(" in line] == []
