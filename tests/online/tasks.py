"""Small tasks for the tests of the learners."""

import numpy as np

from lowrank_jax.data import bilinear_task
from lowrank_jax.data.sequences import Sequences, Space


def random_task(
    orders,
    *,
    has_transitions=False,
    seed=0,
    shared=False,
    num_sentences=14,
    max_length=8,
    num_labels=3,
):
    """Random ids and labels: nothing to learn, so mistakes never end.

    Features repeat within a sentence; some ids mean "not a feature"; with `shared`
    two columns may hold the same feature.
    """
    rng = np.random.default_rng(seed)
    num_features = 12
    lengths = rng.integers(1, max_length + 1, num_sentences)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    columns = len(orders)
    ids = rng.integers(0, num_features, (offsets[-1], columns))
    if not shared:
        ids = ids // columns * columns + np.arange(columns)
        ids = np.minimum(ids, num_features)
    ids[rng.random(ids.shape) < 0.1] = num_features
    space = Space(num_features, num_labels, tuple(orders), has_transitions)
    labels = rng.integers(0, num_labels, offsets[-1])
    return Sequences(
        ids.astype(np.int32), labels.astype(np.int32), offsets.astype(np.int32), space
    )


def planted_task(num_train=30, **changes):
    """Return a separable first-order task with planted blocks of rank 1."""
    settings = {"seed": 1, "num_features": 24, "num_labels": 3, "num_templates": 2}
    settings |= changes
    return bilinear_task(num_train, 30, **settings)
