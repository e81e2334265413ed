"""A penalty of one's own in sparse bilinear logistic regression: weights not negative.

    python experiments/examples/custom_prox.py

A `Penalty` is four functions: value, prox, distance to stationarity, modulus of strong
convexity. Here the l1 norm on non-negative numbers, for channel patterns that can only
add up.
"""

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import loops, streams
from lowrank_jax.batch.sblr import bcpd
from lowrank_jax.linalg.penalties import Penalty, elastic_net


def non_negative_l1(strength: float) -> Penalty:
    """Return strength times the sum of x, infinite where an x is negative."""

    def prox(z: jax.Array, step: float | jax.Array) -> jax.Array:
        return jnp.maximum(z - step * strength, 0)

    def distance(x: jax.Array, gradient: jax.Array) -> jax.Array:
        # Where x = 0 the subdifferential is (-inf, strength]: only a slope below
        # -strength pulls x away from 0.
        slope = gradient + strength
        rest = jnp.where(x > 0, slope, jnp.minimum(slope, 0))
        return jnp.linalg.norm(rest.ravel())

    return Penalty(lambda x: strength * x.sum(), prox, distance)


def main() -> None:
    rng = np.random.default_rng(0)
    channels, times = np.zeros(20), np.sin(np.linspace(0, 6, 30))
    channels[[3, 4, 5]] = 1.0, 2.0, 1.0
    signs = rng.choice([-1, 1], 200)
    x = 3 * rng.normal(size=(200, 20, 30)) + signs[:, None, None] * np.outer(
        channels, times
    )
    labelled, _ = streams.matrices.label_matrices(x.astype(np.float32), signs)
    for name, penalty in (
        ("l1", elastic_net(l1=0.01)),
        ("non-negative l1", non_negative_l1(0.01)),
    ):
        learner = bcpd.learner(
            left_penalty=penalty,
            right_penalty=elastic_net(l2=0.1),
            start="label",
            tolerance=1e-6,
        )
        state = learner.init(jax.random.key(0), labelled)
        if name != "l1":  # a start the penalty allows; (u, v) and (-u, -v) are one W
            left, right = state.params.left, state.params.right
            sign = jnp.sign(left.sum())
            start = state.params._replace(
                left=jnp.maximum(sign * left, 0), right=sign * right
            )
            learner = bcpd.learner(
                left_penalty=penalty,
                right_penalty=elastic_net(l2=0.1),
                start=start,
                tolerance=1e-6,
            )
            state = learner.init(jax.random.key(0), labelled)
        state, trace, count = jax.jit(
            lambda state, learner=learner: loops.converge(
                learner, state, labelled, max_iterations=500
            )
        )(state)
        weights = np.asarray(state.params.left[0, :, 0])
        found = np.flatnonzero(weights)
        print(
            f"{name}: F {float(trace.objective[count - 1]):.4f} after {int(count)} "
            f"sweeps, {found.size} channels, least weight {weights.min():.3f}"
        )


if __name__ == "__main__":
    main()
