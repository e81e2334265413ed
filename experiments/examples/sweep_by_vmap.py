"""Sweep C and seeds at once: one compiled program, 60 runs side by side.

    python experiments/examples/sweep_by_vmap.py

Real-valued hyper-parameters may be traced, so `vmap` runs over them as over data. The
state of a run on small matrices is small; a sequence model's is not, and is not for
`vmap`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax import data
from lowrank_jax.online.bol import dense

STEP_SIZES = jnp.geomspace(1e-3, 1e3, 6)
NUM_SEEDS = 10


def main() -> None:
    train, test, _ = data.dense_task(300, 500, seed=0, noise=0.1)
    x, y = jnp.asarray(train.x), jnp.asarray(train.y)

    def run(step_size: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        learner = dense.learner(step_size=step_size, averaging="dual")
        order = jax.random.permutation(key, x.shape[0])
        examples = jax.vmap(dense.binary)(x[order], y[order])
        first = jax.tree.map(lambda part: part[0], examples)
        state = learner.init(key, first)
        state, trace = lax.scan(learner.update, state, examples)
        params = dense.final_params(state)
        right = jnp.sign(jnp.einsum("nst,st->n", jnp.asarray(test.x), params))
        return (right == jnp.asarray(test.y)).mean(), trace.is_mistake.sum()

    keys = jax.random.split(jax.random.key(0), NUM_SEEDS)
    over_seeds = jax.vmap(run, in_axes=(None, 0))
    accuracy, mistakes = jax.jit(jax.vmap(over_seeds, in_axes=(0, None)))(
        STEP_SIZES, keys
    )
    print("C         accuracy          mistakes   (mean and spread over seeds)")
    for i, step_size in enumerate(np.asarray(STEP_SIZES)):
        share = 100 * np.asarray(accuracy[i])
        print(
            f"{step_size:<9.3g} {share.mean():5.1f} ± {share.std(ddof=1):3.1f} %"
            f"    {np.asarray(mistakes[i]).mean():6.1f}"
        )
    print("No prediction depends on C: only the reported loss and the bound do.")


if __name__ == "__main__":
    main()
