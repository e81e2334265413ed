"""Many runs over devices, and the update of one as a program of bytes.

    XLA_FLAGS=--xla_force_host_platform_device_count=4 \
        python experiments/examples/shard_and_export.py

Runs with other step sizes share nothing, so each device takes some of them. The
exported update runs without the learner's code, on CPU, CUDA or TPU. It needs
``pip install lowrank_jax[export]``.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from lowrank_jax import data, export, sharding
from lowrank_jax.online import bol_dense


def main() -> None:
    train, _, _ = data.dense_task(120, 1, seed=0, shape=(6, 5))
    examples = jax.vmap(bol_dense.binary)(jnp.asarray(train.x), jnp.asarray(train.y))
    first = jax.tree.map(lambda part: part[0], examples)

    def run(step_size: jax.Array) -> tuple:
        learner = bol_dense.learner(step_size=step_size)
        state = learner.init(jax.random.key(0), first)
        return jax.lax.scan(learner.update, state, examples)

    mesh = sharding.mesh()
    sizes = jnp.geomspace(0.01, 100, 4 * mesh.size)
    placed = jax.device_put(sizes, NamedSharding(mesh, PartitionSpec(mesh.axis_names)))
    state, _ = jax.jit(jax.vmap(run))(placed)
    alone, _ = jax.jit(jax.vmap(run))(sizes)
    same = np.array_equal(np.asarray(state.params), np.asarray(alone.params))
    print(f"{sizes.size} runs on {mesh.size} devices equal to the bit: {same}")

    learner = bol_dense.learner()
    state = learner.init(jax.random.key(0), first)
    program = export.export_update(learner, state, first)
    update = export.load_update(program)
    theirs, _ = jax.jit(lambda s: jax.lax.scan(update, s, examples))(state)
    ours, _ = jax.jit(lambda s: jax.lax.scan(learner.update, s, examples))(state)
    same = np.array_equal(np.asarray(ours.params), np.asarray(theirs.params))
    print(f"program of {len(program)} bytes equal to the bit: {same}")


if __name__ == "__main__":
    main()
