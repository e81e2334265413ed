"""SBLR with a penalty of one's own (weights not negative), path, bootstraps, gap."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import loops, streams, theory
from lowrank_jax.batch.sblr import bcpd
from lowrank_jax.linalg.penalties import Penalty, elastic_net


def non_negative_l1(strength: Any) -> Penalty:
    def distance(x: jax.Array, gradient: jax.Array) -> jax.Array:
        slope = gradient + strength  # where x = 0, only a slope below 0 pulls x away
        return jnp.linalg.norm(jnp.where(x > 0, slope, jnp.minimum(slope, 0)).ravel())

    value, prox = lambda x: strength * x.sum(), lambda z, step: z - step * strength
    return Penalty(value, lambda z, step: jnp.maximum(prox(z, step), 0), distance)


def fitted(labelled: Any, start: Any, **settings: Any) -> Any:
    learner = bcpd.learner(start=start, tolerance=1e-7, **settings)
    state = learner.init(jax.random.key(0), labelled)
    return loops.converge(learner, state, labelled, max_iterations=600)[0].params


def main() -> None:
    rng = np.random.default_rng(0)
    signs, pattern = rng.choice([-1, 1], 120), np.zeros((8, 10))
    pattern[2:4] = np.sin(np.linspace(0, 6, 10))
    x = 2 * rng.normal(size=(120, 8, 10)) + signs[:, None, None] * pattern
    labelled, _ = streams.matrices.label_matrices(x.astype(np.float32), signs)
    ridge = elastic_net(l2=0.05)

    @jax.jit
    def point(strength: jax.Array, start: Any, labelled: Any) -> Any:
        own = non_negative_l1(strength)
        return fitted(labelled, start, left_penalty=own, right_penalty=ridge)

    params = jax.tree.map(jnp.zeros_like, fitted(labelled, "label", mu2=1, nu2=1))
    for strength in (1.0, 0.1, 0.01):  # from strong to weak, each from the last
        params = point(jnp.asarray(strength), params, labelled)
        rows = np.flatnonzero(params.left[0, :, 0])
        print(f"strength {strength}: rows {rows.tolist()}")
    counts = rng.multinomial(120, np.full(120, 1 / 120), size=10) / 120
    weights = jnp.asarray(counts, jnp.float32)
    boot = jax.vmap(lambda w: point(0.1, params, labelled._replace(weights=w)))(weights)
    share = (np.asarray(boot.left)[:, 0, :, 0] > 0).mean(0)
    print(f"share of bootstraps with each row: {share.round(1).tolist()}")
    end = jax.jit(lambda: fitted(labelled, "label", rank=4, mu2=0.2, nu2=0.2))()
    found = jax.jit(theory.sblr.limits.global_certificate)(end, labelled, 0.2, 0.2)
    print(f"F {found.objective:.6f}, no less than {found.lower_bound:.6f} for any rank")
    print(f"gap {found.gap:.1e}, stationary up to {found.stationarity:.1e}")


if __name__ == "__main__":
    main()
