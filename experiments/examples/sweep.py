"""Sweep a real hyper-parameter: one compiled program, one run per value.

    python experiments/examples/sweep.py

`loops.sweep` runs one value after the other on a CPU and all side by side elsewhere.
Swept here: the uniform start of BOL (DR-B11). C would change no prediction.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import data, features, loops, online
from lowrank_jax.types import Learner

STARTS = jnp.geomspace(0.1, 10.0, 8)


def learner_of(start: jax.Array) -> Learner:
    return online.bol.learner(start=start)


def main() -> None:
    train, _, _ = data.segmentation_task(100, 1, seed=0)
    template = features.with_orders(features.read_template("segmentation"), "both")
    _, sequences = features.Encoder.fit_transform(train, template)
    key, began = jax.random.key(0), time.perf_counter()
    wrong = loops.sweep(
        learner_of,
        STARTS,
        sequences,
        key,
        num_passes=3,
        keep=lambda state, trace: trace.num_wrong.reshape(3, -1).sum(1),
    )
    wrong = np.asarray(wrong)
    for start, each in zip(np.asarray(STARTS), wrong, strict=True):
        print(f"start {start:6.2f}: wrong labels by passes {each.tolist()}")
    print(f"{len(wrong)} runs in {time.perf_counter() - began:.1f} s, compiled once")
    print(f"fewest in the last pass: start {STARTS[wrong[:, -1].argmin()]:.2f}")


if __name__ == "__main__":
    main()
