r"""A mirror map of one's own, its certificate along the rounds, and a plot.

    python experiments/examples/your_mirror_map.py [FILE.svg]

The map belongs to the p-norm perceptron, :math:`F^* = \frac12\|\theta\|_p^2`. With p =
2 log d it suits a sparse target. The chain is regret <= certificate (DR-B4) <= bound
from the smoothness, which is p - 1 in the p-norm.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import loops, streams
from lowrank_jax.certify import mirror
from lowrank_jax.online import bol_dense, mirror_descent
from lowrank_jax.online.mirror_descent import MirrorMap
from lowrank_jax.theory.bol import regret

NUM_ROUNDS, SIZE = 2_000, 400


def p_norm(power: float) -> MirrorMap:
    def gradient(theta: jax.Array) -> jax.Array:  # 0 at 0, where `jax.grad` is NaN
        size = jnp.linalg.norm(theta, power)
        unit = theta / jnp.where(size > 0, size, 1)
        return size * jnp.sign(unit) * jnp.abs(unit) ** (power - 1)

    return MirrorMap(
        conjugate=lambda theta: jnp.linalg.norm(theta, power) ** 2 / 2,
        gradient=gradient,
        biconjugate=lambda u: jnp.linalg.norm(u, power / (power - 1)) ** 2 / 2,
        smoothness=lambda delta: (power - 1) * jnp.linalg.norm(delta, power) ** 2,
    )


def main(file: str | None = None) -> None:
    rng = np.random.default_rng(0)
    target = np.eye(SIZE)[:4].sum(0)
    signs = rng.choice([-1.0, 1.0], (NUM_ROUNDS, SIZE))
    noise = np.where(rng.random(NUM_ROUNDS) < 0.05, -1, 1)
    labels = noise * np.sign(signs @ target + 0.1)
    x, y = jnp.asarray(signs, jnp.float32), jnp.asarray(labels)
    stream = streams.Stacked(jax.vmap(bol_dense.binary)(x, y))
    key, curves = jax.random.key(0), {}
    for power in (2.0, 2 * float(np.log(SIZE))):
        map = p_norm(power)
        learner = mirror_descent.learner(map=map)
        state, trace = loops.train(learner, stream, key=key, num_passes=1)
        order = loops.pass_order(key, 0, NUM_ROUNDS)
        u = jnp.asarray(target, jnp.float32)
        along = mirror.chain(map, state, trace, stream, order, u)
        curves[f"p = {power:.1f}"] = along
        holds = regret.within_certificate(along).holds.all()
        holds &= regret.certificate_within_tight(along).holds.all()
        print(
            f"p = {power:4.1f}: {trace.is_mistake.sum():4d} mistakes, regret "
            f"{along.regret[-1]:7.0f}, certificate {along.certificate[-1]:7.0f}, bound "
            f"{along.tight[-1]:7.0f}: {'holds' if holds else 'DOES NOT HOLD'}"
        )
    if file is not None:
        import matplotlib.pyplot as plt

        for name, along in curves.items():
            for part in ("regret", "certificate", "tight"):
                plt.plot(getattr(along, part), label=f"{part}, {name}")
        plt.xlabel("round")
        plt.legend()
        plt.savefig(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
