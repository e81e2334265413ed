r"""A certificate for a mirror map of one's own: the p-norm perceptron.

    python experiments/examples/certificate_for_your_mirror_map.py

DR-B4 asks nothing of the map but a conjugate: for any :math:`F^*` and any weights that
a run has used, the regret against U is at most
:math:`(F^{**}(U) + F^*(\Theta_N) - C\sum_t\langle W_{t-1}, \Delta\Phi^t\rangle)/C`.
Here :math:`F^* = \frac12\|\theta\|_p^2` with p = 2 log d, whose weights suit a sparse
target; :math:`F^{**} = \frac12\|u\|_q^2`, 1/p + 1/q = 1.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax import theory

NUM_ROUNDS, SIZE = 2_000, 400


def main() -> None:
    rng = np.random.default_rng(0)
    target = np.zeros(SIZE)
    target[:4] = 1.0
    signs = rng.choice([-1.0, 1.0], (NUM_ROUNDS, SIZE))
    labels = np.sign(signs @ target + 0.1)
    labels = np.where(rng.random(NUM_ROUNDS) < 0.05, -labels, labels)
    x, y = jnp.asarray(signs, jnp.float32), jnp.asarray(labels, jnp.float32)

    def certified(power: float) -> None:
        def conjugate(dual: jax.Array) -> jax.Array:
            return jnp.linalg.norm(dual, power) ** 2 / 2

        def mirror(dual: jax.Array) -> jax.Array:  # its gradient; 0 at 0
            size = jnp.linalg.norm(dual, power)
            unit = dual / jnp.where(size > 0, size, 1)
            return size * jnp.sign(unit) * jnp.abs(unit) ** (power - 1)

        def one(dual: jax.Array, example: tuple) -> tuple[jax.Array, tuple]:
            x, y = example
            margin = y * (mirror(dual) @ x)
            is_mistake = margin <= 0
            return dual + jnp.where(is_mistake, y * x, 0), (margin, is_mistake)

        dual, (margin, is_mistake) = jax.jit(
            lambda start: lax.scan(one, start, (x, y))
        )(jnp.zeros(SIZE))
        fixed = jnp.asarray(target, jnp.float32)
        other = power / (power - 1)
        found = theory.regret_certificate(
            margin,
            is_mistake,
            step_size=1.0,
            conjugate=conjugate(dual),
            comparator_losses=jax.nn.relu(1 - y * (x @ fixed)),
            comparator_penalty=jnp.linalg.norm(fixed, other) ** 2 / 2,
        )
        verdict = "holds" if found.holds else "DOES NOT HOLD"
        print(
            f"p = {power:4.1f}: {int(is_mistake.sum()):4d} mistakes, regret "
            f"{float(found.observed):7.0f}, certificate {float(found.bound):7.0f}: "
            f"{verdict}"
        )

    for power in (2.0, 2 * float(np.log(SIZE))):
        certified(power)


if __name__ == "__main__":
    main()
